//! Where identities stand in the catalogue.
//!
//! Invariant: ids in keys are big-endian, so that they sort as numbers; names are found in lower case, so that two
//! that differ in case alone cannot both be there.

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};

/// The longest name of a user, a group or a policy.
const NAME_LEN_MAX: usize = 64;

fn join(parts: &[&[u8]]) -> Bytes {
    Bytes::from(parts.concat())
}

pub(crate) fn group(id: u64) -> Bytes {
    join(&[b"g", &id.to_be_bytes()])
}

pub(crate) fn group_name(name: &str) -> Bytes {
    join(&[b"G", name.to_ascii_lowercase().as_bytes()])
}

pub(crate) fn user(id: u64) -> Bytes {
    join(&[b"u", &id.to_be_bytes()])
}

pub(crate) fn user_name(name: &str) -> Bytes {
    join(&[b"U", name.to_ascii_lowercase().as_bytes()])
}

/// Begins the memberships of a group.
pub(crate) fn members(group: u64) -> Bytes {
    join(&[b"m", &group.to_be_bytes()])
}

pub(crate) fn member(group: u64, user: u64) -> Bytes {
    join(&[b"m", &group.to_be_bytes(), &user.to_be_bytes()])
}

/// The number that a key ends with.
pub(crate) fn last_id(key: &[u8]) -> Result<u64> {
    let id = key.last_chunk::<8>().filter(|_| key.len() > 8).map(|bytes| u64::from_be_bytes(*bytes));
    id.ok_or_else(|| Error::damaged(format!("the key {} of the catalogue ends with no id", hex::encode(key))))
}

/// The buckets of a group, by name.
pub(crate) fn bucket_of_group(group: u64, bucket: &str) -> Bytes {
    join(&[b"h", &group.to_be_bytes(), bucket.as_bytes()])
}

/// The buckets of an owner, by name.
pub(crate) fn bucket_of_owner(owner: u64, bucket: &str) -> Bytes {
    join(&[b"o", &owner.to_be_bytes(), bucket.as_bytes()])
}

/// What follows a letter and an id, as text: a bucket's name, or an access key.
pub(crate) fn text_after_id(key: &[u8]) -> Result<String> {
    let text = key.get(9..).and_then(|text| String::from_utf8(text.to_vec()).ok());
    text.ok_or_else(|| Error::damaged(format!("the key {} of the catalogue has no name", hex::encode(key))))
}

/// The policy of a bucket.
pub(crate) fn bucket_policy(bucket: u64) -> Bytes {
    join(&[b"y", &bucket.to_be_bytes(), &[1]])
}

pub(crate) fn access_key(key: &str) -> Bytes {
    join(&[b"a", key.as_bytes()])
}

/// The access keys of a user; with an empty key, where they begin.
pub(crate) fn access_key_of(user: u64, key: &str) -> Bytes {
    join(&[b"A", &user.to_be_bytes(), key.as_bytes()])
}

pub(crate) fn token(digest: &[u8; 32]) -> Bytes {
    join(&[b"t", digest])
}

/// Begins the tokens of a user.
pub(crate) fn tokens_of(user: u64) -> Bytes {
    join(&[b"T", &user.to_be_bytes()])
}

pub(crate) fn token_of(user: u64, digest: &[u8; 32]) -> Bytes {
    join(&[b"T", &user.to_be_bytes(), digest])
}

/// The digest that a key of a user's token ends with.
pub(crate) fn token_digest(key: &[u8]) -> Result<[u8; 32]> {
    let digest = key.last_chunk::<32>().filter(|_| key.len() == 41);
    digest.copied().ok_or_else(|| Error::damaged(format!("the key {} is of no token", hex::encode(key))))
}

pub(crate) fn policy(name: &str) -> Bytes {
    join(&[b"p", name.as_bytes()])
}

pub(crate) fn uid(uid: u32) -> Bytes {
    join(&[b"l", &uid.to_be_bytes()])
}

/// Begins the keys of all that is of a letter: uids, sealing keys.
pub(crate) fn all_of(letter: u8) -> Bytes {
    Bytes::from(vec![letter])
}

pub(crate) fn sealing_key(number: u32) -> Bytes {
    join(&[b"s", &number.to_be_bytes()])
}

/// The number of a sealing key's key.
pub(crate) fn sealing_number(key: &[u8]) -> Result<u32> {
    let number = key.last_chunk::<4>().filter(|_| key.len() == 5).map(|bytes| u32::from_be_bytes(*bytes));
    number.ok_or_else(|| Error::damaged(format!("the key {} is of no sealing key", hex::encode(key))))
}

/// Whether a user, a group or a policy can have this name: 1 to 64 of letters, digits and `+ = , . @ _ -`.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte);
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

/// The same as an error that tells the form.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if is_name(name) {
        return Ok(());
    }
    let message = format!(
        "{name:?} is no name for a {what}: it has to have 1 to {NAME_LEN_MAX} letters, digits and + = , . @ _ -"
    );
    Err(Error::new(ErrorKind::InvalidArgument, message))
}
