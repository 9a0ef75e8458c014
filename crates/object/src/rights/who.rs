//! Who a caller is now, by the records of the store.

use koine_env::Timestamp;

use super::Rights;
use crate::accounts::{find_group, find_user, group, keys as identity_keys, read_id, user};
use crate::caller::{Caller, Credential, ROOT};
use crate::error::{Error, Result};
use crate::keys;
use crate::lookup::Lookup;
use crate::policy::Policy;
use crate::record::{AccessKeyRecord, MembershipRecord, PolicyRecord, State, TokenRecord, UserRecord};

/// Who a caller is.
pub(super) enum Who {
    /// May do everything.
    Root,
    Everyone,
    User(Box<Known>),
    /// Nobody who gets in; why.
    Out(&'static str),
}

/// What is known of a user who gets in.
pub(super) struct Known {
    pub id: u64,
    pub name: String,
    pub administrator: bool,
    /// The home group first.
    pub groups: Vec<u64>,
    /// Of the user and its groups, with their names.
    pub policies: Vec<(String, Policy)>,
    /// What the key or token may be used for; `None` for all that the user may.
    pub narrowed: Option<Policy>,
}

impl Rights<'_> {
    /// Who the caller is; looked up once.
    pub(super) fn who(&mut self) -> Result<&Who> {
        if self.who.is_none() {
            let found = look_up(self.from, self.caller, self.now)?;
            self.who = Some(found);
        }
        self.who.as_ref().ok_or_else(|| Error::damaged("a caller was looked up and is not there"))
    }

    /// A user by name, where what is read has the same one under it.
    pub(super) fn user_named(&mut self, name: &str) -> Result<Option<(u64, UserRecord)>> {
        let found = find_user(self.from, name)?;
        let read = match &mut self.read {
            Some(read) => find_user(read, name)?.map(|(id, _)| id),
            None => return Ok(found),
        };
        Ok(found.filter(|(id, _)| read == Some(*id)))
    }

    /// A group by name, where what is read has the same one under it.
    pub(super) fn group_named(&mut self, name: &str) -> Result<Option<u64>> {
        let found = find_group(self.from, name)?.map(|(id, _)| id);
        let read = match &mut self.read {
            Some(read) => find_group(read, name)?.map(|(id, _)| id),
            None => return Ok(found),
        };
        Ok(found.filter(|id| read == Some(*id)))
    }

    /// Asks for this user instead of the caller, as if it had shown that it is that one.
    pub(crate) fn of_user(mut self, id: u64) -> Result<Self> {
        self.who = Some(look_up_user(self.from, id, None)?);
        Ok(self)
    }

    /// Whether the caller is an administrator of this group.
    pub(super) fn administers(&mut self, group: u64) -> Result<bool> {
        let Who::User(known) = self.who()? else {
            return Ok(false);
        };
        let member = identity_keys::member(group, known.id);
        let Some((_, bytes)) = self.from.record(keys::CATALOGUE, &member)? else {
            return Ok(false);
        };
        Ok(MembershipRecord::decode(&bytes)?.administrator)
    }
}

fn look_up(from: &mut dyn Lookup, caller: &Caller, now: Timestamp) -> Result<Who> {
    let identity = match caller {
        Caller::Owner => return Ok(Who::Root),
        Caller::Everyone => return Ok(Who::Everyone),
        Caller::User(identity) => identity,
    };
    match credential(from, identity.credential(), identity.user(), now)? {
        Ok(narrowed) => look_up_user(from, identity.user(), narrowed),
        Err(reason) => Ok(Who::Out(reason)),
    }
}

/// Who a user is that has shown that it is that one.
fn look_up_user(from: &mut dyn Lookup, id: u64, narrowed: Option<Policy>) -> Result<Who> {
    if id == ROOT {
        return Ok(Who::Root);
    }
    let Some(record) = user(from, id)? else {
        return Ok(Who::Out("the user is not there any more"));
    };
    if record.state != State::Live {
        return Ok(Who::Out("the user is disabled or being deleted"));
    }
    let mut groups = vec![record.home];
    groups.extend(record.groups.iter().filter(|group| **group != record.home));
    let mut names = record.policies.clone();
    let mut live = Vec::with_capacity(groups.len());
    for id in groups {
        match group(from, id)? {
            Some(group) if !group.being_deleted => {
                names.extend(group.policies);
                live.push(id);
            }
            _ if id == record.home => return Ok(Who::Out("the user's home group is being deleted")),
            _ => {}
        }
    }
    let mut policies = Vec::with_capacity(names.len());
    for name in names {
        let Some((_, bytes)) = from.record(keys::CATALOGUE, &identity_keys::policy(&name))? else {
            // It may have been one that denies.
            return Ok(Who::Out("a policy that the user or one of its groups names is not there"));
        };
        policies.push((name, Policy::of_identity(&PolicyRecord::decode(&bytes)?.document)?));
    }
    let UserRecord { name, administrator, .. } = record;
    Ok(Who::User(Box::new(Known { id, name, administrator, groups: live, policies, narrowed })))
}

/// Whether what a user proved itself with still holds, and the policy that narrows it.
fn credential(
    from: &mut dyn Lookup,
    credential: &Credential,
    user: u64,
    now: Timestamp,
) -> Result<std::result::Result<Option<Policy>, &'static str>> {
    let policy = match credential {
        Credential::AccessKey(key) => match from.record(keys::CATALOGUE, &identity_keys::access_key(key))? {
            Some((_, bytes)) => {
                let record = AccessKeyRecord::decode(&bytes)?;
                let expired = record.expires.is_some_and(|expires| expires <= now);
                if record.user != user || record.disabled || expired {
                    return Ok(Err("the access key is disabled or has expired"));
                }
                record.policy
            }
            None => return Ok(Err("the access key is not there any more")),
        },
        Credential::Token(digest) => match from.record(keys::CATALOGUE, &identity_keys::token(digest))? {
            Some((_, bytes)) => {
                let record = TokenRecord::decode(&bytes)?;
                if record.user != user || record.expires <= now {
                    return Ok(Err("the token has expired"));
                }
                record.policy
            }
            None => return Ok(Err("the token was taken back")),
        },
        Credential::Uid(uid) => match from.record(keys::CATALOGUE, &identity_keys::uid(*uid))? {
            Some((_, id)) if read_id(&id)? == user => None,
            _ => return Ok(Err("the user of this machine is not one of the store any more")),
        },
    };
    Ok(Ok(policy.map(|text| Policy::of_identity(&text)).transpose()?))
}
