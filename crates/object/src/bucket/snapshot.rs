//! Snapshots of buckets: made, listed and removed. They are read as the bucket `BUCKET@SNAPSHOT`.
//!
//! Invariants:
//! - A snapshot is a record under its bucket's id and a read-only space; both come and go in one commit.
//! - A snapshot goes with its bucket, and stays when the bucket is purged or restored, because its id does.

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Commit, Direction, KeyRange, Operation, SpaceId, Transaction, View};

use super::draw_space;
use crate::action::Action;
use crate::error::{Error, ErrorKind, Result};
use crate::info::SnapshotInfo;
use crate::keys;
use crate::local::Local;
use crate::lookup::{find_bucket, find_snapshot, value_of};
use crate::pending::Pending;
use crate::record::{BucketRecord, SnapshotRecord};
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};

impl Local {
    pub fn snapshot_bucket(&self, bucket: &str, snapshot: &str) -> Pending<SnapshotInfo> {
        if let Err(error) = keys::check_snapshot_name(snapshot) {
            return Pending::ready(Err(error));
        }
        let (bucket, snapshot) = (bucket.to_owned(), snapshot.to_owned());
        run(self, Snapshot { bucket, snapshot, space: SpaceId(0), created: self.now() })
    }

    pub fn list_snapshots(&self, bucket: &str) -> Result<Vec<SnapshotInfo>> {
        self.read(
            |rights| rights.bucket(Action::ListBucket, bucket),
            |view| {
                let record = find_bucket(view, bucket)?;
                list(view.as_ref(), &record)
            },
        )
    }

    pub fn delete_snapshot(&self, bucket: &str, snapshot: &str) -> Pending<()> {
        run(self, DeleteSnapshot { bucket: bucket.to_owned(), snapshot: snapshot.to_owned() })
    }
}

pub(super) fn list(view: &dyn View, bucket: &BucketRecord) -> Result<Vec<SnapshotInfo>> {
    let range = KeyRange::prefix(keys::snapshots_of(bucket.id()));
    let mut cursor = view.cursor(keys::CATALOGUE, range, Direction::Forward)?;
    let mut snapshots = Vec::new();
    while let Some(entry) = cursor.next()? {
        let value = value_of(view, keys::CATALOGUE, &entry.key, entry.value)?;
        let SnapshotRecord { space, created, .. } = SnapshotRecord::decode(&value)?;
        snapshots.push(SnapshotInfo { name: keys::snapshot_name(&entry.key)?, space, created });
    }
    Ok(snapshots)
}

/// All snapshots of a bucket. That these are all is a condition.
pub(super) fn all(txn: &mut Transaction, bucket: &BucketRecord) -> Result<Vec<(String, SnapshotRecord)>> {
    let view = std::sync::Arc::clone(txn.view());
    let range = KeyRange::prefix(keys::snapshots_of(bucket.id()));
    let mut cursor = txn.cursor(keys::CATALOGUE, range, Direction::Forward)?;
    let mut snapshots = Vec::new();
    while let Some(entry) = cursor.next()? {
        let value = value_of(view.as_ref(), keys::CATALOGUE, &entry.key, entry.value)?;
        snapshots.push((keys::snapshot_name(&entry.key)?, SnapshotRecord::decode(&value)?));
    }
    Ok(snapshots)
}

struct Snapshot {
    bucket: String,
    snapshot: String,
    /// Drawn by the last attempt.
    space: SpaceId,
    created: Timestamp,
}

impl Verb for Snapshot {
    type Outcome = SnapshotInfo;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::Snapshot, &self.bucket)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<SnapshotInfo>> {
        let record = find_bucket(txn, &self.bucket)?;
        let key = keys::snapshot(record.id(), &self.snapshot);
        if txn.stat(keys::CATALOGUE, &key)?.is_some() {
            let message = format!("the bucket {:?} has a snapshot {:?} already", self.bucket, self.snapshot);
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        self.space = draw_space(context);
        let (space, created, indexes) = (self.space, self.created, record.indexes);
        let snapshot = SnapshotRecord { space, created, indexes, kept: Vec::new() };
        txn.then(Operation::SnapshotSpace { from: record.space, to: self.space });
        txn.put(keys::CATALOGUE, key, Bytes::from(snapshot.encode()));
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<SnapshotInfo> {
        Ok(SnapshotInfo { name: self.snapshot, space: self.space, created: self.created })
    }
}

struct DeleteSnapshot {
    bucket: String,
    snapshot: String,
}

impl Verb for DeleteSnapshot {
    type Outcome = ();

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::Snapshot, &self.bucket)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<()>> {
        let record = find_bucket(txn, &self.bucket)?;
        let space = find_snapshot(txn, &record, &self.snapshot)?.space;
        txn.delete(keys::CATALOGUE, keys::snapshot(record.id(), &self.snapshot));
        txn.then(Operation::DropSpace { space });
        context.removes(|| format!("the snapshot {}@{}", self.bucket, self.snapshot));
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<()> {
        Ok(())
    }
}
