//! What waits in memory for a checkpoint: how much it may be, and room on the device for what it becomes.
//!
//! Invariants:
//! - What waits takes at most half as much again as its bound; the bound follows what is free now.
//! - Room for what the bound of the smallest store of this length allows is kept back as the reserve, room for what waits
//!   beyond that by [`Allocator::set_table`](crate::space::Allocator::set_table): data never takes what a checkpoint needs.

use crate::checkpoint::{Book, RUN_BLOCKS};
use crate::core::{Core, Head};
use crate::device::BLOCK_LEN;
use crate::error::Result;
use crate::space::Class;
use crate::tree::Weight;

/// What a checkpoint lacks, in blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Enough,
    /// It found room, but came for want of it alone.
    Later(u64),
    /// It would find none.
    Now(u64),
}

impl Core {
    /// What may wait for a checkpoint now.
    pub(crate) fn table(&self, head: &Head) -> Weight {
        self.limits.table_with(head.table, self.allocator.free_blocks() * BLOCK_LEN as u64)
    }

    /// Keeps from data what the next checkpoint is going to write and the reserve has no room for.
    pub(crate) fn keep_for_table(&self, head: &Head) {
        let beyond = head.dirty.device_len.saturating_sub(head.table.device_len);
        self.allocator.set_table(beyond / BLOCK_LEN as u64);
    }

    /// Makes the store larger where a checkpoint would find no room, or came for want of room alone: the next one then
    /// writes more changes with each node. Where the store cannot grow what there is has to do.
    pub(crate) fn grow_for_table(&self) -> Result<()> {
        if self.lacks_room() == Room::Enough {
            return Ok(());
        }
        // What only the older root needs, before the file becomes longer.
        self.give_up_older(&mut self.book.lock())?;
        match self.lacks_room() {
            Room::Enough => Ok(()),
            Room::Later(blocks) => self.grow(blocks).map(drop),
            Room::Now(blocks) => self.grow(blocks + self.allocator.reserve_blocks()).map(drop),
        }
    }

    /// Whether the next checkpoint finds room, and the one after it.
    fn lacks_room(&self) -> Room {
        let (dirty, table, log_len) = {
            let head = self.head.lock();
            (head.dirty, self.table(&head), head.sealed.position.0.saturating_sub(head.cut_at.0))
        };
        let blocks = dirty.device_len / BLOCK_LEN as u64;
        let need = blocks + u64::from(RUN_BLOCKS);
        let room_alone = dirty.memory_len < table.memory_len / 2 && log_len < self.limits.checkpoint_log_len / 2;
        if !self.allocator.admits(need, Class::Checkpoint) {
            Room::Now(need)
        } else if dirty.device_len > table.device_len && room_alone {
            Room::Later(blocks)
        } else {
            Room::Enough
        }
    }

    /// What is kept back from data: 3%, and what one checkpoint of a full table may write.
    pub(crate) fn set_reserve(&self, book: &Book) {
        let blocks = book.newest.blocks;
        let table = self.limits.table(blocks * BLOCK_LEN as u64);
        let written = 2 * table.device_len / BLOCK_LEN as u64;
        self.allocator.set_reserve((blocks * 3 / 100).max(written.min(blocks / 8)));
        let mut head = self.head.lock();
        head.table = table;
        self.keep_for_table(&head);
    }
}
