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

mod access_list;
mod access_notes;
mod accessed;
mod accounts;
mod action;
mod at_once;
mod attempts;
mod attributes;
mod body;
mod bucket;
mod caller;
mod calls;
mod checksum;
mod client;
mod collect;
mod conditions;
mod copy;
mod count;
mod counter;
mod delete;
mod edit;
mod error;
mod etag;
mod fields;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod get;
mod identity;
mod ids;
mod index;
mod indexing;
mod info;
mod keys;
mod layout;
mod limits;
mod list;
mod local;
mod lookup;
mod multipart;
mod name;
mod object_name;
mod objects;
mod outcome;
mod owners;
mod pending;
mod policy;
mod prefix;
mod private_file;
mod put;
mod quota;
mod record;
mod rename;
mod request;
mod rights;
mod sealing;
mod search;
mod search_query;
mod server;
mod source;
mod sums;
mod transaction;
mod turns;
mod upgrade;
mod usage;
mod verb;
mod version;
mod version_id;
mod versions;
mod walk;

pub use bucket::{BucketToReceive, BucketToSend, ReceiveBucket};
pub use calls::{CALL_NAMES, Portable};
pub use checksum::{Checksum, ChecksumAlgorithm, ChecksumKind, Expected};
pub use client::{LogIn, RemoteObjects};
pub use collect::{CollectEvent, CollectOptions, Collected, Found, LeftOver};
pub use error::{Error, ErrorKind, Result};
pub use etag::{ETag, EtagKind, EtagMatch, PutCondition, ReadCondition};
pub use info::{
    AccessTimes, BucketInfo, BucketUsage, ContentHeaders, ObjectInfo, ObjectSummary, PartInfo, Quota, SnapshotInfo,
    UploadInfo,
};
pub use local::RootKey;
pub use object_name::ObjectName;
pub use objects::{
    BodyWriter, EditWriter, FileMode, Identities, ObjectFile, ObjectReader, ObjectWriter, Objects, PartWriter, Pinned,
    StagedBody, Transaction,
};
pub use owners::{DeletedGroup, Whose};
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

pub use access_list::{AccessList, GRANTS_MAX, Grant, Grantee};
pub use action::{Action, StandIns};
pub use caller::{Asker, Caller, Circumstances, ExpectedOwner, Identity};
pub use identity::{
    GroupChange, GroupInfo, GroupPage, KeyInfo, KeyOptions, Login, NameQuery, Password, Sealing, Secret, Token,
    TokenInfo, UserChange, UserInfo, UserPage, UserQuery, UserState,
};
pub use ids::{ObjectId, UploadId};
pub use policy::POLICY_LEN_MAX;
pub use private_file::read_private_file;
pub use rights::{Decision, Rule};
pub use sealing::SealingKeys;

pub use search_query::{INDEXES_MAX, IndexInfo, Indexed, SearchPage, SearchQuery, Wanted};
pub use upgrade::CatalogueUpgrade;
pub use version::{VersionPage, VersionQuery, VersionSummary};
pub use version_id::{VersionId, Versioning};

pub use transaction::TRANSACTION_CHANGES_MAX;

pub use koine_kv::{Durability, RequestId};
