//! Clone range and concatenate: what is shared must behave as if it were copied.

use bytes::Bytes;
use koine_engine::{Batch, Operation, Place, Refusal, Sources};

use super::Suite;
use super::fixture::{A, B, Fixture, append, at, clone_range, delete, pattern, put, truncate, write_at};

fn joined(sources: &[Place], target: Place, fate: Sources) -> Operation {
    Operation::Concatenate { sources: sources.to_vec(), target, fate }
}

/// Writes a part of one plain vector into another, as a clone does.
fn copy(from: &[u8], from_offset: usize, length: usize, to: &mut Vec<u8>, to_offset: usize) {
    if length > 0 {
        to.resize(to.len().max(to_offset + length), 0);
        to[to_offset..to_offset + length].copy_from_slice(&from[from_offset..from_offset + length]);
    }
}

pub(super) fn clone_range_copies_between_keys_and_spaces(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.done(Operation::CreateSpace { space: B });
    for (seed, size) in (0u64..).zip([10, 1500, 40_000, 300_001, 2_500_003]) {
        let source = pattern(seed, size);
        fixture.put("from", source.clone());
        for target in [at("to"), Place::new(B, "to")] {
            let mut model = pattern(seed + 50, size / 2).to_vec();
            fixture.done(put(target.clone(), model.clone()));
            // Inside, across the end, beyond the end, the whole, nothing.
            let third = size / 3;
            for (offset, length, to) in
                [(1, third, 3), (third, third, size / 2 - 2), (0, 5, size + 1001), (0, size, 1), (2, 0, 9 * size)]
            {
                fixture.done(clone_range(at("from"), offset as u64, length as u64, target.clone(), to as u64));
                copy(&source, offset, length, &mut model, to);
                fixture.check(&target, &model);
            }
            fixture.done(clone_range(at("from"), 7, u64::MAX, target.clone(), 5));
            copy(&source, 7, size - 7, &mut model, 5);
            fixture.check(&target, &model);
            fixture.check(&at("from"), &source);
            // To an absent key.
            fixture.done(delete(target.clone()));
            fixture.done(clone_range(at("from"), 3, 4, target.clone(), 2));
            fixture.check(&target, &[&[0, 0], &source[3..7]].concat());
        }
    }
    fixture.done(clone_range(at("from"), 0, 0, at("empty"), 100));
    fixture.check(&at("empty"), b"");
}

pub(super) fn clone_range_within_one_key(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for (seed, size) in (0u64..).zip([100, 3000, 200_003]) {
        let mut model = pattern(seed, size).to_vec();
        fixture.put("k", model.clone());
        let third = size / 3;
        for (from, length, to) in [(0, third, third), (2 * third, third, 0), (0, size, size), (1, 4, 3 * size)] {
            fixture.done(clone_range(at("k"), from as u64, length as u64, at("k"), to as u64));
            let source = model.clone();
            copy(&source, from, length, &mut model, to);
            fixture.check(&at("k"), &model);
        }
        for (from, length, to) in [(0, 10, 5), (5, 10, 0), (3, 1, 3)] {
            fixture.not_done(clone_range(at("k"), from, length, at("k"), to));
        }
        fixture.not_done(clone_range(at("k"), 0, u64::MAX, at("k"), 0));
    }
}

pub(super) fn clone_range_refuses_what_is_not_there(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("k", pattern(1, 5000));
    for (offset, length) in
        [(0, 5001), (5000, 1), (4999, 2), (5001, 0), (5001, u64::MAX), (u64::MAX, 1), (1, u64::MAX - 1)]
    {
        fixture.not_done(clone_range(at("k"), offset, length, at("to"), 0));
    }
    fixture.done(clone_range(at("k"), 5000, u64::MAX, at("to"), 0));
    fixture.check(&at("to"), b"");
    fixture.not_done(clone_range(at("none"), 0, 0, at("to"), 0));
    fixture.not_done(clone_range(at("none"), 0, u64::MAX, at("to"), 0));
}

pub(super) fn clones_are_independent_of_their_source(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let source = pattern(1, 700_000);
    fixture.put("source", source.clone());
    for number in 0..10 {
        fixture.done(clone_range(at("source"), 0, u64::MAX, at(&format!("clone{number}")), 0));
    }
    // A change of one shows nowhere else, in whatever order they change and go.
    fixture.done(write_at(at("source"), 1000, "changed"));
    fixture.done(append(at("clone1"), "more"));
    fixture.done(truncate(at("clone2"), 10));
    fixture.done(write_at(at("clone3"), 699_999, "xyz"));
    fixture.done(delete(at("clone4")));
    fixture.done(put(at("clone5"), "short"));
    fixture.done(clone_range(at("clone6"), 0, 100_000, at("clone7"), 500_000));
    let mut seventh = source.to_vec();
    copy(&source, 0, 100_000, &mut seventh, 500_000);
    let check_all = || {
        fixture.check(&at("clone0"), &source);
        fixture.check(&at("clone1"), &[source.as_ref(), b"more"].concat());
        fixture.check(&at("clone2"), &source[..10]);
        fixture.check(&at("clone3"), &[&source[..699_999], b"xyz"].concat());
        fixture.check(&at("clone5"), b"short");
        fixture.check(&at("clone6"), &source);
        fixture.check(&at("clone7"), &seventh);
    };
    check_all();
    fixture.done(delete(at("source")));
    check_all();
    // New data must not land where a clone still reads.
    for round in 0..20 {
        fixture.put(&format!("filler{}", round % 3), pattern(100 + round, 400_000));
    }
    check_all();
}

