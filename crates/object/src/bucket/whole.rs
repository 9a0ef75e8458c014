//! Whole buckets: branched, purged, and restored from a snapshot.
//!
//! Invariants:
//! - Each is one commit, and as much work for any number of objects where the store below clones spaces natively.
//! - A bucket that gets another space keeps its id, and its record is changed with it: what was planned against the
//!   old space is planned again.
//! - Indexes are the space's: a branch has its source's, and a bucket that is restored those of the snapshot.

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Commit, Operation, SpaceId, Transaction};

use super::{check_absent, draw_space, info};
use crate::action::Action;
use crate::error::Result;
use crate::info::BucketInfo;
use crate::keys;
use crate::local::Local;
use crate::lookup::{find_bucket, find_bucket_to_read, find_snapshot};
use crate::pending::Pending;
use crate::record::{BucketRecord, IndexRecord};
use crate::rights::{Rights, ownership};
use crate::verb::{Applied, CommandContext, Verb, run};
use crate::version_id::Versioning;

impl Local {
    pub fn branch_bucket(&self, from: &str, to: &str) -> Pending<BucketInfo> {
        if let Err(error) = keys::check_bucket_name(to) {
            return Pending::ready(Err(error));
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        run(self, BranchBucket { from, to, space: SpaceId(0), versioning: Versioning::Never, created: self.now() })
    }

    pub fn purge_bucket(&self, bucket: &str) -> Pending<()> {
        run(self, ReplaceContent { bucket: bucket.to_owned(), snapshot: None })
    }

    pub fn restore_bucket(&self, bucket: &str, snapshot: &str) -> Pending<()> {
        run(self, ReplaceContent { bucket: bucket.to_owned(), snapshot: Some(snapshot.to_owned()) })
    }
}

struct BranchBucket {
    from: String,
    to: String,
    /// Drawn by the last attempt.
    space: SpaceId,
    /// The source's, by the last attempt.
    versioning: Versioning,
    created: Timestamp,
}

impl Verb for BranchBucket {
    type Outcome = BucketInfo;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::Branch, &self.from)?;
        rights.bucket(Action::CreateBucket, &self.to)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<BucketInfo>> {
        let source = find_bucket_to_read(txn, &self.from)?;
        check_absent(txn, context, &self.to)?;
        self.space = draw_space(context);
        self.versioning = source.versioning;
        let record = BucketRecord {
            origin: Some((source.id(), source.space)),
            // What it keeps of older versions it has from the first moment.
            versioning: source.versioning,
            indexes: source.indexes,
            kept: source.kept,
            ..BucketRecord::new(self.space, self.created)
        };
        let record = ownership::of_caller(txn, context.caller, record)?;
        txn.then(Operation::CloneSpace { from: source.space, to: self.space });
        ownership::put_bucket(txn, &self.to, &record);
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<BucketInfo> {
        Ok(info(self.to, &BucketRecord { versioning: self.versioning, ..BucketRecord::new(self.space, self.created) }))
    }
}

struct ReplaceContent {
    bucket: String,
    /// What takes the place of the content; nothing where there is none.
    snapshot: Option<String>,
}

impl Verb for ReplaceContent {
    type Outcome = ();

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        let action = if self.snapshot.is_some() { Action::Restore } else { Action::Purge };
        rights.bucket(action, &self.bucket)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<()>> {
        let record = find_bucket(txn, &self.bucket)?;
        let space = draw_space(context);
        let (make, indexes) = match &self.snapshot {
            // Nothing is left that could miss its entry.
            None => {
                let whole = record.indexes.iter().map(|index| IndexRecord { whole: true, ..index.clone() });
                (Operation::CreateSpace { space }, whole.collect())
            }
            Some(name) => {
                let snapshot = find_snapshot(txn, &record, name)?;
                (Operation::CloneSpace { from: snapshot.space, to: space }, snapshot.indexes)
            }
        };
        txn.then(Operation::DropSpace { space: record.space });
        txn.then(make);
        context.removes(|| match &self.snapshot {
            None => format!("all that the bucket {} held", self.bucket),
            Some(name) => format!("what the bucket {} held, for its snapshot {name}", self.bucket),
        });
        let record = BucketRecord { indexes, ..record.in_space(space) };
        txn.put(keys::CATALOGUE, keys::bucket(&self.bucket), Bytes::from(record.encode()));
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<()> {
        Ok(())
    }
}
