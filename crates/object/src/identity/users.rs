//! Users: made, changed, listed; their passwords and memberships.

use std::sync::Arc;

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::Transaction;

use super::change::change;
use super::groups::check_policies;
use super::{LocalIdentities, NameQuery, password, sessions};
use crate::accounts::find::{self, lasting_user, live_group, page, put_user, take_name};
use crate::accounts::{group, keys, read_id, user};
use crate::caller::{Caller, ROOT};
use crate::error::{Error, ErrorKind, Result};
use crate::keys::CATALOGUE;
use crate::lookup::Lookup;
use crate::pending::Pending;
use crate::record::{Limits, MembershipRecord, State, UserRecord};

/// Whether a user gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserState {
    /// It does.
    Live,
    /// Not until it is set live again.
    Disabled,
    /// Never again.
    BeingDeleted,
}

/// What is known of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserInfo {
    /// Names it for ever.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// What people call it.
    pub display: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it gets in.
    pub state: UserState,
    /// Its home group.
    pub group: String,
    /// The other groups that it is a member of.
    pub groups: Vec<String>,
    /// Its own policies.
    pub policies: Vec<String>,
    /// Whether it is an administrator of the store.
    pub administrator: bool,
    /// Whether it can log in with a password.
    pub has_password: bool,
    /// How many bytes its buckets may hold together.
    pub quota_bytes: Option<u64>,
    /// How many objects its buckets may hold together.
    pub quota_objects: Option<u64>,
}

/// Which users are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserQuery {
    /// Members of this group alone.
    pub group: Option<String>,
    /// By name.
    pub names: NameQuery,
}

/// A page of users: by name, those of a group by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPage {
    /// The users.
    pub users: Vec<UserInfo>,
    /// `after` of the next page.
    pub next: Option<String>,
}

/// What is to be changed of a user; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserChange {
    /// Another name.
    pub name: Option<String>,
    /// What people call it.
    pub display: Option<Option<String>>,
    /// Live or disabled.
    pub state: Option<UserState>,
    /// Whether it is an administrator of the store. Root alone may set it.
    pub administrator: Option<bool>,
    /// Other policies.
    pub policies: Option<Vec<String>>,
    /// How many bytes its buckets may hold together.
    pub quota_bytes: Option<Option<u64>>,
    /// How many objects its buckets may hold together.
    pub quota_objects: Option<Option<u64>>,
    /// A user of this machine that it is; another user of the store is not it any more.
    pub uid: Option<u32>,
}

pub(super) fn info(from: &mut dyn Lookup, id: u64, record: UserRecord) -> Result<UserInfo> {
    let mut name_of =
        |id: u64| Ok::<_, Error>(group(from, id)?.map_or_else(|| format!("{id:016x}"), |group| group.name));
    Ok(UserInfo {
        id,
        display: record.display,
        created: record.created,
        state: match record.state {
            State::Live => UserState::Live,
            State::Disabled => UserState::Disabled,
            State::BeingDeleted => UserState::BeingDeleted,
        },
        group: name_of(record.home)?,
        groups: record.groups.into_iter().map(&mut name_of).collect::<Result<_>>()?,
        policies: record.policies,
        administrator: record.administrator,
        has_password: record.password.is_some(),
        quota_bytes: record.limits.bytes,
        quota_objects: record.limits.objects,
        name: record.name,
    })
}

fn put_member(txn: &mut Transaction, group: u64, user: u64, administrator: bool, since: Timestamp) {
    let record = MembershipRecord { administrator, since, kept: Vec::new() };
    txn.put(CATALOGUE, keys::member(group, user), Bytes::from(record.encode()));
}

impl LocalIdentities {
    pub fn create_user(&self, group: &str, name: &str, password: Option<&str>) -> Result<UserInfo> {
        let hash = password.map(|password| password::hash(password, self.local.random())).transpose()?;
        let (group, name) = (group.to_owned(), name.to_owned());
        let needed = group.clone();
        let made = change(
            &self.local,
            move |rights| rights.administer_group(&needed),
            move |txn, context| {
                let (home, _) = live_group(txn, &group)?;
                let id = context.draw_u64() | 1;
                if user(txn, id)?.is_some() {
                    return Err(Error::new(ErrorKind::Conflict, "the id that was drawn is taken; try again"));
                }
                take_name(txn, "user", keys::user_name(&name), &name, id)?;
                let record = UserRecord {
                    name: name.clone(),
                    created: context.now,
                    state: State::Live,
                    home,
                    password: hash.clone(),
                    policies: Vec::new(),
                    groups: Vec::new(),
                    limits: Limits::default(),
                    administrator: false,
                    display: None,
                    password_changed: hash.is_some().then_some(context.now),
                    kept: Vec::new(),
                };
                put_user(txn, id, &record);
                put_member(txn, home, id, false, context.now);
                info(txn, id, record)
            },
        );
        made.wait()
    }

