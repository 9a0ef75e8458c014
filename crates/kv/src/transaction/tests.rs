//! Transactions against the store in memory: own writes, conditions, retries.

use std::cell::Cell;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::memory::MemoryKv;
use crate::seam::{Entry, KvExt};
use koine_engine::{Durability, Refusal, Sources, StageHint};

const A: SpaceId = SpaceId::FIRST;
const B: SpaceId = SpaceId(17);
const LEVEL: Durability = Durability::Memory;

fn store() -> MemoryKv {
    let kv = MemoryKv::default();
    kv.commit(Batch::new().then(Operation::CreateSpace { space: A }), LEVEL).unwrap();
    kv
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn set(kv: &MemoryKv, key: &'static str, value: &'static str) {
    kv.commit(Batch::new().put(A, key, value), LEVEL).unwrap();
}

fn keys(txn: &mut Transaction, range: KeyRange, direction: Direction) -> Vec<String> {
    let mut cursor = txn.cursor(A, range, direction).unwrap();
    let mut keys = Vec::new();
    while let Some(entry) = cursor.next().unwrap() {
        keys.push(String::from_utf8(entry.key.to_vec()).unwrap());
    }
    keys
}

#[test]
fn reads_are_conditions_and_blind_writes_are_not() {
    let kv = store();
    set(&kv, "read", "1");
    let commit_after = |change: &dyn Fn(), run: &dyn Fn(&mut Transaction)| {
        let mut txn = Transaction::begin(&kv).unwrap();
        run(&mut txn);
        txn.put(A, "out", bytes("x"));
        change();
        kv.commit(txn.into_batch(), LEVEL).map_err(|error| error.refusal())
    };
    let refused = Err(Some(Refusal::Condition(0)));
    let commits = |outcome: Result<koine_engine::Commit, _>| assert!(outcome.is_ok(), "{outcome:?}");
    let get = |key: &'static [u8]| move |txn: &mut Transaction| _ = txn.get(A, key).unwrap();
    assert_eq!(commit_after(&|| set(&kv, "read", "2"), &get(b"read")), refused);
    assert_eq!(commit_after(&|| set(&kv, "absent", ""), &get(b"absent")), refused);
    commits(commit_after(&|| set(&kv, "other", ""), &get(b"read")));
    // Own writes hide what is beneath; appends and counters that nobody reads depend on nothing.
    let over = |txn: &mut Transaction| {
        txn.put(A, "read", bytes("mine"));
        assert_eq!(txn.get(A, b"read").unwrap(), Some(bytes("mine")));
    };
    commits(commit_after(&|| set(&kv, "read", "3"), &over));
    let append = |txn: &mut Transaction| {
        txn.then(Operation::Append { at: Place::new(A, "read"), data: bytes("+").into() });
        txn.add(A, "count", 1);
    };
    commits(commit_after(&|| set(&kv, "read", "4"), &append));
    assert_eq!(kv.get(A, b"read").unwrap(), Some(bytes("4+")));
    // Once read, they do.
    let read_append = |txn: &mut Transaction| {
        append(txn);
        assert_eq!(txn.get(A, b"read").unwrap(), Some(bytes("4++")));
    };
    assert_eq!(commit_after(&|| set(&kv, "read", "5"), &read_append), refused);
}

#[test]
fn ranges_are_conditions_as_far_as_they_were_walked() {
    let kv = store();
    for key in ["a", "c", "e", "g"] {
        set(&kv, key, "");
    }
    let walk = |direction, steps: usize, change: &'static str| {
        let mut txn = Transaction::begin(&kv).unwrap();
        let mut cursor = txn.cursor(A, KeyRange::new("a", "h"), direction).unwrap();
        for _ in 0..steps {
            cursor.next().unwrap();
        }
        drop(cursor);
        txn.put(A, "out", bytes("x"));
        set(&kv, change, "");
        let outcome = kv.commit(txn.into_batch(), LEVEL);
        kv.commit(Batch::new().delete(A, "b").delete(A, "f").delete(A, "ga").delete(A, "A"), LEVEL).unwrap();
        outcome.is_ok()
    };
    assert!(walk(Direction::Forward, 0, "b"));
    assert!(walk(Direction::Forward, 2, "ga"));
    assert!(!walk(Direction::Forward, 2, "b"));
    assert!(!walk(Direction::Forward, 2, "c"));
    assert!(walk(Direction::Forward, 2, "f"));
    assert!(walk(Direction::Forward, 4, "ga"));
    assert!(!walk(Direction::Forward, 5, "ga"));
    assert!(walk(Direction::Forward, 5, "A"));
    assert!(walk(Direction::Backward, 2, "b"));
    assert!(!walk(Direction::Backward, 2, "f"));
    assert!(!walk(Direction::Backward, 1, "ga"));
    assert!(!walk(Direction::Backward, 5, "b"));
    assert!(walk(Direction::Backward, 5, "A"));
}

