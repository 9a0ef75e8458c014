//! Changing what is known of an object without changing its bytes.
//!
//! Invariants:
//! - It is one commit of the record alone; id, bytes, parts, checksums and ETag stay.
//! - Two changes of different entries at once both succeed: each is planned on what the other left.

use bytes::Bytes;
use koine_kv::{Commit, RequestId, SpaceId, Transaction};

use crate::action::Action;
use crate::edit::check;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ObjectId;
use crate::info::{AccessTimes, ObjectInfo};
use crate::keys;
use crate::limits::{check_headers, check_metadata, check_tags};
use crate::local::Local;
use crate::lookup::{find_bucket, find_object};
use crate::name::{self, never};
use crate::object_name::{Name, ObjectName};
use crate::outcome::{info, made_by, told};
use crate::pending::Pending;
use crate::record::{BucketRecord, ObjectRecord};
use crate::request::{AttributeChange, EditOptions, MetadataChange};
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};

impl Local {
    pub fn set_attributes(
        &self,
        name: ObjectName<'_>,
        change: AttributeChange,
        options: EditOptions,
    ) -> Pending<ObjectInfo> {
        match set(name, change, options) {
            Ok(set) => run(self, set),
            Err(error) => Pending::ready(Err(error)),
        }
    }
}

/// The verb of a change of attributes.
pub(crate) fn set(
    name: ObjectName<'_>,
    change: AttributeChange,
    options: EditOptions,
) -> Result<impl Verb<Outcome = ObjectInfo>> {
    keys::check_object_key(name.key)?;
    let options = EditOptions { create: false, ..options };
    Ok(SetAttributes { name: Name::new(name), change, options, record: None, accessed: None })
}

impl MetadataChange {
    pub(crate) fn apply(&self, entries: &mut Vec<(String, String)>) {
        match self {
            MetadataChange::Replace(all) => entries.clone_from(all),
            MetadataChange::Merge { set, remove } => {
                entries.retain(|(name, _)| !remove.contains(name));
                for (name, value) in set {
                    match entries.iter_mut().find(|(known, _)| known == name) {
                        Some((_, known)) => known.clone_from(value),
                        None => entries.push((name.clone(), value.clone())),
                    }
                }
            }
        }
    }
}

impl AttributeChange {
    fn apply(&self, record: &mut ObjectRecord) -> Result<()> {
        if let Some(change) = &self.metadata {
            change.apply(&mut record.metadata);
            check_metadata(&record.metadata)?;
        }
        if let Some(change) = &self.tags {
            change.apply(&mut record.tags);
            check_tags(&record.tags)?;
        }
        if let Some(headers) = &self.headers {
            check_headers(headers)?;
            record.headers.clone_from(headers);
        }
        record.mode = self.mode.unwrap_or(record.mode);
        record.posix_owner = self.posix_owner.or(record.posix_owner);
        record.modified = self.modified.unwrap_or(record.modified);
        Ok(())
    }
}

struct SetAttributes {
    name: Name,
    change: AttributeChange,
    options: EditOptions,
    /// Of the last attempt.
    record: Option<ObjectRecord>,
    /// The object whose time of access was set by it.
    accessed: Option<(SpaceId, ObjectId)>,
}

fn check_kept(bucket: &BucketRecord, name: &Name) -> Result<()> {
    if bucket.access_times == AccessTimes::Off {
        let message = format!("the bucket {:?} keeps no times of access; set that first", name.bucket);
        return Err(Error::new(ErrorKind::InvalidRequest, message));
    }
    Ok(())
}

impl Verb for SetAttributes {
    type Outcome = ObjectInfo;

    fn request(&self) -> Option<RequestId> {
        self.options.request
    }

    fn contended(&self) -> Option<(&str, &str)> {
        Some((&self.name.bucket, &self.name.key))
    }

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        let Name { bucket, key } = &self.name;
        if self.change.tags.is_some() {
            rights.object(Action::PutObjectTagging, bucket, key)?;
        }
        if (AttributeChange { tags: None, ..self.change.clone() }) == AttributeChange::default() {
            return Ok(());
        }
        rights.object(Action::PutObject, bucket, key)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<ObjectInfo>> {
        let bucket = find_bucket(txn, &self.name.bucket)?;
        let current = find_object(txn, bucket.space, &self.name.key)?;
        if let Some(current) = made_by(current.as_ref(), self.options.request) {
            return Ok(Applied::Done(info(current, &self.name)));
        }
        if let Err(error) = check(&self.options, self.name.as_name(), current.as_ref()) {
            return Ok(Applied::MaybeReplayed(never(bucket.space, &self.name.key), error));
        }
        let current = current.ok_or_else(|| Error::no_such_key(&self.name.bucket, &self.name.key))?;
        let mut record = current.record.clone();
        self.change.apply(&mut record)?;
        record.changed = context.now;
        record.request = self.options.request.or(record.request);
        if let Some(accessed) = self.change.accessed {
            check_kept(&bucket, &self.name)?;
            let time = accessed.min(context.now).0.to_le_bytes();
            txn.put(bucket.space, keys::access_time(record.id), Bytes::copy_from_slice(&time));
            self.accessed = Some((bucket.space, record.id));
        }
        name::amend(txn, &bucket, &self.name.key, &current, &record);
        self.record = Some(record);
        Ok(Applied::Changed)
    }

    fn committed(self, local: &Local, commit: Commit) -> Result<ObjectInfo> {
        if let Some((space, id)) = self.accessed {
            local.reads().forget(space, id);
        }
        told(local, &self.name, self.record, commit)
    }
}
