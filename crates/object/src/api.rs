//! The calls, before each moves to the file of its subject.

use std::sync::Arc;

use bytes::Bytes;
use koine_env::{Clock, Random};
use koine_kv::{Kv, ReadNow};

use crate::checksum::Expected;
use crate::error::{Error, ErrorKind, Result};
use crate::info::{BucketInfo, ObjectInfo, PartInfo, UploadId};
use crate::pending::Pending;
use crate::request::*;

fn not_yet<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "this call is not offered yet"))
}

/// The key that may do everything.
#[derive(Clone, PartialEq, Eq)]
pub struct RootKey {
    /// What requests name.
    pub access_key: String,
    /// What they are signed with.
    pub secret: String,
}

impl std::fmt::Debug for RootKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RootKey({:?})", self.access_key)
    }
}

/// Buckets and objects over a store.
#[derive(Clone)]
pub struct Objects {
    kv: Arc<dyn Kv>,
}

impl Objects {
    /// Opens the objects of a store; makes the catalogue when the store is new.
    pub fn open(kv: Arc<dyn Kv>, _clock: Arc<dyn Clock>, _random: Arc<dyn Random>) -> Result<Self> {
        Ok(Objects { kv })
    }

    /// The store below.
    pub fn kv(&self) -> &Arc<dyn Kv> {
        &self.kv
    }

    /// The root key, when one was set.
    pub fn root_key(&self) -> Result<Option<RootKey>> {
        not_yet()
    }

    /// Sets the root key unless there is one; gives the one that stands.
    pub fn set_root_key_if_absent(&self, _key: &RootKey) -> Result<RootKey> {
        not_yet()
    }

    /// Makes a bucket.
    pub fn create_bucket(&self, _bucket: &str) -> Pending<BucketInfo> {
        Pending::ready(not_yet())
    }

    /// Removes a bucket that holds no objects; its unfinished uploads go with it.
    pub fn delete_bucket(&self, _bucket: &str) -> Pending<()> {
        Pending::ready(not_yet())
    }

    /// What is known of a bucket.
    pub fn head_bucket(&self, _bucket: &str) -> Result<BucketInfo> {
        not_yet()
    }

    /// Buckets by name.
    pub fn list_buckets(&self, _query: &BucketQuery) -> Result<BucketPage> {
        not_yet()
    }

    /// Begins to put an object.
    pub fn put(&self, _bucket: &str, _key: &str, _options: PutOptions) -> Result<ObjectWriter> {
        not_yet()
    }

    /// Opens an object as it is now.
    pub fn get(&self, _bucket: &str, _key: &str) -> Result<ObjectReader> {
        not_yet()
    }

    /// What is known of an object.
    pub fn head(&self, _bucket: &str, _key: &str) -> Result<ObjectInfo> {
        not_yet()
    }

    /// Deletes an object; one that is absent is deleted already.
    pub fn delete(&self, _bucket: &str, _key: &str, _options: DeleteOptions) -> Pending<Deleted> {
        Pending::ready(not_yet())
    }

    /// Deletes up to [`DELETE_MANY_MAX`] objects in one commit; outcomes are in the order of the names.
    pub fn delete_many(&self, _bucket: &str, _keys: &[String]) -> Pending<Vec<Result<Deleted>>> {
        Pending::ready(not_yet())
    }

    /// Copies an object without copying its data.
    pub fn copy(&self, _from: ObjectName<'_>, _to: ObjectName<'_>, _options: CopyOptions) -> Pending<ObjectInfo> {
        Pending::ready(not_yet())
    }

    /// A page of the objects of a bucket.
    pub fn list(&self, _bucket: &str, _query: &ListQuery) -> Result<ListPage> {
        not_yet()
    }

    /// Begins an upload in parts.
    pub fn create_upload(&self, _bucket: &str, _key: &str, _options: UploadOptions) -> Pending<UploadId> {
        Pending::ready(not_yet())
    }

    /// Begins to put a part; one of the same number is replaced.
    pub fn put_part(
        &self,
        _name: ObjectName<'_>,
        _upload: UploadId,
        _number: u32,
        _options: PartOptions,
    ) -> Result<PartWriter> {
        not_yet()
    }

    /// Makes a part from an object, or from a range of its bytes, without copying its data.
    pub fn copy_part(
        &self,
        _from: ObjectName<'_>,
        _range: Option<ByteRange>,
        _source_condition: &crate::ReadCondition,
        _to: ObjectName<'_>,
        _upload: UploadId,
        _number: u32,
    ) -> Pending<PartInfo> {
        Pending::ready(not_yet())
    }

    /// Parts of an upload with numbers above `after`, at most `limit`.
    pub fn list_parts(&self, _name: ObjectName<'_>, _upload: UploadId, _after: u32, _limit: usize) -> Result<PartPage> {
        not_yet()
    }

    /// Uploads of a bucket that are neither completed nor aborted.
    pub fn list_uploads(&self, _bucket: &str, _query: &UploadQuery) -> Result<UploadPage> {
        not_yet()
    }

    /// Joins parts to the object, in one commit and without copying data. A repeat gets the first outcome.
    pub fn complete_upload(
        &self,
        _name: ObjectName<'_>,
        _upload: UploadId,
        _options: CompleteOptions,
    ) -> Pending<ObjectInfo> {
        Pending::ready(not_yet())
    }

    /// Drops an upload and its parts.
    pub fn abort_upload(&self, _name: ObjectName<'_>, _upload: UploadId) -> Pending<()> {
        Pending::ready(not_yet())
    }
}

/// An object on its way in. Dropped before `finish`, it leaves nothing.
#[derive(Debug)]
pub struct ObjectWriter {}

impl ObjectWriter {
    /// Adds a piece of any length. May wait for the device's writes, never for a flush.
    pub fn write(&mut self, _piece: &[u8]) -> Result<()> {
        not_yet()
    }

    /// No more pieces: verifies what was promised by headers and by these trailers, and commits.
    pub fn finish(self, _trailers: &Expected) -> Pending<ObjectInfo> {
        Pending::ready(not_yet())
    }
}

/// A part on its way in. Dropped before `finish`, it leaves nothing.
#[derive(Debug)]
pub struct PartWriter {}

impl PartWriter {
    /// Adds a piece of any length. May wait for the device's writes, never for a flush.
    pub fn write(&mut self, _piece: &[u8]) -> Result<()> {
        not_yet()
    }

    /// No more pieces: verifies what was promised, and commits.
    pub fn finish(self, _trailers: &Expected) -> Pending<PartInfo> {
        Pending::ready(not_yet())
    }
}

/// One version of an object, pinned until it is dropped. `Send` and `Sync`.
#[derive(Debug)]
pub struct ObjectReader {
    info: ObjectInfo,
}

impl ObjectReader {
    /// What is known of the object.
    pub fn info(&self) -> &ObjectInfo {
        &self.info
    }

    /// The parts it was joined from; none when it was put whole.
    pub fn parts(&self) -> Result<Vec<PartInfo>> {
        not_yet()
    }

    /// Reads into `buffer` from `offset`; a short count only at the object's end.
    pub fn read(&self, _offset: u64, _buffer: &mut [u8]) -> Result<usize> {
        not_yet()
    }

    /// As `read`, but says `WouldBlock` where the device would be read.
    pub fn read_now(&self, _offset: u64, _buffer: &mut [u8]) -> Result<ReadNow> {
        not_yet()
    }

    /// Verified bytes of a range; shorter only at the object's end.
    pub fn bytes(&self, _offset: u64, _length: usize) -> Result<Bytes> {
        not_yet()
    }
}
