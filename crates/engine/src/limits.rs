//! The sizes that follow from a store's size and its memory budget.
//!
//! Invariant: a store with the smallest ring works as one with the largest does, only with smaller steps.

use crate::batch::BATCH_BYTES_MAX;
use crate::log::group;
use crate::tree::DirtySize;

/// The longest value that goes through the ring, in bytes; longer ones go to extents of their own at once.
const PENDING_LEN_MAX: usize = 32 << 10;

/// A value in so many pieces is cut, copied and moved piece by piece; one in more becomes a frozen blob.
pub(crate) const FROZEN_ABOVE: usize = 64;

/// The least that waits for a checkpoint, in bytes.
const DIRTY_BUDGET_MIN: u64 = 128 << 10;
/// So many times the memory of its changes a checkpoint may write: a leaf for the smallest delta.
const LEAVES_TO_CHANGES: u64 = 8;

/// Of the budget of memory, inner nodes that changes have opened may take one byte of so many before they count.
const INNER_SHARE: u64 = 8;
/// Of the budget of memory, states of the past may take one byte of so many, …
const DEFERRED_SHARE: u64 = 64;
/// … each about so much of its own, the path that the next commit has copied, …
const DEFERRED_LEN: u64 = 16 << 10;
/// … and they are never more.
const DEFERRED_MAX: usize = 1024;

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
    /// What comes in more extents than this becomes a frozen blob.
    pub frozen_above: usize,
    /// The budget of memory.
    pub memory_len: u64,
    /// So many states that nobody sees any more may wait to be taken down by who submits next.
    pub deferred_max: usize,
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
            checkpoint_log_len: ring_len / 8 * 3,
            frozen_above: FROZEN_ABOVE,
            memory_len,
            deferred_max: usize::try_from(memory_len / DEFERRED_SHARE / DEFERRED_LEN)
                .map_or(DEFERRED_MAX, |most| most.min(DEFERRED_MAX)),
            unflushed_len_max: 256 << 20,
        }
    }

    /// What may wait for a checkpoint of a store of this length, so that the reserve has room for it: a quarter of the
    /// memory and what a sixteenth of the store holds, of a large store a sixty-fourth.
    pub fn dirty_budget(&self, store_len: u64) -> DirtySize {
        let memory_len = (self.memory_len / 4).max(DIRTY_BUDGET_MIN);
        let of_large = (store_len / 64).min(memory_len * LEAVES_TO_CHANGES);
        let device_len = (store_len / 16).min(memory_len).max(of_large).max(DIRTY_BUDGET_MIN);
        DirtySize { memory_len, inner_len: self.memory_len / INNER_SHARE, device_len }
    }

    /// The same where this much is free: what the reserve has no room for then goes to half of that.
    pub fn dirty_budget_with(&self, budget: DirtySize, free_len: u64) -> DirtySize {
        let most = budget.memory_len * LEAVES_TO_CHANGES;
        DirtySize { device_len: budget.device_len.max((free_len / 2).min(most)), ..budget }
    }

    /// What the cache of nodes may take. With the fullest budget, and an eighth for buffers of streams, an eighth of the
    /// budget is left for inner nodes that changes have opened, and for what is on its way to the log and to the device; the
    /// last eighth is what the allocator loses between pieces of many lengths.
    pub fn node_cache_len(memory_len: u64) -> u64 {
        memory_len / 4
    }
}
