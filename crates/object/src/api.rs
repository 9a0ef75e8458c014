//! The calls that are still to come.

use crate::checksum::Expected;
use crate::error::{Error, ErrorKind, Result};
use crate::info::{ObjectInfo, PartInfo, UploadId};
use crate::objects::Objects;
use crate::pending::Pending;
use crate::request::*;

fn not_yet<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "this call is not offered yet"))
}

impl Objects {
    /// Copies an object without copying its data.
    pub fn copy(&self, _from: ObjectName<'_>, _to: ObjectName<'_>, _options: CopyOptions) -> Pending<ObjectInfo> {
        Pending::ready(not_yet())
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
