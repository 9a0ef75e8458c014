//! When objects were last read: apart from their records, and off the path of who reads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use koine_env::{SeededRandom, SimulatedClock, Timestamp};
use koine_kv::{Batch, Commit, Durability, Kv, pass_on};
use koine_object::{
    AccessTimes, AttributeChange, DeleteOptions, EditOptions, ErrorKind, ObjectName, Objects, RenameOptions,
};

use crate::support::{append, get, keep_access_times, keys_in_bucket, kind, over, over_at, put, store};

const START: u64 = 1_700_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

fn name(key: &str) -> ObjectName<'_> {
    ObjectName::new("bucket", key)
}

fn accessed(objects: &Objects, key: &str) -> Option<Timestamp> {
    objects.head("bucket", key).unwrap().accessed
}

/// What another process sees.
fn elsewhere(objects: &Objects, clock: &Arc<SimulatedClock>) -> Objects {
    Objects::open(Arc::clone(objects.kv().unwrap()), Arc::clone(clock) as _, Arc::new(SeededRandom::new(8))).unwrap()
}

#[test]
fn a_time_is_told_at_once_written_by_itself_and_renewed_when_it_is_old() {
    let clock = Arc::new(SimulatedClock::new(Timestamp(START)));
    let objects = over_at(crate::backend::kv(), Arc::clone(&clock));
    keep_access_times(&objects, AccessTimes::Relative);
    let other = elsewhere(&objects, &clock);
    let before = put(&objects, "key", b"body");
    assert_eq!(accessed(&objects, "key"), None);
    clock.advance(Duration::from_secs(1));
    get(&objects, "key").unwrap();
    let first = Some(Timestamp(START + SECOND));
    assert_eq!((accessed(&objects, "key"), accessed(&other, "key")), (first, None));
    objects.write_access_times().unwrap();
    assert_eq!((accessed(&objects, "key"), accessed(&other, "key")), (first, first));
    // Looking at what is known of it is no read, and no read changed the record.
    let after = objects.head("bucket", "key").unwrap();
    assert_eq!((after.version, after.changed), (before.version, before.changed));
    // It is good for a day, unless the object is changed.
    let version = || objects.kv().unwrap().view().unwrap().version();
    clock.advance(Duration::from_secs(3_600));
    let unread = version();
    get(&objects, "key").unwrap();
    get(&other, "key").unwrap();
    objects.write_access_times().unwrap();
    other.write_access_times().unwrap();
    assert_eq!((accessed(&objects, "key"), version()), (first, unread));
    append(&objects, "key", b"more");
    assert_eq!(accessed(&objects, "key"), first);
    clock.advance(Duration::from_secs(1));
    get(&objects, "key").unwrap();
    assert_eq!(accessed(&objects, "key"), Some(Timestamp(START + 3_602 * SECOND)));
    clock.advance(Duration::from_secs(24 * 3_600));
    get(&other, "key").unwrap();
    other.write_access_times().unwrap();
    assert_eq!(accessed(&elsewhere(&objects, &clock), "key"), Some(Timestamp(START + (25 * 3_600 + 2) * SECOND)));
}

/// Counts what is written with less than power loss in mind.
struct Watching {
    below: Arc<dyn Kv>,
    seen: Arc<Mutex<Vec<(usize, Durability)>>>,
}

impl Kv for Watching {
    fn commit(&self, batch: Batch, durability: Durability) -> koine_kv::Result<Commit> {
        self.seen.lock().unwrap().push((batch.operations.len(), durability));
        self.below.commit(batch, durability)
    }
    pass_on!(Kv, below: profile, view, get, glance, stage, submit, watch, usage, sync, close);
}

