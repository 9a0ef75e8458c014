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
    let local = Local::open(Arc::new(MemoryKv::default()), Arc::new(clock), Arc::new(random)).unwrap();
    for bucket in ["one", "two"] {
        local.create_bucket(bucket).wait().unwrap();
    }
    local
}

fn put(local: &Local, bucket: &str, key: &str, body: &str) -> Put {
    let mut writer = local.put(bucket, key, PutOptions::default()).unwrap();
    writer.write(body.as_bytes()).unwrap();
    writer.into_verb(&Expected::none()).unwrap()
}

fn delete(bucket: &str, key: &str) -> Delete {
    Delete::new(ObjectName::new(bucket, key), DeleteOptions::default())
}

fn begin(local: &Local) -> Transaction {
    Transaction::begin(&**local.kv()).unwrap()
}

/// Adds a verb that changes something.
fn add<V: Verb>(local: &Local, txn: &mut Transaction, mut verb: V) {
    assert!(matches!(perform(local, txn, &mut verb).unwrap().0, Applied::Changed));
}

fn commit(local: &Local, txn: Transaction) -> koine_kv::Result<Commit> {
    local.kv().commit(txn.into_batch(), Durability::Memory)
}

fn space(local: &Local, bucket: &str) -> SpaceId {
    local.head_bucket(bucket).unwrap().space
}

fn keys_in(view: &dyn View, space: SpaceId) -> usize {
    let mut cursor = view.cursor(space, KeyRange::all(), Direction::Forward).unwrap();
    let keys = std::iter::from_fn(|| cursor.next().unwrap());
    keys.filter(|entry| !entry.key.starts_with(b"c")).count()
}

fn body(local: &Local, bucket: &str, key: &str) -> Option<String> {
    let reader = local.get(bucket, key).ok()?;
    let size = usize::try_from(reader.info().size).unwrap();
    Some(String::from_utf8(reader.bytes(0, size).unwrap().to_vec()).unwrap())
}

#[test]
fn verbs_of_one_transaction_see_each_other_and_are_one_commit() {
    let local = store();
    let copy = |from, to| local.prepare_copy(from, to, CopyOptions::default()).unwrap();
    let (a, b) = (ObjectName::new("one", "a"), ObjectName::new("one", "b"));
    let before = local.kv().view().unwrap().version();
    let mut txn = begin(&local);
    add(&local, &mut txn, put(&local, "one", "a", "first"));
    add(&local, &mut txn, copy(a, b));
    add(&local, &mut txn, put(&local, "one", "a", "second"));
    add(&local, &mut txn, copy(a, ObjectName::new("two", "c")));
    add(&local, &mut txn, delete("one", "a"));
    // It is gone for those that follow, and nobody else has seen it.
    let again = perform(&local, &mut txn, &mut delete("one", "a")).unwrap().0;
    assert!(matches!(again, Applied::Done(deleted) if !deleted.existed));
    assert!(local.list("one", &ListQuery { limit: 9, ..ListQuery::default() }).unwrap().objects.is_empty());
    let commit = commit(&local, txn).unwrap();
    assert_eq!(commit.version.0, before.0 + 1);
    assert_eq!(body(&local, "one", "a"), None);
    assert_eq!(body(&local, "one", "b").as_deref(), Some("first"));
    assert_eq!(body(&local, "two", "c").as_deref(), Some("second"));
    assert_eq!(local.head("one", "b").unwrap().version, commit.version);
    // Of what was put and replaced or deleted on the way nothing is left.
    let view = local.kv().view().unwrap();
    assert_eq!(["one", "two"].map(|bucket| keys_in(view.as_ref(), space(&local, bucket))), [2, 2]);
}

#[test]
fn what_a_verb_reads_is_a_condition_and_what_it_adds_to_is_not() {
    let local = store();
    let commit_after = |between: &dyn Fn()| {
        let mut txn = begin(&local);
        add(&local, &mut txn, put(&local, "one", "key", "mine"));
        txn.add(space(&local, "one"), "c", 1);
        // A verb that follows makes the transaction work out what it wrote: the counter stays unread.
        add(&local, &mut txn, put(&local, "one", "other", "mine"));
        between();
        commit(&local, txn).map_err(|error| error.refusal())
    };
    let put_now = |bucket: &str, key: &str| {
        local.put(bucket, key, PutOptions::default()).unwrap().finish(&Expected::none()).wait().unwrap();
    };
    assert!(commit_after(&|| ()).is_ok());
    assert!(commit_after(&|| put_now("one", "beside")).is_ok());
    let batch = || Batch::new().then(Operation::AddCounter { at: Place::new(space(&local, "one"), "c"), delta: 5 });
    let add_five = || {
        local.kv().commit(batch(), Durability::Memory).unwrap();
    };
    assert!(commit_after(&add_five).is_ok());
    let sum = local.kv().view().unwrap().bytes(space(&local, "one"), b"c", 0, 8).unwrap();
    assert_eq!(sum.as_ref(), 8i64.to_le_bytes());
    for key in ["key", "other"] {
        assert!(matches!(commit_after(&|| put_now("one", key)), Err(Some(Refusal::Condition(_)))), "{key}");
    }
}

#[test]
fn a_bucket_that_is_another_one_by_now_is_a_condition_too() {
    let local = store();
    let mut txn = begin(&local);
    add(&local, &mut txn, put(&local, "two", "key", "mine"));
    local.delete_bucket_with("two", false).wait().unwrap();
    local.create_bucket("two").wait().unwrap();
    assert!(matches!(commit(&local, txn).unwrap_err().refusal(), Some(Refusal::Condition(_))));
    assert_eq!(body(&local, "two", "key"), None);
}
