//! Rows of results: what is known of buckets, objects, parts, users and the like.

use koine::env::Timestamp;
use koine::object::{
    AccessTimes, BucketInfo, BucketUsage, ContentHeaders, GroupInfo, IndexInfo, Indexed, KeyInfo, ObjectInfo,
    ObjectSummary, PartInfo, SnapshotInfo, TokenInfo, UploadInfo, UserInfo, UserState, VersionSummary,
};

use crate::table::{Field, Row};

fn time(time: Timestamp) -> u64 {
    time.0
}

fn headers(row: Row, headers: ContentHeaders) -> Row {
    row.text_if(Field::ContentType, headers.content_type)
        .text_if(Field::CacheControl, headers.cache_control)
        .text_if(Field::ContentDisposition, headers.content_disposition)
        .text_if(Field::ContentEncoding, headers.content_encoding)
        .text_if(Field::ContentLanguage, headers.content_language)
        .text_if(Field::Expires, headers.expires)
}

/// Of an object.
pub fn object(info: ObjectInfo) -> Row {
    let checksums = info.checksums.iter().map(|sum| (sum.algorithm.name().to_owned(), sum.to_text()));
    let row = Row::default()
        .text(Field::Name, info.key)
        .number(Field::Size, info.size)
        .text(Field::Etag, info.etag.to_string())
        .number(Field::Version, info.version.0)
        .text(Field::Id, info.id.to_string())
        .number(Field::Created, time(info.created))
        .number(Field::Modified, time(info.modified))
        .number(Field::Changed, time(info.changed))
        .number(Field::Mode, info.mode)
        .text(Field::VersionId, info.version_id.to_string())
        .number_if(Field::Accessed, info.accessed.map(time))
        .number_if(Field::PartCount, info.part_count)
        .number_if(Field::Uid, info.posix_owner.map(|(uid, _)| uid))
        .number_if(Field::Gid, info.posix_owner.map(|(_, gid)| gid))
        .entries(Field::Checksums, checksums)
        .entries(Field::Metadata, info.metadata)
        .entries(Field::Tags, info.tags);
    headers(row, info.headers)
}

/// Of an object in a listing.
pub fn summary(info: ObjectSummary) -> Row {
    Row::default()
        .text(Field::Name, info.key)
        .number(Field::Size, info.size)
        .text(Field::Etag, info.etag.to_string())
        .number(Field::Version, info.version.0)
        .number(Field::Modified, time(info.modified))
}

/// Of a version in a listing.
pub fn version(version: VersionSummary) -> Row {
    let row = match version.object {
        Some(object) => summary(object),
        None => Row::default()
            .text(Field::Name, version.key)
            .number(Field::Modified, time(version.modified))
            .number(Field::IsMarker, 1_u64),
    };
    row.text(Field::VersionId, version.id.to_string()).number(Field::IsNewest, u64::from(version.newest))
}

/// Of an index of a bucket.
pub fn index(info: IndexInfo) -> Row {
    let of = match info.of {
        Indexed::Metadata(_) => 1_u64,
        Indexed::Tag(_) => 2,
    };
    Row::default()
        .text(Field::Name, info.of.name())
        .number(Field::Indexed, of)
        .number(Field::IsWhole, u64::from(info.whole))
}

/// Of a common prefix in a listing.
pub fn prefix(name: String) -> Row {
    Row::default().text(Field::Name, name).number(Field::IsPrefix, 1_u64)
}

/// Of a bucket.
pub fn bucket(info: BucketInfo) -> Row {
    Row::default()
        .text(Field::Name, info.name)
        .number(Field::Created, time(info.created))
        .number_if(Field::QuotaBytes, info.quota.bytes)
        .number_if(Field::QuotaObjects, info.quota.objects)
        .text(Field::Versioning, info.versioning.name())
        .number(Field::AccessTimes, u64::from(info.access_times == AccessTimes::Relative))
        .entries(Field::Metadata, info.metadata)
        .entries(Field::Tags, info.tags)
}

/// Of what a bucket holds.
pub fn usage(usage: BucketUsage) -> Row {
    Row::default()
        .number(Field::Objects, usage.objects)
        .number(Field::Bytes, usage.bytes)
        .number(Field::OlderVersions, usage.older)
        .number(Field::OlderBytes, usage.older_bytes)
        .number(Field::UploadBytes, usage.upload_bytes)
}

/// Of a snapshot.
pub fn snapshot(info: SnapshotInfo) -> Row {
    Row::default().text(Field::Name, info.name).number(Field::Created, time(info.created))
}

/// Of a part.
pub fn part(info: PartInfo) -> Row {
    Row::default()
        .number(Field::PartNumber, info.number)
        .number(Field::Size, info.size)
        .text(Field::Etag, info.etag.to_string())
        .number(Field::Modified, time(info.modified))
}

/// Of an upload.
pub fn upload(info: UploadInfo) -> Row {
    Row::default()
        .text(Field::Name, info.key)
        .text(Field::Upload, info.id.to_string())
        .number(Field::Created, time(info.created))
}

/// Of a group.
pub fn group(info: GroupInfo) -> Row {
    Row::default()
        .text(Field::Name, info.name)
        .text(Field::Id, format!("{:016x}", info.id))
        .text(Field::Description, info.description)
        .number(Field::Created, time(info.created))
        .number(Field::BeingDeleted, u64::from(info.being_deleted))
        .names(Field::Policies, info.policies)
        .number_if(Field::QuotaBytes, info.quota_bytes)
        .number_if(Field::QuotaObjects, info.quota_objects)
}

/// Of a user.
pub fn user(info: UserInfo) -> Row {
    Row::default()
        .text(Field::Name, info.name)
        .text(Field::Id, format!("{:016x}", info.id))
        .text_if(Field::Description, info.display)
        .number(Field::Created, time(info.created))
        .number(Field::Disabled, u64::from(info.state != UserState::Live))
        .number(Field::BeingDeleted, u64::from(info.state == UserState::BeingDeleted))
        .text(Field::Group, info.group)
        .names(Field::Groups, info.groups)
        .names(Field::Policies, info.policies)
        .number(Field::Administrator, u64::from(info.administrator))
        .number(Field::HasPassword, u64::from(info.has_password))
        .number_if(Field::QuotaBytes, info.quota_bytes)
        .number_if(Field::QuotaObjects, info.quota_objects)
}

/// Of a token.
pub fn token(info: TokenInfo) -> Row {
    Row::default()
        .text(Field::Name, info.id)
        .number(Field::Created, time(info.created))
        .number(Field::ExpiresAt, time(info.expires))
}

/// Of an access key.
pub fn access_key(info: KeyInfo) -> Row {
    Row::default()
        .text(Field::Name, info.access_key)
        .number(Field::Created, time(info.created))
        .number_if(Field::ExpiresAt, info.expires.map(time))
        .number(Field::Disabled, u64::from(info.disabled))
        .text_if(Field::Description, info.description)
}
