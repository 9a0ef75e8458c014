//! How full a store is.

use crate::device::BLOCK_LEN;
use crate::engine::Engine;

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
    /// How full the store is.
    pub fn usage(&self) -> Usage {
        let core = self.shared();
        let (blocks, blocks_max) = {
            let book = core.book.lock();
            (book.newest.blocks, book.newest.blocks_max)
        };
        let bytes = |blocks: u64| blocks * BLOCK_LEN as u64;
        let free = core.allocator.free_blocks();
        let waiting = core.reuse.lock().queue.blocks();
        let promised = core.allocator.promised_blocks();
        let limit = if core.device.is_fixed() { Some(blocks) } else { Some(blocks_max).filter(|max| *max > 0) };
        Usage {
            total: bytes(blocks),
            used: bytes(blocks.saturating_sub(free)),
            free: bytes(free.saturating_sub(core.allocator.reserve_blocks() + promised)),
            promised: bytes(promised),
            waiting: bytes(waiting),
            limit: limit.map(bytes),
        }
    }
}
