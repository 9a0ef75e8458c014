//! What the last checkpoints have stored, and where.
//!
//! Invariant: [`CheckpointState::free`] is the set of blocks that the state at the last cut does not need, so that stages under way
//! and blocks freed but not yet reusable count as free in what is stored.

use crate::address::BlockRange;
use crate::allocator::Runs;
use crate::batch::Version;
use crate::superblock::{Slot, Superblock};

/// What is stored, and where.
pub(crate) struct CheckpointState {
    /// The newest superblock.
    pub newest: Superblock,
    /// Where it lies.
    pub slot: Slot,
    /// The cut of the older superblock.
    pub older_cut: Version,
    /// Free blocks at the newest cut.
    pub free: Runs,
    /// The pages of the free list that the newest superblock names.
    pub pages: Vec<BlockRange>,
    /// Blocks that checkpoints have written and that are still in `free`: a checkpoint that failed for want of room leaves
    /// them to the next one.
    pub written: Vec<BlockRange>,
}
