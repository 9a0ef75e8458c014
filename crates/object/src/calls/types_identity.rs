//! Users, groups, keys and rights as fields of messages. Invariant: as of the other types.

use std::time::Duration;

use super::field::{Field, Taken, choices, malformed, structures};
use crate::access_list::{AccessList, Grant, Grantee};
use crate::action::Action;
use crate::caller::Asker;
use crate::error::Result;
use crate::identity::{
    GroupChange, GroupInfo, GroupPage, KeyInfo, KeyOptions, NameQuery, Secret, TokenInfo, UserChange, UserInfo,
    UserPage, UserQuery, UserState,
};
use crate::owners::DeletedGroup;
use crate::rights::{Decision, Rule};

structures! {
    UserInfo {
        id, name, display, created, state, group, groups, policies, administrator, has_password, quota_bytes,
        quota_objects,
    }
    UserQuery { group, names }
    NameQuery { prefix, after, limit }
    UserPage { users, next }
    UserChange { name, display, state, administrator, policies, quota_bytes, quota_objects, uid }
    GroupInfo { id, name, description, created, being_deleted, policies, quota_bytes, quota_objects }
    GroupPage { groups, next }
    GroupChange { name, description, policies, quota_bytes, quota_objects }
    DeletedGroup { buckets, users }
    KeyOptions { given, life, policy, description }
    KeyInfo { access_key, created, expires, disabled, narrowed, description }
    TokenInfo { id, created, expires }
    Grant { to, rights }
    Decision { allowed, rule }
}

choices! {
    UserState { 0 Live, 1 Disabled, 2 BeingDeleted }
    Asker { 0 Everyone, 1 User(name), 2 AccessKey(key) }
    Rule {
        0 Root, 1 Out(reason), 2 Policy { policy, statement }, 3 Narrowed, 4 Administrator, 5 Owner, 6 GroupAdministrator,
        7 Member, 8 EveryUser, 9 Began, 10 BucketList, 11 ObjectList, 12 Nothing,
    }
    Grantee { 1 User(id), 2 Group(id), 3 EveryUser, 4 Everyone }
}

impl Field for Secret {
    fn put(&self, out: &mut Vec<u8>) {
        self.expose().to_owned().put(out);
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        String::take(from).map(Secret::new)
    }
}

/// As policies write it.
impl Field for Action {
    fn put(&self, out: &mut Vec<u8>) {
        self.name().to_owned().put(out);
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        String::take(from)?.parse()
    }
}

/// Whole seconds (8).
impl Field for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_secs().put(out);
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        u64::take(from).map(Duration::from_secs)
    }
}

impl Field for AccessList {
    fn put(&self, out: &mut Vec<u8>) {
        self.grants().to_vec().put(out);
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        AccessList::new(Vec::<Grant>::take(from)?).map_err(|error| malformed(error.message()))
    }
}
