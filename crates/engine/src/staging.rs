//! Stages: large values placed on the device before the commit that names them.
//!
//! Invariants:
//! - A run is written and its checksums are known before the token that names it, or a slab in the log, exists.
//! - It is not given back while a write to it is under way.
//! - Memory for a stage is one run (1 MiB) and its extents, and up to three runs more, from a budget that all stages
//!   share, while those are written; extents beyond a limit are logged as a slab.

pub mod bundle;
mod extent_writer;
mod in_flight;
pub mod unwritten;

use std::ops::Range;
use std::sync::Arc;

use crate::address::{BlockRange, Generation};
use crate::batch::Durability;
use crate::checksum::crc32c;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::extent::Extent;
use crate::log::record::Step;
use crate::stage::{Access, STAGE_PIECE_LEN_MAX, StageHint, StageToken};
use crate::staged::{Staged, Unwritten};
use extent_writer::ExtentWriter;

/// Checksum chunks of values read from front to back.
const CHUNK_LOG2_SEQUENTIAL: u8 = 15;
/// Checksum chunks of values read in small pieces.
const CHUNK_LOG2_RANDOM: u8 = 12;

/// Bytes that are about to be written to these blocks, as the index names them.
fn extent_of(bytes: &[u8], blocks: BlockRange, access: Access) -> Extent {
    let chunk_log2 = if access == Access::Random { CHUNK_LOG2_RANDOM } else { CHUNK_LOG2_SEQUENTIAL };
    Extent {
        birth: Generation::default(),
        start_block: blocks.start,
        run_length: bytes.len() as u32,
        skip: 0,
        length: bytes.len() as u32,
        chunk_log2,
        checksums: bytes.chunks(1 << chunk_log2).map(crc32c).collect(),
    }
}

/// A value on its way in.
pub struct Stage {
    /// Before what it names: nobody gets the blocks while they are written.
    extent_writer: ExtentWriter,
    hint: StageHint,
    length: u64,
    /// What was placed so far; its drop gives it back.
    staged: Staged,
    /// The encoded size of the extents that no slab names yet.
    extents_len: usize,
}

impl Stage {
    /// Begins a stage of a store.
    pub(crate) fn new(core: Arc<Core>, hint: StageHint) -> Stage {
        let staged = Staged::begun(core.next_stage(), core.as_stage_owner());
        Stage {
            extent_writer: ExtentWriter::new(core, hint.length, hint.reserved, hint.lifetime),
            hint,
            length: 0,
            staged,
            extents_len: 0,
        }
    }

    /// Adds a piece of at most [`STAGE_PIECE_LEN_MAX`] bytes.
    ///
    /// An error of the device may be told by a later call than the one that gave the bytes, at the latest by the commit
    /// that names them. After an error of the store or the device every call fails.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        if piece.len() > STAGE_PIECE_LEN_MAX {
            let message = format!("a piece of {} bytes; the most is {STAGE_PIECE_LEN_MAX}", piece.len());
            return Err(Error::invalid(message));
        }
        self.extent_writer.check()?;
        let length = self.length + piece.len() as u64;
        if self.hint.length.is_some_and(|hint| length > hint) {
            return Err(Error::invalid("more bytes than the stage's hint announced"));
        }
        let mut rest = piece;
        while !rest.is_empty() {
            if self.extent_writer.is_full() {
                self.flush(false)?;
            }
            let count = self.extent_writer.fill(rest);
            rest = rest.get(count..).unwrap_or_default();
        }
        self.length = length;
        Ok(())
    }

    /// The length so far in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// No more pieces. A few stages of up to one run each may be written by their commits only.
    pub fn finish(mut self) -> Result<StageToken> {
        self.extent_writer.check()?;
        if !self.keep()? {
            self.flush(true)?;
        }
        let empty = Staged::logged(self.staged.id(), 0, Vec::new());
        empty.take();
        let staged = std::mem::replace(&mut self.staged, empty);
        Ok(StageToken::new(self.length, Arc::new(staged)))
    }

    /// Places what was gathered and leaves it to the commit to write it, where that is all there is.
    fn keep(&mut self) -> Result<bool> {
        let is_all = self.extent_writer.filled() as u64 == self.length && self.extent_writer.in_flight() == 0;
        let checksums = (self.extent_writer.filled() >> CHUNK_LOG2_RANDOM) + 1;
        if !is_all || self.length == 0 || 32 + 4 * checksums > self.extent_writer.core().limits.slab_len_max {
            return Ok(false);
        }
        let core = Arc::clone(self.extent_writer.core());
        let (extents, access) = (self.staged.extents_mut(), self.hint.access);
        let name = |buffer: &[u8], run: Range<usize>, blocks| {
            extents.push(extent_of(&buffer[run], blocks, access));
            extents.last().cloned()
        };
        let kept = Unwritten::keep(&core, &mut self.extent_writer, name)?;
        let is_kept = kept.is_some();
        *self.staged.unwritten() = kept;
        Ok(is_kept)
    }

    /// Places what was gathered, and has it written.
    fn flush(&mut self, last: bool) -> Result<()> {
        let (extents, extents_len, access) = (self.staged.extents_mut(), &mut self.extents_len, self.hint.access);
        self.extent_writer.send(last, |buffer: &[u8], run: Range<usize>, blocks| {
            let extent = extent_of(&buffer[run], blocks, access);
            *extents_len += 32 + 4 * extent.checksums.len();
            extents.push(extent.clone());
            Some(extent)
        })?;
        if self.extents_len > self.extent_writer.core().limits.slab_len_max {
            self.spill().inspect_err(|error| self.extent_writer.fail(error))?;
        }
        Ok(())
    }

    /// Names the extents so far in the log, so that the commit need not.
    fn spill(&mut self) -> Result<()> {
        // The log names only what was written.
        self.extent_writer.finish_all()?;
        let extents = std::mem::take(self.staged.extents_mut());
        let bytes: u64 = extents.iter().map(|extent| u64::from(extent.length)).sum();
        let offset = self.staged.spilled();
        let step = Step::StageSlab { stage: self.staged.id(), offset, extents: extents.clone() };
        if let Err(error) = self.extent_writer.core().submit_step(step, Durability::Written).wait() {
            if error.kind() != ErrorKind::Stopped {
                // Refused before it was logged: the extents are still the stage's own.
                *self.staged.extents_mut() = extents;
            }
            return Err(error);
        }
        self.staged.add_spilled(bytes);
        self.extents_len = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
