//! Indexes over metadata and tags: kept by every change of a name, added, built and dropped.
//!
//! Invariants:
//! - An entry stands in the commit that puts its record and goes in the one that takes it: [`name_changed`] is called
//!   where names change, and nowhere else is an entry changed but by who builds an index or moves a prefix.
//! - From the commit that adds an index on, every change keeps it, because every change has read the bucket's record.
//!   So who builds it passes over what was changed since, and puts the rest under the condition that it still is as it
//!   was read: each refusal leaves less to do.
//! - An index is whole from the commit on that puts the last entries. One whose building was interrupted is kept, is
//!   not searched, and is built when it is added again.

use bytes::Bytes;
use koine_kv::{
    Commit, Condition, Cursor, Direction, Entry, KeyRange, Operation, SpaceId, Transaction, Version, after_prefix,
};

use crate::error::{Error, ErrorKind, Result};
use crate::info::IndexInfo;
use crate::keys;
use crate::list::value_of;
use crate::local::Local;
use crate::lookup::{Standing, find_bucket, find_bucket_to_read};
use crate::pending::Pending;
use crate::put::invalid;
use crate::record::{BucketRecord, IndexRecord, ObjectRecord, indexed_value};
use crate::request::METADATA_LEN_MAX;
use crate::rights::{Action, Rights};
use crate::search::{INDEXES_MAX, Indexed};
use crate::verb::{Applied, Scope, Verb, run};

/// The most names of one batch of who builds an index.
const BUILD_NAMES_MAX: usize = 5_000;
/// The most bytes of keys that such a batch puts.
const BUILD_BYTES_MAX: usize = 1 << 20;
/// The most entries that a prefix moves in one commit.
const MOVED_MAX: usize = 20_000;

impl Local {
    pub fn add_index(&self, bucket: &str, of: Indexed) -> Result<IndexInfo> {
        check_indexed(&of)?;
        run(self, AddIndex { bucket: bucket.to_owned(), of: of.clone() }).wait()?;
        let mut from = BuildFrom::default();
        while !from.done {
            let verb = BuildIndex { bucket: bucket.to_owned(), of: of.clone(), from, next: BuildFrom::default() };
            from = run(self, verb).wait()?;
        }
        Ok(IndexInfo { of, whole: true })
    }

    pub fn drop_index(&self, bucket: &str, of: Indexed) -> Pending<()> {
        run(self, DropIndex { bucket: bucket.to_owned(), of })
    }

    pub fn indexes(&self, bucket: &str) -> Result<Vec<IndexInfo>> {
        self.read(
            |rights| rights.bucket(Action::ListBucket, bucket),
            |view| {
                let indexes = find_bucket_to_read(view, bucket)?.indexes;
                Ok(indexes.into_iter().map(|index| IndexInfo { of: index.of, whole: index.whole }).collect())
            },
        )
    }
}

fn check_indexed(of: &Indexed) -> Result<()> {
    if of.name().is_empty() || of.name().len() > METADATA_LEN_MAX {
        return Err(invalid(format!("no object can have the {of}: a name has 1 to {METADATA_LEN_MAX} bytes")));
    }
    Ok(())
}

/// Where `old` stood under a name `new` stands; each may be nothing.
pub(crate) fn name_changed(
    txn: &mut Transaction,
    bucket: &BucketRecord,
    key: &str,
    old: Option<&Standing>,
    new: Option<&ObjectRecord>,
) {
    for index in &bucket.indexes {
        let was = old.and_then(|old| old.record.indexed(&index.of)).map(keys::indexed_part);
        let is = new.and_then(|new| new.indexed(&index.of)).map(keys::indexed_part);
        if let Some(was) = was.filter(|_| was != is) {
            txn.delete(bucket.space, keys::index_entry(index.number, was, key));
        }
        // The entry of what was there may not be built yet, and who builds passes over what was changed.
        if let Some(is) = is.filter(|_| was != is || !index.whole) {
            txn.put(bucket.space, keys::index_entry(index.number, is, key), Bytes::new());
        }
    }
}

