//! Stages: how large values arrive, and whose they are.

use koine_engine::stage::STAGE_PIECE_LEN_MAX;
use koine_engine::{Access, Batch, Condition, ErrorKind, Operation, Payload, Refusal, StageHint, StageToken};

use super::Suite;
use super::fixture::{A, Fixture, append, at, pattern, put, stage};

fn put_stage(key: &str, token: &StageToken) -> Operation {
    Operation::Put { at: at(key), value: Payload::Stage(token.clone()) }
}

pub(super) fn a_stage_becomes_a_value_of_any_size(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for (seed, size) in (0u64..).zip(super::operations::SIZES.into_iter().chain([7_654_321])) {
        let value = pattern(seed, size);
        let piece = [STAGE_PIECE_LEN_MAX, 65_536, 10_007][seed as usize % 3];
        let token = fixture.stage(&value, piece);
        let before = fixture.dump().len();
        assert_eq!(before as u64, seed, "a stage is nobody's to read");
        fixture.done(put_stage(&format!("k{seed:02}"), &token));
        fixture.check(&at(&format!("k{seed:02}")), &value);
    }
    for access in [Access::Sequential, Access::Random] {
        let value = pattern(99, 2_000_003);
        let hint = StageHint { length: Some(value.len() as u64), access, ..StageHint::default() };
        let mut stage = fixture.kv().stage(hint).expect("a stage");
        for piece in value.chunks(333_333) {
            stage.write(piece).expect("a piece");
            stage.write(&[]).expect("an empty piece");
        }
        let token = stage.finish().expect("a token");
        fixture.done(put_stage("hinted", &token));
        fixture.check(&at("hinted"), &value);
    }
}

pub(super) fn a_stage_may_be_written_at_or_appended(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for (seed, size) in (0u64..).zip([0usize, 10, 5000, 100_000, 1_500_000]) {
        let mut model = pattern(seed, 250_000).to_vec();
        fixture.put("k", model.clone());
        let data = pattern(seed + 10, size);
        let token = fixture.stage(&data, 4096);
        fixture.done(Operation::Append { at: at("k"), data: Payload::Stage(token) });
        model.extend_from_slice(&data);
        fixture.check(&at("k"), &model);
        let token = fixture.stage(&data, 100_001);
        fixture.done(Operation::WriteAt { at: at("k"), offset: 100_003, data: Payload::Stage(token) });
        model.resize(model.len().max(100_003 + size), 0);
        model[100_003..100_003 + size].copy_from_slice(&data);
        fixture.check(&at("k"), &model);
        // Two stages and later operations on what they made, in one batch.
        let (first, second) = (fixture.stage(&data, 70_000), fixture.stage(&model, 1 << 20));
        let batch = Batch::new()
            .then(put_stage("x", &first))
            .then(Operation::Append { at: at("x"), data: Payload::Stage(second) })
            .then(append(at("x"), "tail"));
        fixture.commit(batch);
        fixture.check(&at("x"), &[&data[..], &model, b"tail"].concat());
    }
}

pub(super) fn stages_refuse_what_is_too_long(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let mut stage = fixture.kv().stage(StageHint::default()).expect("a stage");
    stage.write(b"kept").expect("a piece");
    let error = stage.write(&vec![1; STAGE_PIECE_LEN_MAX + 1]).expect_err("too large a piece");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    stage.write(&vec![2; STAGE_PIECE_LEN_MAX]).expect("the largest piece");
    assert_eq!(stage.length(), 4 + STAGE_PIECE_LEN_MAX as u64);
    let token = stage.finish().expect("a token");
    fixture.done(put_stage("k", &token));
    fixture.check(&at("k"), &[&b"kept"[..], &vec![2; STAGE_PIECE_LEN_MAX]].concat());

    let hint = StageHint { length: Some(10), ..StageHint::default() };
    let mut stage = fixture.kv().stage(hint).expect("a stage");
    stage.write(b"01234567").expect("a piece");
    assert_eq!(stage.write(b"89x").expect_err("more than hinted").kind(), ErrorKind::Invalid);
    stage.write(b"89").expect("as much as hinted");
    assert_eq!(stage.write(b"x").expect_err("more than hinted").kind(), ErrorKind::Invalid);
    let token = stage.finish().expect("a token");
    fixture.done(put_stage("k", &token));
    fixture.check(&at("k"), b"0123456789");
}

