//! Root: made anew by who owns the device.

use std::sync::Arc;

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Direction, KeyRange, SpaceId, Transaction, View};

use super::change::change;
use super::secret::draw_access_key;
use super::{LocalIdentities, Password, Secret, password};
use crate::accounts::find::{ROOT_NAME, keys_of, put_user};
use crate::accounts::{keys, user};
use crate::caller::ROOT;
use crate::error::{Error, ErrorKind, Result};
use crate::keys::CATALOGUE;
use crate::local::{Local, RootKey};
use crate::lookup::Lookup;
use crate::record::{AccessKeyRecord, KeptSecret, Limits, State, UserRecord};

/// Sets root's password. Its record is made when there is none.
pub(super) fn put_password(txn: &mut Transaction, hash: String, now: Timestamp) -> Result<()> {
    let record = user(txn, ROOT)?.unwrap_or_else(|| UserRecord {
        name: ROOT_NAME.to_owned(),
        created: now,
        state: State::Live,
        home: ROOT,
        password: None,
        policies: Vec::new(),
        groups: Vec::new(),
        limits: Limits::default(),
        administrator: true,
        display: None,
        password_changed: None,
        kept: Vec::new(),
    });
    let record = UserRecord { password: Some(hash), password_changed: Some(now), ..record };
    put_user(txn, ROOT, &record);
    Ok(())
}

/// What a store that was just made may have: the record of root, its keys and tokens, and what seals their secrets.
pub(crate) fn founding_keys() -> Vec<KeyRange> {
    let single = [keys::user(ROOT), keys::user_name(ROOT_NAME)].map(KeyRange::single);
    let prefixes = [keys::access_key_of(ROOT, ""), keys::all_of(b'a'), keys::all_of(b's')].map(KeyRange::prefix);
    single.into_iter().chain(prefixes).collect()
}

/// The key that root signs with: the first of its keys that is live and for ever.
pub(crate) fn key_of_root(local: &Local, mut view: Arc<dyn View>) -> Result<Option<RootKey>> {
    let range = KeyRange::prefix(keys::access_key_of(ROOT, ""));
    let listed = Arc::clone(&view);
    let mut cursor = listed.cursor(CATALOGUE, range, Direction::Forward)?;
    while let Some(entry) = cursor.next()? {
        if let Some(found) = for_ever(local, &mut view, &keys::text_after_id(&entry.key)?)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Keeps a key as root's unless it has one; gives the one that stands.
pub(crate) fn keep_key_of_root(local: &Local, key: &RootKey) -> Result<RootKey> {
    let (identities, wanted) = (local.identities(), key.clone());
    let kept = change(
        local,
        |rights| rights.own_the_device(),
        move |txn, context| {
            for key in keys_of(txn, &keys::access_key_of(ROOT, ""), usize::MAX)? {
                if let Some(found) = for_ever(&identities.local, txn, &keys::text_after_id(&key)?)? {
                    return Ok(found);
                }
            }
            let secret = Secret::new(wanted.secret.clone());
            identities.put_key_of_root(txn, &wanted.access_key, &secret, context.now)?;
            Ok(wanted.clone())
        },
    );
    kept.wait()
}

/// A key of root as it signs, when it is live and does not expire.
fn for_ever(local: &Local, from: &mut dyn Lookup, access_key: &str) -> Result<Option<RootKey>> {
    let Some((_, bytes)) = from.record(CATALOGUE, &keys::access_key(access_key))? else {
        return Ok(None);
    };
    let record = AccessKeyRecord::decode(&bytes)?;
    if record.disabled || record.expires.is_some() {
        return Ok(None);
    }
    let secret = local.with_sealing(|keys| keys.open_secret((ROOT, access_key), &record.secret))?;
    let secret = String::from_utf8(secret).map_err(|_| Error::damaged("the secret of root's key is no text"))?;
    Ok(Some(RootKey { access_key: access_key.to_owned(), secret }))
}

impl LocalIdentities {
    /// Puts a key of root that is live and for ever. Where the sealing key is lost its secret is kept as it is: root must
    /// be able to come back.
    pub(crate) fn put_key_of_root(
        &self,
        txn: &mut Transaction,
        access_key: &str,
        secret: &Secret,
        now: Timestamp,
    ) -> Result<()> {
        let kept = match self.keep_secret(txn, (ROOT, access_key), secret, now) {
            Err(error) if error.kind() == ErrorKind::AccessDenied => {
                KeptSecret::Plain(secret.expose().as_bytes().to_vec())
            }
            kept => kept?,
        };
        let record = AccessKeyRecord {
            user: ROOT,
            created: now,
            disabled: false,
            secret: kept,
            expires: None,
            policy: None,
            description: None,
            kept: Vec::new(),
        };
        txn.put(CATALOGUE, keys::access_key(access_key), Bytes::from(record.encode()));
        txn.put(CATALOGUE, keys::access_key_of(ROOT, access_key), Bytes::new());
        Ok(())
    }

    pub fn reset_root(&self) -> Result<(String, Secret, Password)> {
        let random = self.local.random();
        let made = (draw_access_key(random), Secret::draw(random), Password::draw(random));
        let hash = password::hash(made.2.expose(), random)?;
        let (access_key, secret, identities) = (made.0.clone(), made.1.clone(), self.clone());
        let reset = change(
            &self.local,
            |rights| rights.own_the_device(),
            move |txn, context| {
                for key in keys_of(txn, &keys::access_key_of(ROOT, ""), usize::MAX)? {
                    txn.delete(CATALOGUE, keys::access_key(&keys::text_after_id(&key)?));
                    txn.delete(CATALOGUE, key);
                }
                for key in keys_of(txn, &keys::tokens_of(ROOT), usize::MAX)? {
                    txn.delete(CATALOGUE, keys::token(&keys::token_digest(&key)?));
                    txn.delete(CATALOGUE, key);
                }
                put_password(txn, hash.clone(), context.now)?;
                identities.put_key_of_root(txn, &access_key, &secret, context.now)
            },
        );
        reset.wait()?;
        Ok(made)
    }
}

impl Local {
    /// The root key, when one was set, or made by a reset: the first of root's access keys that is live and for ever.
    pub fn root_key(&self) -> Result<Option<RootKey>> {
        key_of_root(self, self.kv().view()?)
    }

    /// Sets the root key unless there is one; gives the one that stands. Its secret is sealed where the store was given
    /// sealing keys.
    pub fn set_root_key_if_absent(&self, key: &RootKey) -> Result<RootKey> {
        keep_key_of_root(self, key)
    }

    /// The keys that belong to a store itself and not to its buckets: a store without buckets has no others.
    pub fn founding_keys() -> Vec<(SpaceId, KeyRange)> {
        let head = KeyRange::single(crate::keys::catalogue_head());
        founding_keys().into_iter().chain([head]).map(|range| (CATALOGUE, range)).collect()
    }
}
