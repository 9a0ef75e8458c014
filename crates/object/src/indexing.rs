//! Indexes of a bucket: added and built, dropped, told.
//!
//! Invariant: an index is whole only when every name of the bucket was looked at since it was added; what changes
//! meanwhile puts its own entries.

use bytes::Bytes;
use koine_kv::{
    Commit, Condition, Cursor, Direction, Entry, KeyRange, Operation, SpaceId, Transaction, Version, after_prefix,
};

use crate::action::Action;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::keys;
use crate::local::Local;
use crate::lookup::{find_bucket, find_bucket_to_read, value_of};
use crate::pending::Pending;
use crate::record::{BucketRecord, IndexRecord, indexed_value};
use crate::request::METADATA_LEN_MAX;
use crate::rights::Rights;
use crate::search_query::{INDEXES_MAX, IndexInfo, Indexed};
use crate::verb::{Applied, CommandContext, Verb, run};

/// The most names of one batch of who builds an index.
const BUILD_NAMES_MAX: usize = 5_000;

/// The most bytes of keys that such a batch puts.
const BUILD_BYTES_MAX: usize = 1 << 20;

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

    fn apply(&mut self, txn: &mut Transaction, _scope: &CommandContext<'_>) -> Result<Applied<()>> {
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

    fn apply(&mut self, txn: &mut Transaction, _scope: &CommandContext<'_>) -> Result<Applied<BuildFrom>> {
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

    fn apply(&mut self, txn: &mut Transaction, _scope: &CommandContext<'_>) -> Result<Applied<()>> {
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
