//! Buckets: made, found, listed and removed; as wholes in [`snapshot`], [`whole`] and [`stream`].
//!
//! Invariants:
//! - A bucket is a record in the catalogue and a space; both come and go in one commit.
//! - A space's id is never that of another bucket, before or after: it is drawn at random, and a batch for a
//!   bucket that is gone is refused because its space is.

mod settings;
mod snapshot;
mod stream;
mod whole;

pub(crate) use stream::only_the_owner;
pub use stream::{BucketToReceive, BucketToSend, ReceiveBucket};

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Commit, Direction, Entry, KeyRange, Operation, SpaceId, Transaction, View};

use crate::accounts::find::owning_group;
use crate::accounts::keys as identity_keys;
use crate::action::Action;
use crate::error::{Error, ErrorKind, Result};
use crate::info::BucketInfo;
use crate::keys;
use crate::local::Local;
use crate::lookup::{find_bucket, find_bucket_to_read, read_value};
use crate::pending::Pending;
use crate::record::BucketRecord;
use crate::request::{BucketPage, BucketQuery};
use crate::rights::{Rights, ownership};
use crate::verb::{Applied, CommandContext, Verb, run};
use crate::version_id::Versioning;

impl Local {
    pub fn create_bucket(&self, bucket: &str) -> Pending<BucketInfo> {
        if let Err(error) = keys::check_bucket_name(bucket) {
            return Pending::ready(Err(error));
        }
        let (space, created) = (SpaceId(0), self.now());
        run(self, CreateBucket { bucket: bucket.to_owned(), space, created })
    }

    pub fn delete_bucket_with(&self, bucket: &str, snapshots: bool) -> Pending<()> {
        run(self, DeleteBucket { bucket: bucket.to_owned(), snapshots })
    }

    pub fn head_bucket(&self, bucket: &str) -> Result<BucketInfo> {
        self.read(
            |rights| rights.bucket(Action::ListBucket, bucket),
            |view| Ok(info(bucket.to_owned(), &find_bucket_to_read(view, bucket)?)),
        )
    }

    pub fn list_buckets(&self, query: &BucketQuery) -> Result<BucketPage> {
        let theirs = RefCell::new(None);
        let mut page = self.read(
            |rights| {
                if let Some(group) = &query.group {
                    return rights.see_group(group);
                }
                rights.store(Action::ListAllMyBuckets)?;
                theirs.replace(rights.ranges_of_buckets()?);
                Ok(())
            },
            |view| match (&query.group, theirs.take()) {
                (None, None) => list(view.as_ref(), query),
                (None, Some(ranges)) => list_of(view, &ranges, query),
                (Some(group), _) => {
                    let id = owning_group(view, group)?;
                    list_of(view, &[identity_keys::bucket_of_group(id, "")], query)
                }
            },
        )?;
        // A pinned view tells whose a bucket was. Who may not see it any more is not told of it.
        if self.is_pinned() && !self.caller().is_owner() {
            page.buckets.retain(|bucket| self.head_bucket(&bucket.name).is_ok());
        }
        Ok(page)
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

/// A page of the buckets that are found under any of some keys: of an owner, of a group.
fn list_of(view: &mut Arc<dyn View>, ranges: &[Bytes], query: &BucketQuery) -> Result<BucketPage> {
    let wanted = if query.limit == 0 { usize::MAX } else { query.limit };
    let mut names = BTreeSet::new();
    for begin in ranges {
        let prefix = [begin.as_ref(), query.prefix.as_bytes()].concat();
        let mut cursor = view.cursor(keys::CATALOGUE, KeyRange::prefix(prefix), Direction::Forward)?;
        if let Some(after) = query.after.as_deref().filter(|after| *after >= query.prefix.as_str()) {
            cursor.seek(&[begin.as_ref(), after.as_bytes(), &[0]].concat())?;
        }
        let mut found = 0;
        while found <= wanted
            && let Some(entry) = cursor.next()?
        {
            names.insert(identity_keys::text_after_id(&entry.key)?);
            found += 1;
        }
    }
    let mut page = BucketPage::default();
    for name in names {
        if page.buckets.len() == wanted {
            page.next = page.buckets.last().map(|bucket| bucket.name.clone());
            break;
        }
        let record = find_bucket(view, &name)?;
        page.buckets.push(info(name, &record));
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
    BucketInfo {
        name,
        space: record.space,
        created: record.created,
        quota: record.quota,
        versioning: record.versioning,
        access_times: record.access_times,
        metadata: record.metadata.clone(),
        tags: record.tags.clone(),
        location: record.location.clone(),
    }
}

/// A bucket can be made only where none has its name.
fn check_absent(txn: &mut Transaction, context: &CommandContext<'_>, bucket: &str) -> Result<()> {
    let record = match find_bucket(txn, bucket) {
        Err(error) if error.kind() == ErrorKind::NoSuchBucket => return Ok(()),
        found => found?,
    };
    if !context.caller.is_owner() && record.owner != context.caller.user() {
        let message = format!("the bucket {bucket:?} exists already and is somebody else's");
        return Err(Error::new(ErrorKind::BucketAlreadyExists, message));
    }
    let message = format!("the bucket {bucket:?} exists already");
    Err(Error::new(ErrorKind::BucketAlreadyOwnedByYou, message))
}

/// Takes all snapshots of a bucket. That these are all is a condition.
pub(crate) fn drop_snapshots(txn: &mut Transaction, bucket: &BucketRecord) -> Result<()> {
    for (name, snapshot) in snapshot::all(txn, bucket)? {
        txn.delete(keys::CATALOGUE, keys::snapshot(bucket.id(), &name));
        txn.then(Operation::DropSpace { space: snapshot.space });
    }
    Ok(())
}

/// An id for the space of a bucket or a snapshot; the operation that makes it is refused where it is taken.
fn draw_space(context: &CommandContext<'_>) -> SpaceId {
    SpaceId(context.draw_u64() | keys::BUCKET_SPACE_MIN)
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

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<BucketInfo>> {
        check_absent(txn, context, &self.bucket)?;
        self.space = draw_space(context);
        let record = ownership::of_caller(txn, context.caller, BucketRecord::new(self.space, self.created))?;
        txn.then(Operation::CreateSpace { space: self.space });
        ownership::put_bucket(txn, &self.bucket, &record);
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<BucketInfo> {
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

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<()>> {
        let record = find_bucket(txn, &self.bucket)?;
        let space = record.space;
        let names = KeyRange::prefix(keys::names_prefix(""));
        if txn.cursor(space, names, Direction::Forward)?.next()?.is_some() {
            let older = if record.versioning == Versioning::Never { "" } else { ", older versions or delete markers" };
            let message = format!("the bucket {:?} still holds objects{older}; delete them first", self.bucket);
            return Err(Error::new(ErrorKind::BucketNotEmpty, message));
        }
        let snapshots = snapshot::all(txn, &record)?;
        if !snapshots.is_empty() && !self.snapshots {
            let count = snapshots.len();
            let message = format!("the bucket {:?} has {count} snapshots; delete them first, or with it", self.bucket);
            return Err(Error::new(ErrorKind::BucketNotEmpty, message));
        }
        drop_snapshots(txn, &record)?;
        ownership::delete_bucket(txn, &self.bucket, &record);
        txn.then(Operation::DropSpace { space });
        context.removes(|| format!("the bucket {}", self.bucket));
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<()> {
        Ok(())
    }
}
