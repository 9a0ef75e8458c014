//! The types that stand in the table of calls. Whoever makes something of the table imports all of them.

pub(crate) use koine_kv::RequestId;

pub(crate) use crate::access_list::AccessList;
pub(crate) use crate::action::Action;
pub(crate) use crate::caller::Asker;
pub(crate) use crate::error::Result;
pub(crate) use crate::etag::ReadCondition;
pub(crate) use crate::identity::{
    GroupChange, GroupInfo, GroupPage, KeyInfo, KeyOptions, NameQuery, Secret, TokenInfo, UserChange, UserInfo,
    UserPage, UserQuery,
};
pub(crate) use crate::ids::UploadId;
pub(crate) use crate::info::{BucketInfo, ObjectInfo, PartInfo, SnapshotInfo};
pub(crate) use crate::object_name::{Name, ObjectName};
pub(crate) use crate::owners::{DeletedGroup, Whose};
pub(crate) use crate::pending::Pending;
pub(crate) use crate::request::{
    AttributeChange, BucketChange, BucketPage, BucketQuery, ByteRange, CompleteOptions, CopiedPrefix, CopyOptions,
    CopyPrefixOptions, DeleteOptions, Deleted, EditOptions, ExchangeOptions, ListPage, ListQuery, PartPage,
    RenameOptions, UploadOptions, UploadPage, UploadQuery,
};
pub(crate) use crate::rights::Decision;
pub(crate) use crate::search_query::IndexInfo;
pub(crate) use crate::search_query::{Indexed, SearchPage, SearchQuery};
pub(crate) use crate::version::{VersionPage, VersionQuery};
pub(crate) use crate::version_id::{VersionId, Versioning};
