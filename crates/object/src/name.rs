//! What a change of a name brings with it.
//!
//! Invariants:
//! - Whatever gives, changes or takes what stands under a name does so by [`set`], so that no verb forgets what
//!   follows from it.
//! - What stood under the name was read through the same transaction: that it stands still is a condition.

use bytes::Bytes;
use koine_kv::{Batch, Condition, SpaceId, Transaction, Version};

use crate::keys;
use crate::lookup::Standing;
use crate::record::{BucketRecord, ObjectRecord};

/// Puts `new` under a name where `old` stands, or takes the name away.
pub(crate) fn set(
    txn: &mut Transaction,
    bucket: &BucketRecord,
    key: &str,
    old: Option<&Standing>,
    new: Option<&ObjectRecord>,
) {
    if let Some(old) = old {
        delete_content(txn, bucket.space, &old.record);
    }
    match new {
        Some(new) => txn.put(bucket.space, keys::name(key), Bytes::from(new.encode())),
        None => txn.delete(bucket.space, keys::name(key)),
    }
}

/// An object that no name leads to any more leaves nothing: its bytes go, and its table of parts.
fn delete_content(txn: &mut Transaction, space: SpaceId, old: &ObjectRecord) {
    txn.delete(space, keys::data(old.id));
    if old.part_count.is_some() {
        txn.delete(space, keys::part_table(old.id));
    }
}

/// A batch that is never applied: only an earlier one of the same request id can make it a commit.
pub(crate) fn never(space: SpaceId, key: &str) -> Batch {
    Batch::new().when(Condition::VersionIs { space, key: keys::name(key), version: Version(0) })
}
