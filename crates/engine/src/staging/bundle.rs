//! Many values placed together: each in blocks of its own, written side by side in long runs.
//!
//! Invariants:
//! - Every value begins a block; no two share one, so each can go without the others.
//! - The tokens exist only once everything was written.

use std::ops::Range;
use std::sync::Arc;

use super::extent_writer::ExtentWriter;
use super::in_flight::Shared;
use super::{Staged, extent_of};
use crate::address::BlockRange;
use crate::core::Core;
use crate::device::BLOCK_LEN;
use crate::error::Result;
use crate::stage::{Access, Lifetime, StageToken};

/// Many values on their way in.
pub struct Bundle {
    /// Before the values: nobody gets their blocks while they are written.
    extent_writer: ExtentWriter,
    values: Vec<Value>,
    /// What lies in the extent writer's buffer: a value's number, and its bytes there.
    segments: Vec<(usize, Range<usize>)>,
}

struct Value {
    length: u64,
    access: Access,
    staged: Staged,
}

/// Bytes of a value.
pub enum Part<'b> {
    /// To be copied.
    Bytes(&'b [u8]),
    /// Whole blocks in aligned memory, to be written from there.
    Shared(Shared),
}

impl Part<'_> {
    fn len(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Shared(shared) => shared.as_ref().as_ref().len(),
        }
    }
}

impl Bundle {
    /// Of `length` bytes in all, every value rounded up to whole blocks. `reserved`: they may take from space that was
    /// set aside.
    pub fn new(core: Arc<Core>, length: u64, reserved: bool, lifetime: Lifetime) -> Bundle {
        Bundle {
            extent_writer: ExtentWriter::new(core, Some(length), reserved, lifetime),
            values: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Adds a value.
    pub fn push<'b>(&mut self, access: Access, parts: impl Iterator<Item = Part<'b>>) -> Result<()> {
        self.extent_writer.check()?;
        let number = self.values.len();
        let core = self.extent_writer.core();
        let staged = Staged::begun(core.next_stage(), core.as_stage_owner());
        self.values.push(Value { length: 0, access, staged });
        let (mut from, mut length) = (self.extent_writer.filled(), 0);
        for part in parts {
            let at = length;
            length += part.len() as u64;
            match part {
                Part::Bytes(bytes) => from = self.copy(number, from, bytes)?,
                Part::Shared(shared) if at.is_multiple_of(BLOCK_LEN as u64) => {
                    self.close_segment(number, from);
                    self.send_shared(number, shared)?;
                    from = 0;
                }
                Part::Shared(shared) => from = self.copy(number, from, shared.as_ref().as_ref())?,
            }
        }
        self.close_segment(number, from);
        self.extent_writer.pad();
        if let Some(value) = self.values.get_mut(number) {
            value.length = length;
        }
        Ok(())
    }

    /// Copies bytes of a value whose segment in the buffer begins at `from`; where it begins then.
    fn copy(&mut self, number: usize, mut from: usize, bytes: &[u8]) -> Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.extent_writer.is_full() {
                self.close_segment(number, from);
                self.send(false)?;
                from = 0;
            }
            let count = self.extent_writer.fill(rest);
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(from)
    }

    /// A value's bytes in the buffer end here.
    fn close_segment(&mut self, number: usize, from: usize) {
        let end = self.extent_writer.filled();
        if from < end {
            self.segments.push((number, from..end));
        }
    }

    fn send(&mut self, last: bool) -> Result<()> {
        let core = Arc::clone(self.extent_writer.core());
        let (segments, values) = (&self.segments, &mut self.values);
        let mut next = 0;
        self.extent_writer.send(last, |buffer, run, blocks| {
            // Runs come in order and so do segments; the last one of a run may go on in the next.
            while let Some((number, segment)) = segments.get(next) {
                let part = segment.start.max(run.start)..segment.end.min(run.end);
                if let Some(value) = values.get_mut(*number)
                    && part.start < part.end
                {
                    let start = blocks.start + ((part.start - run.start) / BLOCK_LEN) as u64;
                    let count = part.len().div_ceil(BLOCK_LEN) as u32;
                    let of = BlockRange { start, count };
                    let extent = extent_of(&buffer[part], of, value.access);
                    core.data.forget(&extent);
                    value.staged.extents_mut().push(extent);
                }
                if segment.end > run.end {
                    break;
                }
                next += 1;
            }
            None
        })?;
        self.segments.clear();
        Ok(())
    }

    fn send_shared(&mut self, number: usize, memory: Shared) -> Result<()> {
        if self.extent_writer.filled() > 0 {
            self.send(false)?;
        }
        let core = Arc::clone(self.extent_writer.core());
        let Some(value) = self.values.get_mut(number) else { return Ok(()) };
        self.extent_writer.send_shared(memory, |bytes, run, blocks| {
            let extent = extent_of(&bytes[run], blocks, value.access);
            core.data.forget(&extent);
            value.staged.extents_mut().push(extent);
        })
    }

    /// No more values. Gives their tokens, in the order in which they were added.
    pub fn finish(mut self) -> Result<Vec<StageToken>> {
        self.extent_writer.check()?;
        self.send(true)?;
        let values = std::mem::take(&mut self.values);
        Ok(values.into_iter().map(|value| StageToken::new(value.length, Arc::new(value.staged))).collect())
    }
}
