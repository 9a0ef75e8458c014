//! Snapshots and branches of buckets, and buckets that are emptied or put back as wholes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use koine_kv::{Batch, Durability, Kv, Ticket, pass_on};
use koine_object::{
    BucketChange, ByteRange, CompleteOptions, CompletedPart, CopyOptions, DeleteOptions, ErrorKind, Expected,
    ListQuery, ObjectInfo, ObjectName, Objects, PartInfo, PartOptions, PutOptions, ReadCondition, Result, UploadId,
    UploadOptions, UploadQuery,
};

use crate::backend::ROUNDS;
use crate::support::{bytes, get, here, keys_in_bucket, kind, kv_of, names, put, store};

fn put_in(objects: &Objects, bucket: &str, key: &str, body: &[u8]) -> Result<ObjectInfo> {
    let mut writer = objects.put(bucket, key, PutOptions::default())?;
    writer.write(body)?;
    writer.finish(&Expected::none()).wait()
}

fn get_from(objects: &Objects, bucket: &str, key: &str) -> Result<Vec<u8>> {
    let reader = objects.get(bucket, key)?;
    Ok(reader.bytes(0, usize::MAX)?.to_vec())
}

fn names_in(objects: &Objects, bucket: &str) -> BTreeSet<String> {
    let query = ListQuery { limit: usize::MAX, ..ListQuery::default() };
    objects.list(bucket, &query).unwrap().objects.into_iter().map(|object| object.key).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn begin_upload(objects: &Objects, key: &str, body: &[u8]) -> (UploadId, PartInfo) {
    let id = objects.create_upload("bucket", key, UploadOptions::default()).wait().unwrap();
    let mut writer = objects.put_part(ObjectName::new("bucket", key), id, 1, PartOptions::default()).unwrap();
    writer.write(body).unwrap();
    (id, writer.finish(&Expected::none()).wait().unwrap())
}

fn complete(objects: &Objects, bucket: &str, key: &str, upload: &(UploadId, PartInfo)) -> Result<ObjectInfo> {
    let part = CompletedPart { number: 1, etag: upload.1.etag.to_string(), checksums: Vec::new() };
    let options = CompleteOptions { parts: vec![part], ..CompleteOptions::default() };
    objects.complete_upload(ObjectName::new(bucket, key), upload.0, options).wait()
}

#[test]
fn a_snapshot_is_read_as_it_was() {
    let objects = store();
    let (a, long) = (put(&objects, "a", b"first"), bytes(300_000, 1));
    put(&objects, "b", &long);
    let upload = begin_upload(&objects, "c", b"part");
    let taken = objects.snapshot_bucket("bucket", "Monday").wait().unwrap();
    put(&objects, "a", b"second");
    objects.delete("bucket", "b", DeleteOptions::default()).wait().unwrap();
    put(&objects, "d", b"new");
    complete(&objects, "bucket", "c", &upload).unwrap();

    assert_eq!(names_in(&objects, "bucket"), set(&["a", "c", "d"]));
    assert_eq!(names_in(&objects, "bucket@Monday"), set(&["a", "b"]));
    assert_eq!(get_from(&objects, "bucket@Monday", "a").unwrap(), b"first");
    assert_eq!(get_from(&objects, "bucket@Monday", "b").unwrap(), long);
    assert_eq!(objects.head("bucket@Monday", "a").unwrap(), a);
    assert_eq!(kind(objects.head("bucket@Monday", "d")), ErrorKind::NoSuchKey);
    let uploads = objects.list_uploads("bucket@Monday", &UploadQuery { limit: 9, ..UploadQuery::default() }).unwrap();
    assert_eq!(uploads.uploads.len(), 1);
    let parts = objects.list_parts(ObjectName::new("bucket@Monday", "c"), upload.0, 0, 9).unwrap();
    assert_eq!(parts.parts, [upload.1]);
    // It is known, by name and as a bucket that can be read.
    let head = objects.head_bucket("bucket@Monday").unwrap();
    assert_eq!((head.name.as_str(), head.space, head.created), ("bucket@Monday", taken.space, taken.created));
    assert_eq!(objects.list_snapshots("bucket").unwrap(), [taken]);
    assert_eq!(kind(objects.snapshot_bucket("bucket", "Monday").wait()), ErrorKind::AlreadyExists);
    assert_eq!(kind(objects.snapshot_bucket("bucket", "Mon/day").wait()), ErrorKind::InvalidBucketName);
    assert_eq!(kind(objects.head("bucket@Tuesday", "a")), ErrorKind::NoSuchSnapshot);
    assert_eq!(kind(objects.head("absent@Monday", "a")), ErrorKind::NoSuchBucket);
    // Removed, it is gone for new readers, not for those that have it open.
    let reader = objects.get("bucket@Monday", "b").unwrap();
    objects.delete_snapshot("bucket", "Monday").wait().unwrap();
    assert_eq!(kind(objects.delete_snapshot("bucket", "Monday").wait()), ErrorKind::NoSuchSnapshot);
    assert_eq!(kind(objects.get("bucket@Monday", "b")), ErrorKind::NoSuchSnapshot);
    assert_eq!(reader.bytes(0, long.len()).unwrap(), long);
    assert_eq!(get(&objects, "a").unwrap(), b"second");
}

#[test]
fn every_change_of_a_snapshot_is_refused() {
    let objects = store();
    put(&objects, "a", b"first");
    let upload = begin_upload(&objects, "c", b"part");
    objects.snapshot_bucket("bucket", "s").wait().unwrap();
    let (of, name) = ("bucket@s", ObjectName::new("bucket@s", "a"));
    let live = ObjectName::new("bucket", "copied");
    let before = keys_in_bucket(&objects);
    let outcomes = [
        objects.put(of, "a", PutOptions::default()).map(drop),
        objects.copy(ObjectName::new("bucket", "a"), name, CopyOptions::default()).wait().map(drop),
        objects.delete(of, "a", DeleteOptions::default()).wait().map(drop),
        objects.delete_many(of, &["a".to_owned()]).wait().map(drop),
        objects.create_upload(of, "a", UploadOptions::default()).wait().map(drop),
        objects.put_part(ObjectName::new(of, "c"), upload.0, 1, PartOptions::default()).map(drop),
        complete(&objects, of, "c", &upload).map(drop),
        objects.abort_upload(ObjectName::new(of, "c"), upload.0).wait(),
        objects.delete_bucket(of).wait(),
        objects.purge_bucket(of).wait(),
        objects.set_bucket(of, BucketChange::default()).wait().map(drop),
        objects.restore_bucket(of, "s").wait(),
        objects.snapshot_bucket(of, "t").wait().map(drop),
        objects.delete_snapshot(of, "s").wait(),
    ];
    for (number, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(kind(outcome), ErrorKind::ReadOnly, "call {number}");
    }
    assert_eq!(keys_in_bucket(&objects), before);
    assert_eq!(names_in(&objects, of), set(&["a"]));
    // What is in it can be a source.
    objects.copy(name, live, CopyOptions::default()).wait().unwrap();
    assert_eq!(get(&objects, "copied").unwrap(), b"first");
}

#[test]
fn a_branch_and_its_source_go_apart() {
    let objects = store();
    let kept: Vec<_> = (0..40).map(|number| put(&objects, &format!("key-{number}"), &bytes(9_000, number))).collect();
    let upload = begin_upload(&objects, "joined", b"part");
    objects.snapshot_bucket("bucket", "s").wait().unwrap();
    let branch = objects.branch_bucket("bucket", "branch").wait().unwrap();
    assert_eq!(objects.head_bucket("branch").unwrap(), branch);
    assert_ne!(branch.space, objects.head_bucket("bucket").unwrap().space);
    assert_eq!(kind(objects.branch_bucket("bucket", "branch").wait()), ErrorKind::BucketAlreadyOwnedByYou);
    assert_eq!(kind(objects.branch_bucket("bucket@t", "other").wait()), ErrorKind::NoSuchSnapshot);
    assert_eq!(kind(objects.branch_bucket("bucket", "Other").wait()), ErrorKind::InvalidBucketName);
    // Ids, versions and ETags are those of the source.
    for info in &kept {
        assert_eq!(objects.head("branch", &info.key).unwrap(), *info);
    }
    for number in 0..40 {
        put(&objects, &format!("key-{number}"), b"of the source");
        put_in(&objects, "branch", &format!("key-{}", 39 - number), b"of the branch").unwrap();
    }
    for info in &kept {
        assert_eq!(get(&objects, &info.key).unwrap(), b"of the source");
        assert_eq!(get_from(&objects, "branch", &info.key).unwrap(), b"of the branch");
    }
    // An upload under way became two.
    complete(&objects, "branch", "joined", &upload).unwrap();
    assert_eq!(kind(objects.head("bucket", "joined")), ErrorKind::NoSuchKey);
    complete(&objects, "bucket", "joined", &upload).unwrap();
    assert_eq!(get_from(&objects, "branch", "joined").unwrap(), get(&objects, "joined").unwrap());
    // A branch of a snapshot has what that has.
    objects.branch_bucket("bucket@s", "old").wait().unwrap();
    for (number, info) in kept.iter().enumerate() {
        assert_eq!(get_from(&objects, "old", &info.key).unwrap(), bytes(9_000, number as u64));
    }
    assert!(objects.list_snapshots("old").unwrap().is_empty());
}

#[test]
fn a_bucket_with_snapshots_is_removed_when_asked_to_with_them() {
    let objects = store();
    put(&objects, "a", b"kept");
    for name in ["s", "t"] {
        objects.snapshot_bucket("bucket", name).wait().unwrap();
    }
    objects.branch_bucket("bucket", "branch").wait().unwrap();
    assert_eq!(kind(objects.delete_bucket_and_snapshots("bucket").wait()), ErrorKind::BucketNotEmpty);
    objects.delete("bucket", "a", DeleteOptions::default()).wait().unwrap();
    assert_eq!(kind(objects.delete_bucket("bucket").wait()), ErrorKind::BucketNotEmpty);
    assert_eq!(get_from(&objects, "bucket@s", "a").unwrap(), b"kept");
    objects.delete_bucket_and_snapshots("bucket").wait().unwrap();
    assert_eq!(kind(objects.head_bucket("bucket@s")), ErrorKind::NoSuchBucket);
    assert_eq!(get_from(&objects, "branch", "a").unwrap(), b"kept");
    // Of the three spaces none is left but the catalogue's and the branch's, and a new bucket has no old snapshots.
    let spaces = kv_of(&objects).view().unwrap().spaces(koine_kv::SpaceId(16), 9).unwrap();
    assert_eq!(spaces.len(), 2);
    objects.create_bucket("bucket").wait().unwrap();
    assert!(objects.list_snapshots("bucket").unwrap().is_empty());
}

#[test]
fn purging_and_restoring_replace_the_whole_content() {
    let objects = store();
    let upload = begin_upload(&objects, "joined", b"part");
    let first = put(&objects, "a", b"first");
    objects.snapshot_bucket("bucket", "s").wait().unwrap();
    put(&objects, "b", b"other");
    let reader = objects.get("bucket", "b").unwrap();
    objects.purge_bucket("bucket").wait().unwrap();
    assert!(names(&objects).is_empty());
    assert_eq!(keys_in_bucket(&objects), 0);
    assert_eq!(kind(complete(&objects, "bucket", "joined", &upload)), ErrorKind::NoSuchUpload);
    assert_eq!(reader.bytes(0, 9).unwrap(), &b"other"[..]);
    // The snapshot is still the bucket's.
    assert_eq!(objects.list_snapshots("bucket").unwrap().len(), 1);
    put(&objects, "c", b"new");
    assert_eq!(kind(objects.restore_bucket("bucket", "t").wait()), ErrorKind::NoSuchSnapshot);
    for _ in 0..2 {
        objects.restore_bucket("bucket", "s").wait().unwrap();
        assert_eq!(names_in(&objects, "bucket"), set(&["a"]));
        assert_eq!(objects.head("bucket", "a").unwrap(), first);
        put(&objects, "a", b"changed");
        assert_eq!(get_from(&objects, "bucket@s", "a").unwrap(), b"first");
    }
    objects.restore_bucket("bucket", "s").wait().unwrap();
    complete(&objects, "bucket", "joined", &upload).unwrap();
    assert_eq!(get(&objects, "joined").unwrap(), b"part");
    // What was written to before is another space's by now; the bucket goes as any does.
    objects.purge_bucket("bucket").wait().unwrap();
    objects.delete_bucket_and_snapshots("bucket").wait().unwrap();
    assert_eq!(kv_of(&objects).view().unwrap().spaces(koine_kv::SpaceId(16), 9).unwrap().len(), 1);
}

#[test]
fn a_part_is_copied_from_a_source_that_was_put_back_meanwhile() {
    let objects = store();
    objects.create_bucket("source").wait().unwrap();
    let body = bytes(500_000, 3);
    put_in(&objects, "source", "a", &body).unwrap();
    objects.snapshot_bucket("source", "s").wait().unwrap();
    let upload = objects.create_upload("bucket", "joined", UploadOptions::default()).wait().unwrap();
    let (from, to) = (ObjectName::new("source", "a"), ObjectName::new("bucket", "joined"));
    let range = Some(ByteRange { offset: 7, length: 400_000 });
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                objects.restore_bucket("source", "s").wait().unwrap();
            }
        });
        for number in 1..20 {
            let condition = ReadCondition::default();
            objects.copy_part(from, range, &condition, to, upload, number).wait().unwrap();
        }
        stop.store(true, Ordering::SeqCst);
    });
}

