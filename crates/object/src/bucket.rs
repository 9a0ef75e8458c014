//! Buckets: made, found, listed and removed; as wholes in [`snapshot`] and [`whole`].
//!
//! Invariants:
//! - A bucket is a record in the catalogue and a space; both come and go in one commit.
//! - A space's id is never that of another bucket, before or after: it is drawn at random, and a batch for a
//!   bucket that is gone is refused because its space is.

mod settings;
mod snapshot;
mod whole;

use std::ops::ControlFlow;

use koine_env::Timestamp;
use koine_kv::{Commit, Direction, Entry, KeyRange, Operation, SpaceId, Transaction, View};

use crate::error::{Error, ErrorKind, Result};
use crate::info::BucketInfo;
use crate::keys;
use crate::list::PAGE;
use crate::lookup::{find_bucket, find_bucket_to_read, read_value};
use crate::objects::Objects;
use crate::pending::Pending;
use crate::record::BucketRecord;
use crate::request::{BucketPage, BucketQuery};
use crate::rights::{Action, Rights, ownership};
use crate::verb::{Applied, Scope, Verb, run};

impl Objects {
    /// Makes a bucket.
    pub fn create_bucket(&self, bucket: &str) -> Pending<BucketInfo> {
        if let Err(error) = keys::check_bucket_name(bucket) {
            return Pending::ready(Err(error));
        }
        let (space, created) = (SpaceId(0), self.now());
        run(self, CreateBucket { bucket: bucket.to_owned(), space, created })
    }

    /// Removes a bucket that holds no objects and has no snapshots; its unfinished uploads go with it.
    pub fn delete_bucket(&self, bucket: &str) -> Pending<()> {
        run(self, DeleteBucket { bucket: bucket.to_owned(), snapshots: false })
    }

    /// Removes a bucket that holds no objects, and its snapshots with what they hold.
    pub fn delete_bucket_and_snapshots(&self, bucket: &str) -> Pending<()> {
        run(self, DeleteBucket { bucket: bucket.to_owned(), snapshots: true })
    }

    /// What is known of a bucket, or of a snapshot of one.
    pub fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        self.read(
            |rights| rights.bucket(Action::ListBucket, bucket),
            |view| Ok(info(bucket.to_owned(), &find_bucket_to_read(view, bucket)?)),
        )
    }

    /// Buckets by name.
    pub fn list_buckets(&self, query: &BucketQuery) -> Result<BucketPage> {
        self.read(|rights| rights.store(Action::ListAllMyBuckets), |view| list(view.as_ref(), query))
    }

    /// Calls `each` for every bucket whose name begins with `prefix`, in the order of names, until it breaks.
    pub fn for_each_bucket(&self, prefix: &str, mut each: impl FnMut(BucketInfo) -> ControlFlow<()>) -> Result<()> {
        let mut query = BucketQuery { prefix: prefix.to_owned(), limit: PAGE, ..BucketQuery::default() };
        loop {
            let page = self.list_buckets(&query)?;
            if page.buckets.into_iter().try_for_each(&mut each).is_break() || page.next.is_none() {
                return Ok(());
            }
            query.after = page.next;
        }
    }
}

fn list(view: &dyn View, query: &BucketQuery) -> Result<BucketPage> {
    let range = KeyRange::prefix(keys::bucket(&query.prefix));
    let mut cursor = view.cursor(keys::CATALOGUE, range, Direction::Forward)?;
    if let Some(after) = query.after.as_deref().filter(|after| *after >= query.prefix.as_str()) {
        let mut key = keys::bucket(after).to_vec();
        key.push(0);
        cursor.seek(&key)?;
    }
    let mut page = BucketPage::default();
    while let Some(entry) = cursor.next()? {
        if query.limit != 0 && page.buckets.len() == query.limit {
            page.next = page.buckets.last().map(|bucket| bucket.name.clone());
            break;
        }
        page.buckets.push(read_entry(view, &entry)?);
    }
    Ok(page)
}

fn read_entry(view: &dyn View, entry: &Entry) -> Result<BucketInfo> {
    let name = keys::bucket_name(&entry.key)?;
    let bytes = match &entry.value {
        Some(bytes) => bytes.clone(),
        None => read_value(view, keys::CATALOGUE, &entry.key)?.map(|(_, bytes)| bytes).unwrap_or_default(),
    };
    Ok(info(name, &BucketRecord::decode(&bytes)?))
}

fn info(name: String, record: &BucketRecord) -> BucketInfo {
    BucketInfo { name, space: record.space, created: record.created, quota: record.quota }
}

/// A bucket can be made only where none has its name.
fn check_absent(txn: &mut Transaction, bucket: &str) -> Result<()> {
    if txn.stat(keys::CATALOGUE, &keys::bucket(bucket))?.is_none() {
        return Ok(());
    }
    let message = format!("the bucket {bucket:?} exists already");
    Err(Error::new(ErrorKind::BucketAlreadyOwnedByYou, message))
}

/// An id for the space of a bucket or a snapshot; the operation that makes it is refused where it is taken.
fn draw_space(scope: &Scope<'_>) -> SpaceId {
    SpaceId(scope.draw_u64() | keys::BUCKET_SPACE_MIN)
}

struct CreateBucket {
    bucket: String,
    /// Drawn by the last attempt.
    space: SpaceId,
    created: Timestamp,
}

impl Verb for CreateBucket {
    type Outcome = BucketInfo;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::CreateBucket, &self.bucket)
    }

    fn apply(&mut self, txn: &mut Transaction, scope: &Scope<'_>) -> Result<Applied<BucketInfo>> {
        check_absent(txn, &self.bucket)?;
        self.space = draw_space(scope);
        let owner = scope.caller.user();
        let record = BucketRecord { owner, ..BucketRecord::new(self.space, self.created) };
        txn.then(Operation::CreateSpace { space: self.space });
        ownership::put_bucket(txn, &self.bucket, &record);
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Objects, _commit: Commit) -> Result<BucketInfo> {
        Ok(info(self.bucket, &BucketRecord::new(self.space, self.created)))
    }
}

struct DeleteBucket {
    bucket: String,
    /// Whether those of it go too.
    snapshots: bool,
}

impl Verb for DeleteBucket {
    type Outcome = ();

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::DeleteBucket, &self.bucket)?;
        if self.snapshots { rights.bucket(Action::Snapshot, &self.bucket) } else { Ok(()) }
    }

    fn apply(&mut self, txn: &mut Transaction, _scope: &Scope<'_>) -> Result<Applied<()>> {
        let record = find_bucket(txn, &self.bucket)?;
        let space = record.space;
        let names = KeyRange::prefix(keys::names_prefix(""));
        if txn.cursor(space, names, Direction::Forward)?.next()?.is_some() {
            let message = format!("the bucket {:?} still holds objects; delete them first", self.bucket);
            return Err(Error::new(ErrorKind::BucketNotEmpty, message));
        }
        let snapshots = snapshot::all(txn, &record)?;
        if !snapshots.is_empty() && !self.snapshots {
            let count = snapshots.len();
            let message = format!("the bucket {:?} has {count} snapshots; delete them first, or with it", self.bucket);
            return Err(Error::new(ErrorKind::BucketNotEmpty, message));
        }
        for (name, snapshot) in snapshots {
            txn.delete(keys::CATALOGUE, keys::snapshot(record.id(), &name));
            txn.then(Operation::DropSpace { space: snapshot.space });
        }
        ownership::delete_bucket(txn, &self.bucket, &record);
        txn.then(Operation::DropSpace { space });
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Objects, _commit: Commit) -> Result<()> {
        Ok(())
    }
}