/// Everything under one prefix of names goes to another: so do its entries. That nothing else comes under it
/// meanwhile is a condition then.
pub(crate) fn prefix_moved(txn: &mut Transaction, bucket: &BucketRecord, from: &str, to: &str) -> Result<()> {
    if bucket.indexes.is_empty() {
        return Ok(());
    }
    let view = std::sync::Arc::clone(txn.view());
    let mut cursor = txn.cursor(bucket.space, KeyRange::prefix(keys::names_prefix(from)), Direction::Forward)?;
    let mut moved = Vec::new();
    while let Some(entry) = cursor.next()? {
        let (name, newest) = keys::name_of(&entry.key)?;
        if !newest {
            continue;
        }
        let record = value_of(view.as_ref(), bucket.space, &entry.key, entry.value)?;
        let target = format!("{to}{}", name.strip_prefix(from).unwrap_or_default());
        for index in &bucket.indexes {
            if let Some(value) = indexed_value(&index.of, &record)? {
                let entry_of = |name: &str| keys::index_entry(index.number, keys::indexed_part(&value), name);
                moved.push((entry_of(&name), entry_of(&target)));
            }
        }
        if moved.len() > MOVED_MAX / 2 {
            let message = format!(
                "more than {} entries of indexes are under {from:?}, which cannot be moved in one commit: copy the prefix \
                 and delete it, or drop the bucket's indexes first",
                MOVED_MAX / 2
            );
            return Err(Error::new(ErrorKind::TransactionTooLarge, message));
        }
    }
    drop(cursor);
    for (old, new) in moved {
        txn.delete(bucket.space, old);
        txn.put(bucket.space, new, Bytes::new());
    }
    Ok(())
}

fn put_bucket(txn: &mut Transaction, bucket: &str, record: &BucketRecord) {
    txn.put(keys::CATALOGUE, keys::bucket(bucket), Bytes::from(record.encode()));
}

fn find_index<'a>(record: &'a mut BucketRecord, of: &Indexed) -> Option<&'a mut IndexRecord> {
    record.indexes.iter_mut().find(|index| index.of == *of)
}

/// Puts the index into the bucket's record: from that commit on every change keeps it.
struct AddIndex {
    bucket: String,
    of: Indexed,
}

