//! Conditions: each alone, all together, and against which state.

use bytes::Bytes;
use koine_engine::{Batch, Condition, Durability, KeyRange, Operation, Place, Refusal, SpaceId, Version};

use super::Suite;
use super::fixture::{A, B, Fixture, add, append, at, clone_range, delete, put, rename, truncate, write_at};
use crate::seam::Wait;

fn absent(key: &str) -> Condition {
    Condition::Absent { space: A, key: Bytes::from(key.to_owned()) }
}

fn present(key: &str) -> Condition {
    Condition::Present { space: A, key: Bytes::from(key.to_owned()) }
}

fn version_is(key: &str, version: Version) -> Condition {
    Condition::VersionIs { space: A, key: Bytes::from(key.to_owned()), version }
}

fn when(condition: Condition) -> Batch {
    Batch::new().when(condition).put(A, "effect", "done")
}

/// Checks a condition by the effect of a batch that has it.
fn expect(fixture: &Fixture, condition: Condition, holds: bool) {
    if holds {
        fixture.commit(when(condition));
        assert_eq!(fixture.get("effect").as_deref(), Some(&b"done"[..]));
        fixture.done(delete(at("effect")));
    } else {
        fixture.refused(when(condition), Refusal::Condition(0));
    }
}

pub(super) fn absent_holds_only_where_no_key_is(suite: &Suite) {
    let fixture = Fixture::new(suite);
    expect(&fixture, absent("k"), true);
    fixture.put("k", "");
    expect(&fixture, absent("k"), false);
    expect(&fixture, absent("k\0"), true);
    expect(&fixture, absent(""), true);
    fixture.done(delete(at("k")));
    expect(&fixture, absent("k"), true);
}

pub(super) fn present_holds_only_where_a_key_is(suite: &Suite) {
    let fixture = Fixture::new(suite);
    expect(&fixture, present("k"), false);
    fixture.put("k", "");
    expect(&fixture, present("k"), true);
    fixture.done(rename(at("k"), at("l")));
    expect(&fixture, present("k"), false);
    expect(&fixture, present("l"), true);
}

pub(super) fn version_is_holds_only_for_the_last_change(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let first = fixture.put("k", "1");
    expect(&fixture, version_is("k", first), true);
    expect(&fixture, version_is("k", Version(0)), false);
    expect(&fixture, version_is("absent", first), false);
    expect(&fixture, version_is("absent", Version(0)), false);
    let second = fixture.done(append(at("k"), "2"));
    expect(&fixture, version_is("k", first), false);
    expect(&fixture, version_is("k", second), true);
    expect(&fixture, version_is("k", Version(second.0 + 1)), false);
    fixture.done(delete(at("k")));
    expect(&fixture, version_is("k", second), false);
    // A value that is put again is not what it was.
    let third = fixture.put("k", "1");
    expect(&fixture, version_is("k", first), false);
    expect(&fixture, version_is("k", third), true);
}

pub(super) fn range_empty_looks_only_inside_the_range(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("b", "");
    fixture.put("d", "");
    let empty = |start: &'static str, end: &'static str, holds| {
        let range = KeyRange::new(start.as_bytes(), end.as_bytes());
        expect(&fixture, Condition::RangeEmpty { space: A, range }, holds);
    };
    empty("b\0", "d", true);
    empty("b", "b\0", false);
    empty("a", "b", true);
    empty("a", "c", false);
    empty("d", "z", false);
    empty("z", "a", true);
    empty("b", "b", true);
    expect(&fixture, Condition::RangeEmpty { space: A, range: KeyRange::all() }, false);
    expect(&fixture, Condition::RangeEmpty { space: A, range: KeyRange::prefix("bb") }, true);
}

fn unchanged(space: SpaceId, range: KeyRange, since: Version) -> Condition {
    Condition::RangeUnchanged { space, range, since }
}

pub(super) fn range_unchanged_notices_every_kind_of_change(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let counter = 7i64.to_le_bytes().to_vec();
    fixture.commit(Batch::new().put(A, "m1", "one").put(A, "m2", counter).put(A, "x", "outside"));
    let concatenate =
        |target: &str, fate| Operation::Concatenate { sources: vec![at("m1"), at("x")], target: at(target), fate };
    let kinds = vec![
        put(at("m"), "new"),
        put(at("m1"), "one"),
        write_at(at("m1"), 1, "!"),
        append(at("m1"), "more"),
        truncate(at("m1"), 1),
        delete(at("m1")),
        Operation::DeleteRange { space: A, range: KeyRange::prefix("m") },
        rename(at("m1"), at("y")),
        rename(at("x"), at("m9")),
        clone_range(at("x"), 0, 3, at("m1"), 0),
        concatenate("m7", koine_engine::Sources::Keep),
        concatenate("y", koine_engine::Sources::Delete),
        add(at("m2"), 1),
        Operation::RenamePrefix { space: A, from: "m".into(), to: "w".into() },
        Operation::RenamePrefix { space: A, from: "x".into(), to: "m".into() },
    ];
    for kind in kinds {
        let counter = 7i64.to_le_bytes().to_vec();
        let all = Operation::DeleteRange { space: A, range: KeyRange::all() };
        fixture.commit(Batch::new().then(all).put(A, "m1", "one").put(A, "m2", counter).put(A, "x", "outside"));
        let since = fixture.view().version();
        let range = KeyRange::prefix("m");
        fixture.commit(when(unchanged(A, range.clone(), since)));
        fixture.done(kind);
        fixture.refused(when(unchanged(A, range.clone(), since)), Refusal::Condition(0));
        fixture.commit(when(unchanged(A, range, fixture.view().version())));
    }
    // What came and went since is a change.
    let since = fixture.view().version();
    fixture.put("n", "");
    fixture.done(delete(at("n")));
    expect(&fixture, unchanged(A, KeyRange::prefix("n"), since), false);
}

