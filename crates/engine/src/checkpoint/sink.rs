//! What a checkpoint writes to: nodes and packed values, one behind the other, a few writes under way at once.
//!
//! Why under way: a write past the page cache that is waited for keeps its file locked meanwhile, and the log's writes through
//! the page cache wait for that lock. One that was only begun gives the lock back at once.
//!
//! Invariants:
//! - A node or value counts as placed when its write has returned; what refers to a node knows its place before.
//! - All writes have returned when [`Sink::finish`] has: the sync comes after it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::RUN_BLOCKS;
use crate::address::{BlockRange, Generation};
use crate::batch::Version;
use crate::checksum::crc32c;
use crate::core::Core;
use crate::device::{AlignedBuffer, BLOCK_LEN, Writing};
use crate::error::{Error, ErrorKind, Result};
use crate::extent::Extent;
use crate::tree::value::Pending;
use crate::tree::{Encoded, NodeSink, NodeSource};

/// The chunk length of packed values: 4 KiB.
const PACKED_CHUNK_LOG2: u8 = 12;
/// The most that one write takes, in blocks.
const WRITE_BLOCKS: usize = 64;
/// Writes that are under way at once; there is a buffer for each, and the one that is filled.
const IN_FLIGHT_MAX: usize = 3;

/// Takes what a checkpoint writes.
pub(super) struct Sink<'a> {
    core: &'a Core,
    /// When everything that it writes is born.
    birth: Generation,
    run: Option<BlockRange>,
    used: Vec<BlockRange>,
    /// What is gathered for one write, and the bytes of it that are filled.
    buffer: AlignedBuffer,
    filled: usize,
    /// Where it begins on the device, in blocks, and what is in it.
    start_block: u64,
    cargo: Vec<Cargo>,
    /// Oldest first.
    flights: VecDeque<InFlightWrite>,
}

/// What waits for a write.
enum Cargo {
    Node(Encoded),
    Value(Arc<Pending>, BlockRange),
}

struct InFlightWrite {
    writing: Writing,
    /// In bytes.
    offset: u64,
    cargo: Vec<Cargo>,
}

