//! Groups: made, changed, listed.

use koine_env::Timestamp;

use super::LocalIdentities;
use super::change::change;
use crate::accounts::find::{self, live_group, page, put_group, take_name};
use crate::accounts::{find_group, group, keys, read_id};
use crate::error::{Error, ErrorKind, Result};
use crate::keys::CATALOGUE;
use crate::lookup::Lookup;
use crate::pending::Pending;
use crate::record::{GroupRecord, Limits};

/// What is known of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    /// Names it for ever.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub being_deleted: bool,
    /// The policies of its members.
    pub policies: Vec<String>,
    /// How many bytes its buckets may hold together.
    pub quota_bytes: Option<u64>,
    /// How many objects its buckets may hold together.
    pub quota_objects: Option<u64>,
}

/// Which names are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameQuery {
    /// What they begin with, in any case.
    pub prefix: String,
    /// The last name of the page before.
    pub after: Option<String>,
    /// How many at most; 0 for 1,000.
    pub limit: usize,
}

/// A page of groups by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupPage {
    /// The groups.
    pub groups: Vec<GroupInfo>,
    /// `after` of the next page.
    pub next: Option<String>,
}

/// What is to be changed of a group; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// Another name.
    pub name: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Other policies.
    pub policies: Option<Vec<String>>,
    /// How many bytes its buckets may hold together.
    pub quota_bytes: Option<Option<u64>>,
    /// How many objects its buckets may hold together.
    pub quota_objects: Option<Option<u64>>,
}

pub(super) fn info(id: u64, record: GroupRecord) -> GroupInfo {
    GroupInfo {
        id,
        name: record.name,
        description: record.description,
        created: record.created,
        being_deleted: record.being_deleted,
        policies: record.policies,
        quota_bytes: record.limits.bytes,
        quota_objects: record.limits.objects,
    }
}

/// `NoSuchPolicy` where one of them is not there.
pub(super) fn check_policies(from: &mut dyn Lookup, policies: &[String]) -> Result<()> {
    for policy in policies {
        if from.record(CATALOGUE, &keys::policy(policy))?.is_none() {
            return Err(Error::new(ErrorKind::NoSuchPolicy, format!("there is no policy {policy:?}")));
        }
    }
    Ok(())
}

impl LocalIdentities {
    pub fn create_group(&self, name: &str, description: &str) -> Pending<GroupInfo> {
        let (name, description) = (name.to_owned(), description.to_owned());
        change(
            &self.local,
            |rights| rights.administer(),
            move |txn, context| {
                let id = context.draw_u64() | 1;
                if group(txn, id)?.is_some() {
                    return Err(Error::new(ErrorKind::Conflict, "the id that was drawn is taken; try again"));
                }
                take_name(txn, "group", keys::group_name(&name), &name, id)?;
                let record = GroupRecord {
                    name: name.clone(),
                    description: description.clone(),
                    created: context.now,
                    being_deleted: false,
                    policies: Vec::new(),
                    limits: Limits::default(),
                    kept: Vec::new(),
                };
                put_group(txn, id, &record);
                Ok(info(id, record))
            },
        )
    }

    pub fn set_group(&self, name: &str, wanted: GroupChange) -> Pending<GroupInfo> {
        let name = name.to_owned();
        change(
            &self.local,
            |rights| rights.administer(),
            move |txn, _| {
                let (id, mut record) = live_group(txn, &name)?;
                if let Some(policies) = &wanted.policies {
                    check_policies(txn, policies)?;
                    record.policies.clone_from(policies);
                }
                record.description = wanted.description.clone().unwrap_or(record.description);
                record.limits.bytes = wanted.quota_bytes.unwrap_or(record.limits.bytes);
                record.limits.objects = wanted.quota_objects.unwrap_or(record.limits.objects);
                if let Some(new) = wanted.name.clone().filter(|new| *new != record.name) {
                    if !new.eq_ignore_ascii_case(&record.name) {
                        take_name(txn, "group", keys::group_name(&new), &new, id)?;
                        txn.delete(CATALOGUE, keys::group_name(&record.name));
                    }
                    record.name = new;
                }
                put_group(txn, id, &record);
                Ok(info(id, record))
            },
        )
    }

    pub fn group(&self, name: &str) -> Result<GroupInfo> {
        self.local.read(
            |rights| rights.see_group(name),
            |view| {
                let (id, record) = find_group(view, name)?.ok_or_else(|| find::no_such_group(name))?;
                Ok(info(id, record))
            },
        )
    }

    pub fn groups(&self, query: &NameQuery) -> Result<GroupPage> {
        self.local.read(
            |rights| rights.administer(),
            |view| {
                let (mut found, mut inner) = (Vec::new(), std::sync::Arc::clone(view));
                let after = query.after.as_deref().map(keys::group_name);
                let prefix = keys::group_name(&query.prefix);
                let more = page(view.as_ref(), &prefix, after.as_deref(), query.limit, |_, value| {
                    let id = read_id(value)?;
                    found.extend(group(&mut inner, id)?.map(|record| info(id, record)));
                    Ok(true)
                })?;
                let next = found.last().filter(|_| more).map(|group: &GroupInfo| group.name.clone());
                Ok(GroupPage { groups: found, next })
            },
        )
    }
}
