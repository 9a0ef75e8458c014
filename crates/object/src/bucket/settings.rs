//! Settings of a bucket: what it may hold at most, its metadata and tags, whether it keeps access times.
//!
//! Invariant: settings stand in the bucket's record, which every change of the bucket has read: they hold for every
//! commit after theirs.

use bytes::Bytes;
use koine_kv::{Commit, Transaction};

use super::info;
use crate::action::Action;
use crate::error::{Error, ErrorKind, Result};
use crate::info::BucketInfo;
use crate::keys;
use crate::limits::{check_metadata, check_tags_of};
use crate::local::Local;
use crate::lookup::find_bucket;
use crate::pending::Pending;
use crate::record::BucketRecord;
use crate::request::{BUCKET_TAGS_MAX, BucketChange, LOCATION_LEN_MAX};
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};

impl Local {
    pub fn set_bucket(&self, bucket: &str, change: BucketChange) -> Pending<BucketInfo> {
        run(self, SetBucket { bucket: bucket.to_owned(), change, record: None })
    }
}

fn check_location(location: &str) -> Result<()> {
    if location.is_empty() || location.len() > LOCATION_LEN_MAX || !location.bytes().all(|byte| byte.is_ascii_graphic())
    {
        let message = format!("a location has 1 to {LOCATION_LEN_MAX} printable characters of ASCII and no space");
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    Ok(())
}

struct SetBucket {
    bucket: String,
    change: BucketChange,
    /// Of the last attempt.
    record: Option<BucketRecord>,
}

impl Verb for SetBucket {
    type Outcome = BucketInfo;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        if self.change.tags.is_some() {
            rights.bucket(Action::PutBucketTagging, &self.bucket)?;
        }
        let others = BucketChange { tags: None, ..self.change.clone() };
        if self.change.tags.is_some() && others == BucketChange::default() {
            return Ok(());
        }
        rights.bucket(Action::SetBucket, &self.bucket)
    }

    fn apply(&mut self, txn: &mut Transaction, _scope: &CommandContext<'_>) -> Result<Applied<BucketInfo>> {
        let mut record = find_bucket(txn, &self.bucket)?;
        if let Some(bytes) = self.change.quota_bytes {
            record.quota.bytes = bytes;
        }
        if let Some(local) = self.change.quota_objects {
            record.quota.objects = local;
        }
        record.access_times = self.change.access_times.unwrap_or(record.access_times);
        if let Some(change) = &self.change.metadata {
            change.apply(&mut record.metadata);
            check_metadata(&record.metadata)?;
        }
        if let Some(change) = &self.change.tags {
            change.apply(&mut record.tags);
            check_tags_of(BUCKET_TAGS_MAX, &record.tags)?;
        }
        if let Some(location) = &self.change.location {
            check_location(location)?;
            record.location = Some(location.clone());
        }
        txn.put(keys::CATALOGUE, keys::bucket(&self.bucket), Bytes::from(record.encode()));
        self.record = Some(record);
        Ok(Applied::Changed)
    }

    fn committed(self, local: &Local, _commit: Commit) -> Result<BucketInfo> {
        match self.record {
            Some(record) => Ok(info(self.bucket, &record)),
            None => local.head_bucket(&self.bucket),
        }
    }
}