#[test]
fn ranges_show_own_writes() {
    let kv = store();
    for key in ["a", "c", "e", "g"] {
        set(&kv, key, "");
    }
    let mut txn = Transaction::begin(&kv).unwrap();
    txn.put(A, "b", bytes("new"));
    txn.put(A, "c", bytes("over"));
    txn.delete(A, "e");
    txn.put(A, "z", bytes("last"));
    assert_eq!(keys(&mut txn, KeyRange::all(), Direction::Forward), ["a", "b", "c", "g", "z"]);
    assert_eq!(keys(&mut txn, KeyRange::all(), Direction::Backward), ["z", "g", "c", "b", "a"]);
    assert_eq!(keys(&mut txn, KeyRange::new("b", "g"), Direction::Backward), ["c", "b"]);
    txn.then(Operation::DeleteRange { space: A, range: KeyRange::new("b", "h") });
    txn.put(A, "d", bytes("again"));
    assert_eq!(keys(&mut txn, KeyRange::all(), Direction::Forward), ["a", "d", "z"]);
    let mut cursor = txn.cursor(A, KeyRange::all(), Direction::Forward).unwrap();
    cursor.seek(b"b").unwrap();
    let entry = cursor.next().unwrap().unwrap();
    assert_eq!(
        (entry.key, entry.value, entry.seen),
        (bytes("d"), Some(bytes("again")), Seen { version: None, size: 5 })
    );
    cursor.seek(b"a").unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().key, bytes("a"));
}

#[test]
fn stages_are_known_by_length() {
    let kv = store();
    let stage = |text: &[u8]| {
        let mut stage = kv.stage(StageHint::default()).unwrap();
        stage.write(text).unwrap();
        stage.finish().unwrap()
    };
    let mut txn = Transaction::begin(&kv).unwrap();
    txn.put(A, "k", Payload::Stage(stage(b"staged")));
    txn.then(Operation::WriteAt { at: Place::new(A, "k"), offset: 0, data: bytes("ST").into() });
    assert_eq!(txn.stat(A, b"k").unwrap(), Some(Seen { version: None, size: 6 }));
    assert_eq!(txn.bytes(A, b"k", 0, 2).unwrap(), bytes("ST"));
    assert_eq!(txn.get(A, b"k").unwrap_err().kind(), ErrorKind::Unsupported);
    let mut cursor = txn.cursor(A, KeyRange::all(), Direction::Forward).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().value, None);
    drop(cursor);
    kv.commit(txn.into_batch(), LEVEL).unwrap();
    assert_eq!(kv.get(A, b"k").unwrap(), Some(bytes("STaged")));
}

