//! What a bucket holds, counted: changed along with what it counts, in the same commit.
//!
//! Invariants:
//! - A count is the sum over its shards; a single shard means nothing, and may be below zero.
//! - Counting reads nothing, so it is no condition, and two writers never conflict by it.
//! - Names are counted in `name` alone, parts and uploads in `multipart` alone.

use koine_kv::{Direction, KeyRange, SpaceId, Transaction, View};

use crate::error::{Error, Result};
use crate::info::{BucketUsage, ObjectId, UploadId};
use crate::keys;
use crate::list::value_of;
use crate::lookup::{Standing, find_space};
use crate::objects::Objects;
use crate::record::ObjectRecord;
use crate::rights::Action;

/// What is counted, as keys have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Bytes of objects.
    Bytes = 0,
    /// Objects.
    Objects = 1,
    /// Bytes of older versions.
    #[expect(dead_code, reason = "for buckets that keep versions")]
    OlderBytes = 2,
    /// Older versions and delete markers.
    #[expect(dead_code, reason = "for buckets that keep versions")]
    Older = 3,
    /// Bytes of parts under way.
    PartBytes = 4,
}

/// One of sixteen, so that a store below that locks rows does not let all writers wait for one.
#[derive(Clone, Copy)]
pub(crate) struct Shard(pub u8);

impl Shard {
    fn of(id: ObjectId) -> Self {
        Shard((id.0 & 15) as u8)
    }

    fn of_upload(id: UploadId) -> Self {
        let [.., last] = id.0;
        Shard(last & 15)
    }
}

impl Objects {
    /// What a bucket, or a snapshot of one, holds: a look at a few counters, however many objects there are.
    pub fn bucket_usage(&self, bucket: &str) -> Result<BucketUsage> {
        self.read(
            |rights| rights.bucket(Action::BucketUsage, bucket),
            |view| {
                let space = find_space(view, bucket)?;
                usage(view.as_ref(), space)
            },
        )
    }
}

/// A name that stood for `old` stands for `new`.
pub(crate) fn name_changed(txn: &mut Transaction, space: SpaceId, old: Option<&Standing>, new: Option<&ObjectRecord>) {
    let old = old.map(|old| &old.record);
    let Some(id) = new.or(old).map(|record| record.id) else {
        return;
    };
    // Both in one shard: what is put over something else of its length changes no count.
    let objects = i64::from(new.is_some()) - i64::from(old.is_some());
    let bytes = signed(new.map_or(0, |new| new.size)) - signed(old.map_or(0, |old| old.size));
    add(txn, space, Count::Objects, Shard::of(id), objects);
    add(txn, space, Count::Bytes, Shard::of(id), bytes);
}

/// A part of an upload took the place of another, or of none.
pub(crate) fn part_changed(txn: &mut Transaction, space: SpaceId, upload: UploadId, old: u64, new: u64) {
    add(txn, space, Count::PartBytes, Shard::of_upload(upload), signed(new) - signed(old));
}

fn add(txn: &mut Transaction, space: SpaceId, count: Count, shard: Shard, delta: i64) {
    if delta != 0 {
        txn.add(space, keys::counter(count, shard), delta);
    }
}

/// Lengths are below 2^60.
fn signed(length: u64) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// The sums over all shards.
pub(crate) fn usage(view: &dyn View, space: SpaceId) -> Result<BucketUsage> {
    let mut sums = [0i64; 5];
    let mut cursor = view.cursor(space, KeyRange::prefix(keys::counters()), Direction::Forward)?;
    while let Some(entry) = cursor.next()? {
        let value = value_of(view, space, &entry.key, entry.value)?;
        let kind = entry.key.get(1).copied().map(usize::from);
        let (Some(sum), Ok(number)) = (kind.and_then(|kind| sums.get_mut(kind)), <[u8; 8]>::try_from(value.as_ref()))
        else {
            return Err(Error::damaged(format!("the key {} holds no count", hex::encode(&entry.key))));
        };
        *sum = sum.saturating_add(i64::from_le_bytes(number));
    }
    let [bytes, objects, older_bytes, older, part_bytes] = sums.map(|sum| u64::try_from(sum).unwrap_or(0));
    Ok(BucketUsage { objects, bytes, older, older_bytes, upload_bytes: part_bytes })
}
