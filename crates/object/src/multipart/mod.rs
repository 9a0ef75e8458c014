//! Uploads in parts: begun, filled, joined or dropped.
//!
//! Invariants:
//! - Nothing of an upload is visible as an object before its completion, which is one commit.
//! - Every part is put under the condition that its upload is there (its record is read, and never changes), so that none is left behind by a
//!   completion or an abort.
//! - All that belongs to an upload lies under its own record and its own prefix; dropping it is one range.

mod complete;
mod listing;
mod part;

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Commit, Condition, KeyRange, Operation, Transaction};

use crate::action::Action;
use crate::checksum::ChecksumAlgorithm;
use crate::count;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::UploadId;
use crate::keys;
use crate::limits::{check_headers, check_metadata};
use crate::local::Local;
use crate::lookup::{find_bucket, find_upload};
use crate::object_name::ObjectName;
use crate::pending::Pending;
use crate::record::{BucketRecord, UploadRecord};
use crate::request::UploadOptions;
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};

pub(crate) use part::LocalPartWriter;

impl Local {
    pub fn create_upload(&self, bucket: &str, key: &str, options: UploadOptions) -> Pending<UploadId> {
        match self.prepare_upload(bucket, key, options) {
            Ok(create) => run(self, create),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn prepare_upload(&self, bucket: &str, key: &str, options: UploadOptions) -> Result<CreateUpload> {
        keys::check_object_key(key)?;
        check_metadata(&options.metadata)?;
        check_headers(&options.headers)?;
        let (algorithm, kind) = options.checksum.unwrap_or((ChecksumAlgorithm::Crc64Nvme, None));
        let kind = kind.unwrap_or_else(|| algorithm.default_kind());
        if !algorithm.allows(kind) {
            let message = format!("{} cannot be of the kind {kind:?} over parts", algorithm.name());
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        let record = UploadRecord {
            created: self.now(),
            algorithm,
            kind,
            asked: options.checksum.is_some(),
            etag: options.etag,
            owner: self.caller().user(),
            headers: options.headers,
            metadata: options.metadata,
            kept: Vec::new(),
        };
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Ok(CreateUpload { bucket, key, id: UploadId([0; 16]), record })
    }

    pub fn abort_upload(&self, name: ObjectName<'_>, upload: UploadId) -> Pending<()> {
        if let Err(error) = keys::check_object_key(name.key) {
            return Pending::ready(Err(error));
        }
        let (bucket, key) = (name.bucket.to_owned(), name.key.to_owned());
        run(self, AbortUpload { bucket, key, id: upload })
    }
}

/// The upload goes, with every part that is left; `bytes` are those of all its parts.
fn drop_upload(txn: &mut Transaction, bucket: &BucketRecord, key: &str, id: UploadId, bytes: u64) -> Result<()> {
    let space = bucket.space;
    count::part_changed(txn, bucket, id, bytes, 0)?;
    txn.delete(space, keys::upload(key, id));
    txn.then(Operation::DeleteRange { space, range: KeyRange::prefix(keys::parts_prefix(id)) });
    Ok(())
}

struct CreateUpload {
    bucket: String,
    key: String,
    /// Drawn by the last attempt.
    id: UploadId,
    record: UploadRecord,
}

impl Verb for CreateUpload {
    type Outcome = UploadId;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.object(Action::PutObject, &self.bucket, &self.key)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<UploadId>> {
        let space = find_bucket(txn, &self.bucket)?.space;
        self.id = draw_upload_id(self.record.created, context.draw_u64());
        let key = keys::upload(&self.key, self.id);
        txn.when(Condition::Absent { space, key: key.clone() });
        txn.put(space, key, Bytes::from(self.record.encode()));
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<UploadId> {
        Ok(self.id)
    }
}

fn draw_upload_id(created: Timestamp, random: u64) -> UploadId {
    let mut id = [0; 16];
    let (time, drawn) = id.split_at_mut(8);
    time.copy_from_slice(&created.0.to_be_bytes());
    drawn.copy_from_slice(&random.to_be_bytes());
    UploadId(id)
}

struct AbortUpload {
    bucket: String,
    key: String,
    id: UploadId,
}

impl Verb for AbortUpload {
    type Outcome = ();

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.upload(Action::AbortMultipartUpload, &self.bucket, &self.key, self.id)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<()>> {
        let bucket = find_bucket(txn, &self.bucket)?;
        let space = bucket.space;
        find_upload(txn, space, &self.key, self.id)?;
        let bytes = complete::read_parts(txn, space, self.id)?.values().map(|part| part.size).sum();
        drop_upload(txn, &bucket, &self.key, self.id, bytes)?;
        context.removes(|| format!("an upload of {}/{} under way", self.bucket, self.key));
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<()> {
        Ok(())
    }
}
