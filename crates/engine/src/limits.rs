//! The sizes that follow from a store's size and its memory budget.
//!
//! Invariant: a store with the smallest ring works as one with the largest does, only with smaller steps.

use crate::batch::BATCH_BYTES_MAX;
use crate::log::group;

/// The longest value that goes through the ring, in bytes; longer ones go to extents of their own at once.
const PENDING_LEN_MAX: usize = 32 << 10;

/// Sizes of an open store, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest payload of a group.
    pub group_len_max: usize,
    /// The most inline bytes of a batch.
    pub batch_bytes_max: usize,
    /// The longest value that goes through the ring.
    pub pending_len_max: usize,
    /// A stage logs its extents when they take more than this.
    pub slab_len_max: usize,
    /// A checkpoint begins when this much of the ring is in use since the last.
    pub checkpoint_log_len: u64,
    /// The budget of memory.
    pub memory_len: u64,
    /// A group is made durable when this much was written without.
    pub unflushed_len_max: u64,
}

impl Limits {
    /// For a ring of this length and a budget of memory.
    pub fn new(ring_len: u64, memory_len: u64) -> Limits {
        let ring = usize::try_from(ring_len).unwrap_or(usize::MAX);
        Limits {
            group_len_max: (ring / 2 - group::HEADER_LEN).min(64 << 20),
            batch_bytes_max: (ring / 4).min(BATCH_BYTES_MAX),
            pending_len_max: PENDING_LEN_MAX.min(ring / 16),
            slab_len_max: (ring / 64).clamp(512, 1 << 20),
            checkpoint_log_len: ring_len / 4,
            memory_len,
            unflushed_len_max: 256 << 20,
        }
    }

    /// A checkpoint of a store of this many bytes begins when this much memory waits to be placed; submits wait when
    /// it is half as much again.
    pub fn table_len(&self, store_len: u64) -> u64 {
        (self.memory_len / 4).min(store_len / 16).max(128 << 10)
    }

    /// What the cache of nodes may take. With the fullest table, and an eighth for buffers of streams, an eighth of the
    /// budget is left for what is on its way to the log and to the device.
    pub fn cache_len(memory_len: u64) -> u64 {
        memory_len / 8 * 3
    }
}
