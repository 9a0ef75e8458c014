//! What callers ask for: the options and queries of every call.

use koine_env::Timestamp;
use koine_kv::RequestId;

use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind, Expected};
use crate::etag::{EtagKind, PutCondition, ReadCondition};
use crate::ids::{ObjectId, UploadId};
use crate::info::{AccessTimes, BucketInfo, ContentHeaders, ObjectSummary, PartInfo, UploadInfo};
use crate::object_name::ObjectName;
use crate::version_id::VersionId;

/// The largest body of one put or one part over S3, in bytes. The library takes what the store has room for.
pub const BODY_LEN_MAX: u64 = 5 << 30;
/// The smallest part that is not the last of its upload, in bytes.
pub const PART_LEN_MIN: u64 = 5 << 20;
/// The highest part number.
pub const PART_NUMBER_MAX: u32 = 10_000;
/// The longest name of an object, in bytes.
pub const OBJECT_KEY_LEN_MAX: usize = 1024;
/// The most bytes of user metadata, names and values together.
pub const METADATA_LEN_MAX: usize = 2048;
/// The most tags of an object.
pub const TAGS_MAX: usize = 10;
/// The most tags of a bucket.
pub const BUCKET_TAGS_MAX: usize = 50;
/// The longest name of a bucket's location.
pub const LOCATION_LEN_MAX: usize = 64;
/// The longest name of a tag, in characters.
pub const TAG_NAME_LEN_MAX: usize = 128;
/// The longest value of a tag, in characters.
pub const TAG_VALUE_LEN_MAX: usize = 256;
/// The largest object, and the highest offset of an edit, in bytes.
pub const OBJECT_LEN_MAX: u64 = koine_kv::VALUE_LEN_MAX;
/// The most segments of one composition.
pub const COMPOSE_SEGMENTS_MAX: usize = 10_000;
/// The most objects of one call of `copy_prefix`, so that its changes are one commit.
pub const COPY_PREFIX_BATCH: usize = 2_500;
/// The most names of one `delete_many`.
pub const DELETE_MANY_MAX: usize = 1000;

/// How an object is put.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Stored and given back.
    pub headers: ContentHeaders,
    /// Names without `x-amz-meta-`, in lower case.
    pub metadata: Vec<(String, String)>,
    /// Kept apart from metadata: at most [`TAGS_MAX`].
    pub tags: Vec<(String, String)>,
    /// What must hold of the name.
    pub condition: PutCondition,
    /// The body's length, where it is known beforehand; another length is `IncompleteBody`.
    pub length: Option<u64>,
    /// What the headers say of the body; trailers are given to `finish`.
    pub expected: Expected,
    /// The checksum to compute and store beside those expected; a trailer's must be announced here. Where none
    /// is announced or expected, CRC64NVME is computed.
    pub checksum: Option<ChecksumAlgorithm>,
    /// Which ETag the object gets.
    pub etag: EtagKind,
    /// Names this request, so that a repeat after a lost answer learns the first outcome. It must cover
    /// bucket, key and the client's invocation id; a digest of the body is added when it is known.
    pub request: Option<RequestId>,
}

/// What becomes of headers and metadata in a copy.
#[derive(Clone, Debug, Default)]
pub enum CopiedMetadata {
    /// They are the source's.
    #[default]
    Copy,
    /// They are these.
    Replace {
        /// Stored headers.
        headers: ContentHeaders,
        /// User metadata.
        metadata: Vec<(String, String)>,
    },
}

/// How an object is copied.
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// What becomes of headers and metadata.
    pub metadata: CopiedMetadata,
    /// Other tags than the source's.
    pub tags: Option<Vec<(String, String)>>,
    /// Which version of the source; none is the newest. From one an object may be copied onto itself.
    pub source_version: Option<VersionId>,
    /// What must hold of the source; `NotModified` comes as `PreconditionFailed`.
    pub source_condition: ReadCondition,
    /// What must hold of the target's name.
    pub condition: PutCondition,
    /// A checksum to store; computed by reading where the source has none of this algorithm.
    pub checksum: Option<ChecksumAlgorithm>,
    /// Names this request.
    pub request: Option<RequestId>,
}

/// How the bytes of an object are edited.
#[derive(Clone, Debug)]
pub struct EditOptions {
    /// What must hold of the name.
    pub condition: PutCondition,
    /// The object that is meant; another under the name is `Conflict`, none is `NoSuchKey`.
    pub only: Option<ObjectId>,
    /// Whether an absent object is made, as unless told otherwise. `truncate` makes none.
    pub create: bool,
    /// The length of what is written, where it is known beforehand; another length is `IncompleteBody`.
    pub length: Option<u64>,
    /// What is known of what is written beforehand; trailers are given to `finish`.
    pub expected: Expected,
    /// Names the request, so that an append whose answer was lost is not made twice. As for a put, the MD5 of what is
    /// written is added to it.
    pub request: Option<RequestId>,
}

