//! What buckets hold, counted: the counts are those of a scan, and nobody waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use koine_env::{Random, SeededRandom};
use koine_kv::{Batch, Durability, Kv, Ticket, pass_on};
use koine_object::{
    BucketChange, BucketUsage, CompleteOptions, CompletedPart, CopyOptions, DeleteOptions, EditOptions, EditWriter,
    ErrorKind, ExchangeOptions, Expected, ListQuery, ObjectName, Objects, PartOptions, PutOptions, Quota,
    ReadCondition, RenameOptions, Result, UploadId, UploadOptions, UploadQuery,
};

use crate::backend::ROUNDS;
use crate::support::{bytes, kv_of, over, put, store};

/// What a walk over everything finds.
fn scan(objects: &Objects, bucket: &str) -> BucketUsage {
    let listed = objects.list(bucket, &ListQuery { limit: usize::MAX, ..ListQuery::default() }).unwrap().objects;
    let query = UploadQuery { limit: usize::MAX, ..UploadQuery::default() };
    let parts = |upload: koine_object::UploadInfo| {
        objects.list_parts(ObjectName::new(bucket, &upload.key), upload.id, 0, usize::MAX).unwrap().parts
    };
    let parts = objects.list_uploads(bucket, &query).unwrap().uploads.into_iter().flat_map(parts);
    BucketUsage {
        objects: listed.len() as u64,
        bytes: listed.iter().map(|object| object.size).sum(),
        upload_bytes: parts.map(|part| part.size).sum(),
        ..BucketUsage::default()
    }
}

pub fn check(objects: &Objects, bucket: &str) -> BucketUsage {
    let usage = objects.bucket_usage(bucket).unwrap();
    assert_eq!(usage, scan(objects, bucket), "{bucket}");
    usage
}

fn put_in(objects: &Objects, bucket: &str, key: &str, length: usize) -> Result<()> {
    let mut writer = objects.put(bucket, key, PutOptions::default())?;
    writer.write(&bytes(length, length as u64))?;
    writer.finish(&Expected::none()).wait().map(drop)
}

fn put_part(objects: &Objects, name: ObjectName<'_>, upload: UploadId, number: u32, length: usize) -> Result<()> {
    let mut writer = objects.put_part(name, upload, number, PartOptions::default())?;
    writer.write(&bytes(length, length as u64))?;
    writer.finish(&Expected::none()).wait().map(drop)
}

/// Joins the first part alone; the others go.
fn complete(objects: &Objects, name: ObjectName<'_>, upload: UploadId) -> Result<()> {
    let part = objects.list_parts(name, upload, 0, 1)?.parts.into_iter().next();
    let named =
        part.map(|part| CompletedPart { number: part.number, etag: part.etag.to_string(), checksums: Vec::new() });
    let options = CompleteOptions { parts: named.into_iter().collect(), ..CompleteOptions::default() };
    objects.complete_upload(name, upload, options).wait().map(drop)
}

#[test]
fn every_call_changes_the_counts_by_what_it_does() {
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    let name = |key| ObjectName::new("bucket", key);
    let expect = |objects_count: u64, bytes: u64, upload_bytes: u64| {
        let usage = BucketUsage { objects: objects_count, bytes, upload_bytes, ..BucketUsage::default() };
        assert_eq!(check(&objects, "bucket"), usage);
    };
    expect(0, 0, 0);
    put(&objects, "a", &[0; 100]);
    expect(1, 100, 0);
    put(&objects, "a", &[0; 30]);
    expect(1, 30, 0);
    put(&objects, "empty", b"");
    objects.copy(name("a"), name("b"), CopyOptions::default()).wait().unwrap();
    expect(3, 60, 0);
    objects.rename(name("b"), name("c"), RenameOptions::default()).wait().unwrap();
    expect(3, 60, 0);
    objects.rename(name("c"), ObjectName::new("other", "c"), RenameOptions::default()).wait().unwrap();
    expect(2, 30, 0);
    put_in(&objects, "other", "d", 7).unwrap();
    objects.exchange(name("a"), ObjectName::new("other", "d"), ExchangeOptions::default()).wait().unwrap();
    expect(2, 7, 0);
    assert_eq!(check(&objects, "other").bytes, 60);
    let upload = objects.create_upload("bucket", "joined", UploadOptions::default()).wait().unwrap();
    put_part(&objects, name("joined"), upload, 1, 1_000).unwrap();
    put_part(&objects, name("joined"), upload, 2, 500).unwrap();
    put_part(&objects, name("joined"), upload, 2, 300).unwrap();
    expect(2, 7, 1_300);
    objects.snapshot_bucket("bucket", "s").wait().unwrap();
    objects.branch_bucket("bucket", "branch").wait().unwrap();
    complete(&objects, name("joined"), upload).unwrap();
    expect(3, 1_007, 0);
    objects.abort_upload(ObjectName::new("branch", "joined"), upload).wait().unwrap();
    assert_eq!(check(&objects, "branch").upload_bytes, 0);
    assert_eq!(check(&objects, "bucket@s").upload_bytes, 1_300);
    let keys = ["a", "empty", "absent", "a"].map(str::to_owned);
    objects.delete_many("bucket", &keys).wait().unwrap();
    expect(1, 1_000, 0);
    objects.delete("bucket", "joined", DeleteOptions::default()).wait().unwrap();
    expect(0, 0, 0);
    put(&objects, "a", b"1");
    objects.restore_bucket("bucket", "s").wait().unwrap();
    expect(2, 7, 1_300);
    objects.purge_bucket("bucket").wait().unwrap();
    expect(0, 0, 0);
}