pub(super) fn concatenate_keeps_or_deletes_its_sources(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.done(Operation::CreateSpace { space: B });
    for (seed, size) in (0u64..).zip([3, 2000, 50_000, 1_300_000]) {
        let parts = [pattern(seed, size), pattern(seed + 10, size + 1), pattern(seed + 20, size / 2)];
        let whole = parts.concat();
        let places = [at("p0"), Place::new(B, "p1"), at("p2")];
        for fate in [Sources::Keep, Sources::Delete] {
            for (place, part) in places.iter().zip(&parts) {
                fixture.done(put(place.clone(), part.clone()));
            }
            fixture.put("target", pattern(99, 100_000));
            let version = fixture.done(joined(&places, at("target"), fate));
            fixture.check(&at("target"), &whole);
            assert_eq!(fixture.version_of("target"), version);
            for (place, part) in places.iter().zip(&parts) {
                match fate {
                    Sources::Keep => fixture.check(place, part),
                    Sources::Delete => assert_eq!(fixture.view().stat(place.space, &place.key).expect("stat"), None),
                }
            }
            // Into another space, and the sources changed after it.
            for (place, part) in places.iter().zip(&parts) {
                fixture.done(put(place.clone(), part.clone()));
            }
            fixture.done(joined(&places, Place::new(B, "target"), fate));
            for place in &places {
                fixture.done(put(place.clone(), "gone"));
            }
            fixture.check(&Place::new(B, "target"), &whole);
        }
    }
}

pub(super) fn concatenate_joins_odd_sizes_and_holes(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let sizes = [0, 1, 4095, 4096, 4097, 0, 33_333, 65_537, 1, 1_048_577, 0];
    let mut whole = Vec::new();
    let mut sources = Vec::new();
    for (seed, size) in (0u64..).zip(sizes) {
        let place = at(&format!("part{seed}"));
        fixture.done(put(place.clone(), pattern(seed, size)));
        whole.extend_from_slice(&pattern(seed, size));
        // A hole at the end of every second part, one at the front of every third.
        if seed % 2 == 1 {
            fixture.done(truncate(place.clone(), size as u64 + 5001));
            whole.resize(whole.len() + 5001, 0);
        }
        sources.push(place);
    }
    let hole = at("hole");
    fixture.done(write_at(hole.clone(), 123_457, "end"));
    sources.push(hole);
    whole.resize(whole.len() + 123_457, 0);
    whole.extend_from_slice(b"end");
    // One source more than once.
    sources.push(at("part4"));
    whole.extend_from_slice(&pattern(4, 4097));
    fixture.done(joined(&sources, at("kept"), Sources::Keep));
    fixture.check(&at("kept"), &whole);
    sources.pop();
    whole.truncate(whole.len() - 4097);
    fixture.done(joined(&sources, at("moved"), Sources::Delete));
    fixture.check(&at("moved"), &whole);
    assert_eq!(fixture.keys(A), ["kept", "moved"]);
    fixture.done(joined(&[], at("kept"), Sources::Keep));
    fixture.check(&at("kept"), b"");
    fixture.done(joined(&[], at("none"), Sources::Delete));
    fixture.check(&at("none"), b"");
}

pub(super) fn concatenations_are_values_like_any_other(suite: &Suite) {
    let fixture = Fixture::new(suite);
    // As a multipart upload does: many parts by stages, joined and then read, cut, cloned and joined again.
    let mut whole = Vec::new();
    let mut sources = Vec::new();
    for seed in 0..60 {
        let part = pattern(seed, 50_000 + seed as usize * 17);
        let place = at(&format!("part{seed:03}"));
        let value = koine_engine::Payload::Stage(fixture.stage(&part, 1 << 16));
        fixture.done(Operation::Put { at: place.clone(), value });
        whole.extend_from_slice(&part);
        sources.push(place);
    }
    fixture.done(joined(&sources, at("whole"), Sources::Delete));
    fixture.check(&at("whole"), &whole);
    fixture.done(write_at(at("whole"), 777_777, "over a seam or not"));
    whole[777_777..777_777 + 18].copy_from_slice(b"over a seam or not");
    fixture.done(append(at("whole"), "tail"));
    whole.extend_from_slice(b"tail");
    fixture.check(&at("whole"), &whole);
    fixture.done(clone_range(at("whole"), 99_999, 1_000_001, at("cut"), 1));
    let cut = [&[0], &whole[99_999..1_100_000]].concat();
    fixture.check(&at("cut"), &cut);
    fixture.done(joined(&[at("cut"), at("whole")], at("twice"), Sources::Delete));
    fixture.check(&at("twice"), &[cut, whole].concat());
    fixture.done(truncate(at("twice"), 1_000_003));
    assert_eq!(fixture.get("twice").map(|value| value.len()), Some(1_000_003));
}

pub(super) fn concatenate_refuses_what_cannot_be_joined(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.commit(Batch::new().put(A, "a", "1").put(A, "b", "2"));
    fixture.not_done(joined(&[at("a"), at("none")], at("t"), Sources::Keep));
    fixture.not_done(joined(&[at("none")], at("a"), Sources::Delete));
    fixture.invalid(Batch::new().then(joined(&[at("a"), at("b")], at("a"), Sources::Keep)));
    fixture.invalid(Batch::new().then(joined(&[at("a"), at("a")], at("t"), Sources::Delete)));
    // A source that the same batch deleted before.
    let late = Batch::new().delete(A, "a").then(joined(&[at("a")], at("t"), Sources::Keep));
    fixture.refused(late, Refusal::Operation(1));
    fixture.done(joined(&[at("a"), at("a"), at("b")], at("t"), Sources::Keep));
    assert_eq!(fixture.get("t"), Some(Bytes::from_static(b"112")));
}