#[test]
fn spaces_made_and_dropped_are_seen() {
    let kv = store();
    set(&kv, "k", "old");
    let mut txn = Transaction::begin(&kv).unwrap();
    assert!(!txn.has_space(B).unwrap());
    txn.then(Operation::CreateSpace { space: B });
    txn.put(B, "k", bytes("b"));
    assert!(txn.has_space(B).unwrap());
    assert_eq!(txn.get(B, b"k").unwrap(), Some(bytes("b")));
    txn.then(Operation::DropSpace { space: A });
    assert_eq!((txn.has_space(A).unwrap(), txn.get(A, b"k").unwrap()), (false, None));
    txn.then(Operation::CreateSpace { space: A });
    assert_eq!((txn.has_space(A).unwrap(), txn.get(A, b"k").unwrap()), (true, None));
    kv.commit(txn.into_batch(), LEVEL).unwrap();
    assert_eq!((kv.get(A, b"k").unwrap(), kv.get(B, b"k").unwrap()), (None, Some(bytes("b"))));
    let mut txn = Transaction::begin(&kv).unwrap();
    txn.then(Operation::CloneSpace { from: B, to: SpaceId(40) });
    assert_eq!(txn.get(SpaceId(40), b"k").unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(txn.get(B, b"k").unwrap(), Some(bytes("b")));
}

#[test]
fn what_was_read_and_changed_is_tried_again() {
    let kv = store();
    set(&kv, "n", "0");
    let runs = Cell::new(0);
    let (seen, commit) = kv
        .transact(LEVEL, |txn| {
            runs.set(runs.get() + 1);
            let seen = txn.get(A, b"n")?;
            if runs.get() < 6 {
                kv.commit(Batch::new().put(A, "n", runs.get().to_string()), LEVEL)?;
            }
            txn.put(A, "copy", seen.clone().unwrap());
            Ok(seen)
        })
        .unwrap();
    assert_eq!((runs.get(), seen), (6, Some(bytes("5"))));
    assert_eq!(kv.get(A, b"copy").unwrap(), Some(bytes("5")));
    assert_eq!(kv.view().unwrap().version(), commit.version);
}

#[test]
fn a_fight_that_cannot_be_won_ends() {
    let kv = store();
    let runs = Cell::new(0);
    let error = kv
        .transact(LEVEL, |txn| {
            runs.set(runs.get() + 1);
            txn.get(A, b"n")?;
            txn.put(A, "m", bytes(""));
            kv.commit(Batch::new().put(A, "n", "").delete(A, "n").put(A, "n", runs.get().to_string()), LEVEL)
        })
        .unwrap_err();
    assert_eq!((runs.get(), error.kind(), error.retryable()), (ATTEMPTS_MAX, ErrorKind::Busy, true));
    assert_eq!(kv.get(A, b"m").unwrap(), None);
}

#[test]
fn the_callers_conditions_and_operations_end_at_once() {
    let kv = store();
    set(&kv, "there", "");
    let runs = Cell::new(0);
    let absent = || Condition::Absent { space: A, key: bytes("there") };
    let error = kv.transact(LEVEL, |txn| {
        runs.set(runs.get() + 1);
        txn.get(A, b"there")?;
        txn.put(A, "out", bytes(""));
        txn.when(absent());
        Ok(())
    });
    assert_eq!(error.unwrap_err().refusal(), Some(Refusal::Condition(0)));
    let error = kv.transact(LEVEL, |txn| {
        runs.set(runs.get() + 1);
        txn.then(Operation::CreateSpace { space: A });
        Ok(())
    });
    assert_eq!(error.unwrap_err().refusal(), Some(Refusal::Operation(0)));
    let error = kv.transact(LEVEL, |_| Err::<(), _>(Error::invalid("no")));
    assert_eq!((error.unwrap_err().kind(), runs.get()), (ErrorKind::Invalid, 2));
    // A condition alone is asked for, reads alone are not.
    let refused = kv.transact(LEVEL, |txn| {
        txn.when(absent());
        Ok(())
    });
    assert!(refused.is_err());
    let before = kv.view().unwrap().version();
    let (_, commit) = kv.transact(LEVEL, |txn| txn.get(A, b"there")).unwrap();
    assert_eq!((commit.version, kv.view().unwrap().version()), (before, before));
}

#[test]
fn a_repeated_transaction_meets_its_first_outcome() {
    let kv = store();
    let run = |disturb: bool| {
        let attempt = Cell::new(0);
        kv.transact(LEVEL, |txn| {
            attempt.set(attempt.get() + 1);
            txn.set_request(RequestId([7; 16]));
            let seen = txn.get(A, b"n")?;
            if disturb && attempt.get() < 3 {
                kv.commit(Batch::new().put(A, "n", attempt.get().to_string()), LEVEL)?;
            }
            txn.add(A, "count", 1);
            txn.put(A, "seen", seen.unwrap_or_default());
            Ok(())
        })
        .unwrap()
        .1
    };
    let first = run(true);
    assert!(!first.repeated);
    let again = run(false);
    assert_eq!((again.version, again.repeated), (first.version, true));
    assert_eq!(kv.get(A, b"count").unwrap().unwrap().as_ref(), 1i64.to_le_bytes());
}

/// Operations of every kind over few keys, so that they meet.
fn operation() -> impl Strategy<Value = Operation> {
    let key = || prop::sample::select(vec!["a", "b", "ba", "bb", "c"]).prop_map(|key| Place::new(A, key));
    let data = || prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Payload::Bytes(bytes.into()));
    let prefix = || prop::sample::select(vec!["a", "b", "c", "bb"]).prop_map(Bytes::from);
    prop_oneof![
        (key(), data()).prop_map(|(at, value)| Operation::Put { at, value }),
        (key(), 0u64..30, data()).prop_map(|(at, offset, data)| Operation::WriteAt { at, offset, data }),
        (key(), data()).prop_map(|(at, data)| Operation::Append { at, data }),
        (key(), 0u64..30).prop_map(|(at, length)| Operation::Truncate { at, length }),
        key().prop_map(|at| Operation::Delete { at }),
        (prefix(), prefix()).prop_map(|(a, b)| Operation::DeleteRange { space: A, range: KeyRange::new(a, b) }),
        (key(), key()).prop_map(|(from, to)| Operation::Rename { from, to }),
        (prefix(), prefix()).prop_map(|(from, to)| Operation::RenamePrefix { space: A, from, to }),
        (key(), 0u64..10, 0u64..10, key(), 0u64..30).prop_map(|(from, from_offset, length, to, to_offset)| {
            Operation::CloneRange { from, from_offset, length, to, to_offset }
        }),
        (key(), key(), key(), any::<bool>()).prop_map(|(first, second, target, keep)| {
            let fate = if keep { Sources::Keep } else { Sources::Delete };
            Operation::Concatenate { sources: vec![first, second], target, fate }
        }),
        (prop::sample::select(vec!["m", "n"]), any::<i32>())
            .prop_map(|(key, delta)| Operation::AddCounter { at: Place::new(A, key), delta: delta.into() }),
    ]
}

