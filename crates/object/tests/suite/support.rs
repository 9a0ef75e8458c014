//! What the tests of this crate share: a store, and calls in one line.

use std::sync::{Arc, Barrier};
use std::thread;

pub use crate::backend::user_of;
use koine_env::{SeededRandom, SimulatedClock, Timestamp};
use koine_kv::Kv;
use koine_object::{
    AccessTimes, BucketChange, CompleteOptions, CompletedPart, EditOptions, EditWriter, ErrorKind, Expected, ListQuery,
    ObjectInfo, ObjectName, Objects, PartOptions, PutOptions, Result, UploadOptions,
};

/// An empty store of the back end with one bucket, `bucket`.
pub fn store() -> Objects {
    over(crate::backend::kv())
}

/// Objects over a store, with one bucket, `bucket`.
pub fn over(kv: Arc<dyn Kv>) -> Objects {
    over_at(kv, Arc::new(SimulatedClock::new(Timestamp(1_700_000_000_000_000_000))))
}

/// The same with a clock of the test's own. The bucket keeps no access times, so that what is known of an object is
/// the same before and after it was read.
pub fn over_at(kv: Arc<dyn Kv>, clock: Arc<SimulatedClock>) -> Objects {
    crate::backend::through(here_at(kv, clock))
}

/// Objects as their store's owner has them, whatever is tested beside it.
pub fn here(kv: Arc<dyn Kv>) -> Objects {
    here_at(kv, Arc::new(SimulatedClock::new(Timestamp(1_700_000_000_000_000_000))))
}

fn here_at(kv: Arc<dyn Kv>, clock: Arc<SimulatedClock>) -> Objects {
    let objects = Objects::open(kv, clock, Arc::new(SeededRandom::new(7))).unwrap();
    objects.create_bucket("bucket").wait().unwrap();
    keep_access_times(&objects, AccessTimes::Off);
    objects
}

/// Whether the bucket keeps when its objects were last read.
pub fn keep_access_times(objects: &Objects, access_times: AccessTimes) {
    let change = BucketChange { access_times: Some(access_times), ..BucketChange::default() };
    assert_eq!(objects.set_bucket("bucket", change).wait().unwrap().access_times, access_times);
}

/// Puts `body` as `key` in pieces of 100,000 bytes.
pub fn put_with(objects: &Objects, key: &str, body: &[u8], options: PutOptions) -> Result<ObjectInfo> {
    let mut writer = objects.put("bucket", key, options)?;
    for piece in body.chunks(100_000) {
        writer.write(piece)?;
    }
    writer.finish(&Expected::none()).wait()
}

/// Puts without options.
pub fn put(objects: &Objects, key: &str, body: &[u8]) -> ObjectInfo {
    put_with(objects, key, body, PutOptions::default()).unwrap()
}

/// The whole object.
pub fn get(objects: &Objects, key: &str) -> Result<Vec<u8>> {
    let reader = objects.get("bucket", key)?;
    let size = usize::try_from(reader.info().size).unwrap();
    Ok(reader.bytes(0, size)?.to_vec())
}

/// Every name of the bucket in order.
pub fn names(objects: &Objects) -> Vec<String> {
    let query = ListQuery { limit: usize::MAX, ..ListQuery::default() };
    let page = objects.list("bucket", &query).unwrap();
    page.objects.into_iter().map(|object| object.key).collect()
}

/// The kind of an error that must be one.
pub fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Bytes that do not repeat soon.
pub fn bytes(length: usize, seed: u64) -> Vec<u8> {
    use koine_env::Random;
    let mut bytes = vec![0; length];
    SeededRandom::new(seed).fill(&mut bytes);
    bytes
}

/// A put that keeps a checksum of this algorithm.
pub fn options(algorithm: koine_object::ChecksumAlgorithm) -> PutOptions {
    PutOptions { checksum: Some(algorithm), ..PutOptions::default() }
}

/// The keys and values below.
pub fn kv_of(objects: &Objects) -> Arc<dyn Kv> {
    Arc::clone(crate::backend::below(objects).kv().unwrap())
}

/// How many keys the bucket's space holds, but for its counters.
pub fn keys_in_bucket(objects: &Objects) -> usize {
    let space = objects.head_bucket("bucket").unwrap().space;
    let view = kv_of(objects).view().unwrap();
    let mut cursor = view.cursor(space, koine_kv::KeyRange::all(), koine_kv::Direction::Forward).unwrap();
    let mut count = 0;
    while let Some(entry) = cursor.next().unwrap() {
        count += usize::from(!entry.key.starts_with(b"c"));
    }
    count
}

/// Joins an object from parts.
pub fn join(objects: &Objects, key: &str, parts: &[&[u8]]) -> ObjectInfo {
    let name = ObjectName::new("bucket", key);
    let id = objects.create_upload("bucket", key, UploadOptions::default()).wait().unwrap();
    let put = |(number, body): (u32, &&[u8])| {
        let mut writer = objects.put_part(name, id, number, PartOptions::default()).unwrap();
        writer.write(body).unwrap();
        let part = writer.finish(&Expected::none()).wait().unwrap();
        CompletedPart { number, etag: part.etag.to_string(), checksums: Vec::new() }
    };
    let parts = (1..).zip(parts).map(put).collect();
    objects.complete_upload(name, id, CompleteOptions { parts, ..CompleteOptions::default() }).wait().unwrap()
}

/// Ends an edit that writes `body` in pieces of 100,000 bytes.
pub fn finish(writer: Result<EditWriter>, body: &[u8]) -> Result<ObjectInfo> {
    let mut writer = writer?;
    for piece in body.chunks(100_000) {
        writer.write(piece)?;
    }
    writer.finish(&Expected::none()).wait()
}

/// Appends to an object of the bucket.
pub fn append_with(objects: &Objects, key: &str, body: &[u8], options: EditOptions) -> Result<ObjectInfo> {
    finish(objects.append(ObjectName::new("bucket", key), options), body)
}

/// Appends without options.
pub fn append(objects: &Objects, key: &str, body: &[u8]) -> ObjectInfo {
    append_with(objects, key, body, EditOptions::default()).unwrap()
}

/// Writes into an object of the bucket at an offset.
pub fn write_at(objects: &Objects, key: &str, offset: u64, body: &[u8]) -> Result<ObjectInfo> {
    finish(objects.write_at(ObjectName::new("bucket", key), offset, EditOptions::default()), body)
}

/// How many threads race.
pub const RACERS: usize = 64;

/// Runs `racer` on many threads that start together.
pub fn race<T: Send>(racer: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(RACERS);
    thread::scope(|scope| {
        let start = |number| {
            let (barrier, racer) = (&barrier, &racer);
            scope.spawn(move || {
                barrier.wait();
                racer(number)
            })
        };
        let racers: Vec<_> = (0..RACERS).map(start).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    })
}

/// A group of the store with these users.
pub fn group_of(objects: &Objects, group: &str, users: &[&str]) {
    objects.identities().create_group(group, "").wait().unwrap();
    for user in users {
        objects.identities().create_user(group, user, None).unwrap();
    }
}

/// Puts without options into any bucket.
pub fn put_into(objects: &Objects, bucket: &str, key: &str, body: &[u8]) -> Result<ObjectInfo> {
    let mut writer = objects.put(bucket, key, PutOptions::default())?;
    writer.write(body)?;
    writer.finish(&Expected::none()).wait()
}