pub(super) fn range_unchanged_holds_beside_changes_elsewhere(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.done(Operation::CreateSpace { space: B });
    let since = fixture.view().version();
    let range = KeyRange::new("b", "d");
    fixture.commit(Batch::new().put(A, "a\u{ff}", "").put(A, "d", "").put(B, "c", ""));
    expect(&fixture, unchanged(A, range.clone(), since), true);
    expect(&fixture, unchanged(B, range.clone(), since), false);
    expect(&fixture, unchanged(B, KeyRange::new("d", "b"), since), true);
    fixture.put("b", "");
    expect(&fixture, unchanged(A, range, since), false);
}

pub(super) fn range_unchanged_notices_a_dropped_space(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.done(Operation::CreateSpace { space: B });
    fixture.commit(Batch::new().put(B, "k", ""));
    let since = fixture.view().version();
    fixture.done(Operation::DropSpace { space: B });
    expect(&fixture, unchanged(B, KeyRange::single("k"), since), false);
    fixture.done(Operation::CreateSpace { space: B });
    expect(&fixture, unchanged(B, KeyRange::single("k"), since), false);
}

pub(super) fn conditions_see_the_state_before_the_batch(suite: &Suite) {
    let fixture = Fixture::new(suite);
    // The operation makes the key that the condition wants absent, and the other way round.
    fixture.commit(Batch::new().put(A, "k", "1").when(absent("k")));
    fixture.commit(Batch::new().delete(A, "k").when(present("k")));
    fixture.refused(Batch::new().put(A, "k", "1").when(present("k")), Refusal::Condition(0));
    let since = fixture.view().version();
    fixture.commit(Batch::new().put(A, "k", "1").when(unchanged(A, KeyRange::all(), since)));
    fixture.refused(
        Batch::new().then(Operation::CreateSpace { space: B }).when(unchanged(A, KeyRange::all(), since)),
        Refusal::Condition(0),
    );
}

pub(super) fn the_first_condition_that_fails_is_named(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.put("k", "");
    let batch = |conditions: &[Condition]| {
        conditions.iter().fold(Batch::new().put(A, "effect", ""), |batch, condition| batch.when(condition.clone()))
    };
    fixture.refused(batch(&[present("k"), absent("k"), absent("x")]), Refusal::Condition(1));
    fixture.refused(batch(&[present("k"), absent("x"), present("x"), absent("k")]), Refusal::Condition(2));
    // A condition that fails goes before an operation that would.
    let conflict = batch(&[absent("k")]).then(rename(at("none"), at("k")));
    fixture.refused(conflict, Refusal::Condition(0));
    fixture.commit(batch(&[present("k"), absent("x")]));
}

pub(super) fn conditions_are_decided_in_absent_spaces_too(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let key = Bytes::from_static(b"k");
    let version = fixture.view().version();
    expect(&fixture, Condition::Absent { space: B, key: key.clone() }, true);
    expect(&fixture, Condition::Present { space: B, key: key.clone() }, false);
    expect(&fixture, Condition::VersionIs { space: B, key, version }, false);
    expect(&fixture, Condition::RangeEmpty { space: B, range: KeyRange::all() }, true);
    expect(&fixture, unchanged(B, KeyRange::all(), version), true);
    // The space may be made by the batch that wants its key absent.
    let create = Batch::new().then(Operation::CreateSpace { space: B });
    fixture.commit(create.put(B, "k", "1").when(Condition::Absent { space: B, key: "k".into() }));
    fixture.check(&Place::new(B, "k"), b"1");
}

pub(super) fn conditions_see_commits_that_are_not_durable_yet(suite: &Suite) {
    let fixture = Fixture::new(suite);
    // Sequenced is what counts: neither waits for the other.
    let first = fixture.kv().submit(Batch::new().put(A, "k", "1").when(absent("k")), Durability::Sync, Wait::Never);
    let second = fixture.kv().submit(Batch::new().put(A, "k", "2").when(absent("k")), Durability::Memory, Wait::Never);
    assert_eq!(second.wait().expect_err("the second is refused").refusal(), Some(Refusal::Condition(0)));
    // Who was refused may look at once for the reason.
    fixture.check(&at("k"), b"1");
    first.wait().expect("the first is applied");
    fixture.check(&at("k"), b"1");
}