pub(super) fn a_stage_may_be_shorter_than_hinted(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for (hinted, size) in [(10, 0), (1_000_000, 3), (9_000_000, 1_000_001)] {
        let hint = StageHint { length: Some(hinted), ..StageHint::default() };
        let mut stage = fixture.kv().stage(hint).expect("a stage");
        let value = pattern(hinted, size);
        for piece in value.chunks(STAGE_PIECE_LEN_MAX) {
            stage.write(piece).expect("a piece");
        }
        let token = stage.finish().expect("a token");
        assert_eq!(token.length(), size as u64);
        fixture.done(put_stage("k", &token));
        fixture.check(&at("k"), &value);
    }
}

pub(super) fn a_token_survives_a_refusal_and_not_a_commit(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let value = pattern(1, 400_000);
    let token = fixture.stage(&value, 100_000);
    fixture.put("there", "");
    let batch = Batch::new().then(put_stage("k", &token));
    let absent = Condition::Absent { space: A, key: "there".into() };
    fixture.refused(batch.clone().when(absent), Refusal::Condition(0));
    let refused = batch.clone().then(Operation::Rename { from: at("none"), to: at("x") });
    fixture.refused(refused, Refusal::Operation(1));
    let twice = Batch::new().then(put_stage("k", &token)).then(put_stage("l", &token));
    fixture.invalid(twice.clone());
    fixture.commit(batch.clone());
    fixture.check(&at("k"), &value);
    // It is the value's now.
    fixture.invalid(batch.clone());
    fixture.invalid(twice);
    drop((batch, token));
    for round in 0..5 {
        fixture.put("filler", pattern(round, 500_000));
    }
    fixture.check(&at("k"), &value);
}

pub(super) fn a_token_of_another_store_is_invalid(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let other = Fixture::new(suite);
    let token = other.stage(b"elsewhere", 4);
    fixture.invalid(Batch::new().then(put_stage("k", &token)));
    let unknown = StageToken::new(3, std::sync::Arc::new("of no store"));
    fixture.invalid(Batch::new().then(put_stage("k", &unknown)));
    other.done(put_stage("k", &token));
    other.check(&at("k"), b"elsewhere");
}

pub(super) fn dropped_stages_give_their_space_back(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let value = pattern(1, 4 << 20);
    fixture.put("k", pattern(2, 100_000));
    // Far more in all than a small store holds: unfinished, finished, and in refused batches.
    for round in 0..60 {
        let mut unfinished = fixture.kv().stage(StageHint::default()).expect("a stage");
        unfinished.write(&value[..1 << 20]).expect("a piece");
        drop(unfinished);
        let token = stage(fixture.kv(), &value, 1 << 20);
        if round % 2 == 0 {
            let absent = Condition::Absent { space: A, key: "k".into() };
            let batch = Batch::new().then(put_stage("k", &token)).when(absent);
            fixture.refused(batch, Refusal::Condition(0));
        }
    }
    fixture.check(&at("k"), &pattern(2, 100_000));
    let token = stage(fixture.kv(), &value, 1 << 20);
    fixture.done(put_stage("k", &token));
    fixture.check(&at("k"), &value);
}

pub(super) fn stages_of_many_values_at_once(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let count = 24;
    let values: Vec<_> = (0..count).map(|seed| pattern(seed, 150_000 + seed as usize * 1001)).collect();
    let mut stages: Vec<_> =
        values.iter().map(|_| fixture.kv().stage(StageHint::default()).expect("a stage")).collect();
    for part in 0..20 {
        for (stage, value) in stages.iter_mut().zip(&values) {
            let step = value.len() / 20 + 1;
            let piece = &value[(part * step).min(value.len())..((part + 1) * step).min(value.len())];
            stage.write(piece).expect("a piece");
        }
        // Commits go on beside them.
        fixture.done(put(at("beside"), pattern(part as u64, 2000)));
    }
    let mut batch = Batch::new();
    for (index, stage) in stages.into_iter().enumerate() {
        let token = stage.finish().expect("a token");
        if index % 4 == 3 {
            continue;
        }
        batch = batch.then(put_stage(&format!("k{index:02}"), &token));
    }
    fixture.commit(batch);
    for (index, value) in values.iter().enumerate() {
        if index % 4 == 3 {
            assert_eq!(fixture.get(&format!("k{index:02}")), None);
        } else {
            fixture.check(&at(&format!("k{index:02}")), value);
        }
    }
}
