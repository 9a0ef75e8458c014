//! What becomes of the object that stood under a name when the name changes, in a bucket that keeps versions.
//!
//! Invariants:
//! - It is called by `name` alone, before the record under the name is put or taken away.
//! - Everything that it rests on is read through the verb's transaction, so that it is a condition of the commit.
//! - Bytes that go on as another object's (an edit, a move) are shared, never copied, before anything is done to them.

use bytes::Bytes;
use koine_kv::{Place, SpaceId, Transaction};

use crate::count::NameCounts;
use crate::error::Result;
use crate::ids::ObjectId;
use crate::keys;
use crate::layout;
use crate::lookup::CurrentObject;
use crate::record::{BucketRecord, MarkerRecord, ObjectRecord, OlderRecord};
use crate::request::ByteRange;
use crate::verb::CommandContext;
use crate::version_id::{VersionId, Versioning};
use crate::versions::{newest_older_number, older_null};

/// What becomes of the bytes of the object that stood under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldData {
    /// Nothing else has them.
    Unreferenced,
    /// They go on as those of the object that takes the name, which is the same one, edited.
    Edited,
    /// Another name takes them.
    Moved,
}

/// A change of what stands under a name, in a bucket that keeps versions.
pub(crate) struct Change<'a> {
    pub txn: &'a mut Transaction,
    pub context: &'a CommandContext<'a>,
    pub bucket: &'a BucketRecord,
    pub key: &'a str,
    pub counts: &'a mut NameCounts,
}

impl Change<'_> {
    /// Keeps what stood under the name, where the bucket does, and makes room for one version `null`, where what comes
    /// is that. Tells whether it was kept, and the number of what comes.
    pub fn keep(&mut self, old: Option<&CurrentObject>, old_data: OldData) -> Result<(bool, u64)> {
        let space = self.bucket.space;
        let enabled = self.bucket.versioning == Versioning::Enabled;
        let numbered = old.and_then(|old| old.record.version_id);
        // What the newest of the older ones has: nobody needs it of an object that tells its own number.
        let below = match numbered {
            Some(_) => 0,
            None => newest_older_number(self.txn, space, self.key)?.unwrap_or(0),
        };
        let kept = old.filter(|old| enabled || old.record.version_id.is_some());
        let last = match kept {
            Some(old) => numbered.unwrap_or_else(|| after(below, old.record.created.0)),
            None => below,
        };
        let old_is_null = old.is_some() && numbered.is_none();
        let null = if enabled || old_is_null { None } else { older_null(self.txn, space, self.key)? };
        if let Some(null) = null {
            self.drop_older(null.number, &null.record);
        }
        if let Some(old) = kept {
            self.put_older(last, old, old_data)?;
        }
        Ok((kept.is_some(), after(last, self.context.now.0)))
    }

    /// The version id of what comes with a number.
    pub fn id_of(&self, number: u64) -> Option<u64> {
        (self.bucket.versioning == Versioning::Enabled).then_some(number)
    }

    /// Leaves a delete marker above all that the name has.
    pub fn mark_deleted(&mut self, number: u64) -> VersionId {
        let marker = MarkerRecord {
            created: self.context.now,
            owner: self.context.caller.user(),
            version_id: self.id_of(number),
            kept: Vec::new(),
        };
        self.txn.put(self.bucket.space, keys::older(self.key, number), Bytes::from(marker.encode()));
        self.counts.older += 1;
        marker.version_id.into()
    }

    fn put_older(&mut self, number: u64, old: &CurrentObject, old_data: OldData) -> Result<()> {
        let mut record = old.record.clone();
        if old_data != OldData::Unreferenced {
            record.id = self.context.draw_id();
            share_content(self.txn, self.bucket.space, &old.record, record.id)?;
        }
        self.counts.keep(record.size);
        self.txn.put(self.bucket.space, keys::older(self.key, number), Bytes::from(record.encode()));
        Ok(())
    }

    fn drop_older(&mut self, number: u64, record: &OlderRecord) {
        drop_older(self.txn, self.bucket.space, self.key, number, record);
        self.counts.forget(record);
    }
}

/// The number of what comes after another, at a time.
fn after(last: u64, time: u64) -> u64 {
    time.max(last.saturating_add(1))
}

/// Takes away an older version, with what lies under its id.
pub(crate) fn drop_older(txn: &mut Transaction, space: SpaceId, key: &str, number: u64, record: &OlderRecord) {
    txn.delete(space, keys::older(key, number));
    if let OlderRecord::Object(record) = record {
        crate::name::delete_content(txn, space, record);
    }
}

/// Gives an object's bytes and table of parts to another id too.
fn share_content(txn: &mut Transaction, space: SpaceId, from: &ObjectRecord, to: ObjectId) -> Result<()> {
    let data = layout::create(txn, space, to);
    let whole = |length| ByteRange { offset: 0, length };
    if from.part_count.is_some()
        && let Some(table) = txn.stat(space, &keys::part_table(from.id))?
    {
        let place = |id| Place::new(space, keys::part_table(id));
        layout::share(txn, place(from.id), whole(table.size), place(to));
    }
    layout::share(txn, layout::place(space, from.id), whole(from.size), data);
    Ok(())
}