    pub fn set_user(&self, name: &str, wanted: UserChange) -> Pending<UserInfo> {
        let (name, asked) = (name.to_owned(), wanted.clone());
        let needed = name.clone();
        change(
            &self.local,
            move |rights| {
                let UserChange { display: _, state: _, .. } = &asked;
                let simple = UserChange { display: asked.display.clone(), state: asked.state, ..UserChange::default() };
                if asked.administrator.is_some() {
                    rights.own_the_store()
                } else if asked == simple {
                    rights.administer_user(&needed, false)
                } else {
                    rights.administer()
                }
            },
            move |txn, _| {
                let (id, mut record) = lasting_user(txn, &name)?;
                record.state = match wanted.state {
                    None => record.state,
                    Some(UserState::Live) => State::Live,
                    Some(UserState::Disabled) => State::Disabled,
                    Some(UserState::BeingDeleted) => {
                        return Err(Error::new(ErrorKind::InvalidArgument, "a user is deleted by delete_user"));
                    }
                };
                if let Some(policies) = &wanted.policies {
                    check_policies(txn, policies)?;
                    record.policies.clone_from(policies);
                }
                record.display = wanted.display.clone().unwrap_or(record.display);
                record.administrator = wanted.administrator.unwrap_or(record.administrator);
                record.limits.bytes = wanted.quota_bytes.unwrap_or(record.limits.bytes);
                record.limits.objects = wanted.quota_objects.unwrap_or(record.limits.objects);
                let told = info(txn, id, record.clone())?;
                let mut told = UserInfo { name: record.name.clone(), ..told };
                if let Some(new) = wanted.name.clone().filter(|new| *new != record.name) {
                    if !new.eq_ignore_ascii_case(&record.name) {
                        take_name(txn, "user", keys::user_name(&new), &new, id)?;
                        txn.delete(CATALOGUE, keys::user_name(&record.name));
                    }
                    told.name.clone_from(&new);
                    record.name = new;
                }
                if let Some(uid) = wanted.uid {
                    txn.put(CATALOGUE, keys::uid(uid), Bytes::copy_from_slice(&id.to_le_bytes()));
                }
                put_user(txn, id, &record);
                Ok(told)
            },
        )
    }

    pub fn set_password(&self, name: &str, password: &str) -> Result<()> {
        let hash = password::hash(password, self.local.random())?;
        let (local, name) = (self.local.clone(), name.to_owned());
        let needed = name.clone();
        let set = change(
            &self.local,
            move |rights| rights.speak_for_user(&needed),
            move |txn, context| {
                let own = if find::is_root(&name) { ROOT } else { lasting_user(txn, &name)?.0 };
                let has_one = user(txn, own)?.is_some_and(|record| record.password.is_some());
                if has_one && matches!(context.caller, Caller::User(caller) if caller.user() == own) {
                    let message = "who changes its own password gives the old one too (change_password, koine user passwd --old-password-file)";
                    return Err(Error::new(ErrorKind::AccessDenied, message));
                }
                sessions::put_password(txn, &local, &name, hash.clone(), context.now)
            },
        );
        set.wait()
    }

    pub fn add_member(&self, group: &str, user: &str, administrator: bool) -> Pending<()> {
        let (group, user) = (group.to_owned(), user.to_owned());
        let needed = (group.clone(), user.clone());
        change(
            &self.local,
            move |rights| rights.administer_group(&needed.0).and_then(|()| rights.administer_user(&needed.1, true)),
            move |txn, context| {
                let (group, _) = live_group(txn, &group)?;
                let (id, mut record) = lasting_user(txn, &user)?;
                if record.home != group && !record.groups.contains(&group) {
                    record.groups.push(group);
                }
                // Also where it was a member: what rests on the record is planned again.
                put_user(txn, id, &record);
                put_member(txn, group, id, administrator, context.now);
                Ok(())
            },
        )
    }

    pub fn remove_member(&self, group: &str, user: &str) -> Pending<()> {
        let (group, user) = (group.to_owned(), user.to_owned());
        let needed = (group.clone(), user.clone());
        change(
            &self.local,
            move |rights| rights.leave_group(&needed.0, &needed.1),
            move |txn, _| {
                let (group, _) = live_group(txn, &group)?;
                let (id, mut record) = lasting_user(txn, &user)?;
                if record.home == group {
                    let message = format!("{user:?} is at home in this group; delete the user instead");
                    return Err(Error::new(ErrorKind::InvalidRequest, message));
                }
                record.groups.retain(|known| *known != group);
                put_user(txn, id, &record);
                txn.delete(CATALOGUE, keys::member(group, id));
                Ok(())
            },
        )
    }

    pub fn user(&self, name: &str) -> Result<UserInfo> {
        self.local.read(
            |rights| rights.administer_user(name, true),
            |view| {
                let (id, record) = find::user(view, name)?;
                info(view, id, record)
            },
        )
    }

    pub fn users(&self, query: &UserQuery) -> Result<UserPage> {
        self.local.read(
            |rights| match &query.group {
                Some(group) => rights.administer_group(group),
                None => rights.administer(),
            },
            |view| {
                let (mut found, mut inner) = (Vec::new(), Arc::clone(view));
                let names = &query.names;
                let (prefix, after) = match &query.group {
                    None => (keys::user_name(&names.prefix), names.after.as_deref().map(keys::user_name)),
                    Some(name) => {
                        let (group, _) = live_group(view, name)?;
                        let after = names.after.as_deref().map(|name| find::user(view, name)).transpose()?;
                        (keys::members(group), after.map(|(id, _)| keys::member(group, id)))
                    }
                };
                let more = page(view.as_ref(), &prefix, after.as_deref(), names.limit, |key, value| {
                    let id = if query.group.is_some() { keys::last_id(key)? } else { read_id(value)? };
                    let Some(record) = user(&mut inner, id)? else {
                        return Ok(false);
                    };
                    let begins = record.name.to_ascii_lowercase().starts_with(&names.prefix.to_ascii_lowercase());
                    if begins && id != ROOT {
                        found.push(info(&mut inner, id, record)?);
                    }
                    Ok(begins)
                })?;
                let next = found.last().filter(|_| more).map(|user: &UserInfo| user.name.clone());
                Ok(UserPage { users: found, next })
            },
        )
    }
}
