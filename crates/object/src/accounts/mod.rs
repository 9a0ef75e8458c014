//! Users and groups as the catalogue has them: their keys and records, found by id and by name.
//!
//! Invariant: nothing here asks whether somebody may look; who calls it has asked, or asks for the judge itself.

pub(crate) mod find;
pub(crate) mod keys;

use koine_kv::Transaction;

use crate::access_list::{AccessList, Grantee};
use crate::error::{Error, ErrorKind, Result};
use crate::keys::{self as catalogue_keys, CATALOGUE};
use crate::lookup::Lookup;
use crate::record::{GroupRecord, HeadRecord, UserRecord};

/// A user by name.
pub(crate) fn find_user(from: &mut dyn Lookup, name: &str) -> Result<Option<(u64, UserRecord)>> {
    let Some((_, id)) = from.record(CATALOGUE, &keys::user_name(name))? else {
        return Ok(None);
    };
    let id = read_id(&id)?;
    Ok(user(from, id)?.map(|record| (id, record)))
}

/// A group by name.
pub(crate) fn find_group(from: &mut dyn Lookup, name: &str) -> Result<Option<(u64, GroupRecord)>> {
    let Some((_, id)) = from.record(CATALOGUE, &keys::group_name(name))? else {
        return Ok(None);
    };
    let id = read_id(&id)?;
    Ok(group(from, id)?.map(|record| (id, record)))
}

/// An id that is a value.
pub(crate) fn read_id(bytes: &[u8]) -> Result<u64> {
    bytes.try_into().map(u64::from_le_bytes).map_err(|_| Error::damaged("an id of the catalogue is not 8 bytes long"))
}

pub(crate) fn user(from: &mut dyn Lookup, id: u64) -> Result<Option<UserRecord>> {
    let found = from.record(CATALOGUE, &keys::user(id))?;
    found.map(|(_, bytes)| UserRecord::decode(&bytes)).transpose()
}

pub(crate) fn group(from: &mut dyn Lookup, id: u64) -> Result<Option<GroupRecord>> {
    let found = from.record(CATALOGUE, &keys::group(id))?;
    found.map(|(_, bytes)| GroupRecord::decode(&bytes)).transpose()
}

/// Lists name users and groups that are there, and everybody or every user only where something may be open to those.
pub(crate) fn check_list(txn: &mut Transaction, list: &AccessList) -> Result<()> {
    for grant in list.grants() {
        let there = match grant.to {
            Grantee::User(id) => id == 0 || user(txn, id)?.is_some(),
            Grantee::Group(id) => id == 0 || group(txn, id)?.is_some(),
            Grantee::Everyone | Grantee::EveryUser => check_public(txn).map(|()| true)?,
        };
        if !there {
            let message = format!("the access list grants to {:?}, who is not there", grant.to);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
    }
    Ok(())
}

/// `InvalidRequest` where the store is open to nobody without an identity.
pub(crate) fn check_public(txn: &mut Transaction) -> Result<()> {
    let head = txn.record(CATALOGUE, &catalogue_keys::catalogue_head())?;
    if head.map(|(_, bytes)| HeadRecord::decode(&bytes)).transpose()?.is_some_and(|head| head.public) {
        return Ok(());
    }
    let message = "public access to this store is off; root switches it on before anything is opened to everybody or to every user: koine identity public-access set on";
    Err(Error::new(ErrorKind::InvalidRequest, message))
}