fn listing(mut next: impl FnMut() -> Option<(Bytes, u64, Option<Bytes>)>) -> Vec<(Bytes, u64, Option<Bytes>)> {
    std::iter::from_fn(&mut next).collect()
}

proptest! {
    /// What a transaction shows before its commit is what a view shows after it.
    #[test]
    fn own_writes_read_as_they_will_be(
        before in prop::collection::vec(operation(), 0..8),
        writes in prop::collection::vec(operation(), 1..12),
        reads_between in any::<u16>(),
    ) {
        let kv = store();
        for operation in before {
            // Some are refused: then they are not part of what was before.
            let _ = kv.commit(Batch::new().then(operation), LEVEL);
        }
        let mut txn = Transaction::begin(&kv).unwrap();
        for (index, operation) in writes.into_iter().enumerate() {
            txn.then(operation);
            if reads_between >> index & 1 == 1 {
                txn.get(A, b"b").unwrap();
            }
        }
        let shown = |txn: &mut Transaction, direction| {
            let mut cursor = txn.cursor(A, KeyRange::all(), direction).unwrap();
            listing(|| cursor.next().unwrap().map(|entry| (entry.key, entry.seen.size, entry.value)))
        };
        let forward = shown(&mut txn, Direction::Forward);
        let mut backward = shown(&mut txn, Direction::Backward);
        backward.reverse();
        prop_assert_eq!(&forward, &backward);
        for (key, size, value) in &forward {
            prop_assert_eq!(&txn.get(A, key).unwrap(), value);
            prop_assert_eq!(txn.stat(A, key).unwrap().map(|seen| seen.size), Some(*size));
        }
        if kv.commit(txn.into_batch(), LEVEL).is_ok() {
            let mut cursor = kv.view().unwrap().cursor(A, KeyRange::all(), Direction::Forward).unwrap();
            let entry = |entry: Entry| (entry.key, entry.stat.size, entry.value);
            prop_assert_eq!(forward, listing(|| cursor.next().unwrap().map(entry)));
        }
    }
}

