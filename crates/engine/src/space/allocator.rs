//! What a writer can get now.
//!
//! Space is cut into groups of [`GROUP_BLOCKS`], each with a lock of its own; a writer begins at a group
//! of its own and goes on to the next when that has no room, so that writers seldom meet.
//!
//! Invariants:
//! - A block is either here, or in use, or waiting in the reuse queue.
//! - `Class::Data` leaves the reserve untouched, so that a checkpoint, and with it a deletion, always finds room.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::error::Result;
use crate::lock::Mutex;
use crate::space::runs::Runs;
use crate::value::BlockRange;

/// Blocks of a group: 1 GiB.
pub const GROUP_BLOCKS: u64 = 1 << 18;

/// For what space is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// New data: refused when only the reserve and what is promised are left.
    Data,
    /// Data that was promised its space: refused when only the reserve is left.
    Promised,
    /// Nodes, packed values and the free list of a checkpoint: may use the reserve.
    Checkpoint,
}

#[derive(Default)]
struct Group {
    runs: Runs,
    by_count: BTreeSet<(u64, u64)>,
}

impl Group {
    fn add(&mut self, start: u64, count: u64) -> Result<()> {
        let (joined, length) = self.runs.add(start, count)?;
        // The neighbours that were joined leave the index of sizes.
        if joined < start {
            self.by_count.remove(&(start - joined, joined));
        }
        let end = start + count;
        if joined + length > end {
            self.by_count.remove(&(joined + length - end, end));
        }
        self.by_count.insert((length, joined));
        Ok(())
    }

    fn remove(&mut self, start: u64, count: u64) -> Result<()> {
        let (run, length) = self.runs.remove(start, count)?;
        self.by_count.remove(&(length, run));
        if run < start {
            self.by_count.insert((start - run, run));
        }
        let end = start + count;
        if run + length > end {
            self.by_count.insert((run + length - end, end));
        }
        Ok(())
    }

    /// The smallest run that holds `want`, from its front.
    fn fit(&mut self, want: u64) -> Option<(u64, u64)> {
        let (_, start) = *self.by_count.range((want, 0)..).next()?;
        self.remove(start, want).ok()?;
        Some((start, want))
    }

    fn largest(&self) -> u64 {
        self.by_count.last().map_or(0, |(count, _)| *count)
    }
}

/// Free blocks, for many writers at once.
#[derive(Default)]
pub struct Allocator {
    groups: RwLock<Vec<Arc<Mutex<Group>>>>,
    free: AtomicU64,
    reserve: AtomicU64,
    promised: AtomicU64,
    table: AtomicU64,
    turn: AtomicUsize,
}

impl Allocator {
    /// Without any space.
    pub fn new() -> Self {
        Allocator::default()
    }

