//! Stages: large values placed on the device before the commit that names them.
//!
//! Invariants:
//! - A run is written and its checksums are known before the token that names it, or a slab in the log, exists.
//! - Space of a stage is given back exactly once: when its last token is dropped without a commit, or by
//!   opening the store after a crash (nothing durable names it).
//! - It is not given back while a write to it is under way.
//! - Memory for a stage is one run (1 MiB) and its extents, and up to three runs more, from a budget that all stages
//!   share, while those are written; extents beyond a limit are logged as a slab.

mod flight;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::batch::Durability;
use crate::buffers::{BUFFER_LEN, Lent};
use crate::checksum::crc32c;
use crate::core::Core;
use crate::device::BLOCK_LEN;
use crate::error::{Error, ErrorKind, Result};
use crate::log::record::Step;
use crate::space::Class;
use crate::stage::{Access, STAGE_PIECE_LEN_MAX, StageHint, StageToken};
use crate::value::{BlockRange, Extent, Generation};
use flight::{Flight, Target};

/// The longest run of data, in bytes: what is written at once.
const RUN_LEN_MAX: usize = BUFFER_LEN;
/// Runs of one stage that are written at once.
const FLIGHTS_MAX: usize = 3;
/// A stage of known length takes up to this many blocks at once, so that its runs lie one after the other: 16 MiB.
const TAKE_BLOCKS_MAX: u64 = 1 << 12;
/// Checksum chunks of values read from front to back.
const CHUNK_LOG2_SEQUENTIAL: u8 = 15;
/// Checksum chunks of values read in small pieces.
const CHUNK_LOG2_RANDOM: u8 = 12;

/// The content of a token: where the bytes lie.
pub struct Staged {
    id: u64,
    spilled: u64,
    extents: Vec<Extent>,
    taken: AtomicBool,
    home: Weak<Core>,
}

impl Staged {
    /// As a record of the log names it: it belongs to that commit.
    pub fn logged(id: u64, spilled: u64, extents: Vec<Extent>) -> Staged {
        Staged { id, spilled, extents, taken: AtomicBool::new(false), home: Weak::new() }
    }

    /// Without anything yet.
    fn begun(id: u64, home: Weak<Core>) -> Staged {
        Staged { id, spilled: 0, extents: Vec::new(), taken: AtomicBool::new(false), home }
    }

    /// The stage's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How many bytes, from the front, are named by slabs in the log.
    pub fn spilled(&self) -> u64 {
        self.spilled
    }

    /// The extents after those.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Whether it belongs to this store.
    pub fn is_of(&self, core: &Arc<Core>) -> bool {
        std::ptr::eq(self.home.as_ptr(), Arc::as_ptr(core))
    }

    /// Takes it for a commit; false when one has it already.
    pub fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::AcqRel)
    }

    /// The commit did not happen.
    pub fn untake(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !*self.taken.get_mut()
            && let Some(core) = self.home.upgrade()
        {
            core.abandon(self.id, self.spilled, &self.extents);
        }
    }
}

/// A value on its way in.
pub struct Stage {
    core: Arc<Core>,
    hint: StageHint,
    buffer: Lent,
    filled: usize,
    length: u64,
    /// Bytes that have their place.
    placed: u64,
    turn: usize,
    /// Blocks that were taken and are not used yet.
    taken: BlockRange,
    /// Runs that are written at the moment, oldest first.
    flights: VecDeque<Flight>,
    /// What went wrong: nothing can come after it.
    failed: Option<Error>,
    /// What was placed so far; its drop gives it back.
    staged: Staged,
    /// The encoded size of the extents that no slab names yet.
    extents_len: usize,
}

impl Stage {
    /// Begins a stage of a store.
    pub(crate) fn new(core: Arc<Core>, hint: StageHint) -> Stage {
        let id = core.next_stage();
        let staged = Staged::begun(id, Arc::downgrade(&core));
        let expected = hint.length.map_or(RUN_LEN_MAX, |length| length.min(RUN_LEN_MAX as u64) as usize);
        let capacity = expected.next_multiple_of(BLOCK_LEN).max(BLOCK_LEN);
        let lent = if capacity == BUFFER_LEN { core.buffers.lend() } else { None };
        let turn = core.allocator.next_turn();
        Stage {
            core,
            hint,
            buffer: lent.unwrap_or_else(|| Lent::own(capacity)),
            filled: 0,
            length: 0,
            placed: 0,
            turn,
            taken: BlockRange { start: 0, count: 0 },
            flights: VecDeque::new(),
            failed: None,
            staged,
            extents_len: 0,
        }
    }

