//! Uploads in parts: begun, filled, joined or dropped.
//!
//! Invariants:
//! - Nothing of an upload is visible as an object before its completion, which is one commit.
//! - Every part is put under the condition that its upload is there, so that none is left behind by a
//!   completion or an abort.
//! - All that belongs to an upload lies under its own record and its own prefix; dropping it is one range.

mod complete;
mod listing;
mod part;

use koine_env::Timestamp;
use koine_kv::{Batch, Commit, Condition, KeyRange, Operation, SpaceId, View};

use crate::change::{Change, Plan, run};
use crate::checksum::ChecksumAlgorithm;
use crate::error::{Error, ErrorKind, Result};
use crate::info::UploadId;
use crate::keys;
use crate::objects::{Objects, find_space, read_value};
use crate::pending::Pending;
use crate::put::check_metadata;
use crate::record::UploadRecord;
use crate::request::{ObjectName, UploadOptions};

pub use part::PartWriter;

impl Objects {
    /// Begins an upload in parts.
    pub fn create_upload(&self, bucket: &str, key: &str, options: UploadOptions) -> Pending<UploadId> {
        match self.prepare_upload(bucket, key, options) {
            Ok(create) => run(create),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn prepare_upload(&self, bucket: &str, key: &str, options: UploadOptions) -> Result<CreateUpload> {
        keys::check_object_key(key)?;
        check_metadata(&options.metadata)?;
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
            headers: options.headers,
            metadata: options.metadata,
            kept: Vec::new(),
        };
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Ok(CreateUpload { objects: self.clone(), bucket, key, id: UploadId([0; 16]), record })
    }

    /// Drops an upload and its parts.
    pub fn abort_upload(&self, name: ObjectName<'_>, upload: UploadId) -> Pending<()> {
        if let Err(error) = keys::check_object_key(name.key) {
            return Pending::ready(Err(error));
        }
        let (bucket, key) = (name.bucket.to_owned(), name.key.to_owned());
        run(AbortUpload { objects: self.clone(), bucket, key, id: upload })
    }
}

/// An upload's record; `NoSuchUpload` when it is not there.
fn find_upload(view: &dyn View, space: SpaceId, key: &str, id: UploadId) -> Result<UploadRecord> {
    let found = read_value(view, space, &keys::upload(key, id))?;
    let (_, bytes) = found.ok_or_else(|| Error::no_such_upload(&id))?;
    UploadRecord::decode(&bytes)
}

/// Adds that the upload is there still.
fn while_open(batch: Batch, space: SpaceId, key: &str, id: UploadId) -> Batch {
    batch.when(Condition::Present { space, key: keys::upload(key, id) })
}

/// Adds that the upload goes, with every part that is left.
fn drop_upload(batch: Batch, space: SpaceId, key: &str, id: UploadId) -> Batch {
    let range = KeyRange::prefix(keys::parts_prefix(id));
    batch.delete(space, keys::upload(key, id)).then(Operation::DeleteRange { space, range })
}

struct CreateUpload {
    objects: Objects,
    bucket: String,
    key: String,
    /// Drawn by the last plan.
    id: UploadId,
    record: UploadRecord,
}

impl Change for CreateUpload {
    type Outcome = UploadId;

    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn plan(&mut self, view: &dyn View) -> Result<Plan<UploadId>> {
        let space = find_space(view, &self.bucket)?;
        self.id = draw_upload_id(self.record.created, self.objects.draw_u64());
        let key = keys::upload(&self.key, self.id);
        let batch = Batch::new().when(Condition::Absent { space, key: key.clone() });
        Ok(Plan::Submit(batch.put(space, key, self.record.encode())))
    }

    fn committed(self, _commit: Commit) -> Result<UploadId> {
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
    objects: Objects,
    bucket: String,
    key: String,
    id: UploadId,
}

impl Change for AbortUpload {
    type Outcome = ();

    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn plan(&mut self, view: &dyn View) -> Result<Plan<()>> {
        let space = find_space(view, &self.bucket)?;
        find_upload(view, space, &self.key, self.id)?;
        let batch = while_open(Batch::new(), space, &self.key, self.id);
        Ok(Plan::Submit(drop_upload(batch, space, &self.key, self.id)))
    }

    fn committed(self, _commit: Commit) -> Result<()> {
        Ok(())
    }
}