impl Verb for AddIndex {
    type Outcome = ();

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::SetBucket, &self.bucket)
    }

    fn apply(&mut self, txn: &mut Transaction, _scope: &Scope<'_>) -> Result<Applied<()>> {
        let mut record = find_bucket(txn, &self.bucket)?;
        match find_index(&mut record, &self.of) {
            Some(index) if index.whole => {
                let message = format!("the bucket {:?} has an index over the {} already", self.bucket, self.of);
                return Err(Error::new(ErrorKind::AlreadyExists, message));
            }
            Some(_) => return Ok(Applied::Done(())),
            None => {}
        }
        if record.indexes.len() == INDEXES_MAX {
            let message = format!("the bucket {:?} has {INDEXES_MAX} indexes; drop one first", self.bucket);
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        let number = record.indexes.iter().map(|index| index.number).max().map_or(0, |last| last + 1);
        record.indexes.push(IndexRecord { number, whole: false, of: self.of.clone() });
        put_bucket(txn, &self.bucket, &record);
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<()> {
        Ok(())
    }
}

/// How far an index is built.
#[derive(Clone, Default)]
struct BuildFrom {
    /// The space that its entries are put into, and a version that had it being built: what was changed later keeps
    /// itself. Where the bucket has another space by now, all begins anew.
    begun: Option<(SpaceId, Version)>,
    /// Names after this one.
    after: Option<String>,
    done: bool,
}

/// Puts the entries of the next names.
struct BuildIndex {
    bucket: String,
    of: Indexed,
    from: BuildFrom,
    /// Of the last attempt.
    next: BuildFrom,
}

impl Verb for BuildIndex {
    type Outcome = BuildFrom;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::SetBucket, &self.bucket)
    }

    fn apply(&mut self, txn: &mut Transaction, _scope: &Scope<'_>) -> Result<Applied<BuildFrom>> {
        let mut record = find_bucket(txn, &self.bucket)?;
        let space = record.space;
        let Some(index) = find_index(&mut record, &self.of) else {
            let message = format!("the index over the {} of the bucket {:?} was dropped", self.of, self.bucket);
            return Err(Error::new(ErrorKind::NoSuchIndex, message));
        };
        if index.whole {
            return Ok(Applied::Done(BuildFrom { done: true, ..BuildFrom::default() }));
        }
        let view = std::sync::Arc::clone(txn.view());
        let (begun, after) = match &self.from.begun {
            Some((known, since)) if *known == space => ((space, *since), self.from.after.as_deref()),
            _ => ((space, view.version()), None),
        };
        let mut cursor = Rest::new(view.as_ref(), space, after)?;
        let mut last = after.map(str::to_owned);
        let (mut names, mut length) = (0, 0);
        while let Some((name, entry)) = cursor.next()? {
            if names == BUILD_NAMES_MAX || length > BUILD_BYTES_MAX {
                self.next = BuildFrom { begun: Some(begun), after: last, done: false };
                return Ok(Applied::Changed);
            }
            names += 1;
            let (key, version) = (entry.key.clone(), entry.stat.version);
            let value = indexed_value(&self.of, &value_of(view.as_ref(), space, &entry.key, entry.value)?)?;
            if let Some(value) = value.filter(|_| version <= begun.1) {
                let put = keys::index_entry(index.number, keys::indexed_part(&value), &name);
                length += key.len() + put.len();
                txn.when(Condition::VersionIs { space, key, version });
                txn.put(space, put, Bytes::new());
            }
            last = Some(name);
        }
        index.whole = true;
        put_bucket(txn, &self.bucket, &record);
        self.next = BuildFrom { begun: Some(begun), after: None, done: true };
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<BuildFrom> {
        Ok(self.next)
    }
}

/// The names of a bucket after one of them.
struct Rest {
    cursor: Box<dyn Cursor>,
}

impl Rest {
    fn new(view: &dyn koine_kv::View, space: SpaceId, after: Option<&str>) -> Result<Self> {
        let mut cursor = view.cursor(space, KeyRange::prefix(keys::names_prefix("")), Direction::Forward)?;
        if let Some(start) = after.and_then(|after| after_prefix(&keys::name(after))) {
            cursor.seek(&start)?;
        }
        Ok(Rest { cursor })
    }

    /// The next name and its newest version's record.
    fn next(&mut self) -> Result<Option<(String, Entry)>> {
        while let Some(entry) = self.cursor.next()? {
            let (name, newest) = keys::name_of(&entry.key)?;
            if newest {
                return Ok(Some((name, entry)));
            }
        }
        Ok(None)
    }
}

struct DropIndex {
    bucket: String,
    of: Indexed,
}

impl Verb for DropIndex {
    type Outcome = ();

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::SetBucket, &self.bucket)
    }

    fn apply(&mut self, txn: &mut Transaction, _scope: &Scope<'_>) -> Result<Applied<()>> {
        let mut record = find_bucket(txn, &self.bucket)?;
        let Some(number) = find_index(&mut record, &self.of).map(|index| index.number) else {
            let message = format!("the bucket {:?} has no index over the {}", self.bucket, self.of);
            return Err(Error::new(ErrorKind::NoSuchIndex, message));
        };
        record.indexes.retain(|index| index.number != number);
        put_bucket(txn, &self.bucket, &record);
        let range = KeyRange::prefix(keys::index(number));
        txn.then(Operation::DeleteRange { space: record.space, range });
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<()> {
        Ok(())
    }
}
