//! Policies by name: of users and groups.

use bytes::Bytes;
use koine_kv::{Direction, KeyRange, Transaction};

use super::LocalIdentities;
use super::access::caller_of_key;
use super::change::change;
use crate::accounts::{find, keys};
use crate::action::Action;
use crate::caller::{Asker, Caller};
use crate::error::{Error, ErrorKind, Result};
use crate::keys::CATALOGUE;
use crate::lookup::Lookup;
use crate::pending::Pending;
use crate::policy::Policy;
use crate::record::{GroupRecord, HeadRecord, PolicyRecord, UserRecord};
use crate::rights::{Decision, Rights};

fn no_such_policy(name: &str) -> Error {
    Error::new(ErrorKind::NoSuchPolicy, format!("there is no policy {name:?}"))
}

impl LocalIdentities {
    pub fn set_policy(&self, name: &str, document: Option<&str>) -> Pending<()> {
        let checked = document.map_or(Ok(()), |text| Policy::to_set(text, false).map(drop));
        if let Err(error) = keys::check_name("policy", name).and(checked) {
            return Pending::ready(Err(error));
        }
        let (name, document) = (name.to_owned(), document.map(str::to_owned));
        change(
            &self.local,
            |rights| rights.administer(),
            move |txn, context| {
                let key = keys::policy(&name);
                let there = txn.record(CATALOGUE, &key)?.map(|(_, bytes)| PolicyRecord::decode(&bytes)).transpose()?;
                let Some(document) = document.clone() else {
                    there.ok_or_else(|| no_such_policy(&name))?;
                    check_unused(txn, &name)?;
                    txn.delete(CATALOGUE, key);
                    context.removes(|| format!("the policy {name}"));
                    return Ok(());
                };
                let (created, kept) = there.map_or((context.now, Vec::new()), |there| (there.created, there.kept));
                let record = PolicyRecord { document, created, changed: context.now, kept };
                txn.put(CATALOGUE, key, Bytes::from(record.encode()));
                Ok(())
            },
        )
    }

    pub fn policy(&self, name: &str) -> Result<String> {
        self.local.read(
            |rights| rights.administer(),
            |view| {
                let found = view.record(CATALOGUE, &keys::policy(name))?;
                Ok(PolicyRecord::decode(&found.ok_or_else(|| no_such_policy(name))?.1)?.document)
            },
        )
    }

    pub fn set_public_access(&self, public: bool) -> Pending<()> {
        change(
            &self.local,
            |rights| rights.own_the_store(),
            move |txn, _| {
                let key = crate::keys::catalogue_head();
                let found = txn.record(CATALOGUE, &key)?;
                let found = found.ok_or_else(|| Error::damaged("the catalogue has no record of its own"))?;
                let head = HeadRecord { public, ..HeadRecord::decode(&found.1)? };
                txn.put(CATALOGUE, key, Bytes::from(head.encode()));
                Ok(())
            },
        )
    }

    pub fn public_access(&self) -> Result<bool> {
        self.local.read(
            |_| Ok(()),
            |view| {
                let head = view.record(CATALOGUE, &crate::keys::catalogue_head())?;
                Ok(head.map(|(_, bytes)| HeadRecord::decode(&bytes)).transpose()?.is_some_and(|head| head.public))
            },
        )
    }

    pub fn explain(&self, asker: &Asker, action: Action, bucket: &str, key: Option<&str>) -> Result<Decision> {
        self.local.read(
            |rights| rights.administer(),
            |view| {
                let caller = match asker {
                    Asker::Everyone => Caller::Everyone,
                    Asker::AccessKey(key) => caller_of_key(view, key)?,
                    Asker::User(name) => {
                        let id = find::owner(view, name)?.0;
                        return Rights::new(view, &self.local).of_user(id)?.explain(action, bucket, key);
                    }
                };
                let asked = self.local.as_caller(caller);
                Rights::new(view, &asked).explain(action, bucket, key)
            },
        )
    }
}

/// `NotEmpty` while a user or a group names the policy. That none does is a condition.
fn check_unused(txn: &mut Transaction, policy: &str) -> Result<()> {
    for letter in *b"gu" {
        let range = KeyRange::prefix(keys::all_of(letter));
        let mut named = Vec::new();
        let mut cursor = txn.cursor(CATALOGUE, range, Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            named.push(entry.key);
        }
        drop(cursor);
        for key in named {
            let Some((_, bytes)) = txn.record(CATALOGUE, &key)? else {
                continue;
            };
            let (name, policies) = if letter == b'g' {
                let GroupRecord { name, policies, .. } = GroupRecord::decode(&bytes)?;
                (name, policies)
            } else {
                let UserRecord { name, policies, .. } = UserRecord::decode(&bytes)?;
                (name, policies)
            };
            if policies.iter().any(|named| named == policy) {
                return Err(Error::new(ErrorKind::NotEmpty, format!("{name:?} has the policy {policy:?} still")));
            }
        }
    }
    Ok(())
}
