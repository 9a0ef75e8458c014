//! What is known of buckets, objects and parts, as callers see it.

use koine_env::Timestamp;
use koine_kv::{SpaceId, Version};

use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind};
use crate::etag::ETag;
use crate::ids::{ObjectId, UploadId};
use crate::version_id::{VersionId, Versioning};

/// The headers of HTTP that are stored with an object and given back with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentHeaders {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Expires`, as it was given.
    pub expires: Option<String>,
}

/// What is known of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketInfo {
    /// Its name.
    pub name: String,
    /// The space that holds its names and data.
    pub space: SpaceId,
    /// When it was made.
    pub created: Timestamp,
    /// What it may hold at most.
    pub quota: Quota,
    /// Whether it keeps older versions of its objects.
    pub versioning: Versioning,
    /// Whether it is kept when its objects were last read.
    pub access_times: AccessTimes,
    /// The user's metadata, in the order given.
    pub metadata: Vec<(String, String)>,
    /// Its tags, in the order given.
    pub tags: Vec<(String, String)>,
    /// The region that who made it asked for by S3 (`LocationConstraint`): told back, and used for nothing.
    pub location: Option<String>,
}

/// Whether a bucket keeps when its objects were last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// It does not.
    Off,
    /// It does, and a time is renewed where it is older than the last change of its object, or older than a day.
    #[default]
    Relative,
}

/// What a bucket may hold at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of objects, older versions and parts under way together; `None` is no limit.
    pub bytes: Option<u64>,
    /// Objects and older versions together; `None` is no limit.
    pub objects: Option<u64>,
}

/// How much a bucket holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketUsage {
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Older versions and delete markers.
    pub older: u64,
    /// Bytes of older versions.
    pub older_bytes: u64,
    /// Bytes of parts of uploads that are neither completed nor aborted.
    pub upload_bytes: u64,
}

/// What is known of a snapshot of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its name; it is read as the bucket `BUCKET@SNAPSHOT`.
    pub name: String,
    /// The space that holds its names and data.
    pub space: SpaceId,
    /// When it was made.
    pub created: Timestamp,
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its name within the bucket.
    pub key: String,
    /// Its identity.
    pub id: ObjectId,
    /// The commit that last changed it.
    pub version: Version,
    /// Which of the objects that a versioned bucket keeps under its name.
    pub version_id: VersionId,
    /// Its length in bytes.
    pub size: u64,
    /// When this identity was made.
    pub created: Timestamp,
    /// When its bytes were last changed.
    pub modified: Timestamp,
    /// When its bytes or anything recorded here were last changed.
    pub changed: Timestamp,
    /// When it was last read, as far as its bucket keeps that. Told by `head` alone.
    pub accessed: Option<Timestamp>,
    /// Permission bits, for doors that have them.
    pub mode: u32,
    /// What clients compare.
    pub etag: ETag,
    /// Of its bytes (or of its parts, where composite).
    pub checksums: Vec<Checksum>,
    /// Stored headers.
    pub headers: ContentHeaders,
    /// The user's metadata in the order given; names without `x-amz-meta-`, in lower case.
    pub metadata: Vec<(String, String)>,
    /// Its tags, in the order given.
    pub tags: Vec<(String, String)>,
    /// Numeric user and group, for doors that have them.
    pub posix_owner: Option<(u32, u32)>,
    /// How many parts it was joined from; `None` when it was put whole.
    pub part_count: Option<u32>,
}

/// What a listing tells of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSummary {
    /// Its name.
    pub key: String,
    /// The commit that last changed it.
    pub version: Version,
    /// Its length in bytes.
    pub size: u64,
    /// When its bytes were last changed.
    pub modified: Timestamp,
    /// What clients compare.
    pub etag: ETag,
    /// Which checksums are stored, and of what kind.
    pub checksums: Vec<(ChecksumAlgorithm, ChecksumKind)>,
}

/// What is known of a part of an upload, or of an object that was joined from parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartInfo {
    /// 1 to 10,000.
    pub number: u32,
    /// Its length in bytes.
    pub size: u64,
    /// The MD5 of its bytes.
    pub etag: ETag,
    /// Of its bytes.
    pub checksums: Vec<Checksum>,
    /// When it was put.
    pub modified: Timestamp,
}

/// What is known of an upload that is neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadInfo {
    /// The name that its object will have.
    pub key: String,
    /// Its id.
    pub id: UploadId,
    /// When it was begun.
    pub created: Timestamp,
    /// The checksum kept of each part and of the whole.
    pub checksum: (ChecksumAlgorithm, ChecksumKind),
    /// Whether the caller asked for that checksum; else it is the default.
    pub checksum_asked: bool,
}
