//! What a change of a name brings with it.
//!
//! Invariants:
//! - Whatever gives, changes or takes what stands under a name does so by [`set`], [`set_moving`] or [`amend`], so that
//!   no verb forgets what follows from it; a version that is deleted for good does so by [`replace_newest`].
//! - What stood under the name was read through the same transaction: that it stands still is a condition.
//! - What a name counts for is the size in its record: an object that moves to another name is taken off under the
//!   old one and counted under the new, and one that is edited keeps its id and changes its size.
//! - Whether what stood there is kept as an older version is decided here alone, by what the bucket's record says.

mod keep;

use bytes::Bytes;
use koine_kv::{Batch, Condition, SpaceId, Transaction, Version};

pub(crate) use self::keep::drop_older;
use self::keep::{Change, OldData};
use crate::count::NameCounts;
use crate::counter::Shard;
use crate::error::Result;
use crate::ids::ObjectId;
use crate::index;
use crate::keys;
use crate::layout;
use crate::lookup::CurrentObject;
use crate::record::{BucketRecord, ObjectRecord};
use crate::verb::CommandContext;
use crate::version_id::{VersionId, Versioning};

/// Puts `new` under a name where `old` stands, or takes the name away. The bytes of the old object go unless it is kept
/// as an older version, or the new record has its id: then it is the same object, edited, and bytes that are kept are
/// shared before. Its table of parts goes where the new record has none. `new` gets its version id here.
///
/// Bytes of the new object are changed by the verb after this. Told is the version id of a delete marker, where one
/// was left.
pub(crate) fn set(
    txn: &mut Transaction,
    context: &CommandContext<'_>,
    bucket: &BucketRecord,
    key: &str,
    old: Option<&CurrentObject>,
    new: Option<&mut ObjectRecord>,
) -> Result<Option<VersionId>> {
    let same = old.zip(new.as_deref()).is_some_and(|(old, new)| old.record.id == new.id);
    let old_data = if same { OldData::Edited } else { OldData::Unreferenced };
    change(txn, context, (bucket, key), (old, old_data), new)
}

/// The same where another name takes the old object with its bytes. The verb puts that name, and moves the bytes where
/// that is in another space, in the same transaction after this: a version that is kept here shares them first.
pub(crate) fn set_moving(
    txn: &mut Transaction,
    context: &CommandContext<'_>,
    bucket: &BucketRecord,
    key: &str,
    old: &CurrentObject,
    new: Option<&mut ObjectRecord>,
) -> Result<Option<VersionId>> {
    change(txn, context, (bucket, key), (Some(old), OldData::Moved), new)
}

/// Changes what is recorded of the object under a name beside its bytes and its version id: no version is made.
pub(crate) fn amend(txn: &mut Transaction, bucket: &BucketRecord, key: &str, old: &CurrentObject, new: &ObjectRecord) {
    put_record(txn, bucket, key, Some(old), Some(new));
}

/// Deletes what stands under a name for good, and puts what was the newest older version there, if any, as it is. The
/// caller takes that one's older key away, and counts.
pub(crate) fn replace_newest(
    txn: &mut Transaction,
    bucket: &BucketRecord,
    key: &str,
    old: Option<&CurrentObject>,
    new: Option<&ObjectRecord>,
) {
    if let Some(old) = old {
        delete_content(txn, bucket.space, &old.record);
    }
    put_record(txn, bucket, key, old, new);
}

fn change(
    txn: &mut Transaction,
    context: &CommandContext<'_>,
    (bucket, key): (&BucketRecord, &str),
    (old, old_data): (Option<&CurrentObject>, OldData),
    mut new: Option<&mut ObjectRecord>,
) -> Result<Option<VersionId>> {
    let mut counts = NameCounts::default();
    let (mut kept, mut marker, mut shard) = (false, None, ObjectId(0));
    if bucket.versioning == Versioning::Never {
        new.iter_mut().for_each(|new| new.version_id = None);
    } else {
        let mut versions = Change { txn, context, bucket, key, counts: &mut counts };
        let number;
        (kept, number) = versions.keep(old, old_data)?;
        shard = ObjectId(number);
        match &mut new {
            Some(new) => new.version_id = versions.id_of(number),
            None => marker = Some(versions.mark_deleted(number)),
        }
    }
    let new = new.as_deref();
    let old_record = old.map(|old| &old.record);
    counts.replace(old_record, new);
    if new.is_some() {
        counts.check_quota(txn, bucket)?;
    }
    if let Some(old) = old {
        drop_content(txn, bucket.space, &old.record, new, (kept, old_data));
    }
    counts.add(txn, bucket.space, Shard::of(new.or(old_record).map_or(shard, |record| record.id)));
    put_record(txn, bucket, key, old, new);
    Ok(marker)
}

/// All that follows in the bucket's space from a record that takes another's place under its name, but for bytes,
/// counts and versions.
fn put_record(
    txn: &mut Transaction,
    bucket: &BucketRecord,
    key: &str,
    old: Option<&CurrentObject>,
    new: Option<&ObjectRecord>,
) {
    index::name_changed(txn, bucket, key, old, new);
    match new {
        Some(new) => txn.put(bucket.space, keys::name(key), Bytes::from(new.encode())),
        None if old.is_some() => txn.delete(bucket.space, keys::name(key)),
        None => {}
    }
}

/// An object that neither name nor version leads to any more leaves nothing: its bytes go, its access time and its table of parts.
fn drop_content(
    txn: &mut Transaction,
    space: SpaceId,
    old: &ObjectRecord,
    new: Option<&ObjectRecord>,
    (kept, old_data): (bool, OldData),
) {
    match old_data {
        OldData::Unreferenced if !kept => delete_content(txn, space, old),
        // What an edit changes has no parts; an older version has a table of its own.
        OldData::Edited if old.part_count.is_some() && new.is_none_or(|new| new.part_count.is_none()) => {
            txn.delete(space, keys::part_table(old.id));
        }
        OldData::Unreferenced | OldData::Edited | OldData::Moved => {}
    }
}

/// What lies under an object's id goes.
pub(crate) fn delete_content(txn: &mut Transaction, space: SpaceId, old: &ObjectRecord) {
    layout::delete(txn, space, old.id);
    txn.delete(space, keys::access_time(old.id));
    if old.part_count.is_some() {
        txn.delete(space, keys::part_table(old.id));
    }
}

/// A batch that is never applied: only an earlier one of the same request id can make it a commit.
pub(crate) fn never(space: SpaceId, key: &str) -> Batch {
    Batch::new().when(Condition::VersionIs { space, key: keys::name(key), version: Version(0) })
}