/// Counts the operations and conditions of batches.
struct Counting {
    below: Arc<dyn Kv>,
    steps: Arc<AtomicUsize>,
}

impl Kv for Counting {
    fn submit(&self, batch: Batch, durability: Durability, wait: koine_kv::Wait) -> Ticket {
        if wait == koine_kv::Wait::Never {
            self.steps.fetch_add(batch.operations.len() + batch.conditions.len(), Ordering::SeqCst);
        }
        self.below.submit(batch, durability, wait)
    }
    pass_on!(Kv, below: profile, view, lookup, stage, watch, usage, sync, close);
}

#[test]
fn what_is_done_with_whole_buckets_is_one_batch_of_a_few_steps() {
    let steps = Arc::new(AtomicUsize::new(0));
    let objects = here(Arc::new(Counting { below: crate::backend::kv(), steps: Arc::clone(&steps) }));
    let mut costs = Vec::new();
    for count in [1, 10, 500] {
        for number in 0..count {
            put(&objects, &format!("key-{number}"), b"body");
        }
        let (snapshot, branch) = (format!("s{count}"), format!("branch-{count}"));
        steps.store(0, Ordering::SeqCst);
        objects.snapshot_bucket("bucket", &snapshot).wait().unwrap();
        objects.branch_bucket("bucket", &branch).wait().unwrap();
        objects.purge_bucket("bucket").wait().unwrap();
        objects.restore_bucket("bucket", &snapshot).wait().unwrap();
        objects.delete_snapshot("bucket", &snapshot).wait().unwrap();
        costs.push(steps.load(Ordering::SeqCst));
        for number in (0..count).step_by(7) {
            put_in(&objects, &branch, &format!("key-{number}"), b"changed").unwrap();
            assert_eq!(get(&objects, &format!("key-{number}")).unwrap(), b"body");
        }
        assert_eq!(names_in(&objects, &branch).len(), count);
    }
    assert!(costs.iter().all(|cost| *cost == costs[0] && *cost <= 5 * 5), "{costs:?}");
}

