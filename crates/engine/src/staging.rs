//! Stages: large values placed on the device before the commit that names them.
//!
//! Invariants:
//! - A run is written and its checksums are known before the token that names it exists.
//! - Space of a stage is given back exactly once: when its last token is dropped without a commit, or by
//!   opening the store after a crash (nothing durable names it).
//! - Memory for a stage is one run (1 MiB) and its extents; extents beyond a limit are logged as a slab.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::batch::Durability;
use crate::checksum::crc32c;
use crate::core::Core;
use crate::device::{AlignedBuffer, BLOCK_LEN};
use crate::error::{Error, ErrorKind, Result};
use crate::log::record::Step;
use crate::space::Class;
use crate::stage::{Access, STAGE_PIECE_LEN_MAX, StageHint, StageToken};
use crate::value::{Extent, Generation};

/// The longest run of data, in bytes: what is written at once.
const RUN_LEN_MAX: usize = 1 << 20;
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
    buffer: AlignedBuffer,
    filled: usize,
    length: u64,
    turn: usize,
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
        let turn = core.allocator.next_turn();
        Stage {
            core,
            hint,
            buffer: AlignedBuffer::zeroed(capacity),
            filled: 0,
            length: 0,
            turn,
            staged,
            extents_len: 0,
        }
    }

    /// Adds a piece of at most [`STAGE_PIECE_LEN_MAX`] bytes.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        if piece.len() > STAGE_PIECE_LEN_MAX {
            let message = format!("a piece of {} bytes; the most is {STAGE_PIECE_LEN_MAX}", piece.len());
            return Err(Error::invalid(message));
        }
        self.core.check_running()?;
        let length = self.length + piece.len() as u64;
        if self.hint.length.is_some_and(|hint| length > hint) {
            return Err(Error::invalid("more bytes than the stage's hint announced"));
        }
        let mut rest = piece;
        while !rest.is_empty() {
            if self.filled == self.buffer.len() {
                self.flush()?;
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
        self.flush()?;
        let empty = Staged::logged(self.staged.id, 0, Vec::new());
        empty.take();
        let staged = std::mem::replace(&mut self.staged, empty);
        Ok(StageToken::new(self.length, Arc::new(staged)))
    }

    /// Writes what the buffer holds to one run, or to several where space is in pieces.
    fn flush(&mut self) -> Result<()> {
        let mut done = 0;
        while done < self.filled {
            let left = self.filled - done;
            let blocks = left.div_ceil(BLOCK_LEN) as u32;
            let range = self.core.allocate(blocks, Class::Data, self.turn)?;
            let take = left.min(range.count as usize * BLOCK_LEN);
            let padded = take.next_multiple_of(BLOCK_LEN);
            self.buffer[done + take..done + padded].fill(0);
            let log2 = if self.hint.access == Access::Random { CHUNK_LOG2_RANDOM } else { CHUNK_LOG2_SEQUENTIAL };
            let data = &self.buffer[done..done + padded];
            let checksums = data[..take].chunks(1 << log2).map(crc32c).collect();
            // Named before it is written, so that a failure gives it back.
            self.staged.extents.push(Extent {
                birth: Generation::default(),
                start_block: range.start,
                run_length: take as u32,
                skip: 0,
                length: take as u32,
                chunk_log2: log2,
                checksums,
            });
            self.core.write(data, range.start * BLOCK_LEN as u64)?;
            self.extents_len += 32 + 4 * take.div_ceil(1 << log2);
            done += take;
        }
        self.filled = 0;
        if self.extents_len > self.core.limits.slab_len_max { self.spill() } else { Ok(()) }
    }

    /// Names the extents so far in the log, so that the commit need not.
    fn spill(&mut self) -> Result<()> {
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
