//! Indexes over metadata and tags: kept by every change of a name, added, built and dropped.
//!
//! Invariants:
//! - An entry stands in the commit that puts its record and goes in the one that takes it: [`name_changed`] is called
//!   where names change, and nowhere else is an entry changed but by who builds an index or moves a prefix.
//! - From the commit that adds an index on, every change keeps it, because every change has read the bucket's record.
//!   So who builds it passes over what was changed since, and puts the rest under the condition that it still is as it
//!   was read: each refusal leaves less to do.
//! - An index is whole from the commit on that puts the last entries. One whose building was interrupted is kept, is
//!   not searched, and is built when it is added again.

use bytes::Bytes;
use koine_kv::{Direction, KeyRange, Transaction};

use crate::error::{Error, ErrorKind, Result};
use crate::keys;
use crate::lookup::{CurrentObject, value_of};
use crate::record::{BucketRecord, ObjectRecord, indexed_value};

/// The most entries that a prefix moves in one commit.
const MOVED_MAX: usize = 20_000;

/// Where `old` stood under a name `new` stands; each may be nothing.
pub(crate) fn name_changed(
    txn: &mut Transaction,
    bucket: &BucketRecord,
    key: &str,
    old: Option<&CurrentObject>,
    new: Option<&ObjectRecord>,
) {
    for index in &bucket.indexes {
        let was = old.and_then(|old| old.record.indexed(&index.of)).map(keys::indexed_part);
        let is = new.and_then(|new| new.indexed(&index.of)).map(keys::indexed_part);
        if let Some(was) = was.filter(|_| was != is) {
            txn.delete(bucket.space, keys::index_entry(index.number, was, key));
        }
        // The entry of what was there may not be built yet, and who builds passes over what was changed.
        if let Some(is) = is.filter(|_| was != is || !index.whole) {
            txn.put(bucket.space, keys::index_entry(index.number, is, key), Bytes::new());
        }
    }
}

/// Everything under one prefix of names goes to another: so do its entries. That nothing else comes under it
/// meanwhile is a condition then.
pub(crate) fn prefix_moved(txn: &mut Transaction, bucket: &BucketRecord, from: &str, to: &str) -> Result<()> {
    if bucket.indexes.is_empty() {
        return Ok(());
    }
    let view = std::sync::Arc::clone(txn.view());
    let mut cursor = txn.cursor(bucket.space, KeyRange::prefix(keys::names_prefix(from)), Direction::Forward)?;
    let mut moved = Vec::new();
    while let Some(entry) = cursor.next()? {
        let (name, newest) = keys::name_of(&entry.key)?;
        if !newest {
            continue;
        }
        let record = value_of(view.as_ref(), bucket.space, &entry.key, entry.value)?;
        let target = format!("{to}{}", name.strip_prefix(from).unwrap_or_default());
        for index in &bucket.indexes {
            if let Some(value) = indexed_value(&index.of, &record)? {
                let entry_of = |name: &str| keys::index_entry(index.number, keys::indexed_part(&value), name);
                moved.push((entry_of(&name), entry_of(&target)));
            }
        }
        if moved.len() > MOVED_MAX / 2 {
            let message = format!(
                "more than {} entries of indexes are under {from:?}, which cannot be moved in one commit: copy the prefix \
                 and delete it, or drop the bucket's indexes first",
                MOVED_MAX / 2
            );
            return Err(Error::new(ErrorKind::TransactionTooLarge, message));
        }
    }
    drop(cursor);
    for (old, new) in moved {
        txn.delete(bucket.space, old);
        txn.put(bucket.space, new, Bytes::new());
    }
    Ok(())
}