fn edited(mut writer: EditWriter) -> Result<()> {
    writer.write(&[7; 777])?;
    writer.finish(&Expected::none()).wait().map(drop)
}

/// One random call; what is refused changes nothing.
pub fn step(objects: &Objects, random: &SeededRandom) -> Result<()> {
    let below = |count: u64| random.next_u64() % count;
    let bucket = ["bucket", "other"][below(2) as usize];
    let (one, two) = (format!("key-{}", below(12)), format!("key-{}", below(12)));
    let (name, to) = (ObjectName::new(bucket, &one), ObjectName::new(["bucket", "other"][below(2) as usize], &two));
    let length = [0, 1, 3_000, 70_000][below(4) as usize];
    let upload = || {
        let uploads = objects.list_uploads(bucket, &UploadQuery { limit: 8, ..UploadQuery::default() })?.uploads;
        Ok::<_, koine_object::Error>(uploads.into_iter().nth(below(8) as usize))
    };
    match below(13) {
        0..3 => put_in(objects, bucket, &one, length),
        3 => objects.delete(bucket, &one, DeleteOptions::default()).wait().map(drop),
        4 => objects.delete_many(bucket, &[one, two]).wait().map(drop),
        5 => objects.copy(name, to, CopyOptions::default()).wait().map(drop),
        6 => objects.rename(name, to, RenameOptions::default()).wait().map(drop),
        7 => objects.exchange(name, to, ExchangeOptions::default()).wait().map(drop),
        10 => edited(objects.append(name, EditOptions::default())?),
        11 => edited(objects.write_at(name, below(5_000), EditOptions::default())?),
        12 => objects.truncate(name, below(90_000), EditOptions::default()).wait().map(drop),
        8 => {
            let id = objects.create_upload(bucket, &one, UploadOptions::default()).wait()?;
            put_part(objects, name, id, 1, length)?;
            objects.copy_part(to, None, &ReadCondition::default(), name, id, 2).wait().map(drop)
        }
        _ => {
            let Some(upload) = upload()? else { return Ok(()) };
            let name = ObjectName::new(bucket, &upload.key);
            match below(4) {
                0 => put_part(objects, name, upload.id, 1 + below(3) as u32, length),
                1 => complete(objects, name, upload.id),
                _ => objects.abort_upload(name, upload.id).wait(),
            }
        }
    }
}

#[test]
fn the_counts_are_those_of_a_scan_while_8_threads_do_anything() {
    let objects = store();
    objects.create_bucket("other").wait().unwrap();
    let left = AtomicUsize::new(8);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (objects, left) = (&objects, &left);
            scope.spawn(move || {
                let random = SeededRandom::new(100 + thread);
                for _ in 0..40 * ROUNDS {
                    if let Err(error) = step(objects, &random) {
                        let expected = [ErrorKind::NoSuchKey, ErrorKind::NoSuchUpload, ErrorKind::InvalidRequest]
                            .into_iter()
                            .chain([ErrorKind::InvalidArgument, ErrorKind::InvalidPart, ErrorKind::Conflict]);
                        assert!(expected.into_iter().any(|kind| kind == error.kind()), "{error:?}");
                    }
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        // A snapshot is one version, so its counts must be those of a scan at any moment.
        for round in 0.. {
            let name = format!("s{round}");
            objects.snapshot_bucket("bucket", &name).wait().unwrap();
            check(&objects, &format!("bucket@{name}"));
            objects.delete_snapshot("bucket", &name).wait().unwrap();
            if left.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
    });
    check(&objects, "bucket");
    check(&objects, "other");
}

/// Counts batches.
struct Counting {
    below: Arc<dyn Kv>,
    batches: Arc<AtomicUsize>,
}

impl Kv for Counting {
    fn submit(&self, batch: Batch, durability: Durability, wait: koine_kv::Wait) -> Ticket {
        if wait == koine_kv::Wait::Never {
            self.batches.fetch_add(1, Ordering::SeqCst);
        }
        self.below.submit(batch, durability, wait)
    }
    pass_on!(Kv, below: profile, view, lookup, stage, watch, usage, sync, close);
}

#[test]
fn counting_makes_no_two_writers_conflict() {
    const WRITERS: usize = 64;
    let batches = Arc::new(AtomicUsize::new(0));
    let objects = over(Arc::new(Counting { below: crate::backend::kv(), batches: Arc::clone(&batches) }));
    batches.store(0, Ordering::SeqCst);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let objects = &objects;
            scope.spawn(move || {
                for number in 0..ROUNDS {
                    put(objects, &format!("{writer}-{number}"), b"body");
                }
            });
        }
    });
    assert_eq!(batches.load(Ordering::SeqCst), WRITERS * ROUNDS, "an attempt was repeated");
    assert_eq!(check(&objects, "bucket").objects, (WRITERS * ROUNDS) as u64);
}

