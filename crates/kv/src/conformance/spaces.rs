//! Spaces: apart, made, copied and dropped.

use koine_engine::{Batch, KeyRange, Operation, Place, Refusal, SpaceId};

use super::Suite;
use super::fixture::{A, B, C, Fixture, append, at, delete, pattern, put, rename, write_at};
use crate::seam::SpaceEntry;

fn create(space: SpaceId) -> Operation {
    Operation::CreateSpace { space }
}

fn drop_space(space: SpaceId) -> Operation {
    Operation::DropSpace { space }
}

pub(super) fn spaces_are_apart(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.commit(Batch::new().then(create(B)).then(create(C)));
    fixture.commit(Batch::new().put(A, "k", "a").put(B, "k", "b").put(C, "k", "c"));
    for (space, value) in [(A, b"a"), (B, b"b"), (C, b"c")] {
        fixture.check(&Place::new(space, "k"), value);
        assert_eq!(fixture.keys(space), ["k"]);
    }
    fixture.commit(Batch::new().then(Operation::DeleteRange { space: B, range: KeyRange::all() }));
    assert_eq!((fixture.keys(A).len(), fixture.keys(B).len(), fixture.keys(C).len()), (1, 0, 1));
    fixture.done(drop_space(A));
    assert_eq!(fixture.keys(C), ["k"]);
}

pub(super) fn spaces_are_created_and_dropped_once(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fixture.not_done(create(A));
    fixture.not_done(drop_space(B));
    assert!(!fixture.view().has_space(B).expect("has_space"));
    fixture.done(create(B));
    assert!(fixture.view().has_space(B).expect("has_space"));
    fixture.not_done(create(B));
    fixture.refused(Batch::new().then(create(C)).then(create(C)), Refusal::Operation(1));
    fixture.done(drop_space(B));
    fixture.not_done(drop_space(B));
    fixture.not_done(put(Place::new(B, "k"), ""));
    assert!(!fixture.view().has_space(B).expect("has_space"));
    assert!(fixture.view().has_space(A).expect("has_space"));
}

pub(super) fn a_space_made_again_is_empty(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let value = pattern(1, 100_000);
    for round in 0..5u64 {
        fixture.done(create(B));
        let stat = fixture.view().stat(B, b"k").expect("stat");
        assert_eq!(stat, None, "round {round}");
        let keys = (0..100).fold(Batch::new(), |batch, number| batch.put(B, format!("k{number:02}"), "v"));
        fixture.commit(keys.put(B, "k", value.clone()));
        assert_eq!(fixture.keys(B).len(), 101);
        fixture.done(drop_space(B));
        assert_eq!(fixture.keys(B).len(), 0);
    }
}

/// Fills the first space with values small and large.
fn fill(fixture: &Fixture) {
    fixture.commit(
        Batch::new().put(A, "large", pattern(1, 300_000)).put(A, "medium", pattern(2, 9000)).put(A, "small", "s"),
    );
}

pub(super) fn clone_space_makes_an_independent_copy(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fill(&fixture);
    let clone = |from, to| Operation::CloneSpace { from, to };
    fixture.not_done(clone(B, C));
    fixture.not_done(clone(A, A));
    let since = fixture.view().version();
    fixture.done(clone(A, B));
    fixture.not_done(clone(A, B));
    let unchanged = koine_engine::Condition::RangeUnchanged { space: B, range: KeyRange::single("small"), since };
    fixture.refused(Batch::new().when(unchanged), Refusal::Condition(0));
    let there = |key: &'static str| Place::new(B, key);
    for key in ["large", "medium", "small"] {
        let (original, copy) = (fixture.view().stat(A, key.as_bytes()), fixture.view().stat(B, key.as_bytes()));
        assert_eq!(original.expect("stat"), copy.expect("stat"), "copied keys keep their versions");
    }
    fixture.commit(
        Batch::new().then(append(there("small"), "t")).then(write_at(there("large"), 5, "x")).delete(A, "medium"),
    );
    fixture.check(&at("small"), b"s");
    fixture.check(&there("small"), b"st");
    fixture.check(&at("large"), &pattern(1, 300_000));
    fixture.check(&there("medium"), &pattern(2, 9000));
    // A clone of a clone outlives both.
    fixture.done(clone(B, C));
    fixture.commit(Batch::new().then(drop_space(A)).then(drop_space(B)));
    assert_eq!(fixture.keys(C), ["large", "medium", "small"]);
    fixture.check(&Place::new(C, "small"), b"st");
    fixture.check(&Place::new(C, "medium"), &pattern(2, 9000));
}

pub(super) fn a_view_lists_its_spaces(suite: &Suite) {
    let fixture = Fixture::new(suite);
    let listed = |from: SpaceId, most| fixture.view().spaces(from, most).expect("spaces");
    let before = listed(SpaceId(0), usize::MAX);
    assert!(before.iter().any(|entry| entry.space == A && !entry.is_snapshot));
    assert!(before.windows(2).all(|pair| pair[0].space < pair[1].space), "in order");
    let view = fixture.view();
    let more: Vec<SpaceId> = (0..40).map(|number| SpaceId(5_000 + number * 7)).collect();
    for (turn, space) in more.iter().enumerate() {
        fixture.done(if turn % 2 == 0 {
            Operation::CreateSpace { space: *space }
        } else {
            Operation::SnapshotSpace { from: A, to: *space }
        });
    }
    let mut expected = before.clone();
    expected.extend((0..).zip(&more).map(|(turn, space)| SpaceEntry { space: *space, is_snapshot: turn % 2 == 1 }));
    assert_eq!(listed(SpaceId(0), usize::MAX), expected);
    assert_eq!(listed(more[3], 5), expected[before.len() + 3..before.len() + 8]);
    assert_eq!(listed(SpaceId(more[3].0 + 1), 1)[0].space, more[4]);
    assert_eq!((listed(SpaceId(u64::MAX), 9), listed(A, 0)), (Vec::new(), Vec::new()));
    fixture.done(Operation::DropSpace { space: more[0] });
    assert!(!listed(SpaceId(0), usize::MAX).iter().any(|entry| entry.space == more[0]));
    assert_eq!(view.spaces(SpaceId(0), usize::MAX).expect("spaces"), before, "a view keeps its version");
}

pub(super) fn snapshot_space_is_read_only(suite: &Suite) {
    let fixture = Fixture::new(suite);
    fill(&fixture);
    fixture.done(Operation::SnapshotSpace { from: A, to: B });
    fixture.done(Operation::DeleteRange { space: A, range: KeyRange::all() });
    assert_eq!(fixture.keys(B), ["large", "medium", "small"]);
    fixture.check(&Place::new(B, "large"), &pattern(1, 300_000));
    for operation in [
        put(Place::new(B, "new"), ""),
        delete(Place::new(B, "small")),
        delete(Place::new(B, "absent")),
        Operation::DeleteRange { space: B, range: KeyRange::all() },
        rename(Place::new(B, "small"), at("small")),
    ] {
        fixture.not_done(operation);
    }
    // A clone of it may be written, and it may be dropped.
    fixture.done(Operation::CloneSpace { from: B, to: C });
    fixture.done(append(Place::new(C, "small"), "t"));
    fixture.check(&Place::new(B, "small"), b"s");
    fixture.done(drop_space(B));
    assert!(!fixture.view().has_space(B).expect("has_space"));
}
