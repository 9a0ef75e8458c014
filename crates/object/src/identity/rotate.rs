//! Which sealing key is in use, and going over to another.
//!
//! Invariants:
//! - A key is in the file before its record is put, and its record goes before it leaves the file: both lines are
//!   there until a rotation ends. Interrupted anywhere, the same call goes on.
//! - What is sealed while a rotation is under way is sealed with the new key.

use std::sync::Arc;

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Direction, KeyRange, Transaction, View};

use super::change::change;
use super::{LocalIdentities, Secret};
use crate::accounts::find::keys_of;
use crate::accounts::keys;
use crate::error::{Error, ErrorKind, Result};
use crate::keys::CATALOGUE;
use crate::lookup::Lookup;
use crate::record::{AccessKeyRecord, KeptSecret, SealingKeyRecord};
use crate::sealing::SealingKeys;

/// How many secrets are sealed anew in one batch.
const BATCH: usize = 1000;

/// The sealing keys that the catalogue knows.
fn known(txn: &mut Transaction) -> Result<Vec<(u32, SealingKeyRecord)>> {
    let mut found = Vec::new();
    for key in keys_of(txn, &keys::all_of(b's'), usize::MAX)? {
        if let Some((_, bytes)) = txn.record(CATALOGUE, &key)? {
            found.push((keys::sealing_number(&key)?, SealingKeyRecord::decode(&bytes)?));
        }
    }
    Ok(found)
}

fn put(txn: &mut Transaction, number: u32, record: &SealingKeyRecord) {
    txn.put(CATALOGUE, keys::sealing_key(number), Bytes::from(record.encode()));
}

fn record(sealing: &SealingKeys, number: u32, now: Timestamp) -> Result<SealingKeyRecord> {
    Ok(SealingKeyRecord { created: now, being_left: false, check: sealing.check(number)?, kept: Vec::new() })
}

/// How the secrets of a store's access keys are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sealing {
    /// As they are: there is no file of keys.
    AsTheyAre,
    /// Nothing is sealed yet; the first secret that is made will be.
    Unused,
    /// Sealed with the key of this number.
    With(u32),
    /// Sealed with the key of this number, which is not there.
    Lost(u32),
}

/// Whether the key that the record knows is the one that was given.
fn check(sealing: &SealingKeys, number: u32, record: &SealingKeyRecord) -> Result<()> {
    if sealing.check(number)? == record.check {
        return Ok(());
    }
    let file = sealing.file().map_or_else(String::new, |path| format!(" in {}", path.display()));
    let message = format!(
        "the sealing key {number}{file} is not this store's: give it its own file, or, where that is lost, see koine \
         identity sealing-key forget"
    );
    Err(Error::new(ErrorKind::AccessDenied, message))
}

impl LocalIdentities {
    /// What seals a new secret: the key in use, or, where there is none yet, the newest of the file, which is made
    /// where it is not there; `None` where secrets are kept as they are.
    fn key_in_use(&self, txn: &mut Transaction, now: Timestamp) -> Result<Option<u32>> {
        let in_use = known(txn)?.into_iter().find(|(_, record)| !record.being_left);
        if let Some((number, record)) = in_use {
            return self.local.with_sealing(|sealing| check(sealing, number, &record)).map(|()| Some(number));
        }
        let mut sealing = self.local.sealing_to_change();
        if sealing.file().is_some() {
            sealing.read_anew()?;
            if sealing.is_empty() {
                sealing.add(1, self.local.random())?;
            }
        }
        if let Some(number) = sealing.newest() {
            put(txn, number, &record(&sealing, number, now)?);
        }
        Ok(sealing.newest())
    }

    /// The secret as it is kept from now on.
    pub(super) fn keep_secret(
        &self,
        txn: &mut Transaction,
        of: (u64, &str),
        secret: &Secret,
        now: Timestamp,
    ) -> Result<KeptSecret> {
        let secret = secret.expose().as_bytes();
        match self.key_in_use(txn, now)? {
            Some(number) => self.local.sealing()?.seal(number, of, secret, self.local.random()),
            None => Ok(KeptSecret::Plain(secret.to_vec())),
        }
    }

    pub fn sealing(&self) -> Result<Sealing> {
        let find = |_: &mut Arc<dyn View>| {
            let mut txn = Transaction::begin(self.local.kv().as_ref())?;
            let in_use = known(&mut txn)?.into_iter().find(|(_, record)| !record.being_left);
            let mut keys = self.local.sealing_to_change();
            keys.read_anew()?;
            Ok(match in_use {
                Some((number, record)) if keys.has(number) => {
                    check(&keys, number, &record)?;
                    Sealing::With(number)
                }
                Some((number, _)) => Sealing::Lost(number),
                None if keys.file().is_some() || !keys.is_empty() => Sealing::Unused,
                None => Sealing::AsTheyAre,
            })
        };
        self.local.read(|rights| rights.own_the_device(), find)
    }

    pub fn make_sealing_key(&self) -> Result<u32> {
        let identities = self.clone();
        let made = change(
            &self.local,
            |rights| rights.own_the_device(),
            move |txn, context| identities.key_in_use(txn, context.now)?.ok_or_else(no_file),
        );
        made.wait()
    }