impl Default for EditOptions {
    fn default() -> Self {
        EditOptions {
            condition: PutCondition::none(),
            only: None,
            create: true,
            length: None,
            expected: Expected::none(),
            request: None,
        }
    }
}

/// A source of a composition.
#[derive(Clone, Debug)]
pub struct Segment<'a> {
    /// The object.
    pub name: ObjectName<'a>,
    /// Which of its bytes; all of them where nothing is said.
    pub range: Option<ByteRange>,
    /// Which version of it; none is the newest.
    pub version: Option<VersionId>,
    /// What must hold of it; `NotModified` comes as `PreconditionFailed`.
    pub condition: ReadCondition,
}

impl<'a> Segment<'a> {
    /// All bytes of an object.
    pub fn whole(name: ObjectName<'a>) -> Self {
        Segment { name, range: None, version: None, condition: ReadCondition::default() }
    }

    /// Some bytes of an object.
    pub fn range(name: ObjectName<'a>, offset: u64, length: u64) -> Self {
        Segment { range: Some(ByteRange { offset, length }), ..Segment::whole(name) }
    }
}

/// How an object is composed.
#[derive(Clone, Debug, Default)]
pub struct ComposeOptions {
    /// As for a put. No checksum is computed: those that can be combined from the sources' are kept.
    pub put: PutOptions,
    /// Whether headers, metadata and tags are the first source's instead of those given.
    pub source_metadata: bool,
}

/// What becomes of entries of metadata or of tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataChange {
    /// They are these.
    Replace(Vec<(String, String)>),
    /// Some are set, some are taken away, the others stay.
    Merge {
        /// Each replaces the entry of its name, or is added.
        set: Vec<(String, String)>,
        /// Names that are taken away.
        remove: Vec<String>,
    },
}

/// What is changed of an object beside its bytes; `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// User metadata.
    pub metadata: Option<MetadataChange>,
    /// Tags.
    pub tags: Option<MetadataChange>,
    /// Stored headers, all of them.
    pub headers: Option<ContentHeaders>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Numeric user and group.
    pub posix_owner: Option<(u32, u32)>,
    /// The time of the last change of its bytes, as `touch` sets it.
    pub modified: Option<Timestamp>,
    /// When it was last read, where its bucket keeps that; one in the future counts as now.
    pub accessed: Option<Timestamp>,
}

/// How a prefix is copied.
#[derive(Clone, Debug, Default)]
pub struct CopyPrefixOptions {
    /// What must hold of each target's name; where it does not hold of one, the call changes nothing.
    pub condition: PutCondition,
    /// Names after this one: `next` of the last call.
    pub after: Option<String>,
}

/// What a call of `copy_prefix` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedPrefix {
    /// How many objects it copied.
    pub objects: u64,
    /// `after` of the next call; `None` when all is done.
    pub next: Option<String>,
}

/// How an object is moved.
#[derive(Clone, Debug, Default)]
pub struct RenameOptions {
    /// What must hold of the target's name; without a condition what has it is replaced.
    pub condition: PutCondition,
    /// What must hold of the source; `NotModified` comes as `PreconditionFailed`.
    pub source_condition: ReadCondition,
    /// Names this request, so that a repeat after a lost answer learns that the object was moved.
    pub request: Option<RequestId>,
}

/// How two objects are exchanged.
#[derive(Clone, Debug, Default)]
pub struct ExchangeOptions {
    /// Names this request, so that a repeat after a lost answer does not swap them back.
    pub request: Option<RequestId>,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// `If-Match`; with it, an absent object is `NoSuchKey`.
    pub condition: PutCondition,
}

/// What a deletion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Whether there was something to delete. S3 does not tell.
    pub existed: bool,
    /// Whether a delete marker was left, or was what was deleted.
    pub marker: bool,
    /// The version id of the marker that was left, or of the version that was deleted.
    pub version: Option<VersionId>,
}

/// Which buckets are listed.
#[derive(Clone, Debug, Default)]
pub struct BucketQuery {
    /// Names that begin so.
    pub prefix: String,
    /// Names after this one.
    pub after: Option<String>,
    /// At most so many; 0 is no limit.
    pub limit: usize,
    /// Those of this group alone: for its members and administrators.
    pub group: Option<String>,
}

/// What of a bucket's settings is changed; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketChange {
    /// The most bytes; `Some(None)` takes the limit away. A limit below what is there keeps out what would add.
    pub quota_bytes: Option<Option<u64>>,
    /// The most objects, in the same way.
    pub quota_objects: Option<Option<u64>>,
    /// Whether it is kept when objects were last read.
    pub access_times: Option<AccessTimes>,
    /// User metadata, at most [`METADATA_LEN_MAX`].
    pub metadata: Option<MetadataChange>,
    /// Tags, at most 50.
    pub tags: Option<MetadataChange>,
    /// What is told as its region: printable ASCII, at most 64 bytes.
    pub location: Option<String>,
}