#[test]
fn many_reads_are_a_few_commits_that_flush_nothing() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let objects = over(Arc::new(Watching { below: crate::backend::kv(), seen: Arc::clone(&seen) }));
    keep_access_times(&objects, AccessTimes::Relative);
    let put_one = |number: usize| put(&objects, &format!("key-{number}"), b"body").version;
    let versions: Vec<_> = (0..1_000).map(put_one).collect();
    seen.lock().unwrap().clear();
    let reads = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (objects, reads) = (&objects, &reads);
            scope.spawn(move || {
                for number in 0..25_000 {
                    let key = format!("key-{}", (number + thread * 250) % 1_000);
                    // Reads that do not wait are noted as others are, and what was noted is written all the same.
                    let at_once = || objects.at_once(|objects| objects.get("bucket", &key)).unwrap();
                    if number % 2 == 0 || at_once().is_none() {
                        objects.get("bucket", &key).unwrap();
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    objects.write_access_times().unwrap();
    assert_eq!(reads.load(Ordering::Relaxed), 100_000);
    let seen = seen.lock().unwrap().clone();
    assert!(seen.iter().all(|(_, durability)| *durability == Durability::Memory), "{seen:?}");
    assert_eq!(seen.iter().map(|(operations, _)| operations).sum::<usize>(), 1_000);
    assert!(seen.len() <= 8, "{seen:?}");
    for (number, version) in versions.into_iter().enumerate() {
        let info = objects.head("bucket", &format!("key-{number}")).unwrap();
        assert_eq!((info.version, info.accessed), (version, Some(Timestamp(START))));
    }
}

#[test]
fn a_time_goes_with_its_object_and_a_branch_has_a_copy() {
    let objects = store();
    keep_access_times(&objects, AccessTimes::Relative);
    objects.create_bucket("other").wait().unwrap();
    let read = |key: &str| {
        put(&objects, key, b"body");
        get(&objects, key).unwrap();
        objects.write_access_times().unwrap();
    };
    let set = |name: ObjectName<'_>, time: u64| {
        let change = AttributeChange { accessed: Some(Timestamp(time)), ..AttributeChange::default() };
        objects.set_attributes(name, change, EditOptions::default()).wait()
    };
    read("a");
    assert_eq!(keys_in_bucket(&objects), 3);
    put(&objects, "a", b"another");
    assert_eq!((keys_in_bucket(&objects), accessed(&objects, "a")), (2, None));
    read("a");
    objects.rename(name("a"), name("b"), RenameOptions::default()).wait().unwrap();
    assert_eq!(accessed(&objects, "b"), Some(Timestamp(START)));
    objects.branch_bucket("bucket", "branch").wait().unwrap();
    objects.snapshot_bucket("bucket", "s").wait().unwrap();
    // Another time may be set, but none in the future.
    set(name("b"), 5).unwrap();
    assert_eq!(accessed(&objects, "b"), Some(Timestamp(5)));
    for bucket in ["branch", "bucket@s"] {
        objects.get(bucket, "b").unwrap();
        assert_eq!(objects.head(bucket, "b").unwrap().accessed, Some(Timestamp(START)));
    }
    set(name("b"), u64::MAX).unwrap();
    assert_eq!(accessed(&objects, "b"), Some(Timestamp(START)));
    objects.rename(name("b"), ObjectName::new("other", "b"), RenameOptions::default()).wait().unwrap();
    assert_eq!((keys_in_bucket(&objects), objects.head("other", "b").unwrap().accessed), (0, None));
    // What is gone when times are written has none, and the others have theirs.
    put(&objects, "gone", b"");
    put(&objects, "kept", b"");
    ["gone", "kept"].iter().for_each(|key| drop(objects.get("bucket", key).unwrap()));
    objects.delete("bucket", "gone", DeleteOptions::default()).wait().unwrap();
    objects.write_access_times().unwrap();
    assert_eq!((keys_in_bucket(&objects), accessed(&objects, "kept")), (3, Some(Timestamp(START))));
    objects.delete("bucket", "kept", DeleteOptions::default()).wait().unwrap();
    assert_eq!(keys_in_bucket(&objects), 0);
}

#[test]
fn a_bucket_that_keeps_no_times_has_none() {
    let objects = store();
    assert_eq!(objects.create_bucket("other").wait().unwrap().access_times, AccessTimes::Relative);
    put(&objects, "key", b"body");
    get(&objects, "key").unwrap();
    objects.write_access_times().unwrap();
    assert_eq!((accessed(&objects, "key"), keys_in_bucket(&objects)), (None, 2));
    let change = AttributeChange { accessed: Some(Timestamp(5)), ..AttributeChange::default() };
    assert_eq!(
        kind(objects.set_attributes(name("key"), change, EditOptions::default()).wait()),
        ErrorKind::InvalidRequest
    );
    keep_access_times(&objects, AccessTimes::Relative);
    assert_eq!(accessed(&objects, "key"), None);
    get(&objects, "key").unwrap();
    assert_eq!(accessed(&objects, "key"), Some(Timestamp(START)));
}
