//! Root: made anew by who owns the device.

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Direction, KeyRange, Transaction, View};

use super::change::change;
use super::find::{ROOT_NAME, keys_of, put_user};
use super::secret::draw_access_key;
use super::{Identities, Password, Secret, keys, password};
use crate::error::{Error, Result};
use crate::keys::CATALOGUE;
use crate::lookup::read_value;
use crate::objects::{Objects, RootKey};
use crate::record::{AccessKeyRecord, Limits, State, UserRecord};
use crate::rights::{ROOT, user};

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

/// The key that root signs with where it was reset: the first of its keys that is live and for ever.
pub(crate) fn key_of_root(objects: &Objects, view: &dyn View) -> Result<Option<RootKey>> {
    let range = KeyRange::prefix(keys::access_key_of(ROOT, ""));
    let mut cursor = view.cursor(CATALOGUE, range, Direction::Forward)?;
    while let Some(entry) = cursor.next()? {
        let access_key = keys::text_after_id(&entry.key)?;
        let Some((_, bytes)) = read_value(view, CATALOGUE, &keys::access_key(&access_key))? else {
            continue;
        };
        let record = AccessKeyRecord::decode(&bytes)?;
        if !record.disabled && record.expires.is_none() {
            let secret = objects.sealing().open_secret((ROOT, &access_key), &record.secret)?;
            let secret =
                String::from_utf8(secret).map_err(|_| Error::damaged("the secret of root's key is no text"))?;
            return Ok(Some(RootKey { access_key, secret }));
        }
    }
    Ok(None)
}

impl Identities {
    /// Gives root a new access key and a new password, and takes all its other keys and tokens back, in one commit.
    /// Only who owns the store may: owning the device is the proof.
    pub fn reset_root(&self) -> Result<(String, Secret, Password)> {
        let random = self.objects.random();
        let made = (draw_access_key(random), Secret::draw(random), Password::draw(random));
        let hash = password::hash(made.2.expose(), random)?;
        let (access_key, secret, identities) = (made.0.clone(), made.1.clone(), self.clone());
        let reset = change(
            &self.objects,
            |rights| rights.own_the_device(),
            move |txn, scope| {
                for key in keys_of(txn, &keys::access_key_of(ROOT, ""), usize::MAX)? {
                    txn.delete(CATALOGUE, keys::access_key(&keys::text_after_id(&key)?));
                    txn.delete(CATALOGUE, key);
                }
                for key in keys_of(txn, &keys::tokens_of(ROOT), usize::MAX)? {
                    txn.delete(CATALOGUE, keys::token(&keys::token_digest(&key)?));
                    txn.delete(CATALOGUE, key);
                }
                txn.delete(CATALOGUE, crate::keys::root_key());
                put_password(txn, hash.clone(), scope.now)?;
                let secret = identities.keep_secret(txn, (ROOT, &access_key), &secret, scope.now)?;
                let record = AccessKeyRecord {
                    user: ROOT,
                    created: scope.now,
                    disabled: false,
                    secret,
                    expires: None,
                    policy: None,
                    description: None,
                    kept: Vec::new(),
                };
                txn.put(CATALOGUE, keys::access_key(&access_key), Bytes::from(record.encode()));
                txn.put(CATALOGUE, keys::access_key_of(ROOT, &access_key), Bytes::new());
                Ok(())
            },
        );
        reset.wait()?;
        Ok(made)
    }
}