/// A page of buckets, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketPage {
    /// The buckets.
    pub buckets: Vec<BucketInfo>,
    /// `after` of the next page; `None` on the last.
    pub next: Option<String>,
}

/// Which objects are listed.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Names that begin so.
    pub prefix: String,
    /// Names that share everything up to the first of these after the prefix are told as one common prefix.
    /// Empty is none.
    pub delimiter: String,
    /// Names after this one in the order of their UTF-8 bytes: `marker`, `start-after`, or `next` of the last
    /// page. Where it is a common prefix of this query, everything under it is passed over.
    pub after: Option<String>,
    /// At most so many objects and common prefixes together; 0 gives an empty page.
    pub limit: usize,
}

/// A page of objects and common prefixes, each in the order of UTF-8 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// The objects.
    pub objects: Vec<ObjectSummary>,
    /// The common prefixes, each ending in the delimiter.
    pub common_prefixes: Vec<String>,
    /// `after` of the next page: the last name or common prefix of this one; `None` on the last page.
    pub next: Option<String>,
}

/// How an upload is begun.
#[derive(Clone, Debug, Default)]
pub struct UploadOptions {
    /// Stored with the object.
    pub headers: ContentHeaders,
    /// Stored with the object.
    pub metadata: Vec<(String, String)>,
    /// The checksum of parts and whole; CRC64NVME of all bytes where none is asked for. Without a kind it is
    /// the algorithm's default kind.
    pub checksum: Option<(ChecksumAlgorithm, Option<ChecksumKind>)>,
    /// Whether the ETags of parts are MD5s or drawn; that of the whole is made of them, and has a dash.
    pub etag: EtagKind,
}

/// How a part is put.
#[derive(Clone, Debug, Default)]
pub struct PartOptions {
    /// The body's length, where it is known beforehand.
    pub length: Option<u64>,
    /// What the headers say of the body.
    pub expected: Expected,
    /// A checksum to compute beside the upload's and those expected; a trailer's must be announced here.
    pub checksum: Option<ChecksumAlgorithm>,
}

/// Some bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// A part as a completion names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedPart {
    /// Its number.
    pub number: u32,
    /// Its ETag without quotes.
    pub etag: String,
    /// Its checksums, where given.
    pub checksums: Vec<Checksum>,
}

/// How an upload is completed.
#[derive(Clone, Debug, Default)]
pub struct CompleteOptions {
    /// In ascending order; gaps are allowed.
    pub parts: Vec<CompletedPart>,
    /// Every part that was put, in the order of numbers; `parts` must be empty then.
    pub all_parts: bool,
    /// What must hold of the name.
    pub condition: PutCondition,
    /// What the caller says of the whole: compared with the combined or composite checksums.
    pub expected: Vec<Checksum>,
    /// `x-amz-mp-object-size`.
    pub size: Option<u64>,
}

/// Which uploads are listed.
#[derive(Clone, Debug, Default)]
pub struct UploadQuery {
    /// Names that begin so.
    pub prefix: String,
    /// As in [`ListQuery`]; empty is none.
    pub delimiter: String,
    /// Uploads of names after this one; with `upload_after` also those of this name with a higher id.
    pub key_after: Option<String>,
    /// See `key_after`.
    pub upload_after: Option<UploadId>,
    /// At most so many uploads and common prefixes together.
    pub limit: usize,
}

/// A page of uploads, by name and then by age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadPage {
    /// The uploads.
    pub uploads: Vec<UploadInfo>,
    /// The common prefixes.
    pub common_prefixes: Vec<String>,
    /// `key_after` and `upload_after` of the next page (no upload id after a common prefix); `None` on the last.
    pub next: Option<(String, Option<UploadId>)>,
}

/// A page of the parts of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartPage {
    /// Their upload.
    pub upload: UploadInfo,
    /// By number.
    pub parts: Vec<PartInfo>,
    /// `after` of the next page: the last number of this one; `None` on the last page.
    pub next: Option<u32>,
}

/// What is known of a body before it is staged.
#[derive(Clone, Debug, Default)]
pub struct StageOptions {
    /// Its length, where it is known; another length is `IncompleteBody`.
    pub length: Option<u64>,
    /// What it is compared with; trailers are given to `finish`.
    pub expected: Expected,
    /// The checksums to compute beside those expected; CRC64NVME where there are none.
    pub checksums: Vec<ChecksumAlgorithm>,
    /// Which ETag an object gets that is put with it.
    pub etag: EtagKind,
}
