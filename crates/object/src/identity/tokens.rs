//! Log in and out: tokens for passwords; users of this machine.

use std::time::Duration;

use bytes::Bytes;
use koine_env::Timestamp;

use super::change::change;
use super::{LocalIdentities, Token, password};
use crate::accounts::keys::is_name;
use crate::accounts::{find, find_user, group, keys, read_id, user};
use crate::attempts::LogInPeer;
use crate::caller::{Caller, Credential, Identity, ROOT};
use crate::error::{Error, ErrorKind, Result};
use crate::keys::CATALOGUE;
use crate::lookup::Lookup;
use crate::pending::Pending;
use crate::record::{State, TokenRecord};

/// The longest life of a token.
const LIFE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// What logging in gives.
#[derive(Clone, Debug)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// What travels with requests.
    pub token: Token,
    /// Until when it is good.
    pub expires: Timestamp,
}

/// The one text for every reason.
fn failed() -> Error {
    Error::new(ErrorKind::LogInFailed, "name or password are wrong, or the user may not log in")
}

impl LocalIdentities {
    pub fn log_in(&self, name: &str, password: &str, life: Duration) -> Result<Login> {
        let address = self.local.circumstances().address;
        self.log_in_of(address.map_or(LogInPeer::Here, LogInPeer::Address), name, password, life)
    }

    /// The same for a peer of a door. Wrong passwords delay that peer, not others who try the same name.
    pub(crate) fn log_in_of(&self, peer: LogInPeer, name: &str, password: &str, life: Duration) -> Result<Login> {
        if life > LIFE_MAX {
            let message = format!("a token is good for {} days at most", LIFE_MAX.as_secs() / 86_400);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let (id, kept) = self.prove(peer, name, password)?;
        self.issue(id, kept, life).wait()
    }

    /// The id of a user and the hash of its password, where this is the password.
    pub(super) fn prove(&self, peer: LogInPeer, name: &str, password: &str) -> Result<(u64, String)> {
        // Nobody has such a name: nothing is looked up, hashed or remembered.
        if !is_name(name) {
            return Err(failed());
        }
        let attempt = self.attempts().begin(peer, name, self.local.now())?;
        let (known, right) = match self.compare(name, password) {
            Ok(compared) => compared,
            Err(error) => {
                attempt.was_none();
                return Err(error);
            }
        };
        if right {
            attempt.succeeded(self.local.now());
        }
        let (Some(found), true) = (known, right) else {
            return Err(failed());
        };
        Ok(found)
    }

    /// The user of a name that has a password, with its hash, and whether this is the one.
    fn compare(&self, name: &str, password: &str) -> Result<(Option<(u64, String)>, bool)> {
        let mut view = self.local.kv().view()?;
        let known = if find::is_root(name) {
            user(&mut view, ROOT)?.map(|record| (ROOT, record))
        } else {
            find_user(&mut view, name)?
        };
        let known = known.and_then(|(id, record)| record.password.map(|kept| (id, kept)));
        let right = password::verify(password, known.as_ref().map(|(_, kept)| kept.as_str()))?;
        Ok((known, right))
    }

    fn issue(&self, id: u64, kept: String, life: Duration) -> Pending<Login> {
        let token = Token::draw(self.local.random());
        let life = u64::try_from(life.as_nanos()).unwrap_or(u64::MAX);
        change(
            &self.local,
            // Who knows the password may log in, whoever asks.
            |_| Ok(()),
            move |txn, context| {
                let record = user(txn, id)?.ok_or_else(failed)?;
                let home = if id == ROOT { None } else { group(txn, record.home)? };
                let home_is_live = id == ROOT || home.is_some_and(|group| !group.being_deleted);
                // A password that was changed meanwhile is another.
                if record.state != State::Live || !home_is_live || record.password.as_deref() != Some(kept.as_str()) {
                    return Err(failed());
                }
                super::sessions::make_room(txn, id, context.now)?;
                let digest = token.digest().ok_or_else(failed)?;
                let expires = Timestamp(context.now.0.saturating_add(life));
                let (policy, description) = (None, None);
                let kept = Vec::new();
                let made = TokenRecord { user: id, created: context.now, expires, policy, description, kept };
                txn.put(CATALOGUE, keys::token(&digest), Bytes::from(made.encode()));
                let expires_at = Bytes::copy_from_slice(&expires.0.to_le_bytes());
                txn.put(CATALOGUE, keys::token_of(id, &digest), expires_at);
                Ok(Login { user: record.name, token: token.clone(), expires })
            },
        )
    }

    pub fn log_out(&self, token: &Token) -> Pending<()> {
        let Some(digest) = token.digest() else {
            return Pending::ready(Ok(()));
        };
        change(
            &self.local,
            // Who has the token may take it back, whoever asks.
            |_| Ok(()),
            move |txn, _| {
                if let Some((_, bytes)) = txn.record(CATALOGUE, &keys::token(&digest))? {
                    let owner = TokenRecord::decode(&bytes)?.user;
                    txn.delete(CATALOGUE, keys::token(&digest));
                    txn.delete(CATALOGUE, keys::token_of(owner, &digest));
                }
                Ok(())
            },
        )
    }

    pub fn by_token(&self, token: &Token) -> Result<Caller> {
        let digest = token.digest().ok_or_else(no_entry)?;
        let found = self.local.kv().view()?.record(CATALOGUE, &keys::token(&digest))?;
        let (_, bytes) = found.ok_or_else(no_entry)?;
        let record = TokenRecord::decode(&bytes)?;
        if record.expires <= self.local.now() {
            return Err(no_entry());
        }
        Ok(Caller::User(Identity::new(record.user, Credential::Token(digest))))
    }

    /// The name of the user who asks.
    pub(crate) fn own_name(&self) -> Result<String> {
        let id = self.local.caller().user();
        let known = user(&mut self.local.kv().view()?, id)?;
        Ok(known.map_or_else(|| find::ROOT_NAME.to_owned(), |record| record.name))
    }

    pub fn by_uid(&self, uid: u32) -> Result<Option<Caller>> {
        let found = self.local.kv().view()?.record(CATALOGUE, &keys::uid(uid))?;
        let id = found.map(|(_, id)| read_id(&id)).transpose()?;
        Ok(id.map(|id| Caller::User(Identity::new(id, Credential::Uid(uid)))))
    }
}

fn no_entry() -> Error {
    Error::new(ErrorKind::LogInFailed, "the token has expired or was taken back; log in again")
}
