//! The limits of the profile: what is at them is taken, what is past them is said to be wrong.

use bytes::Bytes;
use koine_engine::batch::{BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX, KEY_LEN_MAX, VALUE_LEN_MAX};
use koine_engine::{Batch, Condition, KeyRange, Operation, Place, Refusal, SpaceId, Version};

use super::Suite;
use super::fixture::{A, B, Fixture, add, append, at, clone_range, delete, pattern, put, rename, truncate, write_at};

pub(super) fn the_profile_is_what_the_seam_asks_for(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let profile = fixture.kv().profile();
    assert!(!profile.name.is_empty());
    assert_eq!(profile.key_len_max, KEY_LEN_MAX);
    assert!(profile.batch_operations_max <= BATCH_OPERATIONS_MAX && profile.batch_operations_max >= 1000);
    assert!(profile.batch_bytes_max <= BATCH_BYTES_MAX && profile.batch_bytes_max > 2 * KEY_LEN_MAX);
    assert!(profile.inline_len_best <= profile.batch_bytes_max);
}

pub(super) fn a_batch_as_large_as_allowed_is_taken(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let (operations, bytes) = (fixture.kv().profile().batch_operations_max, fixture.kv().profile().batch_bytes_max);
    let many = (0..operations).fold(Batch::new(), |batch, number| batch.put(A, format!("k{number:05}"), ""));
    let many = (0..operations)
        .fold(many, |batch, number| batch.when(Condition::Absent { space: A, key: format!("k{number:05}").into() }));
    fixture.commit(many);
    assert_eq!(fixture.keys(A).len(), operations);
    fixture.done(Operation::DeleteRange { space: A, range: KeyRange::all() });
    let value = pattern(1, bytes - 1);
    fixture.commit(Batch::new().put(A, "k", value.clone()));
    fixture.check(&at("k"), &value);
    // Stages do not count.
    let staged = koine_engine::Payload::Stage(fixture.stage(&value, 1 << 20));
    fixture.commit(Batch::new().put(A, "k", pattern(2, bytes - 2)).then(Operation::Put { at: at("l"), value: staged }));
    fixture.check(&at("l"), &value);
}

pub(super) fn too_large_a_batch_is_invalid(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let (operations, bytes) = (fixture.kv().profile().batch_operations_max, fixture.kv().profile().batch_bytes_max);
    fixture.invalid((0..=operations).fold(Batch::new(), |batch, _| batch.put(A, "k", "")));
    let condition = || Condition::Absent { space: A, key: "k".into() };
    fixture.invalid((0..=operations).fold(Batch::new().put(A, "k", ""), |batch, _| batch.when(condition())));
    fixture.invalid(Batch::new().put(A, "k", pattern(1, bytes)));
    let half = pattern(1, bytes / 2);
    fixture.invalid(Batch::new().then(append(at("k"), half.clone())).then(write_at(at("kkk"), 0, half)));
    // Keys count too, in conditions as well.
    let key = Bytes::from(vec![b'k'; KEY_LEN_MAX]);
    let enough = bytes / KEY_LEN_MAX + 1;
    if enough <= operations {
        let conditions =
            (0..enough).fold(Batch::new(), |batch, _| batch.when(Condition::Absent { space: A, key: key.clone() }));
        fixture.invalid(conditions.put(A, "k", ""));
    }
}

