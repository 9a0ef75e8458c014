//! Whether a bucket keeps versions.

use bytes::Bytes;
use koine_kv::{Commit, Transaction};

use crate::action::Action;
use crate::error::{Error, ErrorKind, Result};
use crate::keys;
use crate::local::Local;
use crate::lookup::find_bucket;
use crate::pending::Pending;
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};
use crate::version_id::Versioning;

impl Local {
    pub fn set_versioning(&self, bucket: &str, versioning: Versioning) -> Pending<()> {
        run(self, SetVersioning { bucket: bucket.to_owned(), versioning })
    }
}

struct SetVersioning {
    bucket: String,
    versioning: Versioning,
}

impl Verb for SetVersioning {
    type Outcome = ();

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::PutBucketVersioning, &self.bucket)
    }

    fn apply(&mut self, txn: &mut Transaction, _scope: &CommandContext<'_>) -> Result<Applied<()>> {
        let mut record = find_bucket(txn, &self.bucket)?;
        if record.versioning == self.versioning {
            return Ok(Applied::Done(()));
        }
        if self.versioning == Versioning::Never {
            let message = format!(
                "the bucket {:?} keeps versions, and never goes back to none at all: suspend them instead",
                self.bucket
            );
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        record.versioning = self.versioning;
        // Whoever changes anything in the bucket has read this record: it holds for every commit after this one.
        txn.put(keys::CATALOGUE, keys::bucket(&self.bucket), Bytes::from(record.encode()));
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<()> {
        Ok(())
    }
}
