//! From a catalogue of an older format to this program's.
//!
//! Invariants:
//! - Nobody else has the store open, and nothing is upgraded but by being asked for.
//! - The format is written last: interrupted anywhere, the store is still of the older format, and the same call goes on.
//! - Records of buckets, objects, uploads and parts stay as they are: what they have not is root's, `null`, or nothing.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use koine_env::{Clock, Random};
use koine_kv::{Direction, Durability, KeyRange, Kv, Transaction};

use crate::collect::recount_all;
use crate::error::{Error, Result};
use crate::identity::Secret;
use crate::keys::{self, CATALOGUE};
use crate::local::Local;
use crate::lookup::{Lookup, read_value};
use crate::record::{BucketRecord, CATALOGUE_FORMAT, HeadRecord, RootKeyRecord};
use crate::rights::ownership::put_lists;

/// What an upgrade of a catalogue did, or would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueUpgrade {
    /// The format that was found.
    pub from: u32,
    /// This program's format.
    pub to: u32,
    /// Buckets that were looked through; none where there was nothing to do.
    pub buckets: u64,
    /// Counts that were set, because nobody had counted.
    pub counters: u64,
}

/// Gives the catalogue of a store the format of this program: [`Objects::upgrade`](crate::Objects::upgrade).
pub(crate) fn upgrade(
    kv: Arc<dyn Kv>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    dry_run: bool,
) -> Result<Option<CatalogueUpgrade>> {
    if !kv.view()?.has_space(CATALOGUE)? {
        return Ok(None);
    }
    let local = Local::over(kv, clock, random);
    let Some(head) = local.read_head()? else {
        return Ok(None);
    };
    let mut told = CatalogueUpgrade { from: head.format, to: CATALOGUE_FORMAT, buckets: 0, counters: 0 };
    if head.format < CATALOGUE_FORMAT {
        (told.buckets, told.counters) = recount_all(&local, !dry_run)?;
        if !dry_run {
            list_buckets(&local)?;
            end(&local)?;
        }
    }
    Ok(Some(told))
}

/// So many buckets get their lists in one batch.
const BATCH: usize = 1000;

/// Puts the keys by which owners and groups find their buckets.
fn list_buckets(local: &Local) -> Result<()> {
    let mut after = keys::bucket("");
    loop {
        let mut txn = Transaction::begin(&**local.kv())?;
        let view = local.kv().view()?;
        let mut cursor = view.cursor(CATALOGUE, KeyRange::prefix(keys::bucket("")), Direction::Forward)?;
        cursor.seek(&after)?;
        let mut count = 0;
        while count < BATCH
            && let Some(entry) = cursor.next()?
        {
            let Some((_, bytes)) = read_value(view.as_ref(), CATALOGUE, &entry.key)? else { continue };
            put_lists(&mut txn, &keys::bucket_name(&entry.key)?, &BucketRecord::decode(&bytes)?);
            after = Bytes::from([&entry.key, &[0][..]].concat());
            count += 1;
        }
        local.kv().commit(txn.into_batch(), Durability::Sync)?;
        if count < BATCH {
            return Ok(());
        }
    }
}

/// Makes the root key one of root's access keys, and writes the format.
fn end(local: &Local) -> Result<()> {
    let mut txn = Transaction::begin(&**local.kv())?;
    if let Some((_, bytes)) = txn.record(CATALOGUE, &keys::root_key())? {
        let RootKeyRecord { access_key, secret } = RootKeyRecord::decode(&bytes)?;
        local.identities().put_key_of_root(&mut txn, &access_key, &Secret::new(secret), local.now())?;
        txn.delete(CATALOGUE, keys::root_key());
    }
    let found = txn.record(CATALOGUE, &keys::catalogue_head())?;
    let (_, bytes) = found.ok_or_else(|| Error::damaged("the catalogue has no record of its own"))?;
    let head = HeadRecord { format: CATALOGUE_FORMAT, ..HeadRecord::decode(&bytes)? };
    txn.put(CATALOGUE, keys::catalogue_head(), Bytes::from(head.encode()));
    local.kv().commit(txn.into_batch(), Durability::Sync)?;
    Ok(())
}