#[test]
fn what_is_added_to_one_counter_is_one_operation_as_long_as_nobody_looks() {
    let kv = store();
    let added = |txn: Transaction| txn.into_batch().operations.len();
    let begin = || Transaction::begin(&kv).unwrap();
    let mut txn = begin();
    for delta in [5, -3, 7] {
        txn.add(A, "one", delta);
        txn.add(A, "two", delta);
        txn.put(A, "beside", bytes("x"));
    }
    let batch = txn.into_batch();
    assert_eq!(batch.operations.len(), 2 + 3);
    assert!(batch.conditions.is_empty());
    kv.commit(batch, LEVEL).unwrap();
    assert_eq!(begin().get(A, b"two").unwrap().unwrap().as_ref(), 9i64.to_le_bytes());
    // What comes to nothing is nothing, unless it was meant so.
    let mut txn = begin();
    txn.add(A, "one", 4);
    txn.add(A, "one", -4);
    assert_eq!(added(txn), 0);
    let mut txn = begin();
    txn.add(A, "one", 0);
    assert_eq!(added(txn), 1);
    // Whatever touches the key lies between, and so does a look, which must see what was added before it alone.
    let touching: [&dyn Fn(&mut Transaction); 5] = [
        &|txn| txn.put(A, "one", Bytes::copy_from_slice(&1i64.to_le_bytes())),
        &|txn| txn.delete(A, "one"),
        &|txn| txn.then(Operation::DeleteRange { space: A, range: KeyRange::all() }),
        &|txn| txn.then(Operation::Rename { from: Place::new(A, "two"), to: Place::new(A, "one") }),
        &|txn| drop(txn.get(A, b"one").unwrap()),
    ];
    for touch in touching {
        let mut txn = begin();
        txn.add(A, "one", 1);
        touch(&mut txn);
        txn.add(A, "one", 2);
        let seen = txn.get(A, b"one").unwrap();
        let batch = txn.into_batch();
        let adds = batch.operations.iter().filter(|operation| matches!(operation, Operation::AddCounter { .. }));
        assert_eq!(adds.count(), 2);
        kv.commit(batch, LEVEL).unwrap();
        assert_eq!(begin().get(A, b"one").unwrap(), seen);
        kv.commit(Batch::new().put(A, "two", 9i64.to_le_bytes().to_vec()), LEVEL).unwrap();
    }
    // A sum that does not fit stays two, so that the store refuses what it would have refused.
    let mut txn = begin();
    txn.add(A, "one", i64::MAX);
    txn.add(A, "one", 1);
    assert_eq!(added(txn), 2);
}

#[test]
fn what_was_added_after_a_mark_can_be_taken_back() {
    let kv = store();
    set(&kv, "old", "1");
    let mut txn = Transaction::begin(&kv).unwrap();
    txn.put(A, "kept", bytes("x"));
    txn.add(A, "sum", 3);
    let mark = txn.mark();
    txn.when(Condition::Present { space: A, key: bytes("never") });
    txn.put(A, "kept", bytes("y"));
    txn.delete(A, "old");
    txn.add(A, "sum", 4);
    assert_eq!(txn.get(A, b"old").unwrap(), None);
    txn.back_to(mark);
    // What it reads from now on is without it, and so is what it commits.
    assert_eq!(txn.get(A, b"kept").unwrap(), Some(bytes("x")));
    assert_eq!(txn.get(A, b"old").unwrap(), Some(bytes("1")));
    txn.add(A, "sum", 5);
    kv.commit(txn.into_batch(), LEVEL).unwrap();
    let mut txn = Transaction::begin(&kv).unwrap();
    assert_eq!(txn.get(A, b"sum").unwrap().unwrap().as_ref(), 8i64.to_le_bytes());
    assert_eq!(txn.get(A, b"old").unwrap(), Some(bytes("1")));
}
