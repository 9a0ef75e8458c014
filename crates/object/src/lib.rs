//! Buckets, objects, versions, multipart and conditions over any [`Kv`](koine_kv::Kv).
//!
//! [`Objects`] is the door. Calls are synchronous; those that change something give a [`Pending`] outcome, so
//! that no thread is held while a commit becomes durable. Bodies are pushed piece by piece into an
//! [`ObjectWriter`] or [`PartWriter`]; an [`ObjectReader`] reads one version of an object to its end.
//!
//! Invariants:
//! - Nothing that correctness needs is kept in memory: any number of processes may use one back end at once.
//! - One object, one commit: its name, its data and the deletion of what it replaces stand in one batch.
//! - What docs/semantics.md says of names, conditions, listings and uploads holds for every back end.

mod api;
mod checksum;
mod error;
mod etag;
mod info;
mod pending;
mod request;

pub use api::{ObjectReader, ObjectWriter, Objects, PartWriter, RootKey};
pub use checksum::{Checksum, ChecksumAlgorithm, ChecksumKind, Expected};
pub use error::{Error, ErrorKind, Result};
pub use etag::{ETag, EtagMatch, PutCondition, ReadCondition};
pub use info::{BucketInfo, ContentHeaders, ObjectId, ObjectInfo, ObjectSummary, PartInfo, UploadId, UploadInfo};
pub use pending::Pending;
pub use request::{
    BODY_LEN_MAX, BucketPage, BucketQuery, ByteRange, CompleteOptions, CompletedPart, CopiedMetadata, CopyOptions,
    DELETE_MANY_MAX, DeleteOptions, Deleted, ListPage, ListQuery, METADATA_LEN_MAX, OBJECT_KEY_LEN_MAX, ObjectName,
    PART_LEN_MIN, PART_NUMBER_MAX, PartOptions, PartPage, PutOptions, UploadOptions, UploadPage, UploadQuery,
};