fn set_quota(objects: &Objects, bytes: Option<u64>, objects_most: Option<u64>) -> Quota {
    let change =
        BucketChange { quota_bytes: Some(bytes), quota_objects: Some(objects_most), ..BucketChange::default() };
    let told = objects.set_bucket("bucket", change).wait().unwrap();
    assert_eq!(objects.head_bucket("bucket").unwrap(), told);
    told.quota
}

#[test]
fn what_would_go_past_a_quota_changes_nothing_and_deleting_always_works() {
    let objects = store();
    let name = |key| ObjectName::new("bucket", key);
    put(&objects, "a", &[0; 600]);
    assert_eq!(set_quota(&objects, Some(1_000), Some(3)), Quota { bytes: Some(1_000), objects: Some(3) });
    let upload = objects.create_upload("bucket", "joined", UploadOptions::default()).wait().unwrap();
    put_part(&objects, name("joined"), upload, 1, 300).unwrap();
    let before = kv_of(&objects).view().unwrap().version();
    let copied = || objects.copy(name("a"), name("b"), CopyOptions::default()).wait().map(drop);
    let outcomes = [
        put_in(&objects, "bucket", "b", 101),
        put_in(&objects, "bucket", "a", 701),
        copied(),
        put_part(&objects, name("joined"), upload, 2, 101),
        put_part(&objects, name("joined"), upload, 1, 401),
        objects.truncate(name("a"), 701, EditOptions::default()).wait().map(drop),
        objects.append(name("a"), EditOptions::default()).and_then(edited),
    ];
    for (number, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::QuotaExceeded, "call {number}");
    }
    assert_eq!(kv_of(&objects).view().unwrap().version(), before);
    // Up to the quota all goes, and joining parts adds nothing.
    put_in(&objects, "bucket", "a", 700).unwrap();
    complete(&objects, name("joined"), upload).unwrap();
    assert_eq!(check(&objects, "bucket").bytes, 1_000);
    // The number of objects by itself.
    put_in(&objects, "bucket", "empty", 0).unwrap();
    assert_eq!(put_in(&objects, "bucket", "fourth", 0).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    objects.rename(name("empty"), name("moved"), RenameOptions::default()).wait().unwrap();
    // A quota below what is there lets it shrink, and be emptied.
    set_quota(&objects, Some(10), Some(1));
    put_in(&objects, "bucket", "a", 650).unwrap();
    assert_eq!(put_in(&objects, "bucket", "a", 651).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    objects.delete("bucket", "a", DeleteOptions::default()).wait().unwrap();
    objects.delete_many("bucket", &["joined".to_owned(), "moved".to_owned()]).wait().unwrap();
    put_in(&objects, "bucket", "a", 10).unwrap();
    // It belongs to the bucket: a purge keeps it, a branch has none, and it can be taken away.
    objects.purge_bucket("bucket").wait().unwrap();
    assert_eq!(put_in(&objects, "bucket", "a", 11).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    objects.branch_bucket("bucket", "branch").wait().unwrap();
    put_in(&objects, "branch", "a", 11).unwrap();
    assert_eq!(set_quota(&objects, None, None), Quota::default());
    put_in(&objects, "bucket", "a", 11).unwrap();
}

#[test]
fn writers_go_past_a_quota_by_what_is_under_way_at_most() {
    const WRITERS: usize = 8;
    let objects = store();
    let (most, length) = (200_000u64, 20_000usize);
    set_quota(&objects, Some(most), None);
    let put_until_refused = |writer: usize| {
        for number in 0.. {
            if let Err(error) = put_in(&objects, "bucket", &format!("{writer}-{number}"), length) {
                assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
                break;
            }
        }
    };
    put_until_refused(0);
    assert_eq!(check(&objects, "bucket").bytes, most);
    objects.purge_bucket("bucket").wait().unwrap();
    thread::scope(|scope| {
        let put_until_refused = &put_until_refused;
        (0..WRITERS).for_each(|writer| drop(scope.spawn(move || put_until_refused(writer))));
    });
    let bytes = check(&objects, "bucket").bytes;
    assert!((most..=most + (WRITERS as u64 - 1) * length as u64).contains(&bytes), "{bytes}");
}