impl<'a> Sink<'a> {
    /// Without anything yet.
    pub fn new(core: &'a Core, birth: Generation) -> Sink<'a> {
        Sink {
            core,
            birth,
            run: None,
            used: Vec::new(),
            buffer: new_buffer(),
            filled: 0,
            start_block: 0,
            cargo: Vec::new(),
            flights: VecDeque::new(),
        }
    }

    /// The next `count` blocks.
    fn place(&mut self, count: u32) -> Result<BlockRange> {
        if let Some(run) = &mut self.run
            && run.count >= count
        {
            let taken = BlockRange { start: run.start, count };
            *run = BlockRange { start: run.start + u64::from(count), count: run.count - count };
            self.used.push(taken);
            return Ok(taken);
        }
        self.give_back()?;
        let run = self.core.allocator.allocate_packed(count, RUN_BLOCKS);
        self.run = Some(run.ok_or_else(|| {
            Error::new(ErrorKind::Full, "no space is left for a checkpoint: make the store larger, then open it again")
        })?);
        self.place(count)
    }

    fn give_back(&mut self) -> Result<()> {
        match self.run.take() {
            Some(run) if run.count > 0 => self.core.allocator.release_packed(run),
            _ => Ok(()),
        }
    }

    /// Places pending values one after the other, many with one write; they have their places when this returns.
    pub fn place_values(&mut self, values: Vec<Arc<Pending>>) -> Result<()> {
        for pending in values {
            let range = self.place(pending.bytes.len().div_ceil(BLOCK_LEN) as u32)?;
            self.load(range, &pending.bytes)?;
            self.cargo.push(Cargo::Value(Arc::clone(&pending), range));
        }
        self.send()?;
        self.land_all()
    }

    /// Puts bytes that belong to a place into the buffer.
    fn load(&mut self, range: BlockRange, bytes: &[u8]) -> Result<()> {
        let length = range.count as usize * BLOCK_LEN;
        let follows = range.start == self.start_block + (self.filled / BLOCK_LEN) as u64;
        if self.filled > 0 && (!follows || self.filled + length > WRITE_BLOCKS * BLOCK_LEN) {
            self.send()?;
        }
        if self.filled == 0 {
            self.start_block = range.start;
        }
        let end = self.filled + length;
        if !self.buffer.resize(end) {
            return Err(Error::invalid("a checkpoint was given more than one write takes"));
        }
        let (bytes_end, zeros) = (self.filled + bytes.len(), self.filled + bytes.len()..end);
        self.buffer[self.filled..bytes_end].copy_from_slice(bytes);
        self.buffer[zeros].fill(0);
        self.filled = end;
        Ok(())
    }

    /// Begins to write what the buffer holds.
    fn send(&mut self) -> Result<()> {
        if self.filled == 0 {
            return Ok(());
        }
        let next = if self.flights.len() < IN_FLIGHT_MAX { new_buffer() } else { self.land()? };
        let buffer = std::mem::replace(&mut self.buffer, next);
        self.filled = 0;
        let (offset, cargo) = (self.start_block * BLOCK_LEN as u64, std::mem::take(&mut self.cargo));
        let writing = self.core.begin_data(buffer, offset)?;
        self.flights.push_back(InFlightWrite { writing, offset, cargo });
        Ok(())
    }

    /// Waits for the oldest write; gives its memory.
    fn land(&mut self) -> Result<AlignedBuffer> {
        let Some(InFlightWrite { writing, offset, cargo }) = self.flights.pop_front() else { return Ok(new_buffer()) };
        let buffer = self.core.end_write(writing, offset)?;
        for cargo in cargo {
            match cargo {
                Cargo::Value(pending, range) => self.settle(&pending, range),
                Cargo::Node(encoded) => {
                    let at = encoded.at();
                    let (node, by) = encoded.place();
                    match by {
                        Some(by) => self.free_late(by, at.range()),
                        None => self.core.nodes.put(&at, node?),
                    }
                }
            }
        }
        Ok(buffer)
    }

    fn land_all(&mut self) -> Result<()> {
        while !self.flights.is_empty() {
            self.land()?;
        }
        Ok(())
    }

    /// Ends all writes. The blocks that were used, also after an error.
    pub fn finish(mut self) -> (Vec<BlockRange>, Result<()>) {
        let written = self.send().and_then(|()| self.land_all());
        let written = self.give_back().and(written);
        (self.used, written)
    }

    /// Says where a value was written.
    fn settle(&self, pending: &Pending, range: BlockRange) {
        let length = pending.bytes.len() as u32;
        let checksums = pending.bytes.chunks(1 << PACKED_CHUNK_LOG2).map(crc32c).collect();
        let extent = Extent {
            birth: self.birth,
            start_block: range.start,
            run_length: length,
            skip: 0,
            length,
            chunk_log2: PACKED_CHUNK_LOG2,
            checksums,
        };
        if self.core.data.is_on() {
            self.core.data.put(&extent, Bytes::copy_from_slice(&pending.bytes));
        }
        if let Some(by) = pending.placement.place(extent) {
            self.free_late(by, range);
        }
    }

    fn free_late(&self, by: Version, range: BlockRange) {
        self.core.free(&mut self.core.head.lock(), by, vec![range]);
    }
}

fn new_buffer() -> AlignedBuffer {
    AlignedBuffer::zeroed(WRITE_BLOCKS * BLOCK_LEN)
}

impl NodeSink for Sink<'_> {
    fn source(&self) -> &dyn NodeSource {
        &self.core.nodes
    }

    fn place_value(&mut self, pending: &Pending) -> Result<()> {
        let range = self.place(pending.bytes.len().div_ceil(BLOCK_LEN) as u32)?;
        self.core.write(&AlignedBuffer::padded(&pending.bytes), range.start * BLOCK_LEN as u64)?;
        self.settle(pending, range);
        Ok(())
    }

    fn write_node(&mut self, mut encoded: Encoded) -> Result<()> {
        let range = self.place((encoded.bytes().len() / BLOCK_LEN) as u32)?;
        encoded.assign(range.start);
        self.load(range, &encoded.bytes().clone())?;
        self.cargo.push(Cargo::Node(encoded));
        Ok(())
    }
}
