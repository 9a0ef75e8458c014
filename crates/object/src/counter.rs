//! The kinds of counters of a bucket, and the shards that a counter is in.

use crate::ids::{ObjectId, UploadId};

/// What is counted, as keys have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Bytes of objects.
    Bytes = 0,
    /// Objects.
    Objects = 1,
    /// Bytes of older versions.
    OlderBytes = 2,
    /// Older versions and delete markers.
    Older = 3,
    /// Bytes of parts under way.
    PartBytes = 4,
}

impl Count {
    /// In the order of their numbers.
    pub const ALL: [Count; 5] = [Count::Bytes, Count::Objects, Count::OlderBytes, Count::Older, Count::PartBytes];
}

/// One of sixteen, so that a store below that locks rows does not let all writers wait for one.
#[derive(Clone, Copy)]
pub(crate) struct Shard(pub u8);

impl Shard {
    /// What the collector adds where a count was wrong. Nobody else writes it.
    pub const COLLECTOR: Shard = Shard(16);

    /// By the id of an object, or the number of a delete marker.
    pub fn of(id: ObjectId) -> Self {
        Shard((id.0 & 15) as u8)
    }

    pub fn of_upload(id: UploadId) -> Self {
        let [.., last] = id.0;
        Shard(last & 15)
    }
}
