//! What a bucket holds, counted: changed along with what it counts, in the same commit.
//!
//! Invariants:
//! - A count is the sum over its shards; a single shard means nothing, and may be below zero.
//! - Counting makes nothing a condition, so that two writers never conflict by it. Where a bucket has a quota the
//!   counts are looked at first.
//! - Names are counted in `name` alone, parts and uploads in `multipart` alone.

use koine_kv::{Direction, KeyRange, Operation, SpaceId, Transaction, View};

use crate::counter::{Count, Shard};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::UploadId;
use crate::info::{BucketUsage, Quota};
use crate::keys;
use crate::lookup::value_of;
use crate::record::{BucketRecord, ObjectRecord, OlderRecord};

/// By how much a change of a name changes the counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NameCounts {
    pub objects: i64,
    pub bytes: i64,
    pub older: i64,
    pub older_bytes: i64,
}

impl NameCounts {
    /// What stood under a name does not any more, and something else does.
    pub fn replace(&mut self, old: Option<&ObjectRecord>, new: Option<&ObjectRecord>) {
        self.objects += i64::from(new.is_some()) - i64::from(old.is_some());
        self.bytes += signed(new.map_or(0, |new| new.size)) - signed(old.map_or(0, |old| old.size));
    }

    /// An object is kept as an older version.
    pub fn keep(&mut self, size: u64) {
        self.older += 1;
        self.older_bytes += signed(size);
    }

    /// An older version or a marker is not kept any more.
    pub fn forget(&mut self, record: &OlderRecord) {
        self.older -= 1;
        if let OlderRecord::Object(record) = record {
            self.older_bytes -= signed(record.size);
        }
    }

    /// `QuotaExceeded` where the bucket may not hold so much more.
    pub fn check_quota(&self, txn: &Transaction, bucket: &BucketRecord) -> Result<()> {
        check_quota(txn, bucket, self.objects + self.older, self.bytes + self.older_bytes)
    }

    /// Adds them to the counts, all in one shard: what is put over something else of its length changes none.
    pub fn add(&self, txn: &mut Transaction, space: SpaceId, shard: Shard) {
        add(txn, space, Count::Objects, shard, self.objects);
        add(txn, space, Count::Bytes, shard, self.bytes);
        add(txn, space, Count::Older, shard, self.older);
        add(txn, space, Count::OlderBytes, shard, self.older_bytes);
    }
}

/// A part of an upload took the place of another, or of none.
pub(crate) fn part_changed(
    txn: &mut Transaction,
    bucket: &BucketRecord,
    upload: UploadId,
    old: u64,
    new: u64,
) -> Result<()> {
    let bytes = signed(new) - signed(old);
    check_quota(txn, bucket, 0, bytes)?;
    add(txn, bucket.space, Count::PartBytes, Shard::of_upload(upload), bytes);
    Ok(())
}

/// `QuotaExceeded` where so much more would go past a quota of the bucket. What is there is looked at, not held:
/// others may add to it until this is committed.
fn check_quota(txn: &Transaction, bucket: &BucketRecord, objects: i64, bytes: i64) -> Result<()> {
    let Quota { bytes: most_bytes, objects: most_objects } = bucket.quota;
    let (most_bytes, most_objects) = (most_bytes.filter(|_| bytes > 0), most_objects.filter(|_| objects > 0));
    if most_bytes.is_none() && most_objects.is_none() {
        return Ok(());
    }
    let [of_objects, count, of_older, older, of_parts] = sums_with(txn, bucket.space)?;
    refuse_past(most_bytes, [of_objects, of_older, of_parts, bytes], "bytes")?;
    refuse_past(most_objects, [count, older, 0, objects], "objects")
}

fn refuse_past(most: Option<u64>, counts: [i64; 4], what: &str) -> Result<()> {
    let sum = counts.into_iter().fold(0, i64::saturating_add);
    match most {
        Some(most) if u64::try_from(sum).is_ok_and(|sum| sum > most) => {
            let message = format!("the bucket may hold {most} {what}, and would have {sum}: delete some first");
            Err(Error::new(ErrorKind::QuotaExceeded, message))
        }
        _ => Ok(()),
    }
}

fn add(txn: &mut Transaction, space: SpaceId, count: Count, shard: Shard, delta: i64) {
    if delta != 0 {
        txn.add(space, keys::counter(count, shard), delta);
    }
}

/// Lengths are below 2^60.
fn signed(length: u64) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// What is told of a space's counts. One below zero is of a bucket from before there were counts.
/// What a bucket holds.
pub(crate) fn usage(view: &dyn View, space: SpaceId) -> Result<BucketUsage> {
    Ok(told(sums(view, space)?))
}

/// Sums as they are told.
pub(crate) fn told(sums: [i64; 5]) -> BucketUsage {
    let told = sums.map(|sum| u64::try_from(sum).unwrap_or(0));
    let [bytes, objects, older_bytes, older, upload_bytes] = told;
    BucketUsage { objects, bytes, older, older_bytes, upload_bytes }
}

/// The sums over all shards, in the order of the kinds.
pub(crate) fn sums(view: &dyn View, space: SpaceId) -> Result<[i64; 5]> {
    let mut sums = [0i64; 5];
    let mut cursor = view.cursor(space, KeyRange::prefix(keys::counters()), Direction::Forward)?;
    while let Some(entry) = cursor.next()? {
        let value = value_of(view, space, &entry.key, entry.value)?;
        match (slot(&mut sums, &entry.key), <[u8; 8]>::try_from(value.as_ref())) {
            (Some(sum), Ok(number)) => *sum = sum.saturating_add(i64::from_le_bytes(number)),
            _ => return Err(Error::damaged(format!("the key {} holds no count", hex::encode(&entry.key)))),
        }
    }
    Ok(sums)
}

/// The same with what a transaction adds to them.
fn sums_with(txn: &Transaction, space: SpaceId) -> Result<[i64; 5]> {
    let mut sums = sums(txn.view().as_ref(), space)?;
    for operation in txn.operations() {
        if let Operation::AddCounter { at, delta } = operation
            && at.space == space
            && let Some(sum) = slot(&mut sums, &at.key)
        {
            *sum = sum.saturating_add(*delta);
        }
    }
    Ok(sums)
}

/// The sum that a counter's key is a shard of.
pub(crate) fn slot<'a>(sums: &'a mut [i64; 5], key: &[u8]) -> Option<&'a mut i64> {
    match key.strip_prefix(keys::counters().as_ref()) {
        Some([kind, _]) => sums.get_mut(usize::from(*kind)),
        _ => None,
    }
}
