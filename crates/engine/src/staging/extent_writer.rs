//! Bytes on their way to fresh blocks: gathered in a buffer, given blocks, and written by the I/O pool while the next
//! buffer is filled.
//!
//! Invariants:
//! - Blocks are named to the caller before they are written, so that a failure gives them back.
//! - What was taken and not named is given back when the extent writer is dropped, and that waits for the writes under way.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::in_flight::{InFlightWrite, Memory, Shared, leave, write};
use super::unwritten::TURN;
use crate::address::BlockRange;
use crate::allocator::{Class, PlacementHint};
use crate::buffers::{BUFFER_LEN, Lent};
use crate::core::Core;
use crate::device::BLOCK_LEN;
use crate::error::{Error, Result};
use crate::extent::Extent;
use crate::stage::Lifetime;
use crate::staged::Target;

/// The longest run of data, in bytes: what is written at once.
const RUN_LEN_MAX: usize = BUFFER_LEN;
/// Runs of one extent_writer that are written at once.
pub const IN_FLIGHT_MAX: usize = 3;
/// An extent writer of known length takes up to this many blocks at once, so that its runs lie one after the other: 16 MiB.
const TAKE_BLOCKS_MAX: u64 = 1 << 12;

/// Bytes on their way to fresh blocks.
pub struct ExtentWriter {
    core: Arc<Core>,
    class: Class,
    /// How many bytes come at most, where that is known.
    expected: Option<u64>,
    buffer: Lent,
    filled: usize,
    /// Bytes that have their place.
    placed: u64,
    placement_hint: PlacementHint,
    /// Blocks that were taken and are not used yet.
    taken: BlockRange,
    /// Runs that are written at the moment, oldest first.
    in_flight_writes: VecDeque<InFlightWrite>,
    /// What went wrong: nothing can come after it.
    failed: Option<Error>,
}

impl ExtentWriter {
    /// Without a byte yet. `reserved`: it may take from space that was set aside.
    pub fn new(core: Arc<Core>, expected: Option<u64>, reserved: bool, lifetime: Lifetime) -> ExtentWriter {
        let class = if reserved { Class::Reserved } else { Class::Data };
        let first = expected.map_or(RUN_LEN_MAX, |length| length.min(RUN_LEN_MAX as u64) as usize);
        let capacity = first.next_multiple_of(BLOCK_LEN).max(BLOCK_LEN);
        let lent = if capacity == BUFFER_LEN { core.buffers.lend() } else { None };
        ExtentWriter {
            placement_hint: PlacementHint { turn: core.allocator.next_turn(), lifetime },
            core,
            class,
            expected,
            buffer: lent.unwrap_or_else(|| Lent::own(capacity)),
            filled: 0,
            placed: 0,
            taken: BlockRange { start: 0, count: 0 },
            in_flight_writes: VecDeque::new(),
            failed: None,
        }
    }

    /// The store.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// How many bytes of the buffer are filled.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Whether the buffer has to be sent off before more fits.
    pub fn is_full(&self) -> bool {
        self.filled == self.buffer.len()
    }

    /// Takes as many bytes as there is room for; how many.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let count = (self.buffer.len() - self.filled).min(bytes.len());
        self.buffer[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
        self.filled += count;
        count
    }

    /// Fills the last block with zeros: what comes next begins a block.
    pub fn pad(&mut self) {
        let end = self.filled.next_multiple_of(BLOCK_LEN);
        self.buffer[self.filled..end].fill(0);
        self.filled = end;
    }

