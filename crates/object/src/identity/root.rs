//! Root: made anew by who owns the device.

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::Transaction;

use super::access::KeyOptions;
use super::change::change;
use super::find::{ROOT_NAME, keys_of, put_user};
use super::secret::draw_access_key;
use super::{Identities, Password, Secret, keys, password};
use crate::error::Result;
use crate::keys::CATALOGUE;
use crate::record::{AccessKeyRecord, KeptSecret, Limits, State, UserRecord};
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

impl Identities {
    /// Gives root a new access key and a new password, and takes all its other keys and tokens back, in one commit.
    /// Only who owns the store may: owning the device is the proof.
    pub fn reset_root(&self) -> Result<(String, Secret, Password)> {
        let random = self.objects.random();
        let made = (draw_access_key(random), Secret::draw(random), Password::draw(random));
        let hash = password::hash(made.2.expose(), random)?;
        let (access_key, secret) = (made.0.clone(), made.1.clone());
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
                let options = KeyOptions::default();
                let record = AccessKeyRecord {
                    user: ROOT,
                    created: scope.now,
                    disabled: false,
                    secret: KeptSecret::Plain(secret.expose().as_bytes().to_vec()),
                    expires: None,
                    policy: options.policy,
                    description: options.description,
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