    pub fn rotate_sealing_key(&self) -> Result<u64> {
        let new = self.begin_rotation()?;
        let (mut sealed, mut after) = (0, keys::all_of(b'a'));
        loop {
            let (identities, from) = (self.clone(), after.clone());
            let step =
                change(&self.local, |rights| rights.own_the_device(), move |txn, _| identities.reseal(txn, &from, new));
            let (count, next) = step.wait()?;
            sealed += count;
            match next {
                Some(next) => after = next,
                None => break,
            }
        }
        let ended = change(
            &self.local,
            |rights| rights.own_the_device(),
            move |txn, _| {
                for (number, _) in known(txn)?.into_iter().filter(|(number, _)| *number != new) {
                    txn.delete(CATALOGUE, keys::sealing_key(number));
                }
                Ok(())
            },
        );
        ended.wait()?;
        self.local.sealing_to_change().keep(new)?;
        Ok(sealed)
    }

    /// The number of the new key: one that an interrupted rotation began with, or the next.
    fn begin_rotation(&self) -> Result<u32> {
        let identities = self.clone();
        let begun = change(
            &self.local,
            |rights| rights.own_the_device(),
            move |txn, context| {
                let there = known(txn)?;
                let in_use = there.iter().find(|(_, record)| !record.being_left).map(|(number, _)| *number);
                let left = there.iter().any(|(_, record)| record.being_left);
                let mut sealing = identities.local.sealing_to_change();
                sealing.read_anew()?;
                // Nothing is begun that could not be ended.
                there.iter().try_for_each(|(number, record)| check(&sealing, *number, record))?;
                if sealing.is_empty() && sealing.file().is_none() {
                    return Err(no_file());
                }
                if let Some(number) = in_use.filter(|_| left) {
                    return Ok(number);
                }
                let newest = sealing.newest().unwrap_or(0);
                let new = match in_use {
                    // The file has one that no record names: an attempt ended before its record was put.
                    Some(number) if newest > number => newest,
                    _ => {
                        let next = newest.max(in_use.unwrap_or(0)).saturating_add(1);
                        sealing.add(next, identities.local.random())?;
                        next
                    }
                };
                for (number, old) in there {
                    put(txn, number, &SealingKeyRecord { being_left: true, ..old });
                }
                put(txn, new, &record(&sealing, new, context.now)?);
                Ok(new)
            },
        );
        begun.wait()
    }

    /// Seals some secrets anew, and tells where to go on.
    fn reseal(&self, txn: &mut Transaction, from: &Bytes, new: u32) -> Result<(u64, Option<Bytes>)> {
        let all = KeyRange::prefix(keys::all_of(b'a'));
        let mut cursor = txn.cursor(CATALOGUE, all, Direction::Forward)?;
        cursor.seek(from)?;
        let mut found = Vec::new();
        while found.len() < BATCH
            && let Some(entry) = cursor.next()?
        {
            found.push(entry.key);
        }
        drop(cursor);
        let (sealing, mut sealed) = (self.local.sealing()?, 0);
        let next =
            found.last().filter(|_| found.len() == BATCH).map(|last| Bytes::from([last.as_ref(), &[0]].concat()));
        for key in found {
            let Some((_, bytes)) = txn.record(CATALOGUE, &key)? else {
                continue;
            };
            let old = AccessKeyRecord::decode(&bytes)?;
            if matches!(old.secret, KeptSecret::Sealed { key, .. } if key == new) {
                continue;
            }
            let name = String::from_utf8_lossy(key.get(1..).unwrap_or_default()).into_owned();
            let of = (old.user, name.as_str());
            let secret = sealing.seal(new, of, &sealing.open_secret(of, &old.secret)?, self.local.random())?;
            txn.put(CATALOGUE, key, Bytes::from(AccessKeyRecord { secret, ..old }.encode()));
            sealed += 1;
        }
        Ok((sealed, next))
    }

    pub fn forget_lost_secrets(&self) -> Result<u64> {
        let identities = self.clone();
        let forgotten = change(
            &self.local,
            |rights| rights.own_the_device(),
            move |txn, _| {
                let mut sealing = identities.local.sealing_to_change();
                sealing.read_anew()?;
                let (there, mut lost) = (known(txn)?, 0);
                let is_lost = |number: u32| {
                    let record = there.iter().find(|(known, _)| *known == number);
                    !sealing.has(number) || record.is_some_and(|(_, record)| check(&sealing, number, record).is_err())
                };
                for key in keys_of(txn, &keys::all_of(b'a'), usize::MAX)? {
                    let Some((_, bytes)) = txn.record(CATALOGUE, &key)? else {
                        continue;
                    };
                    let old = AccessKeyRecord::decode(&bytes)?;
                    if matches!(old.secret, KeptSecret::Sealed { key, .. } if is_lost(key)) {
                        let name = String::from_utf8_lossy(key.get(1..).unwrap_or_default()).into_owned();
                        txn.delete(CATALOGUE, keys::access_key_of(old.user, &name));
                        txn.delete(CATALOGUE, key);
                        lost += 1;
                    }
                }
                for (number, _) in there.iter().filter(|(number, _)| is_lost(*number)) {
                    txn.delete(CATALOGUE, keys::sealing_key(*number));
                }
                Ok(lost)
            },
        );
        forgotten.wait()
    }
}

fn no_file() -> Error {
    let message = "secrets are kept as they are; give the store a file of sealing keys first";
    Error::new(ErrorKind::InvalidRequest, message)
}
