//! What callers ask for and are told, as fields of messages. Invariant: a field that a structure gains stands here too,
//! or it does not compile; then [`PROTOCOL`](super::PROTOCOL) goes up.

use koine_env::Timestamp;
use koine_kv::{Commit, RequestId, SpaceId, Version};

use super::field::{Field, Taken, choices, malformed, structures, wrappers};
use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind, Expected};
use crate::error::Result;
use crate::etag::{ETag, EtagKind, EtagMatch, PutCondition, ReadCondition};
use crate::ids::{ObjectId, UploadId};
use crate::info::{
    AccessTimes, BucketInfo, BucketUsage, ContentHeaders, ObjectInfo, ObjectSummary, PartInfo, Quota, SnapshotInfo,
    UploadInfo,
};
use crate::object_name::Name;
use crate::request::{
    AttributeChange, BucketChange, BucketPage, BucketQuery, ByteRange, CompleteOptions, CompletedPart, ComposeOptions,
    CopiedMetadata, CopiedPrefix, CopyOptions, CopyPrefixOptions, DeleteOptions, Deleted, EditOptions, ExchangeOptions,
    ListPage, ListQuery, MetadataChange, PartOptions, PartPage, PutOptions, RenameOptions, StageOptions, UploadOptions,
    UploadPage, UploadQuery,
};
use crate::search_query::{IndexInfo, Indexed, SearchPage, SearchQuery, Wanted};
use crate::version::{VersionPage, VersionQuery, VersionSummary};
use crate::version_id::{VersionId, Versioning};

wrappers! { Timestamp, Version, SpaceId, RequestId, ObjectId, UploadId }

structures! {
    Name { bucket, key }
    ContentHeaders {
        content_type, cache_control, content_disposition, content_encoding, content_language, expires,
    }
    Expected { md5, checksums }
    Checksum { algorithm, value, composite_parts }
    PutCondition { if_absent, if_match, if_version }
    ReadCondition { if_match, if_none_match, if_modified_since, if_unmodified_since }
    PutOptions { headers, metadata, tags, condition, length, expected, etag, checksum, request }
    CopyOptions { metadata, tags, source_version, source_condition, condition, checksum, request }
    EditOptions { condition, only, create, length, expected, request }
    ComposeOptions { put, source_metadata }
    AttributeChange { metadata, tags, headers, mode, posix_owner, modified, accessed }
    CopyPrefixOptions { condition, after }
    CopiedPrefix { objects, next }
    RenameOptions { condition, source_condition, request }
    ExchangeOptions { request }
    DeleteOptions { condition }
    Deleted { existed, marker, version }
    BucketQuery { prefix, after, limit, group }
    BucketChange { quota_bytes, quota_objects, access_times, metadata, tags, location }
    BucketPage { buckets, next }
    BucketInfo { name, space, created, quota, access_times, metadata, tags, versioning, location }
    Quota { bytes, objects }
    BucketUsage { objects, bytes, older, older_bytes, upload_bytes }
    SnapshotInfo { name, space, created }
    ListQuery { prefix, delimiter, after, limit }
    ListPage { objects, common_prefixes, next }
    UploadOptions { headers, metadata, etag, checksum }
    PartOptions { length, expected, checksum }
    ByteRange { offset, length }
    CompletedPart { number, etag, checksums }
    CompleteOptions { parts, all_parts, condition, expected, size }
    UploadQuery { prefix, delimiter, key_after, upload_after, limit }
    UploadPage { uploads, common_prefixes, next }
    PartPage { upload, parts, next }
    ObjectInfo {
        key, id, version, size, created, modified, changed, mode, etag, checksums, headers, metadata, tags,
        posix_owner, part_count, accessed, version_id,
    }
    ObjectSummary { key, version, size, modified, etag, checksums }
    PartInfo { number, size, etag, checksums, modified }
    UploadInfo { key, id, created, checksum, checksum_asked }
    StageOptions { length, expected, etag, checksums }
    Commit { version, repeated }
    VersionQuery { prefix, delimiter, key_after, version_after, limit }
    VersionPage { versions, common_prefixes, next }
    VersionSummary { key, id, newest, modified, object }
    SearchQuery { of, wanted, prefix, after, limit }
    SearchPage { found, next }
    IndexInfo { of, whole }
}

choices! {
    ChecksumAlgorithm {
        1 Crc32, 2 Crc32c, 3 Crc64Nvme, 4 Sha1, 5 Sha256,
        6 Sha512, 7 Md5, 8 Xxhash64, 9 Xxhash3, 10 Xxhash128,
    }
    EtagMatch { 0 Any, 1 OneOf(tags) }
    CopiedMetadata { 0 Copy, 1 Replace { headers, metadata } }
    MetadataChange { 0 Replace(all), 1 Merge { set, remove } }
    ETag { 0 Md5(digest), 1 Multipart(digest, parts), 2 Drawn(id, drawn), 3 Other(text) }
    EtagKind { 0 Drawn, 1 Md5 }
    AccessTimes { 0 Off, 1 Relative }
    Versioning { 0 Never, 1 Enabled, 2 Suspended }
    VersionId { 0 Null, 1 Number(number) }
    Indexed { 0 Metadata(name), 1 Tag(name) }
    Wanted { 0 Any, 1 Equal(text), 2 BeginsWith(prefix), 3 Between(first, last) }
}

impl Field for ChecksumKind {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self == ChecksumKind::Composite));
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        match from.tag()? {
            0 => Ok(ChecksumKind::FullObject),
            1 => Ok(ChecksumKind::Composite),
            other => Err(malformed(format!("checksums of kind {other}"))),
        }
    }
}
