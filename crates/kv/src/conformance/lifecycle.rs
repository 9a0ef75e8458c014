//! Usage, durability, close and reopen.

use koine_engine::{Batch, Durability, ErrorKind, KeyRange, Operation, Payload, StageHint, Version};

use super::Suite;
use super::fixture::{A, B, Fixture, append, at, clone_range, delete, pattern, rename, write_at};

pub(super) fn usage_adds_up(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let before = fixture.kv().usage().expect("usage");
    assert!(before.used <= before.total, "{before:?}");
    assert!(before.limit.is_none_or(|limit| limit >= before.used), "{before:?}");
    for number in 0..8 {
        fixture.put(&format!("k{number}"), pattern(number, 1 << 20));
    }
    fixture.kv().sync().expect("sync");
    let after = fixture.kv().usage().expect("usage");
    assert!(after.used <= after.total, "{after:?}");
    assert!(after.used >= before.used + (8 << 20), "8 MiB must show: {before:?}, {after:?}");
    assert!(after.free <= after.limit.unwrap_or(after.total).max(after.total), "{after:?}");
}

pub(super) fn deleted_data_gives_its_space_back(suite: &Suite) {
    let fixture = Fixture::new(suite);
    // In all far more than a small store holds.
    for round in 0..50 {
        let batch = (0..4).fold(Batch::new(), |batch, number| {
            batch.put(A, format!("k{number}"), pattern(round * 4 + number, 1_000_000))
        });
        fixture.commit(batch);
        match round % 4 {
            0 => _ = fixture.done(Operation::DeleteRange { space: A, range: KeyRange::all() }),
            1 => _ = fixture.commit(Batch::new().delete(A, "k0").delete(A, "k1")),
            2 => {
                fixture.done(Operation::DropSpace { space: A });
                fixture.done(Operation::CreateSpace { space: A });
            }
            _ => {}
        }
    }
    fixture.put("k", pattern(7, 2_000_000));
    fixture.check(&at("k"), &pattern(7, 2_000_000));
}

pub(super) fn every_durability_is_acknowledged_and_seen(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for (number, durability) in [Durability::Memory, Durability::Written, Durability::Sync].into_iter().enumerate() {
        let key = format!("k{number}");
        let token = fixture.stage(&pattern(number as u64, 200_000), 65_536);
        let batch = Batch::new()
            .put(A, key.clone(), "v")
            .then(Operation::Put { at: at("staged"), value: Payload::Stage(token) });
        let commit = fixture.kv().commit(batch, durability).expect("the batch is applied");
        assert_eq!(fixture.version_of(&key), commit.version);
        fixture.check(&at("staged"), &pattern(number as u64, 200_000));
    }
}

pub(super) fn what_was_committed_is_there_after_a_reopen(suite: &Suite) {
    let mut fixture = Fixture::new(suite);
    for round in 0u64..6 {
        let key = |name: &str| at(&format!("{name}{}", round % 3));
        let token = fixture.stage(&pattern(round, 700_001), 100_000);
        let batch = Batch::new()
            .put(A, key("small").key, pattern(round, 100))
            .put(A, key("medium").key, pattern(round, 20_000))
            .then(Operation::Put { at: key("large"), value: Payload::Stage(token) })
            .then(write_at(key("large"), 5000, "over"))
            .then(write_at(at("sparse"), 1_000_000 * round, "x"))
            .then(append(at("log"), pattern(round, 3333)))
            .then(clone_range(key("large"), 100_000, 300_000, key("clone"), 7))
            .then(delete(at("gone")));
        fixture.commit(batch);
        if round % 2 == 0 {
            fixture.commit(
                Batch::new()
                    .then(Operation::CreateSpace { space: B })
                    .then(rename(key("medium"), koine_engine::Place::new(B, "m"))),
            );
        } else {
            fixture.done(Operation::DropSpace { space: B });
        }
        for number in 0..200 {
            fixture.put(&format!("n{number}"), pattern(number * round, (number * 13) as usize));
        }
        fixture.put("gone", "");
        let before = fixture.dump();
        let has = fixture.view().has_space(B).expect("has_space");
        if !fixture.reopen() {
            return;
        }
        assert!(fixture.dump() == before, "the store differs after reopen {round}");
        assert_eq!(fixture.view().has_space(B).expect("has_space"), has);
    }
}

pub(super) fn sync_keeps_what_was_not_synced(suite: &Suite) {
    let mut fixture = Fixture::new(suite);
    for number in 0..100 {
        fixture.put(&format!("k{number}"), pattern(number, 5000));
    }
    fixture.kv().sync().expect("sync");
    fixture.kv().sync().expect("sync of nothing new");
    let before = fixture.dump();
    if fixture.reopen() {
        assert!(fixture.dump() == before);
    }
}

pub(super) fn versions_grow_over_a_reopen(suite: &Suite) {
    let mut fixture = Fixture::new(suite);
    let mut last = Version(0);
    for round in 0..5 {
        let version = fixture.put("k", format!("{round}"));
        assert!(version > last);
        last = version;
        if !fixture.reopen() {
            return;
        }
        assert_eq!(fixture.version_of("k"), version);
        assert!(fixture.view().version() >= version);
    }
}

pub(super) fn a_closed_store_stops(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("k", "v");
    let mut stage = fixture.kv().stage(StageHint::default()).expect("a stage");
    stage.write(b"piece").expect("a piece");
    let view = fixture.view();
    let kv = fixture.kv();
    kv.close().expect("close");
    let stopped = |error: koine_engine::Error| assert_eq!(error.kind(), ErrorKind::Stopped, "{error:?}");
    stopped(kv.view().map(|_| ()).expect_err("view"));
    stopped(kv.stage(StageHint::default()).map(|_| ()).expect_err("stage"));
    stopped(kv.commit(Batch::new().put(A, "k", "w"), Durability::Memory).expect_err("submit"));
    stopped(kv.watch(A, KeyRange::all(), Version(0)).map(|_| ()).expect_err("watch"));
    stopped(kv.usage().expect_err("usage"));
    stopped(kv.sync().expect_err("sync"));
    stopped(stage.write(b"piece").expect_err("a piece"));
    drop(stage);
    // A view that was taken before reads the truth or fails.
    if let Ok(bytes) = view.bytes(A, b"k", 0, 10) {
        assert_eq!(bytes.as_ref(), b"v");
    }
    kv.close().expect("closing again");
}