pub(super) fn too_long_a_key_is_invalid(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("k", "12345678");
    let long = Place::new(A, vec![b'x'; KEY_LEN_MAX + 1]);
    let operations = [
        put(long.clone(), ""),
        write_at(long.clone(), 0, ""),
        append(long.clone(), ""),
        truncate(long.clone(), 0),
        delete(long.clone()),
        rename(at("k"), long.clone()),
        rename(long.clone(), at("k")),
        clone_range(at("k"), 0, 1, long.clone(), 0),
        clone_range(long.clone(), 0, 1, at("k"), 0),
        Operation::Concatenate { sources: vec![at("k")], target: long.clone(), fate: koine_engine::Sources::Keep },
        Operation::Concatenate { sources: vec![long.clone()], target: at("l"), fate: koine_engine::Sources::Keep },
        add(long.clone(), 1),
        Operation::DeleteRange { space: A, range: KeyRange::single(vec![b'x'; KEY_LEN_MAX + 1]) },
    ];
    for operation in operations {
        fixture.invalid(Batch::new().put(A, "effect", "").then(operation));
    }
    let key = long.key;
    let range = KeyRange { start: [key.as_ref(), b"y"].concat().into(), end: None };
    let conditions = [
        Condition::Absent { space: A, key: key.clone() },
        Condition::Present { space: A, key: key.clone() },
        Condition::VersionIs { space: A, key, version: Version(1) },
        Condition::RangeEmpty { space: A, range: range.clone() },
        Condition::RangeUnchanged { space: A, range, since: Version(1) },
    ];
    for condition in conditions {
        fixture.invalid(Batch::new().put(A, "effect", "").when(condition));
    }
    // The range of the longest key alone is longer by one byte, and fine.
    let longest = vec![b'x'; KEY_LEN_MAX];
    fixture.commit(Batch::new().put(A, longest.clone(), ""));
    fixture.done(Operation::DeleteRange { space: A, range: KeyRange::single(longest) });
    assert_eq!(fixture.keys(A), ["k"]);
}

pub(super) fn reserved_spaces_are_invalid(suite: &Suite) {
    let fixture = Fixture::new(suite);
    for space in [SpaceId(0), SpaceId(1), SpaceId(15)] {
        let place = Place::new(space, "k");
        for operation in [
            Operation::CreateSpace { space },
            Operation::DropSpace { space },
            Operation::CloneSpace { from: space, to: B },
            Operation::SnapshotSpace { from: A, to: space },
            put(place.clone(), ""),
            delete(place.clone()),
            rename(place.clone(), at("k")),
            Operation::DeleteRange { space, range: KeyRange::all() },
        ] {
            fixture.invalid(Batch::new().then(operation));
        }
        fixture.invalid(Batch::new().when(Condition::Absent { space, key: "k".into() }));
        fixture.invalid(Batch::new().when(Condition::RangeEmpty { space, range: KeyRange::all() }));
        assert!(!fixture.view().has_space(space).expect("has_space"));
        assert_eq!(fixture.view().stat(space, b"k").expect("stat"), None);
    }
}

pub(super) fn too_long_a_value_is_invalid(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("k", "123");
    fixture.invalid(Batch::new().then(truncate(at("k"), VALUE_LEN_MAX + 1)));
    fixture.invalid(Batch::new().then(truncate(at("k"), u64::MAX)));
    fixture.invalid(Batch::new().then(write_at(at("k"), VALUE_LEN_MAX, "x")));
    fixture.invalid(Batch::new().then(write_at(at("k"), u64::MAX, "x")));
    fixture.done(truncate(at("k"), VALUE_LEN_MAX));
    // What depends on the stored length is refused.
    fixture.refused(Batch::new().then(append(at("k"), "x")), Refusal::Operation(0));
    fixture.not_done(clone_range(at("k"), 0, 2, at("l"), VALUE_LEN_MAX - 1));
    fixture.not_done(clone_range(at("k"), 0, 2, at("l"), u64::MAX));
    let twice = vec![at("k"), at("k")];
    fixture.not_done(Operation::Concatenate { sources: twice, target: at("l"), fate: koine_engine::Sources::Keep });
    let view = fixture.view();
    assert_eq!(view.bytes(A, b"k", 0, 5).expect("bytes").as_ref(), b"123\0\0");
    assert_eq!(view.bytes(A, b"k", VALUE_LEN_MAX - 2, 5).expect("bytes").as_ref(), b"\0\0");
    fixture.done(truncate(at("k"), 2));
    fixture.check(&at("k"), b"12");
}