    /// Fails when something failed before.
    pub fn check(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        while self.in_flight_writes.front().is_some_and(InFlightWrite::is_done) {
            self.land()?;
        }
        // Kept: a write under way may fail for another reason, and every call gives the first.
        self.core.check_running().inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// How many runs are being written.
    pub fn in_flight(&self) -> usize {
        self.in_flight_writes.len()
    }

    /// Nothing can come after this.
    pub fn fail(&mut self, error: &Error) {
        self.failed = Some(error.clone());
    }

    /// Waits for the oldest write that is under way; gives its buffer, if it had one, for the next.
    fn land(&mut self) -> Result<Option<Lent>> {
        let Some(in_flight) = self.in_flight_writes.pop_front() else { return Ok(None) };
        in_flight.land().inspect_err(|error| _ = self.failed.get_or_insert_with(|| error.clone()))
    }

    /// Waits for every write that is under way.
    pub fn finish_all(&mut self) -> Result<()> {
        while !self.in_flight_writes.is_empty() {
            self.land()?;
        }
        Ok(())
    }

    /// Places memory of somebody else, whole blocks of it, and has it written; what was filled is sent off before. `name`
    /// as for `send`.
    pub fn send_shared(&mut self, memory: Shared, mut name: impl FnMut(&[u8], Range<usize>, BlockRange)) -> Result<()> {
        let mut place = || {
            let bytes = memory.as_ref().as_ref();
            let (mut targets, mut done) = (Vec::with_capacity(1), 0);
            while done < bytes.len() {
                let range = self.allocate(((bytes.len() - done) / BLOCK_LEN) as u32, done)?;
                let end = bytes.len().min(done + range.count as usize * BLOCK_LEN);
                name(bytes, done..end, range);
                targets.push(Target { bytes: done..end, block: range.start, extent: None });
                done = end;
            }
            self.placed += bytes.len() as u64;
            if !self.core.io_pool.is_at_work() {
                return targets.iter().try_for_each(|target| write(&self.core, target, bytes)).map(|()| None);
            }
            while self.in_flight_writes.len() >= IN_FLIGHT_MAX {
                self.land()?;
            }
            Ok(Some(targets))
        };
        match place() {
            Ok(None) => Ok(()),
            Ok(Some(targets)) => {
                self.in_flight_writes.push_back(InFlightWrite::begin(&self.core, Memory::Shared(memory), targets));
                Ok(())
            }
            Err(error) => {
                self.fail(&error);
                Err(error)
            }
        }
    }

    /// Places what the buffer holds and has it written: meanwhile, or, what comes last, before this returns. `name` gets
    /// the buffer, the part of it, and its blocks, for every run; it gives the extent where the run is one that may be read soon.
    pub fn send(
        &mut self,
        last: bool,
        name: impl FnMut(&[u8], Range<usize>, BlockRange) -> Option<Extent>,
    ) -> Result<()> {
        let done = self.send_buffer(last, name).and_then(|()| if last { self.finish_all() } else { Ok(()) });
        done.inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// Places what the buffer holds and gives it to whoever is to write it; nothing is filled after this. `name` as for `send`.
    pub fn keep(
        &mut self,
        name: impl FnMut(&[u8], Range<usize>, BlockRange) -> Option<Extent>,
    ) -> Result<(Lent, Vec<Target>)> {
        self.placement_hint.turn = TURN;
        let targets = self.place(name).inspect_err(|error| self.failed = Some(error.clone()))?;
        Ok((std::mem::replace(&mut self.buffer, Lent::own(0)), targets))
    }

    /// Gives what the buffer holds its blocks, for somebody to write it there.
    fn place(
        &mut self,
        mut name: impl FnMut(&[u8], Range<usize>, BlockRange) -> Option<Extent>,
    ) -> Result<Vec<Target>> {
        let mut targets = Vec::with_capacity(1);
        let mut done = 0;
        while done < self.filled {
            let left = self.filled - done;
            let range = self.allocate(left.div_ceil(BLOCK_LEN) as u32, done)?;
            let take = left.min(range.count as usize * BLOCK_LEN);
            let padded = take.next_multiple_of(BLOCK_LEN);
            self.buffer[done + take..done + padded].fill(0);
            let extent = name(&self.buffer, done..done + take, range);
            targets.push(Target { bytes: done..done + padded, block: range.start, extent });
            done += take;
        }
        self.placed += self.filled as u64;
        self.filled = 0;
        Ok(targets)
    }

    fn send_buffer(
        &mut self,
        last: bool,
        name: impl FnMut(&[u8], Range<usize>, BlockRange) -> Option<Extent>,
    ) -> Result<()> {
        let targets = self.place(name)?;
        let next = if last || !self.core.io_pool.is_at_work() { None } else { self.next_buffer()? };
        match next {
            Some(next) => {
                let full = std::mem::replace(&mut self.buffer, next);
                self.in_flight_writes.push_back(InFlightWrite::begin(&self.core, Memory::Lent(full), targets));
                Ok(())
            }
            None => {
                targets.iter().try_for_each(|target| write(&self.core, target, &self.buffer))?;
                let written = std::mem::replace(&mut self.buffer, Lent::own(0));
                self.buffer = leave(&self.core, written, targets)
                    .or_else(|| if last { None } else { self.core.buffers.lend() })
                    .unwrap_or_else(|| Lent::own(if last { 0 } else { RUN_LEN_MAX }));
                Ok(())
            }
        }
    }

    /// A buffer to go on with while the full one is written, if there is one.
    fn next_buffer(&mut self) -> Result<Option<Lent>> {
        loop {
            if self.in_flight_writes.len() < IN_FLIGHT_MAX
                && let Some(next) = self.core.buffers.lend()
            {
                return Ok(Some(next));
            }
            if self.in_flight_writes.is_empty() {
                return Ok(None);
            }
            if let Some(buffer) = self.land()? {
                return Ok(Some(buffer));
            }
        }
    }

    /// Up to `blocks` blocks in a row, from what was taken before or anew.
    fn allocate(&mut self, blocks: u32, done: usize) -> Result<BlockRange> {
        if !self.taken.start.is_multiple_of(self.core.allocator.unit_blocks()) {
            // The last piece had found no boundary: perhaps there is one now.
            self.give_back()?;
        }
        if self.taken.count == 0 {
            self.taken = self
                .take_ahead(blocks, done)
                .map_or_else(|| self.core.allocate(blocks, self.class, self.placement_hint), Ok)?;
        }
        let count = blocks.min(self.taken.count);
        let range = BlockRange { start: self.taken.start, count };
        self.taken = BlockRange { start: range.end(), count: self.taken.count - count };
        Ok(range)
    }

    /// Gives back what was taken and is not used.
    fn give_back(&mut self) -> Result<()> {
        let rest = std::mem::replace(&mut self.taken, BlockRange { start: 0, count: 0 });
        if rest.count == 0 { Ok(()) } else { self.core.allocator.release(rest.start, u64::from(rest.count)) }
    }

    /// More than `blocks` in a row, where they are known to be needed.
    fn take_ahead(&self, blocks: u32, done: usize) -> Option<BlockRange> {
        self.core.check_running().ok()?;
        let need = self.expected?.saturating_sub(self.placed + done as u64).div_ceil(BLOCK_LEN as u64);
        let want = need.min(TAKE_BLOCKS_MAX) as u32;
        if want <= blocks { None } else { self.core.allocator.allocate_exact(want, Class::Data, self.placement_hint) }
    }
}

impl Drop for ExtentWriter {
    fn drop(&mut self) {
        // Nobody else may get the blocks before the last write to them is over.
        while let Some(in_flight) = self.in_flight_writes.pop_front() {
            drop(in_flight.land());
        }
        if let Err(error) = self.give_back() {
            self.core.fail(&error);
        }
    }
}