#[test]
fn branches_and_snapshots_are_one_commit_while_others_write() {
    const WRITERS: usize = 8;
    let objects = store();
    let pair = |writer: usize, number: usize| [format!("{writer}-{number}-left"), format!("{writer}-{number}-right")];
    let pairs = 12 * ROUNDS;
    for writer in 0..WRITERS {
        for number in 0..pairs {
            pair(writer, number).iter().for_each(|key| drop(put(&objects, key, b"one of two")));
        }
    }
    // Each removes its pairs, each pair in one commit, and puts a marker before the next.
    let acknowledged: Mutex<BTreeSet<String>> = Mutex::default();
    let left = AtomicUsize::new(WRITERS);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (objects, pair, acknowledged, left) = (&objects, &pair, &acknowledged, &left);
            scope.spawn(move || {
                for number in 0..pairs {
                    let outcomes = objects.delete_many("bucket", &pair(writer, number)).wait().unwrap();
                    assert!(outcomes.into_iter().all(|outcome| outcome.unwrap().existed));
                    let marker = format!("marker-{writer}-{number}");
                    put(objects, &marker, b"");
                    acknowledged.lock().unwrap().insert(marker);
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for round in 0.. {
            let before = acknowledged.lock().unwrap().clone();
            let (branch, snapshot) = (format!("branch-{round}"), format!("s{round}"));
            objects.branch_bucket("bucket", &branch).wait().unwrap();
            objects.snapshot_bucket("bucket", &snapshot).wait().unwrap();
            for bucket in [branch, format!("bucket@{snapshot}")] {
                let names = names_in(&objects, &bucket);
                assert!(before.is_subset(&names), "what was acknowledged is missing");
                for (writer, number) in (0..WRITERS).flat_map(|writer| (0..pairs).map(move |number| (writer, number))) {
                    let there = pair(writer, number).map(|key| names.contains(&key));
                    assert_eq!(there[0], there[1], "half of a pair: {writer} {number}");
                    // A marker is put after its pair went.
                    assert!(!(there[0] && names.contains(&format!("marker-{writer}-{number}"))));
                }
            }
            if left.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
    });
}

#[test]
fn a_put_that_begins_after_a_purge_stays_and_one_that_ended_before_it_goes() {
    const WRITERS: usize = 8;
    let objects = store();
    let purged = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<(String, usize, usize)>> = Mutex::default();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (objects, purged, outcomes, stop) = (&objects, &purged, &outcomes, &stop);
            scope.spawn(move || {
                for number in 0.. {
                    let key = format!("{writer}-{number}");
                    let begun = purged.load(Ordering::SeqCst);
                    put(objects, &key, b"body");
                    let ended = purged.load(Ordering::SeqCst);
                    outcomes.lock().unwrap().push((key, begun, ended));
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        for _ in 0..ROUNDS.max(5) {
            thread::yield_now();
            // Odd while a purge is under way.
            purged.fetch_add(1, Ordering::SeqCst);
            objects.purge_bucket("bucket").wait().unwrap();
            purged.fetch_add(1, Ordering::SeqCst);
        }
        stop.store(true, Ordering::SeqCst);
    });
    let last = purged.load(Ordering::SeqCst);
    let names = names_in(&objects, "bucket");
    for (key, begun, ended) in outcomes.into_inner().unwrap() {
        if begun == last {
            assert!(names.contains(&key), "{key} was put after the last purge");
        } else if ended < last - 1 {
            assert!(!names.contains(&key), "{key} was put before the last purge");
        }
    }
    for key in &names {
        assert_eq!(get(&objects, key).unwrap(), b"body");
    }
}
