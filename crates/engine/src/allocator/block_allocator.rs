//! What a writer can get now.
//!
//! Space is cut into groups of [`GROUP_BLOCKS`], each with a lock of its own; a writer begins at a group
//! of its own and goes on to the next when that has no room, so that writers seldom meet.
//!
//! Data is given out in *units*: powers of two of blocks, one block unless the store was made with larger ones. Blocks
//! are counted one by one all the same: a unit is where data begins and what of the last one is left over stays free.
//!
//! Invariants:
//! - A block is either here, or in use, or waiting in the reuse queue.
//! - Data begins on the boundary of a unit while a whole unit, or all that is asked for from a boundary on, is free.
//!   After that it takes what there is: nothing is refused while blocks are left.
//! - `Class::Data` leaves the reserve untouched, so that a checkpoint, and with it a deletion, always finds room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::address::BlockRange;
use crate::allocator::group::Group;
use crate::error::Result;
use crate::lock::Mutex;
use crate::stage::Lifetime;

/// Blocks of a group: 1 GiB.
pub const GROUP_BLOCKS: u64 = 1 << 18;

/// For what space is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// New data: refused when only the reserve and reservations are left.
    Data,
    /// Data that has a reservation: refused when only the reserve is left.
    Reserved,
    /// Nodes, packed values and the free list of a checkpoint: may use the reserve.
    Checkpoint,
}

/// Where a writer would like its blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlacementHint {
    /// The group it begins to look in, where nothing else decides.
    pub turn: usize,
    /// Data that goes soon comes from the last group on backwards, data that stays from the first one on.
    pub lifetime: Lifetime,
}

impl PlacementHint {
    /// Which of `count` groups is asked after so many others.
    fn group(self, step: usize, count: usize) -> usize {
        match self.lifetime {
            Lifetime::Unknown => (self.turn + step) % count,
            Lifetime::Long => step,
            Lifetime::Short => count - 1 - step,
        }
    }

    fn fit(self) -> Fit {
        match self.lifetime {
            Lifetime::Unknown => Group::fit_aligned,
            Lifetime::Long => Group::fit_front,
            Lifetime::Short => Group::fit_back,
        }
    }
}

/// Takes so many blocks out of a group.
type Fit = fn(&mut Group, u64) -> Option<(u64, u64)>;

/// Free blocks, for many writers at once.
pub struct Allocator {
    unit: u64,
    groups: RwLock<Vec<Arc<Mutex<Group>>>>,
    free: AtomicU64,
    reserve: AtomicU64,
    reserved: AtomicU64,
    beyond_reserve: AtomicU64,
    turn: AtomicUsize,
    /// Where the last checkpoint has left a unit that it had begun; 0: nowhere.
    packed_at: AtomicU64,
}

impl Allocator {
    /// Without any space; data is given out in units of so many blocks, a power of two that divides a group.
    pub fn new(unit: u64) -> Self {
        debug_assert!(unit.is_power_of_two() && GROUP_BLOCKS.is_multiple_of(unit));
        Allocator {
            unit,
            groups: RwLock::default(),
            free: AtomicU64::new(0),
            reserve: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            beyond_reserve: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
            packed_at: AtomicU64::new(0),
        }
    }

    /// Blocks of a unit.
    pub fn unit_blocks(&self) -> u64 {
        self.unit
    }

