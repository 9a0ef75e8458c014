//! Several verbs in one transaction: one commit, and each sees those before it.

use std::sync::Arc;

use koine_env::{SeededRandom, SimulatedClock};
use koine_kv::{Direction, Durability, KeyRange, MemoryKv, Operation, Place, Refusal, SpaceId, View};

use super::*;
use crate::checksum::Expected;
use crate::delete::Delete;
use crate::object_name::ObjectName;
use crate::put::Put;
use crate::request::{CopyOptions, DeleteOptions, ListQuery, PutOptions};

fn store() -> Local {
    let (clock, random) = (SimulatedClock::new(Timestamp(1)), SeededRandom::new(7));
    let objects = Local::open(Arc::new(MemoryKv::default()), Arc::new(clock), Arc::new(random)).unwrap();
    for bucket in ["one", "two"] {
        objects.create_bucket(bucket).wait().unwrap();
    }
    objects
}

fn put(objects: &Local, bucket: &str, key: &str, body: &str) -> Put {
    let mut writer = objects.put(bucket, key, PutOptions::default()).unwrap();
    writer.write(body.as_bytes()).unwrap();
    writer.into_verb(&Expected::none()).unwrap()
}

fn delete(bucket: &str, key: &str) -> Delete {
    Delete::new(ObjectName::new(bucket, key), DeleteOptions::default())
}

fn begin(objects: &Local) -> Transaction {
    Transaction::begin(&**objects.kv()).unwrap()
}

/// Adds a verb that changes something.
fn add<V: Verb>(objects: &Local, txn: &mut Transaction, mut verb: V) {
    assert!(matches!(perform(objects, txn, &mut verb).unwrap().0, Applied::Changed));
}

fn commit(objects: &Local, txn: Transaction) -> koine_kv::Result<Commit> {
    objects.kv().commit(txn.into_batch(), Durability::Memory)
}

fn space(objects: &Local, bucket: &str) -> SpaceId {
    objects.head_bucket(bucket).unwrap().space
}

fn keys_in(view: &dyn View, space: SpaceId) -> usize {
    let mut cursor = view.cursor(space, KeyRange::all(), Direction::Forward).unwrap();
    let keys = std::iter::from_fn(|| cursor.next().unwrap());
    keys.filter(|entry| !entry.key.starts_with(b"c")).count()
}

fn body(objects: &Local, bucket: &str, key: &str) -> Option<String> {
    let reader = objects.get(bucket, key).ok()?;
    let size = usize::try_from(reader.info().size).unwrap();
    Some(String::from_utf8(reader.bytes(0, size).unwrap().to_vec()).unwrap())
}

#[test]
fn verbs_of_one_transaction_see_each_other_and_are_one_commit() {
    let objects = store();
    let copy = |from, to| objects.prepare_copy(from, to, CopyOptions::default()).unwrap();
    let (a, b) = (ObjectName::new("one", "a"), ObjectName::new("one", "b"));
    let before = objects.kv().view().unwrap().version();
    let mut txn = begin(&objects);
    add(&objects, &mut txn, put(&objects, "one", "a", "first"));
    add(&objects, &mut txn, copy(a, b));
    add(&objects, &mut txn, put(&objects, "one", "a", "second"));
    add(&objects, &mut txn, copy(a, ObjectName::new("two", "c")));
    add(&objects, &mut txn, delete("one", "a"));
    // It is gone for those that follow, and nobody else has seen it.
    let again = perform(&objects, &mut txn, &mut delete("one", "a")).unwrap().0;
    assert!(matches!(again, Applied::Done(deleted) if !deleted.existed));
    assert!(objects.list("one", &ListQuery { limit: 9, ..ListQuery::default() }).unwrap().objects.is_empty());
    let commit = commit(&objects, txn).unwrap();
    assert_eq!(commit.version.0, before.0 + 1);
    assert_eq!(body(&objects, "one", "a"), None);
    assert_eq!(body(&objects, "one", "b").as_deref(), Some("first"));
    assert_eq!(body(&objects, "two", "c").as_deref(), Some("second"));
    assert_eq!(objects.head("one", "b").unwrap().version, commit.version);
    // Of what was put and replaced or deleted on the way nothing is left.
    let view = objects.kv().view().unwrap();
    assert_eq!(["one", "two"].map(|bucket| keys_in(view.as_ref(), space(&objects, bucket))), [2, 2]);
}

#[test]
fn what_a_verb_reads_is_a_condition_and_what_it_adds_to_is_not() {
    let objects = store();
    let commit_after = |between: &dyn Fn()| {
        let mut txn = begin(&objects);
        add(&objects, &mut txn, put(&objects, "one", "key", "mine"));
        txn.add(space(&objects, "one"), "c", 1);
        // A verb that follows makes the transaction work out what it wrote: the counter stays unread.
        add(&objects, &mut txn, put(&objects, "one", "other", "mine"));
        between();
        commit(&objects, txn).map_err(|error| error.refusal())
    };
    let put_now = |bucket: &str, key: &str| {
        objects.put(bucket, key, PutOptions::default()).unwrap().finish(&Expected::none()).wait().unwrap();
    };
    assert!(commit_after(&|| ()).is_ok());
    assert!(commit_after(&|| put_now("one", "beside")).is_ok());
    let batch = || Batch::new().then(Operation::AddCounter { at: Place::new(space(&objects, "one"), "c"), delta: 5 });
    let add_five = || {
        objects.kv().commit(batch(), Durability::Memory).unwrap();
    };
    assert!(commit_after(&add_five).is_ok());
    let sum = objects.kv().view().unwrap().bytes(space(&objects, "one"), b"c", 0, 8).unwrap();
    assert_eq!(sum.as_ref(), 8i64.to_le_bytes());
    for key in ["key", "other"] {
        assert!(matches!(commit_after(&|| put_now("one", key)), Err(Some(Refusal::Condition(_)))), "{key}");
    }
}

#[test]
fn a_bucket_that_is_another_one_by_now_is_a_condition_too() {
    let objects = store();
    let mut txn = begin(&objects);
    add(&objects, &mut txn, put(&objects, "two", "key", "mine"));
    objects.delete_bucket_with("two", false).wait().unwrap();
    objects.create_bucket("two").wait().unwrap();
    assert!(matches!(commit(&objects, txn).unwrap_err().refusal(), Some(Refusal::Condition(_))));
    assert_eq!(body(&objects, "two", "key"), None);
}
