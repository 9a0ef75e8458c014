//! How full a store is.

use crate::device::BLOCK_LEN;
use crate::engine::Engine;
use crate::log::longest::LongestWrites;

/// How full a store is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The store's length.
    pub total: u64,
    /// Used by anything, space waiting to be reused included.
    pub used: u64,
    /// What new data can still get at this length.
    pub free: u64,
    /// Set aside for values that were promised it.
    pub promised: u64,
    /// Freed, but needed until checkpoints are done and views are gone.
    pub waiting: u64,
    /// Up to what the store may grow; `None`: as far as the medium goes.
    pub limit: Option<u64>,
}

impl Engine {
    /// The longest writes of the log that went through the page cache, since this was asked last.
    pub fn longest_log_writes(&self) -> LongestWrites {
        self.shared().longest.take()
    }

    /// How full the store is.
    pub fn usage(&self) -> Usage {
        let checkpointed = self.shared().checkpointed.lock();
        let (blocks, blocks_max) = (checkpointed.newest.blocks, checkpointed.newest.blocks_max);
        drop(checkpointed);
        self.usage_at(blocks, blocks_max)
    }

    /// The same, unless a checkpoint is under way: `usage` waits for that.
    pub(crate) fn usage_now(&self) -> Option<Usage> {
        let checkpointed = self.shared().checkpointed.try_lock()?;
        let (blocks, blocks_max) = (checkpointed.newest.blocks, checkpointed.newest.blocks_max);
        drop(checkpointed);
        Some(self.usage_at(blocks, blocks_max))
    }

    /// What new data can get without growing, in bytes.
    pub(crate) fn free_len(&self) -> u64 {
        let allocator = &self.shared().allocator;
        let kept = allocator.reserve_blocks() + allocator.reserved_blocks();
        allocator.free_blocks().saturating_sub(kept) * BLOCK_LEN as u64
    }

    fn usage_at(&self, blocks: u64, blocks_max: u64) -> Usage {
        let core = self.shared();
        let bytes = |blocks: u64| blocks * BLOCK_LEN as u64;
        let waiting = core.reuse.lock().queue.blocks();
        let limit = if core.device.is_fixed() { Some(blocks) } else { Some(blocks_max).filter(|max| *max > 0) };
        Usage {
            total: bytes(blocks),
            used: bytes(blocks.saturating_sub(core.allocator.free_blocks())),
            free: self.free_len(),
            promised: bytes(core.allocator.reserved_blocks()),
            waiting: bytes(waiting),
            limit: limit.map(bytes),
        }
    }
}
