//! What waits in memory for a checkpoint: how much it may be, and room on the device for what it becomes.
//!
//! Invariants:
//! - The dirty size never exceeds 1.5 times the budget, which follows the free space.
//! - The reserve has room for the budget of the smallest store of this length; [`Allocator::set_beyond_reserve`](crate::allocator::Allocator::set_beyond_reserve)
//!   keeps back what is dirty beyond that. So data never takes the space that a checkpoint needs.

use std::time::Duration;

use crate::allocator::Class;
use crate::batch::Version;
use crate::checkpoint::RUN_BLOCKS;
use crate::checkpoint_state::CheckpointState;
use crate::commit_state::CommitState;
use crate::core::Core;
use crate::device::BLOCK_LEN;
use crate::error::Result;
use crate::tree::DirtySize;

/// The longest that a commit waits for a checkpoint that has room left for it.
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// A shorter pause is left out: sleeping takes about as long.
const PAUSE_MIN: Duration = Duration::from_micros(20);
/// Commits begin to pause when this many bytes of room are left: about what is committed while a long checkpoint ends.
const PACED_LEN: u64 = 8 << 20;
/// They do not before less than one part in so many of the ring is left.
const PACED_RING_SHARE: u64 = 16;

/// What a checkpoint lacks, in blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Enough,
    /// The checkpoint finds room, but it was due only because room ran short.
    Later(u64),
    /// It would find none.
    Now(u64),
}

/// How long a commit waits before it takes some of the last `paced` bytes of the room up to `most`: little for long, so that
/// what room there is gets used.
fn pause_before(taken: u64, most: u64, paced: u64) -> Duration {
    let left = most.saturating_sub(taken).min(paced);
    let share = 1.0 - left as f64 / paced.max(1) as f64;
    PAUSE_MAX.mul_f64(if most == 0 { 0.0 } else { share * share })
}

impl Core {
    /// What may wait for a checkpoint now.
    pub(crate) fn dirty_budget(&self, head: &CommitState) -> DirtySize {
        self.limits.dirty_budget_with(head.dirty_budget, self.allocator.free_blocks() * BLOCK_LEN as u64)
    }

    /// How long the next commit waits, while a checkpoint is under way and the room for what comes meanwhile runs out: longer
    /// and longer, rather than not at all and then for the end of the checkpoint.
    pub(crate) fn pause(&self, head: &CommitState) -> Option<Duration> {
        if head.checkpoint_cut == Version(0) {
            return None;
        }
        let (dirty, budget, ring_len) = (head.dirty, self.dirty_budget(head), self.ring.length());
        let most = budget.with_half();
        let log_len = head.sealed.position.0.saturating_sub(head.tail.0);
        let pause = pause_before(dirty.counted_len(most), most.memory_len, PACED_LEN.min(budget.memory_len / 2))
            .max(pause_before(dirty.device_len, most.device_len, PACED_LEN.min(budget.device_len / 2)))
            .max(pause_before(log_len, ring_len, PACED_LEN.min(ring_len / PACED_RING_SHARE)));
        Some(pause).filter(|pause| *pause >= PAUSE_MIN)
    }

    /// Keeps from data what the next checkpoint is going to write and the reserve has no room for.
    pub(crate) fn keep_for_dirty_budget(&self, head: &CommitState) {
        let beyond = head.dirty.device_len.saturating_sub(head.dirty_budget.device_len);
        self.allocator.set_beyond_reserve(beyond / BLOCK_LEN as u64);
    }

    /// Makes the store larger where a checkpoint would find no room, or came for want of room alone: the next one then
    /// writes more changes with each node. Where the store cannot grow what there is has to do.
    pub(crate) fn grow_for_dirty_budget(&self) -> Result<()> {
        if self.lacks_room() == Room::Enough {
            return Ok(());
        }
        // What only the older root needs, before the file becomes longer.
        self.give_up_older(&mut self.checkpointed.lock())?;
        match self.lacks_room() {
            Room::Enough => Ok(()),
            Room::Later(blocks) => self.grow(blocks).map(drop),
            Room::Now(blocks) => self.grow(blocks + self.allocator.reserve_blocks()).map(drop),
        }
    }

    /// Whether the next checkpoint finds room, and the one after it.
    fn lacks_room(&self) -> Room {
        let (dirty, budget, log_len) = {
            let head = self.head.lock();
            (head.dirty, self.dirty_budget(&head), head.sealed.position.0.saturating_sub(head.cut_at.0))
        };
        let blocks = dirty.device_len / BLOCK_LEN as u64;
        let need = blocks + u64::from(RUN_BLOCKS);
        let room_alone =
            dirty.counted_len(budget) < budget.memory_len / 2 && log_len < self.limits.checkpoint_log_len / 2;
        if !self.allocator.admits(need, Class::Checkpoint) {
            Room::Now(need)
        } else if dirty.device_len > budget.device_len && room_alone {
            Room::Later(blocks)
        } else {
            Room::Enough
        }
    }

    /// What is kept back from data: 3%, and what one checkpoint of a full budget may write.
    pub(crate) fn set_reserve(&self, checkpointed: &CheckpointState) {
        let blocks = checkpointed.newest.blocks;
        let budget = self.limits.dirty_budget(blocks * BLOCK_LEN as u64);
        let written = 2 * budget.device_len / BLOCK_LEN as u64;
        self.allocator.set_reserve((blocks * 3 / 100).max(written.min(blocks / 8)));
        let mut head = self.head.lock();
        head.dirty_budget = budget;
        self.keep_for_dirty_budget(&head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_the_room_is_taken_more_and_more_slowly() {
        let pauses = [0, 900, 950, 975, 1000, u64::MAX].map(|taken| pause_before(taken, 1000, 100));
        assert_eq!(pauses.map(|pause| pause.as_micros()), [0, 0, 250, 562, 1000, 1000]);
        assert_eq!(pause_before(5, 0, 0), Duration::ZERO);
    }
}
