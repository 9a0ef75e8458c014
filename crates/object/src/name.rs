//! What a change of a name brings with it.
//!
//! Invariants:
//! - Whatever gives, changes or takes what stands under a name does so by [`set`] or [`set_moving`], so that no verb
//!   forgets what follows from it.
//! - What stood under the name was read through the same transaction: that it stands still is a condition.
//! - What a name counts for is the size in its record: an object that moves to another name is taken off under the
//!   old one and counted under the new, and one that is edited keeps its id and changes its size.

use bytes::Bytes;
use koine_kv::{Batch, Condition, SpaceId, Transaction, Version};

use crate::count;
use crate::error::Result;
use crate::index;
use crate::keys;
use crate::lookup::Standing;
use crate::record::{BucketRecord, ObjectRecord};

/// Puts `new` under a name where `old` stands, or takes the name away. The bytes of the old object go, unless the new
/// record has its id: then it is the same object, edited. Its table of parts goes where the new record has none.
pub(crate) fn set(
    txn: &mut Transaction,
    bucket: &BucketRecord,
    key: &str,
    old: Option<&Standing>,
    new: Option<&ObjectRecord>,
) -> Result<()> {
    if let Some(old) = old {
        delete_content(txn, bucket.space, &old.record, new);
    }
    put_record(txn, bucket, key, old, new)
}

/// The same where another name takes the old object with its bytes: the verb puts that name in the same transaction.
pub(crate) fn set_moving(
    txn: &mut Transaction,
    bucket: &BucketRecord,
    key: &str,
    old: &Standing,
    new: Option<&ObjectRecord>,
) -> Result<()> {
    put_record(txn, bucket, key, Some(old), new)
}

/// All that follows in the bucket's space from a record that takes another's place. `old` is what is not counted any
/// more, `new` what is from now on.
fn put_record(
    txn: &mut Transaction,
    bucket: &BucketRecord,
    key: &str,
    old: Option<&Standing>,
    new: Option<&ObjectRecord>,
) -> Result<()> {
    count::name_changed(txn, bucket, old, new)?;
    index::name_changed(txn, bucket, key, old, new);
    match new {
        Some(new) => txn.put(bucket.space, keys::name(key), Bytes::from(new.encode())),
        None => txn.delete(bucket.space, keys::name(key)),
    }
    Ok(())
}

/// An object that no name leads to any more leaves nothing: its bytes go, its access time and its table of parts.
fn delete_content(txn: &mut Transaction, space: SpaceId, old: &ObjectRecord, new: Option<&ObjectRecord>) {
    let same = new.filter(|new| new.id == old.id);
    if same.is_none() {
        txn.delete(space, keys::data(old.id));
        txn.delete(space, keys::access_time(old.id));
    }
    if old.part_count.is_some() && same.is_none_or(|new| new.part_count.is_none()) {
        txn.delete(space, keys::part_table(old.id));
    }
}

/// A batch that is never applied: only an earlier one of the same request id can make it a commit.
pub(crate) fn never(space: SpaceId, key: &str) -> Batch {
    Batch::new().when(Condition::VersionIs { space, key: keys::name(key), version: Version(0) })
}
