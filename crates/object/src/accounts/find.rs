//! Finding groups and users: by name, live or not, and pages of them.

use koine_kv::{Direction, KeyRange, Transaction, View};

use crate::accounts::{find_group as group_of, find_user as user_of, keys};
use crate::caller::ROOT;
use crate::error::{Error, ErrorKind, Result};
use crate::keys::CATALOGUE;
use crate::lookup::{Lookup, value_of};
use crate::record::{GroupRecord, State, UserRecord};

/// How many a page has where its query does not say.
const PAGE_LEN: usize = 1000;

pub(crate) fn no_such_user(name: &str) -> Error {
    Error::new(ErrorKind::NoSuchUser, format!("there is no user {name:?}"))
}

pub(crate) fn no_such_group(name: &str) -> Error {
    Error::new(ErrorKind::NoSuchGroup, format!("there is no group {name:?}"))
}

/// A user, whatever its state.
pub(crate) fn user(from: &mut dyn Lookup, name: &str) -> Result<(u64, UserRecord)> {
    user_of(from, name)?.ok_or_else(|| no_such_user(name))
}

/// A user that can be given something: one that is not being deleted.
pub(crate) fn lasting_user(from: &mut dyn Lookup, name: &str) -> Result<(u64, UserRecord)> {
    let (id, record) = user(from, name)?;
    if record.state == State::BeingDeleted { Err(no_such_user(name)) } else { Ok((id, record)) }
}

/// A group that is not being deleted.
pub(crate) fn live_group(from: &mut dyn Lookup, name: &str) -> Result<(u64, GroupRecord)> {
    let found = group_of(from, name)?.filter(|(_, record)| !record.being_deleted);
    found.ok_or_else(|| no_such_group(name))
}

/// What owns nothing by itself: root, whose record need not be there.
pub(crate) fn is_root(name: &str) -> bool {
    name.eq_ignore_ascii_case(ROOT_NAME)
}

/// Names root, as a user and as a group. No other can have it.
pub(crate) const ROOT_NAME: &str = "root";

/// A user's or root's id, and its home group, as one that owns.
pub(crate) fn owner(from: &mut dyn Lookup, name: &str) -> Result<(u64, u64)> {
    if is_root(name) {
        return Ok((ROOT, ROOT));
    }
    let (id, record) = lasting_user(from, name)?;
    Ok((id, record.home))
}

/// A group's or root's group's id.
pub(crate) fn owning_group(from: &mut dyn Lookup, name: &str) -> Result<u64> {
    if is_root(name) { Ok(ROOT) } else { live_group(from, name).map(|(id, _)| id) }
}

/// Up to `limit` keys of a range after `after`, with their values.
pub(crate) fn page(
    view: &dyn View,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<bool> {
    let limit = if limit == 0 { PAGE_LEN } else { limit };
    let mut cursor = view.cursor(CATALOGUE, KeyRange::prefix(prefix.to_vec()), Direction::Forward)?;
    if let Some(after) = after.filter(|after| *after >= prefix) {
        cursor.seek(&[after, &[0]].concat())?;
    }
    let mut told = 0;
    while let Some(entry) = cursor.next()? {
        if told == limit {
            return Ok(true);
        }
        let value = value_of(view, CATALOGUE, &entry.key, entry.value)?;
        told += usize::from(each(&entry.key, &value)?);
    }
    Ok(false)
}

/// The keys of a range, at most `limit`. That these are the first is a condition.
pub(crate) fn keys_of(txn: &mut Transaction, prefix: &[u8], limit: usize) -> Result<Vec<bytes::Bytes>> {
    let mut cursor = txn.cursor(CATALOGUE, KeyRange::prefix(prefix.to_vec()), Direction::Forward)?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(entry) = cursor.next()?
    {
        found.push(entry.key);
    }
    Ok(found)
}

/// Puts a group's record.
pub(crate) fn put_group(txn: &mut Transaction, id: u64, record: &GroupRecord) {
    txn.put(CATALOGUE, keys::group(id), bytes::Bytes::from(record.encode()));
}

/// Puts a user's record.
pub(crate) fn put_user(txn: &mut Transaction, id: u64, record: &UserRecord) {
    txn.put(CATALOGUE, keys::user(id), bytes::Bytes::from(record.encode()));
}

/// Gives a name to an id: `AlreadyExists` where it is another's.
pub(crate) fn take_name(txn: &mut Transaction, what: &str, key: bytes::Bytes, name: &str, id: u64) -> Result<()> {
    keys::check_name(what, name)?;
    if is_root(name) || txn.stat(CATALOGUE, &key)?.is_some() {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("there is a {what} {name:?} already")));
    }
    txn.put(CATALOGUE, key, bytes::Bytes::copy_from_slice(&id.to_le_bytes()));
    Ok(())
}
