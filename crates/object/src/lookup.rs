//! Finding buckets and objects: in a view, or in a transaction.
//!
//! Invariants:
//! - What is found in a transaction is a condition of its batch; what is found in a view is not.
//! - A record that the transaction itself puts has version 0 until it is committed. No commit has that number.

use std::sync::Arc;

use bytes::Bytes;
use koine_kv::{SpaceId, Transaction, Version, View};

use crate::error::{Error, ErrorKind, Result};
use crate::ids::UploadId;
use crate::keys;
use crate::record::{BucketRecord, ObjectRecord, SnapshotRecord, UploadRecord};

/// A record is never longer than this; a longer one is damage.
const RECORD_LEN_MAX: u64 = 4 << 20;

/// What records are read from.
pub(crate) trait Lookup {
    /// The whole value of a key and its version; for records.
    fn record(&mut self, space: SpaceId, key: &[u8]) -> Result<Option<(Version, Bytes)>>;
}

impl Lookup for Arc<dyn View> {
    fn record(&mut self, space: SpaceId, key: &[u8]) -> Result<Option<(Version, Bytes)>> {
        read_value(self.as_ref(), space, key)
    }
}

impl Lookup for Transaction {
    fn record(&mut self, space: SpaceId, key: &[u8]) -> Result<Option<(Version, Bytes)>> {
        let Some(seen) = self.stat(space, key)? else {
            return Ok(None);
        };
        let bytes = self.bytes(space, key, 0, checked_len(key, seen.size)?)?;
        Ok(Some((seen.version.unwrap_or(Version(0)), bytes)))
    }
}

/// The whole value of a key and its version; for records.
pub(crate) fn read_value(view: &dyn View, space: SpaceId, key: &[u8]) -> Result<Option<(Version, Bytes)>> {
    let Some(stat) = view.stat(space, key)? else {
        return Ok(None);
    };
    Ok(Some((stat.version, view.bytes(space, key, 0, checked_len(key, stat.size)?)?)))
}

fn checked_len(key: &[u8], size: u64) -> Result<usize> {
    let length = usize::try_from(size).ok().filter(|_| size <= RECORD_LEN_MAX);
    length.ok_or_else(|| Error::damaged(format!("the record at {} has {size} bytes", hex::encode(key))))
}

/// The record of a bucket that is to be changed; a snapshot is `ReadOnly`.
pub(crate) fn find_bucket(from: &mut (impl Lookup + ?Sized), bucket: &str) -> Result<BucketRecord> {
    let record = find_bucket_to_read(from, bucket)?;
    match keys::bucket_and_snapshot(bucket) {
        (_, None) => Ok(record),
        (live, Some(_)) => {
            let message = format!("{bucket:?} is a snapshot and can only be read; change {live:?}, or a branch of it");
            Err(Error::new(ErrorKind::ReadOnly, message))
        }
    }
}

/// The record of a bucket, or of a bucket as a snapshot of it (`BUCKET@SNAPSHOT`) has it: then with the snapshot's space.
pub(crate) fn find_bucket_to_read(from: &mut (impl Lookup + ?Sized), bucket: &str) -> Result<BucketRecord> {
    let (name, snapshot) = keys::bucket_and_snapshot(bucket);
    let is_name = (1..=keys::NAME_LEN_MAX).contains(&name.len());
    let found = if is_name { from.record(keys::CATALOGUE, &keys::bucket(name))? } else { None };
    let (_, bytes) = found.ok_or_else(|| Error::no_such_bucket(name))?;
    let record = BucketRecord::decode(&bytes)?;
    let Some(snapshot) = snapshot else {
        return Ok(record);
    };
    let SnapshotRecord { space, created, indexes, .. } = find_snapshot(from, &record, snapshot)?;
    Ok(BucketRecord { created, indexes, is_snapshot: true, ..record.in_space(space) })
}

/// The record of a snapshot of a bucket.
pub(crate) fn find_snapshot(
    from: &mut (impl Lookup + ?Sized),
    bucket: &BucketRecord,
    name: &str,
) -> Result<SnapshotRecord> {
    let is_name = keys::check_snapshot_name(name).is_ok();
    let found = if is_name { from.record(keys::CATALOGUE, &keys::snapshot(bucket.id(), name))? } else { None };
    let absent = || Error::new(ErrorKind::NoSuchSnapshot, format!("the bucket has no snapshot {name:?}"));
    SnapshotRecord::decode(&found.ok_or_else(absent)?.1)
}

/// The space that a bucket, or a snapshot of one, is read from.
pub(crate) fn find_space(from: &mut (impl Lookup + ?Sized), bucket: &str) -> Result<SpaceId> {
    find_bucket_to_read(from, bucket).map(|record| record.space)
}

/// What stands under a name.
pub(crate) struct CurrentObject {
    pub version: Version,
    pub record: ObjectRecord,
}

/// What stands under a name in a bucket's space.
pub(crate) fn find_object(
    from: &mut (impl Lookup + ?Sized),
    space: SpaceId,
    key: &str,
) -> Result<Option<CurrentObject>> {
    let Some((version, bytes)) = from.record(space, &keys::name(key))? else {
        return Ok(None);
    };
    Ok(Some(CurrentObject { version, record: ObjectRecord::decode(&bytes)? }))
}

/// The value of a cursor's entry, which lies beside its key or must be read.
pub(crate) fn value_of(view: &dyn View, space: SpaceId, key: &[u8], value: Option<Bytes>) -> Result<Bytes> {
    if let Some(value) = value {
        return Ok(value);
    }
    let read = read_value(view, space, key)?;
    read.map(|(_, bytes)| bytes)
        .ok_or_else(|| Error::damaged(format!("the key {} was listed and is not there", hex::encode(key))))
}

/// An upload's record; `NoSuchUpload` when it is not there.
pub(crate) fn find_upload(
    from: &mut (impl Lookup + ?Sized),
    space: SpaceId,
    key: &str,
    id: UploadId,
) -> Result<UploadRecord> {
    let found = from.record(space, &keys::upload(key, id))?;
    let (_, bytes) = found.ok_or_else(|| Error::no_such_upload(&id))?;
    UploadRecord::decode(&bytes)
}