    /// Adds a piece of at most [`STAGE_PIECE_LEN_MAX`] bytes.
    ///
    /// An error of the device may be told by a later call than the one that gave the bytes, at the latest by
    /// [`Stage::finish`]. After an error of the store or the device every call fails.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        if piece.len() > STAGE_PIECE_LEN_MAX {
            let message = format!("a piece of {} bytes; the most is {STAGE_PIECE_LEN_MAX}", piece.len());
            return Err(Error::invalid(message));
        }
        self.check()?;
        let length = self.length + piece.len() as u64;
        if self.hint.length.is_some_and(|hint| length > hint) {
            return Err(Error::invalid("more bytes than the stage's hint announced"));
        }
        let mut rest = piece;
        while !rest.is_empty() {
            if self.filled == self.buffer.len() {
                self.flush(false)?;
            }
            let room = (self.buffer.len() - self.filled).min(rest.len());
            let (head, tail) = rest.split_at(room);
            self.buffer[self.filled..self.filled + room].copy_from_slice(head);
            self.filled += room;
            rest = tail;
        }
        self.length = length;
        Ok(())
    }

    /// The length so far in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// No more pieces.
    pub fn finish(mut self) -> Result<StageToken> {
        self.check()?;
        self.flush(true)?;
        let empty = Staged::logged(self.staged.id, 0, Vec::new());
        empty.take();
        let staged = std::mem::replace(&mut self.staged, empty);
        Ok(StageToken::new(self.length, Arc::new(staged)))
    }

    fn class(&self) -> Class {
        if self.hint.reserved { Class::Promised } else { Class::Data }
    }

    /// Fails when something failed before.
    fn check(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        while self.flights.front().is_some_and(Flight::has_landed) {
            self.land()?;
        }
        self.core.check_running()
    }

    /// Waits for the oldest write that is under way; gives its buffer for the next.
    fn land(&mut self) -> Result<Option<Lent>> {
        let Some(flight) = self.flights.pop_front() else { return Ok(None) };
        flight.land().map(Some).inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn land_all(&mut self) -> Result<()> {
        while self.land()?.is_some() {}
        Ok(())
    }

    /// Places what the buffer holds and has it written: meanwhile, or, what comes last, before this returns.
    fn flush(&mut self, last: bool) -> Result<()> {
        let done = self.flush_buffer(last).and_then(|()| if last { self.land_all() } else { Ok(()) });
        done.and_then(|()| if self.extents_len > self.core.limits.slab_len_max { self.spill() } else { Ok(()) })
            .inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn flush_buffer(&mut self, last: bool) -> Result<()> {
        let mut targets = Vec::with_capacity(1);
        let mut done = 0;
        while done < self.filled {
            let target = self.place(done)?;
            done = target.bytes.end.min(self.filled);
            targets.push(target);
        }
        self.placed += self.filled as u64;
        self.filled = 0;
        let next = if last || !self.core.crew.is_at_work() { None } else { self.next_buffer()? };
        match next {
            Some(next) => {
                let full = std::mem::replace(&mut self.buffer, next);
                self.flights.push_back(Flight::begin(&self.core, full, targets));
                Ok(())
            }
            None => targets.iter().try_for_each(|target| target.write(&self.core, &self.buffer)),
        }
    }

    /// A buffer to go on with while the full one is written, if there is one.
    fn next_buffer(&mut self) -> Result<Option<Lent>> {
        if self.flights.len() < FLIGHTS_MAX
            && let Some(next) = self.core.buffers.lend()
        {
            return Ok(Some(next));
        }
        self.land()
    }

    /// Finds room for what the buffer holds from `done` on, and names it: before it is written, so that a failure
    /// gives it back.
    fn place(&mut self, done: usize) -> Result<Target> {
        let left = self.filled - done;
        let range = self.allocate(left.div_ceil(BLOCK_LEN) as u32, done)?;
        let take = left.min(range.count as usize * BLOCK_LEN);
        let padded = take.next_multiple_of(BLOCK_LEN);
        self.buffer[done + take..done + padded].fill(0);
        let log2 = if self.hint.access == Access::Random { CHUNK_LOG2_RANDOM } else { CHUNK_LOG2_SEQUENTIAL };
        let checksums = self.buffer[done..done + take].chunks(1 << log2).map(crc32c).collect();
        self.staged.extents.push(Extent {
            birth: Generation::default(),
            start_block: range.start,
            run_length: take as u32,
            skip: 0,
            length: take as u32,
            chunk_log2: log2,
            checksums,
        });
        self.extents_len += 32 + 4 * take.div_ceil(1 << log2);
        Ok(Target { bytes: done..done + padded, block: range.start })
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
                .map_or_else(|| self.core.allocate(blocks, self.class(), self.turn), Ok)?;
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

    /// More than `blocks` in a row, where the value is known to need them.
    fn take_ahead(&self, blocks: u32, done: usize) -> Option<BlockRange> {
        self.core.check_running().ok()?;
        let need = self.hint.length?.saturating_sub(self.placed + done as u64).div_ceil(BLOCK_LEN as u64);
        let want = need.min(TAKE_BLOCKS_MAX) as u32;
        if want <= blocks { None } else { self.core.allocator.allocate_exact(want, Class::Data, self.turn) }
    }

    /// Names the extents so far in the log, so that the commit need not.
    fn spill(&mut self) -> Result<()> {
        // The log names only what was written.
        self.land_all()?;
        let extents = std::mem::take(&mut self.staged.extents);
        let bytes: u64 = extents.iter().map(|extent| u64::from(extent.length)).sum();
        let offset = self.staged.spilled;
        let step = Step::StageSlab { stage: self.staged.id, offset, extents: extents.clone() };
        if let Err(error) = self.core.submit_step(step, Durability::Written).wait() {
            if error.kind() != ErrorKind::Stopped {
                // Refused before it was logged: the extents are still the stage's own.
                self.staged.extents = extents;
            }
            return Err(error);
        }
        self.staged.spilled += bytes;
        self.extents_len = 0;
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Nobody else may get the blocks before the last write to them is over.
        while let Some(flight) = self.flights.pop_front() {
            drop(flight.land());
        }
        if let Err(error) = self.give_back() {
            self.core.fail(&error);
        }
    }
}

#[cfg(test)]
mod tests;
