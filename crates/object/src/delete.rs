//! Deleting objects: one, or many in one commit.

use std::collections::HashMap;

use koine_kv::{Commit, Transaction};

use crate::error::Result;
use crate::keys;
use crate::lookup::{Standing, find_bucket, find_object};
use crate::name;
use crate::objects::Objects;
use crate::pending::Pending;
use crate::put::invalid;
use crate::request::{DELETE_MANY_MAX, DeleteOptions, Deleted};
use crate::rights::{Action, Rights};
use crate::verb::{Applied, Scope, Verb, run};

impl Objects {
    /// Deletes an object; one that is absent is deleted already.
    pub fn delete(&self, bucket: &str, key: &str, options: DeleteOptions) -> Pending<Deleted> {
        if let Err(error) = keys::check_object_key(key) {
            return Pending::ready(Err(error));
        }
        run(self, Delete { bucket: bucket.to_owned(), key: key.to_owned(), options })
    }

    /// Deletes up to [`DELETE_MANY_MAX`] objects in one commit; outcomes are in the order of the names.
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
    pub bucket: String,
    pub key: String,
    pub options: DeleteOptions,
}

impl Verb for Delete {
    type Outcome = Deleted;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.object(Action::DeleteObject, &self.bucket, &self.key)
    }

    fn apply(&mut self, txn: &mut Transaction, _scope: &Scope<'_>) -> Result<Applied<Deleted>> {
        let bucket = find_bucket(txn, &self.bucket)?;
        let standing = find_object(txn, bucket.space, &self.key)?;
        self.options.condition.check(&self.key, standing.as_ref())?;
        if standing.is_none() {
            return Ok(Applied::Done(Deleted { existed: false }));
        }
        name::set(txn, &bucket, &self.key, standing.as_ref(), None)?;
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Objects, _commit: Commit) -> Result<Deleted> {
        Ok(Deleted { existed: true })
    }
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

    fn apply(&mut self, txn: &mut Transaction, scope: &Scope<'_>) -> Result<Applied<Self::Outcome>> {
        let bucket = find_bucket(txn, &self.bucket)?;
        let mut standing: Vec<(&str, Standing)> = Vec::new();
        let mut seen: HashMap<&str, Result<Deleted>> = HashMap::new();
        self.outcomes.clear();
        for key in &self.keys {
            if let Some(outcome) = seen.get(key.as_str()) {
                self.outcomes.push(outcome.clone());
                continue;
            }
            let may =
                |txn: &mut Transaction| scope.may(txn, |rights| rights.object(Action::DeleteObject, &self.bucket, key));
            let found = keys::check_object_key(key).and_then(|()| may(txn));
            let found = found.and_then(|()| find_object(txn, bucket.space, key));
            let outcome = found.map(|found| {
                let existed = found.is_some();
                standing.extend(found.map(|found| (key.as_str(), found)));
                Deleted { existed }
            });
            seen.insert(key, outcome.clone());
            self.outcomes.push(outcome);
        }
        if standing.is_empty() {
            return Ok(Applied::Done(std::mem::take(&mut self.outcomes)));
        }
        for (key, old) in &standing {
            name::set(txn, &bucket, key, Some(old), None)?;
        }
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Objects, _commit: Commit) -> Result<Self::Outcome> {
        Ok(self.outcomes)
    }
}
