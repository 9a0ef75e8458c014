//! Deleting objects: one, or many in one commit.

use std::collections::HashMap;

use koine_kv::{Batch, Commit, View};

use crate::change::{Change, Plan, run};
use crate::error::Result;
use crate::keys;
use crate::objects::{Objects, find_object, find_space, replace};
use crate::pending::Pending;
use crate::put::invalid;
use crate::request::{DELETE_MANY_MAX, DeleteOptions, Deleted};

impl Objects {
    /// Deletes an object; one that is absent is deleted already.
    pub fn delete(&self, bucket: &str, key: &str, options: DeleteOptions) -> Pending<Deleted> {
        if let Err(error) = keys::check_object_key(key) {
            return Pending::ready(Err(error));
        }
        run(Delete { objects: self.clone(), bucket: bucket.to_owned(), key: key.to_owned(), options })
    }

    /// Deletes up to [`DELETE_MANY_MAX`] objects in one commit; outcomes are in the order of the names.
    pub fn delete_many(&self, bucket: &str, keys: &[String]) -> Pending<Vec<Result<Deleted>>> {
        if keys.len() > DELETE_MANY_MAX {
            let message = format!("{} names were given; {DELETE_MANY_MAX} are allowed at once", keys.len());
            return Pending::ready(Err(invalid(message)));
        }
        let (bucket, keys) = (bucket.to_owned(), keys.to_vec());
        run(DeleteMany { objects: self.clone(), bucket, keys, outcomes: Vec::new() })
    }
}

struct Delete {
    objects: Objects,
    bucket: String,
    key: String,
    options: DeleteOptions,
}

impl Change for Delete {
    type Outcome = Deleted;

    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn plan(&mut self, view: &dyn View) -> Result<Plan<Deleted>> {
        let space = find_space(view, &self.bucket)?;
        let standing = find_object(view, space, &self.key)?;
        self.options.condition.check(&self.key, standing.as_ref().map(|standing| &standing.record.etag))?;
        Ok(match standing {
            None => Plan::Done(Deleted { existed: false }),
            Some(standing) => {
                let batch = replace(Batch::new(), space, &self.key, Some(&standing));
                Plan::Submit(batch.delete(space, keys::name(&self.key)))
            }
        })
    }

    fn committed(self, _commit: Commit) -> Result<Deleted> {
        Ok(Deleted { existed: true })
    }
}

struct DeleteMany {
    objects: Objects,
    bucket: String,
    keys: Vec<String>,
    /// Of the last plan.
    outcomes: Vec<Result<Deleted>>,
}

impl Change for DeleteMany {
    type Outcome = Vec<Result<Deleted>>;

    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn plan(&mut self, view: &dyn View) -> Result<Plan<Self::Outcome>> {
        let space = find_space(view, &self.bucket)?;
        let mut batch = Batch::new();
        let mut seen: HashMap<&str, Result<Deleted>> = HashMap::new();
        self.outcomes.clear();
        for key in &self.keys {
            if let Some(outcome) = seen.get(key.as_str()) {
                self.outcomes.push(outcome.clone());
                continue;
            }
            let found = keys::check_object_key(key).and_then(|()| find_object(view, space, key));
            let outcome = match found {
                Ok(None) => Ok(Deleted { existed: false }),
                Ok(Some(standing)) => {
                    batch = replace(batch, space, key, Some(&standing)).delete(space, keys::name(key));
                    Ok(Deleted { existed: true })
                }
                Err(error) => Err(error),
            };
            seen.insert(key, outcome.clone());
            self.outcomes.push(outcome);
        }
        if batch.operations.is_empty() {
            return Ok(Plan::Done(std::mem::take(&mut self.outcomes)));
        }
        Ok(Plan::Submit(batch))
    }

    fn committed(self, _commit: Commit) -> Result<Self::Outcome> {
        Ok(self.outcomes)
    }
}
