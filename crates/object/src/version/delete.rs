//! Deleting one version of an object for good.
//!
//! Invariant: where it was the newest, the one before it is the newest in the same commit, and stands under the name
//! unless it is a delete marker.

use koine_kv::{Commit, SpaceId, Transaction};

use crate::action::Action;
use crate::count::NameCounts;
use crate::counter::Shard;
use crate::error::Result;
use crate::ids::ObjectId;
use crate::keys;
use crate::local::Local;
use crate::lookup::{CurrentObject, find_bucket, find_object};
use crate::name;
use crate::name::drop_older;
use crate::object_name::ObjectName;
use crate::pending::Pending;
use crate::record::{BucketRecord, OlderRecord};
use crate::request::Deleted;
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};
use crate::version_id::VersionId;
use crate::versions::{Found, Older, find_version, newest_older, no_such_version, older_below};

impl Local {
    pub fn delete_version(&self, name: ObjectName<'_>, version: VersionId) -> Pending<Deleted> {
        match DeleteVersion::new(name, version) {
            Ok(delete) => run(self, delete),
            Err(error) => Pending::ready(Err(error)),
        }
    }
}

/// The verb.
pub(crate) struct DeleteVersion {
    bucket: String,
    key: String,
    version: VersionId,
    /// Whether it was a delete marker, by the last attempt.
    marker: bool,
}

impl DeleteVersion {
    pub fn new(name: ObjectName<'_>, version: VersionId) -> Result<Self> {
        keys::check_object_key(name.key)?;
        Ok(DeleteVersion { bucket: name.bucket.to_owned(), key: name.key.to_owned(), version, marker: false })
    }

    /// What the last `apply` did.
    pub fn deleted(&self) -> Deleted {
        Deleted { existed: true, marker: self.marker, version: Some(self.version) }
    }

    /// The newest goes, and the one before it takes its place.
    fn delete_newest(&self, txn: &mut Transaction, bucket: &BucketRecord, newest: &CurrentObject) -> Result<()> {
        let below = newest_older(txn, bucket.space, &self.key)?;
        let mut counts = NameCounts::default();
        let below = self.take_up(txn, bucket.space, below, &mut counts);
        counts.replace(Some(&newest.record), below.as_ref().map(|below| &below.record));
        counts.add(txn, bucket.space, Shard::of(newest.record.id));
        name::replace_newest(txn, bucket, &self.key, Some(newest), below.as_ref().map(|below| &below.record));
        Ok(())
    }

    /// An older version or a marker goes. Under a marker that was the newest an object may come up.
    fn delete_older(
        &self,
        txn: &mut Transaction,
        bucket: &BucketRecord,
        number: u64,
        record: &OlderRecord,
    ) -> Result<()> {
        let space = bucket.space;
        let (mut counts, mut below) = (NameCounts::default(), None);
        if self.marker && self.is_newest(txn, space, number)? {
            let older = older_below(txn, space, &self.key, number)?;
            below = self.take_up(txn, space, older, &mut counts);
        }
        drop_older(txn, space, &self.key, number, record);
        counts.forget(record);
        let shard = match record {
            OlderRecord::Object(record) => record.id,
            OlderRecord::Marker(_) => ObjectId(number),
        };
        if let Some(below) = &below {
            counts.replace(None, Some(&below.record));
            name::replace_newest(txn, bucket, &self.key, None, Some(&below.record));
        }
        counts.add(txn, space, Shard::of(shard));
        Ok(())
    }

    /// Whether a marker is what the name stands for.
    fn is_newest(&self, txn: &mut Transaction, space: SpaceId, number: u64) -> Result<bool> {
        if find_object(txn, space, &self.key)?.is_some() {
            return Ok(false);
        }
        let newest = crate::versions::newest_older_number(txn, space, &self.key)?;
        Ok(newest == Some(number))
    }

    /// An older version leaves its place, to stand under the name; a marker stays where it is.
    fn take_up(
        &self,
        txn: &mut Transaction,
        space: SpaceId,
        older: Option<Older>,
        counts: &mut NameCounts,
    ) -> Option<CurrentObject> {
        let Older { number, version, record } = older?;
        let OlderRecord::Object(object) = &record else {
            return None;
        };
        counts.forget(&record);
        txn.delete(space, keys::older(&self.key, number));
        Some(CurrentObject { version, record: object.clone() })
    }
}

impl Verb for DeleteVersion {
    type Outcome = Deleted;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.version(Action::DeleteObjectVersion, &self.bucket, &self.key, self.version)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<Deleted>> {
        let bucket = find_bucket(txn, &self.bucket)?;
        let found = find_version(txn, bucket.space, &self.key, self.version)?;
        match found.ok_or_else(|| no_such_version(&self.key, self.version))? {
            Found::Newest(newest) => {
                self.marker = false;
                self.delete_newest(txn, &bucket, &newest)?;
            }
            Found::Older { number, record, .. } => {
                self.marker = matches!(record, OlderRecord::Marker(_));
                self.delete_older(txn, &bucket, number, &record)?;
            }
        }
        context.removes(|| format!("the version {} of the object {}/{}", self.version, self.bucket, self.key));
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<Deleted> {
        Ok(self.deleted())
    }
}
