//! Buckets, objects, versions, multipart and conditions over any [`Kv`](koine_kv::Kv).
//!
//! [`Objects`] is the door. Calls are synchronous; those that change something give a [`Pending`] outcome, so
//! that no thread is held while a commit becomes durable. Bodies are pushed piece by piece into an
//! [`ObjectWriter`] or [`PartWriter`]; an [`ObjectReader`] reads one version of an object to its end.
//!
//! Invariants:
//! - Nothing that correctness needs is kept in memory: any number of processes may use one back end at once.
//! - One object, one commit: its name, its data and the deletion of what it replaces stand in one batch.
//! - Every call runs as somebody ([`Objects::as_caller`]) and asks whether they may before it tells or changes anything.
//! - What docs/semantics.md says of names, conditions, listings and uploads holds for every back end.

mod accessed;
mod at_once;
mod attributes;
mod body;
mod bucket;
mod calls;
mod checksum;
mod client;
mod collect;
mod copy;
mod count;
mod delete;
mod edit;
mod error;
mod etag;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod get;
mod identity;
mod index;
mod info;
mod keys;
mod list;
mod local;
mod lookup;
mod multipart;
mod name;
mod object_name;
mod objects;
mod pending;
mod prefix;
mod put;
mod quota;
mod record;
mod rename;
mod request;
mod rights;
mod search;
mod server;
mod transaction;
mod turns;
mod upgrade;
mod verb;
mod version;

pub use bucket::{BucketToReceive, BucketToSend, ReceiveBucket};
pub use calls::{CALL_NAMES, Portable};
pub use checksum::{Checksum, ChecksumAlgorithm, ChecksumKind, Expected};
pub use client::{LogIn, RemoteObjects};
pub use collect::{CollectEvent, CollectOptions, Collected, Found, LeftOver};
pub use error::{Error, ErrorKind, Result};
pub use etag::{ETag, EtagKind, EtagMatch, PutCondition, ReadCondition};
pub use info::{
    AccessTimes, BucketInfo, BucketUsage, ContentHeaders, IndexInfo, ObjectId, ObjectInfo, ObjectSummary, PartInfo,
    Quota, SnapshotInfo, UploadId, UploadInfo,
};
pub use local::RootKey;
pub use object_name::ObjectName;
pub use objects::{
    BodyWriter, EditWriter, FileMode, Identities, ObjectFile, ObjectReader, ObjectWriter, Objects, PartWriter, Pinned,
    StagedBody, Transaction,
};
pub use pending::Pending;
pub use request::{
    AttributeChange, BODY_LEN_MAX, BucketChange, BucketPage, BucketQuery, ByteRange, COMPOSE_SEGMENTS_MAX,
    COPY_PREFIX_BATCH, CompleteOptions, CompletedPart, ComposeOptions, CopiedMetadata, CopiedPrefix, CopyOptions,
    CopyPrefixOptions, DELETE_MANY_MAX, DeleteOptions, Deleted, EditOptions, ExchangeOptions, LOCATION_LEN_MAX,
    ListPage, ListQuery, METADATA_LEN_MAX, MetadataChange, OBJECT_KEY_LEN_MAX, OBJECT_LEN_MAX, PART_LEN_MIN,
    PART_NUMBER_MAX, PartOptions, PartPage, PutOptions, RenameOptions, Segment, StageOptions, UploadOptions,
    UploadPage, UploadQuery,
};
pub use server::ObjectVerbs;

pub use identity::{
    DeletedGroup, GroupChange, GroupInfo, GroupPage, KeyInfo, KeyOptions, Login, NameQuery, Password, Sealing,
    SealingKeys, Secret, Token, TokenInfo, UserChange, UserInfo, UserPage, UserQuery, UserState, Whose,
    read_private_file,
};
pub use rights::{
    AccessList, Action, Asker, Caller, Circumstances, Decision, ExpectedOwner, GRANTS_MAX, Grant, Grantee, Identity,
    POLICY_LEN_MAX, Rule, StandIns,
};

pub use search::{INDEXES_MAX, Indexed, SearchPage, SearchQuery, Wanted};
pub use upgrade::CatalogueUpgrade;
pub use version::{VersionId, VersionPage, VersionQuery, VersionSummary, Versioning};

pub use transaction::TRANSACTION_CHANGES_MAX;

pub use koine_kv::{Durability, RequestId};
