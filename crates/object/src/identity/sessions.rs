//! What log-ins leave: the tokens of a user, listed and taken back one by one, and all of them with a password that changes.
//!
//! Invariants:
//! - A password that changes takes back every token of its user, but the one by which it is changed: who knew the old
//!   one, or had a token, is out.
//! - Who changes the password of itself knows the old one, where there is one: a token alone does not keep its thief in.
//! - A user has a bounded number of tokens.

use koine_env::Timestamp;
use koine_kv::{Direction, KeyRange, Transaction};

use super::change::change;
use super::{LocalIdentities, password};
use crate::accounts::find::{self, keys_of, lasting_user, put_user};
use crate::accounts::keys;
use crate::attempts::LogInPeer;
use crate::caller::{Caller, Credential, ROOT};
use crate::error::{Error, ErrorKind, Result};
use crate::keys::CATALOGUE;
use crate::local::Local;
use crate::lookup::{Lookup, read_value};
use crate::pending::Pending;
use crate::record::TokenRecord;

/// The most tokens of a user; the one that ends first makes room for another.
pub(super) const TOKENS_MAX: usize = 1_000;

/// What is known of a token. The token itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    /// What [`Identities::delete_token`] takes: 16 hexadecimal digits, the first of the digest that is kept of it.
    pub id: String,
    /// When it was made.
    pub created: Timestamp,
    /// Until when it is good.
    pub expires: Timestamp,
}

fn id_of(digest: &[u8; 32]) -> String {
    hex::encode(digest.first_chunk::<8>().unwrap_or(&[0; 8]))
}

/// The id of a user who has tokens.
fn holder(from: &mut dyn Lookup, name: &str) -> Result<u64> {
    if find::is_root(name) { Ok(ROOT) } else { find::user(from, name).map(|(id, _)| id) }
}

fn take(txn: &mut Transaction, user: u64, digest: &[u8; 32]) {
    txn.delete(CATALOGUE, keys::token(digest));
    txn.delete(CATALOGUE, keys::token_of(user, digest));
}

/// Takes all tokens of a user back, but the one that `caller` comes with.
pub(super) fn take_all(txn: &mut Transaction, user: u64, caller: &Caller) -> Result<()> {
    let own = match caller {
        Caller::User(identity) => match identity.credential() {
            Credential::Token(digest) => Some(*digest),
            Credential::AccessKey(_) | Credential::Uid(_) => None,
        },
        _ => None,
    };
    // Some more than there may be: those of log-ins at the same time.
    for key in keys_of(txn, &keys::tokens_of(user), 2 * TOKENS_MAX)? {
        let digest = keys::token_digest(&key)?;
        if own != Some(digest) {
            take(txn, user, &digest);
        }
    }
    Ok(())
}

/// Takes back what has expired of a user's tokens, and the one that ends first where there are too many. Two log-ins at
/// the same time may each leave one more.
pub(super) fn make_room(txn: &mut Transaction, user: u64, now: Timestamp) -> Result<()> {
    let view = std::sync::Arc::clone(txn.view());
    let mut cursor = view.cursor(CATALOGUE, KeyRange::prefix(keys::tokens_of(user)), Direction::Forward)?;
    let mut live = Vec::new();
    while let Some(entry) = cursor.next()? {
        let digest = keys::token_digest(&entry.key)?;
        let expires = match &entry.value {
            Some(value) => value.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
            None => 0,
        };
        if expires <= now.0 {
            take(txn, user, &digest);
        } else {
            live.push((expires, digest));
        }
    }
    let surplus = (live.len() + 1).saturating_sub(TOKENS_MAX);
    live.sort_unstable();
    live.iter().take(surplus).for_each(|(_, digest)| take(txn, user, digest));
    Ok(())
}

/// Sets the hash of a user's password and takes its tokens back.
pub(super) fn put_password(
    txn: &mut Transaction,
    local: &Local,
    name: &str,
    hash: String,
    now: Timestamp,
) -> Result<()> {
    if find::is_root(name) {
        super::root::put_password(txn, hash, now)?;
        return take_all(txn, ROOT, local.caller());
    }
    let (id, mut record) = lasting_user(txn, name)?;
    record.password = Some(hash);
    record.password_changed = Some(now);
    put_user(txn, id, &record);
    take_all(txn, id, local.caller())
}

impl LocalIdentities {
    pub fn change_password(&self, name: &str, old: &str, new: &str) -> Result<()> {
        let address = self.local.circumstances().address;
        let peer = address.map_or(LogInPeer::Here, LogInPeer::Address);
        let (_, kept) = self.prove(peer, name, old)?;
        let hash = password::hash(new, self.local.random())?;
        let (local, name) = (self.local.clone(), name.to_owned());
        let changed = change(
            &self.local,
            // Who knows the password may change it, whoever asks, as it may log in.
            |_| Ok(()),
            move |txn, context| {
                let known = if find::is_root(&name) {
                    crate::accounts::user(txn, ROOT)?.and_then(|record| record.password)
                } else {
                    lasting_user(txn, &name)?.1.password
                };
                if known.as_deref() != Some(kept.as_str()) {
                    return Err(Error::new(ErrorKind::Conflict, "the password was changed meanwhile; try again"));
                }
                put_password(txn, &local, &name, hash.clone(), context.now)
            },
        );
        changed.wait()
    }

    pub fn tokens_of(&self, name: &str) -> Result<Vec<TokenInfo>> {
        let now = self.local.now();
        self.local.read(
            |rights| rights.administer_user(name, true),
            |view| {
                let range = KeyRange::prefix(keys::tokens_of(holder(view, name)?));
                let mut cursor = view.cursor(CATALOGUE, range, Direction::Forward)?;
                let mut found = Vec::new();
                while let Some(entry) = cursor.next()? {
                    let digest = keys::token_digest(&entry.key)?;
                    let value = read_value(view.as_ref(), CATALOGUE, &keys::token(&digest))?;
                    let Some((_, bytes)) = value else {
                        continue;
                    };
                    let TokenRecord { created, expires, .. } = TokenRecord::decode(&bytes)?;
                    if expires > now {
                        found.push(TokenInfo { id: id_of(&digest), created, expires });
                    }
                }
                Ok(found)
            },
        )
    }

    pub fn delete_token(&self, name: &str, id: &str) -> Pending<()> {
        let (needed, name, id) = (name.to_owned(), name.to_owned(), id.to_owned());
        change(
            &self.local,
            move |rights| rights.administer_user(&needed, true),
            move |txn, _| {
                let user = holder(txn, &name)?;
                let keys = keys_of(txn, &keys::tokens_of(user), 2 * TOKENS_MAX)?;
                let digests = keys.iter().map(|key| keys::token_digest(key)).collect::<Result<Vec<_>>>()?;
                let Some(digest) = digests.iter().find(|digest| id_of(digest) == id) else {
                    let message = format!("the user {name:?} has no token {id:?}");
                    return Err(Error::new(ErrorKind::NoSuchAccessKey, message));
                };
                take(txn, user, digest);
                Ok(())
            },
        )
    }
}
