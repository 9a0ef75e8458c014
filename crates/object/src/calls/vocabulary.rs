//! The types that stand in the table of calls. Whoever makes something of the table imports all of them.

pub(crate) use koine_kv::RequestId;

pub(crate) use crate::error::Result;
pub(crate) use crate::etag::ReadCondition;
pub(crate) use crate::identity::{
    DeletedGroup, GroupChange, GroupInfo, GroupPage, KeyInfo, KeyOptions, NameQuery, Secret, TokenInfo, UserChange,
    UserInfo, UserPage, UserQuery, Whose,
};
pub(crate) use crate::info::{BucketInfo, IndexInfo, ObjectInfo, PartInfo, SnapshotInfo, UploadId};
pub(crate) use crate::object_name::{Name, ObjectName};
pub(crate) use crate::pending::Pending;
pub(crate) use crate::request::{
    AttributeChange, BucketChange, BucketPage, BucketQuery, ByteRange, CompleteOptions, CopiedPrefix, CopyOptions,
    CopyPrefixOptions, DeleteOptions, Deleted, EditOptions, ExchangeOptions, ListPage, ListQuery, PartPage,
    RenameOptions, UploadOptions, UploadPage, UploadQuery,
};
pub(crate) use crate::rights::{AccessList, Action, Asker, Decision};
pub(crate) use crate::search::{Indexed, SearchPage, SearchQuery};
pub(crate) use crate::version::{VersionId, VersionPage, VersionQuery, Versioning};
