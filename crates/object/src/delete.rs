//! Deleting objects: one, or many in one commit.

use std::collections::HashMap;

use koine_kv::{Commit, Transaction};

use crate::action::Action;
use crate::error::{Result, invalid};
use crate::keys;
use crate::local::Local;
use crate::lookup::{CurrentObject, find_bucket, find_object};
use crate::name;
use crate::object_name::ObjectName;
use crate::pending::Pending;
use crate::record::BucketRecord;
use crate::request::{DELETE_MANY_MAX, DeleteOptions, Deleted};
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};

impl Local {
    pub fn delete(&self, bucket: &str, key: &str, options: DeleteOptions) -> Pending<Deleted> {
        if let Err(error) = keys::check_object_key(key) {
            return Pending::ready(Err(error));
        }
        run(self, Delete::new(ObjectName::new(bucket, key), options))
    }

    pub fn delete_many(&self, bucket: &str, keys: &[String]) -> Pending<Vec<Result<Deleted>>> {
        if keys.len() > DELETE_MANY_MAX {
            let message = format!("{} names were given; {DELETE_MANY_MAX} are allowed at once", keys.len());
            return Pending::ready(Err(invalid(message)));
        }
        let (bucket, keys) = (bucket.to_owned(), keys.to_vec());
        run(self, DeleteMany { bucket, keys, outcomes: Vec::new() })
    }
}

/// The verb.
pub(crate) struct Delete {
    bucket: String,
    key: String,
    options: DeleteOptions,
    /// Of the last attempt.
    deleted: Deleted,
}

impl Deleted {
    /// Whether anything was changed.
    fn changed(self) -> bool {
        self.existed || self.marker
    }
}

impl Delete {
    pub fn new(name: ObjectName<'_>, options: DeleteOptions) -> Self {
        let (bucket, key) = (name.bucket.to_owned(), name.key.to_owned());
        Delete { bucket, key, options, deleted: Deleted::default() }
    }

    /// What the last `apply` did.
    pub fn deleted(&self) -> Deleted {
        self.deleted
    }
}

impl Verb for Delete {
    type Outcome = Deleted;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.object(Action::DeleteObject, &self.bucket, &self.key)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<Deleted>> {
        let bucket = find_bucket(txn, &self.bucket)?;
        let current = find_object(txn, bucket.space, &self.key)?;
        self.options.condition.check(ObjectName::new(&self.bucket, &self.key), current.as_ref())?;
        self.deleted = delete(txn, context, (&bucket, &self.key), current.as_ref())?;
        if self.deleted.existed {
            context.removes(|| format!("the object {}/{}", self.bucket, self.key));
        }
        Ok(if self.deleted.changed() { Applied::Changed } else { Applied::Done(self.deleted) })
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<Deleted> {
        Ok(self.deleted)
    }
}

/// Takes a name away, whether anything stands under it or not: a bucket that keeps versions gets a marker.
fn delete(
    txn: &mut Transaction,
    context: &CommandContext<'_>,
    (bucket, key): (&BucketRecord, &str),
    old: Option<&CurrentObject>,
) -> Result<Deleted> {
    let marker = name::set(txn, context, bucket, key, old, None)?;
    Ok(Deleted { existed: old.is_some(), marker: marker.is_some(), version: marker })
}

struct DeleteMany {
    bucket: String,
    keys: Vec<String>,
    /// Of the last attempt.
    outcomes: Vec<Result<Deleted>>,
}

impl Verb for DeleteMany {
    type Outcome = Vec<Result<Deleted>>;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        // Each name has an outcome of its own, so `apply` asks for each.
        let _ = rights;
        Ok(())
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<Self::Outcome>> {
        let bucket = find_bucket(txn, &self.bucket)?;
        let mut found: HashMap<&str, Result<Option<CurrentObject>>> = HashMap::new();
        for key in &self.keys {
            if found.contains_key(key.as_str()) {
                continue;
            }
            let may = |txn: &mut Transaction| {
                context.may(txn, |rights| rights.object(Action::DeleteObject, &self.bucket, key))
            };
            let one = keys::check_object_key(key).and_then(|()| may(txn));
            let current = one.and_then(|()| find_object(txn, bucket.space, key));
            if matches!(current, Ok(Some(_))) {
                context.removes(|| format!("the object {}/{key}", self.bucket));
            }
            found.insert(key, current);
        }
        let mut outcomes: HashMap<&str, Result<Deleted>> = HashMap::new();
        for key in &self.keys {
            let Some(found) = found.remove(key.as_str()) else {
                continue; // given twice, and deleted already
            };
            let outcome = match found {
                Ok(old) => Ok(delete(txn, context, (&bucket, key), old.as_ref())?),
                Err(error) => Err(error),
            };
            outcomes.insert(key, outcome);
        }
        let told = self.keys.iter().filter_map(|key| outcomes.get(key.as_str()).cloned());
        self.outcomes = told.collect();
        let changed = self.outcomes.iter().flatten().any(|deleted| deleted.changed());
        Ok(if changed { Applied::Changed } else { Applied::Done(std::mem::take(&mut self.outcomes)) })
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<Self::Outcome> {
        Ok(self.outcomes)
    }
}
