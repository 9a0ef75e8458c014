//! Access keys: made, listed, taken back; who signs with one.

use std::time::Duration;

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Direction, KeyRange};

use super::change::change;
use super::secret::draw_access_key;
use super::{LocalIdentities, Secret};
use crate::accounts::find::{self, lasting_user};
use crate::accounts::keys;
use crate::caller::{Caller, Credential, Identity, ROOT};
use crate::error::{Error, ErrorKind, Result};
use crate::keys::CATALOGUE;
use crate::lookup::{Lookup, read_value};
use crate::pending::Pending;
use crate::policy::Policy;
use crate::record::AccessKeyRecord;

/// How an access key is made.
#[derive(Clone, Debug, Default)]
pub struct KeyOptions {
    /// The key and its secret, where they are not to be drawn.
    pub given: Option<(String, Secret)>,
    /// How long it is good for; `None` until it is deleted.
    pub life: Option<Duration>,
    /// A policy that narrows what it may be used for.
    pub policy: Option<String>,
    /// What it is for.
    pub description: Option<String>,
}

/// What is known of an access key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The key.
    pub access_key: String,
    /// When it was made.
    pub created: Timestamp,
    /// Until when it is good.
    pub expires: Option<Timestamp>,
    /// Whether it lets nobody in.
    pub disabled: bool,
    /// Whether a policy narrows it.
    pub narrowed: bool,
    /// What it is for.
    pub description: Option<String>,
}

pub(super) fn no_such_key(access_key: &str) -> Error {
    Error::new(ErrorKind::NoSuchAccessKey, format!("there is no access key {access_key:?}"))
}

fn check_given(access_key: &str, secret: &Secret) -> Result<()> {
    let letters = access_key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if (3..=128).contains(&access_key.len()) && letters && (8..=256).contains(&secret.expose().len()) {
        return Ok(());
    }
    let message = "an access key has 3 to 128 letters and digits, its secret 8 to 256 bytes";
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

impl LocalIdentities {
    pub fn create_key(&self, user: &str, options: KeyOptions) -> Pending<(String, Secret)> {
        let checked = options.policy.as_deref().map_or(Ok(()), |text| Policy::to_set(text, false).map(drop));
        let given = options.given.as_ref().map_or(Ok(()), |(key, secret)| check_given(key, secret));
        if let Err(error) = checked.and(given) {
            return Pending::ready(Err(error));
        }
        let random = self.local.random();
        let (access_key, secret) = options.given.unwrap_or_else(|| (draw_access_key(random), Secret::draw(random)));
        let (user, needed, identities) = (user.to_owned(), user.to_owned(), self.clone());
        change(
            &self.local,
            move |rights| rights.speak_for_user(&needed),
            move |txn, context| {
                let id = if find::is_root(&user) { ROOT } else { lasting_user(txn, &user)?.0 };
                if txn.stat(CATALOGUE, &keys::access_key(&access_key))?.is_some() {
                    return Err(Error::new(ErrorKind::AlreadyExists, "there is an access key of this name already"));
                }
                let secret_kept = identities.keep_secret(txn, (id, &access_key), &secret, context.now)?;
                let life = options.life.map(|life| u64::try_from(life.as_nanos()).unwrap_or(u64::MAX));
                let record = AccessKeyRecord {
                    user: id,
                    created: context.now,
                    disabled: false,
                    secret: secret_kept,
                    expires: life.map(|life| Timestamp(context.now.0.saturating_add(life))),
                    policy: options.policy.clone(),
                    description: options.description.clone(),
                    kept: Vec::new(),
                };
                txn.put(CATALOGUE, keys::access_key(&access_key), Bytes::from(record.encode()));
                txn.put(CATALOGUE, keys::access_key_of(id, &access_key), Bytes::new());
                Ok((access_key.clone(), secret.clone()))
            },
        )
    }

    pub fn keys_of(&self, user: &str) -> Result<Vec<KeyInfo>> {
        self.local.read(
            |rights| rights.administer_user(user, true),
            |view| {
                let id = if find::is_root(user) { ROOT } else { find::user(view, user)?.0 };
                let range = KeyRange::prefix(keys::access_key_of(id, ""));
                let mut cursor = view.cursor(CATALOGUE, range, Direction::Forward)?;
                let mut found = Vec::new();
                while let Some(entry) = cursor.next()? {
                    let access_key = keys::text_after_id(&entry.key)?;
                    let value = read_value(view.as_ref(), CATALOGUE, &keys::access_key(&access_key))?;
                    let Some((_, bytes)) = value else {
                        continue;
                    };
                    let record = AccessKeyRecord::decode(&bytes)?;
                    found.push(KeyInfo {
                        access_key,
                        created: record.created,
                        expires: record.expires,
                        disabled: record.disabled,
                        narrowed: record.policy.is_some(),
                        description: record.description,
                    });
                }
                Ok(found)
            },
        )
    }

    pub fn delete_key(&self, user: &str, access_key: &str) -> Pending<()> {
        let (user, needed, access_key) = (user.to_owned(), user.to_owned(), access_key.to_owned());
        change(
            &self.local,
            move |rights| rights.administer_user(&needed, true),
            move |txn, context| {
                let id = if find::is_root(&user) { ROOT } else { find::user(txn, &user)?.0 };
                if txn.stat(CATALOGUE, &keys::access_key_of(id, &access_key))?.is_none() {
                    return Err(no_such_key(&access_key));
                }
                txn.delete(CATALOGUE, keys::access_key(&access_key));
                txn.delete(CATALOGUE, keys::access_key_of(id, &access_key));
                context.removes(|| format!("an access key of the user {user}"));
                Ok(())
            },
        )
    }

    pub fn by_access_key(&self, access_key: &str) -> Result<(Caller, Secret)> {
        let mut view = self.local.kv().view()?;
        let found = view.record(CATALOGUE, &keys::access_key(access_key))?;
        let (_, bytes) = found.ok_or_else(|| no_such_key(access_key))?;
        let record = AccessKeyRecord::decode(&bytes)?;
        let secret = self.local.with_sealing(|keys| keys.open_secret((record.user, access_key), &record.secret))?;
        let secret = String::from_utf8(secret).map_err(|_| Error::damaged("the secret of an access key is no text"))?;
        Ok((caller(record.user, access_key), Secret::new(secret)))
    }
}

/// Who signs with an access key.
pub(super) fn caller_of_key(from: &mut dyn Lookup, access_key: &str) -> Result<Caller> {
    let found = from.record(CATALOGUE, &keys::access_key(access_key))?;
    let (_, bytes) = found.ok_or_else(|| no_such_key(access_key))?;
    Ok(caller(AccessKeyRecord::decode(&bytes)?.user, access_key))
}

fn caller(user: u64, access_key: &str) -> Caller {
    Caller::User(Identity::new(user, Credential::AccessKey(access_key.to_owned())))
}