    /// Blocks that are free now, the reserve included.
    pub fn free_blocks(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Tells where every free run begins and how many blocks it has.
    pub fn each_run(&self, tell: &mut dyn FnMut(u64, u64)) {
        let groups: Vec<_> = self.groups.read().clone();
        groups.iter().for_each(|group| group.lock().runs().for_each(|(start, count)| tell(start, count)));
    }

    /// Blocks kept back from data.
    pub fn reserve_blocks(&self) -> u64 {
        self.reserve.load(Ordering::Relaxed)
    }

    /// Sets how many blocks are kept back.
    pub fn set_reserve(&self, blocks: u64) {
        self.reserve.store(blocks, Ordering::Relaxed);
    }

    fn beyond_reserve_blocks(&self) -> u64 {
        self.beyond_reserve.load(Ordering::Relaxed)
    }

    /// Sets how many blocks a checkpoint is going to need beside the reserve.
    pub fn set_beyond_reserve(&self, blocks: u64) {
        self.beyond_reserve.store(blocks, Ordering::Relaxed);
    }

    /// Blocks reserved for values.
    pub fn reserved_blocks(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Sets how many blocks are reserved for values.
    pub fn set_reserved(&self, blocks: u64) {
        self.reserved.store(blocks, Ordering::Relaxed);
    }

    /// Blocks that this class may not have.
    fn kept_from(&self, class: Class) -> u64 {
        match class {
            Class::Data => self
                .reserve_blocks()
                .saturating_add(self.beyond_reserve_blocks())
                .saturating_add(self.reserved_blocks()),
            Class::Reserved => self.reserve_blocks().saturating_add(self.beyond_reserve_blocks()),
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
            groups.push(Arc::new(Mutex::new(Group::new(self.unit))));
        }
        Arc::clone(&groups[index])
    }

    /// Up to `want` blocks in one run: as many as asked for where there is such a run, else the longest
    /// run; `None` when there is nothing for this class. Data begins on a boundary, if in fewer blocks, where there is one.
    pub fn allocate(&self, want: u32, class: Class, placement_hint: PlacementHint) -> Option<BlockRange> {
        if !self.admits(u64::from(want).min(1), class) {
            return None;
        }
        let mut want = u64::from(want);
        if class != Class::Checkpoint {
            want = want.min(self.free_blocks().saturating_sub(self.kept_from(class))).max(1);
            if (self.unit > 1 || placement_hint.lifetime != Lifetime::Unknown)
                && let Some(range) =
                    self.allocate_longest(want, placement_hint, placement_hint.fit(), Group::longest_aligned)
            {
                return Some(range);
            }
        }
        self.allocate_longest(want, placement_hint, Group::fit, Group::longest)
    }

    fn allocate_longest(
        &self,
        mut want: u64,
        placement_hint: PlacementHint,
        fit: Fit,
        longest: fn(&Group) -> u64,
    ) -> Option<BlockRange> {
        loop {
            if let Some(range) = self.take(placement_hint, |group| fit(group, want)) {
                return Some(range);
            }
            let groups: Vec<_> = self.groups.read().clone();
            let longest = groups.iter().map(|group| longest(&group.lock())).max().unwrap_or(0);
            if longest == 0 {
                return None;
            }
            want = longest.min(want);
        }
    }

    /// Whether a whole unit is free, or so many blocks from a boundary on.
    pub fn has_aligned(&self, want: u64) -> bool {
        let groups: Vec<_> = self.groups.read().clone();
        groups.iter().any(|group| group.lock().has_aligned(want))
    }

    /// Exactly `count` blocks in one run that begins on a boundary.
    pub fn allocate_exact(&self, count: u32, class: Class, placement_hint: PlacementHint) -> Option<BlockRange> {
        if !self.admits(u64::from(count), class) {
            return None;
        }
        self.take(placement_hint, |group| placement_hint.fit()(group, u64::from(count)))
    }

    /// For nodes and values that a checkpoint writes one behind the other: `most` blocks where there are so many in a
    /// row, else `least`. It goes on in a unit that the last one has begun, as far as that is worth a write.
    pub fn allocate_packed(&self, least: u32, most: u32) -> Option<BlockRange> {
        let (least, most) = (u64::from(least), u64::from(most.max(least)));
        let begun = self.packed_at.swap(0, Ordering::Relaxed);
        if begun > 0 {
            let found = self.group((begun / GROUP_BLOCKS) as usize).lock().rest_of_unit(begun, least.max(most / 4));
            if let Some((start, count)) = found {
                return Some(self.taken(start, count));
            }
        }
        self.take(PlacementHint::default(), |group| group.fit_aligned(most))
            .or_else(|| self.take(PlacementHint::default(), |group| group.fit(most)))
            .or_else(|| self.take(PlacementHint::default(), |group| group.fit(least)))
    }

    /// Takes back what a checkpoint has not used of its last run.
    pub fn release_packed(&self, rest: BlockRange) -> Result<()> {
        self.release(rest.start, u64::from(rest.count))?;
        if self.unit > 1 {
            self.packed_at.store(rest.start, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes the next free run of at least `least` blocks that begins at a block or behind it, at most `most` of it and
    /// then up to a boundary.
    pub fn take_run(&self, from: u64, least: u64, most: u64) -> Option<(u64, u64)> {
        let groups: Vec<_> = self.groups.read().clone();
        for group in groups.iter().skip((from / GROUP_BLOCKS) as usize) {
            let mut group = group.lock();
            let parts =
                group.runs().map(|(start, count)| (start.max(from), (start + count).saturating_sub(start.max(from))));
            let found = parts.into_iter().find(|(_, count)| *count >= least);
            if let Some((start, count)) = found {
                // No unit is taken in two halves.
                let whole = (start + most) / self.unit * self.unit;
                let taken = if count > most && whole > start { whole - start } else { count.min(most) };
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

    /// What the first group has that has it.
    fn take(
        &self,
        placement_hint: PlacementHint,
        mut fit: impl FnMut(&mut Group) -> Option<(u64, u64)>,
    ) -> Option<BlockRange> {
        let groups: Vec<_> = self.groups.read().clone();
        let count = groups.len();
        for step in 0..count {
            let found = fit(&mut groups[placement_hint.group(step, count)].lock());
            if let Some((start, blocks)) = found {
                return Some(self.taken(start, blocks));
            }
        }
        None
    }

    fn taken(&self, start: u64, blocks: u64) -> BlockRange {
        self.free.fetch_sub(blocks, Ordering::Relaxed);
        BlockRange { start, count: blocks as u32 }
    }
}

#[cfg(test)]
mod tests;