    /// Blocks that are free now, the reserve included.
    pub fn free_blocks(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Tells the length of every free run, in blocks.
    pub fn each_run(&self, tell: &mut dyn FnMut(u64)) {
        let groups: Vec<_> = self.groups.read().clone();
        groups.iter().for_each(|group| group.lock().runs.iter().for_each(|(_, count)| tell(count)));
    }

    /// Blocks kept back from data.
    pub fn reserve_blocks(&self) -> u64 {
        self.reserve.load(Ordering::Relaxed)
    }

    /// Sets how many blocks are kept back.
    pub fn set_reserve(&self, blocks: u64) {
        self.reserve.store(blocks, Ordering::Relaxed);
    }

    fn table_blocks(&self) -> u64 {
        self.table.load(Ordering::Relaxed)
    }

    /// Sets how many blocks a checkpoint is going to need beside the reserve.
    pub fn set_table(&self, blocks: u64) {
        self.table.store(blocks, Ordering::Relaxed);
    }

    /// Blocks promised to values.
    pub fn promised_blocks(&self) -> u64 {
        self.promised.load(Ordering::Relaxed)
    }

    /// Sets how many blocks are promised.
    pub fn set_promised(&self, blocks: u64) {
        self.promised.store(blocks, Ordering::Relaxed);
    }

    /// Blocks that this class may not have.
    fn kept_from(&self, class: Class) -> u64 {
        match class {
            Class::Data => {
                self.reserve_blocks().saturating_add(self.table_blocks()).saturating_add(self.promised_blocks())
            }
            Class::Promised => self.reserve_blocks().saturating_add(self.table_blocks()),
            Class::Checkpoint => 0,
        }
    }

    /// Where a new writer should begin to look.
    pub fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives blocks to writers: new ones, or ones that nothing needs any more.
    pub fn release(&self, start: u64, count: u64) -> Result<()> {
        let (mut at, end) = (start, start + count);
        while at < end {
            let index = at / GROUP_BLOCKS;
            let part = end.min((index + 1) * GROUP_BLOCKS) - at;
            self.group(index as usize).lock().add(at, part)?;
            self.free.fetch_add(part, Ordering::Relaxed);
            at += part;
        }
        Ok(())
    }

    fn group(&self, index: usize) -> Arc<Mutex<Group>> {
        if let Some(group) = self.groups.read().get(index) {
            return Arc::clone(group);
        }
        let mut groups = self.groups.write();
        while groups.len() <= index {
            groups.push(Arc::default());
        }
        Arc::clone(&groups[index])
    }

    /// Up to `want` blocks in one run: as many as asked for where there is such a run, else the longest
    /// run; `None` when there is nothing for this class.
    pub fn allocate(&self, want: u32, class: Class, turn: usize) -> Option<BlockRange> {
        if !self.admits(u64::from(want).min(1), class) {
            return None;
        }
        let mut want = u64::from(want);
        if class != Class::Checkpoint {
            want = want.min(self.free_blocks().saturating_sub(self.kept_from(class))).max(1);
        }
        loop {
            if let Some(range) = self.allocate_run(want, turn) {
                return Some(range);
            }
            let groups: Vec<_> = self.groups.read().clone();
            let longest = groups.iter().map(|group| group.lock().largest()).max().unwrap_or(0);
            if longest == 0 {
                return None;
            }
            want = longest.min(want);
        }
    }

    /// Exactly `count` blocks in one run.
    pub fn allocate_exact(&self, count: u32, class: Class, turn: usize) -> Option<BlockRange> {
        if !self.admits(u64::from(count), class) {
            return None;
        }
        self.allocate_run(u64::from(count), turn)
    }

    /// Takes the next free run of at least `least` blocks that begins at a block or behind it, at most `most` of it.
    pub fn take_run(&self, from: u64, least: u64, most: u64) -> Option<(u64, u64)> {
        let groups: Vec<_> = self.groups.read().clone();
        for group in groups.iter().skip((from / GROUP_BLOCKS) as usize) {
            let mut group = group.lock();
            let parts = group
                .runs
                .iter()
                .map(|(start, count)| (start.max(from), (start + count).saturating_sub(start.max(from))));
            let found = parts.into_iter().find(|(_, count)| *count >= least);
            if let Some((start, count)) = found {
                let taken = count.min(most);
                group.remove(start, taken).ok()?;
                self.free.fetch_sub(taken, Ordering::Relaxed);
                return Some((start, taken));
            }
        }
        None
    }

    /// Whether this class may have so many blocks now.
    pub fn admits(&self, count: u64, class: Class) -> bool {
        self.free_blocks() >= self.kept_from(class).saturating_add(count)
    }

    fn allocate_run(&self, want: u64, turn: usize) -> Option<BlockRange> {
        let groups: Vec<_> = self.groups.read().clone();
        let count = groups.len();
        for step in 0..count {
            let found = groups[(turn + step) % count].lock().fit(want);
            if let Some((start, taken)) = found {
                self.free.fetch_sub(taken, Ordering::Relaxed);
                return Some(BlockRange { start, count: taken as u32 });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_each_block_once_and_takes_it_back() {
        let space = Allocator::new();
        space.release(100, 50).unwrap();
        space.release(GROUP_BLOCKS - 5, 10).unwrap();
        assert_eq!(space.free_blocks(), 60);
        let mut taken = Vec::new();
        while let Some(range) = space.allocate(7, Class::Data, 0) {
            taken.push(range);
        }
        assert_eq!(taken.iter().map(|r| u64::from(r.count)).sum::<u64>(), 60);
        for range in taken {
            space.release(range.start, u64::from(range.count)).unwrap();
        }
        assert_eq!(space.allocate_exact(50, Class::Data, 1).map(|r| r.start), Some(100));
        assert!(space.release(100, 1).is_ok());
        assert!(space.release(100, 1).is_err());
    }

    #[test]
    fn data_leaves_the_reserve() {
        let space = Allocator::new();
        space.release(0, 10).unwrap();
        space.set_reserve(4);
        assert_eq!(space.allocate(8, Class::Data, 0).map(|r| r.count), Some(6));
        assert_eq!(space.allocate(1, Class::Data, 0), None);
        assert_eq!(space.allocate(1, Class::Checkpoint, 0).map(|r| r.count), Some(1));
    }
}
