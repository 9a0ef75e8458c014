//! What a transaction has on the device: bytes of queued writes, under a key that no object has.
//!
//! Invariants:
//! - Bytes come in through stages and are named under the scratch key only, so that the transaction can read them
//!   and nobody else looks there; executing shares them into the objects and removes the key in the same commit.
//! - Opening a store removes the scratch keys that a crash left.

use std::sync::Arc;

use super::Transaction;
use crate::batch::{Batch, Durability, KeyRange, Operation, Payload, Place};
use crate::device::BLOCK_LEN;
use crate::error::{Error, Result};
use crate::objects::inner::Inner;
use crate::objects::layout::{SPACE, scratch_key};
use crate::objects::pending::Pending;
use crate::stage::{Access, STAGE_PIECE_LEN_MAX, StageHint};
use crate::staging::Stage;
use crate::view::View;

/// Runs of at least this many bytes get chunks for sequential reading.
const SEQUENTIAL_LEN: usize = 64 << 10;

/// The spool of one transaction.
pub struct Spool {
    transaction: u64,
    length: u64,
    pending: Option<Arc<Pending>>,
    /// Whether anything may lie under the transaction's scratch keys.
    used: bool,
}

impl Spool {
    /// Without anything yet.
    pub fn new(transaction: u64) -> Spool {
        Spool { transaction, length: 0, pending: None, used: false }
    }

    /// The place of the spool, or of the new state of an object.
    pub fn place(&self, object: u64) -> Place {
        Place::new(SPACE, scratch_key(self.transaction, object))
    }

    /// Every key of this transaction.
    pub fn range(&self) -> KeyRange {
        let end = match self.transaction.checked_add(1) {
            Some(next) => scratch_key(next, 0),
            None => scratch_key(self.transaction, u64::MAX),
        };
        KeyRange::new(scratch_key(self.transaction, 0), end)
    }

    /// Whether anything may lie under the transaction's scratch keys.
    pub fn is_used(&self) -> bool {
        self.used
    }

    /// Something is about to be put under the scratch keys.
    pub fn mark_used(&mut self) {
        self.used = true;
    }

    /// Waits until what was spooled can be read.
    pub fn settle(&self) -> Result<()> {
        self.pending.as_ref().map_or(Ok(()), |pending| pending.wait())
    }

    /// Reads bytes of the spool.
    pub fn read(&self, view: &View, at: u64, buffer: &mut [u8]) -> Result<()> {
        let count = view.read(SPACE, &scratch_key(self.transaction, 0), at, buffer)?;
        if count < buffer.len() {
            return Err(Error::damaged("what a transaction had queued on the device is shorter than it was"));
        }
        Ok(())
    }

    /// Adds runs of bytes; gives where each of them begins.
    fn add(&mut self, inner: &Inner, runs: &[&[u8]]) -> Result<Vec<u64>> {
        let total: usize = runs.iter().map(|run| run.len()).sum();
        let long = total / runs.len().max(1) >= SEQUENTIAL_LEN;
        let access = if long { Access::Sequential } else { Access::Random };
        let mut stage = inner.engine.stage(StageHint { length: None, access, ..StageHint::default() })?;
        let mut starts = Vec::with_capacity(runs.len());
        for run in runs {
            // Whole blocks share none with their neighbours, so that overwriting one later frees it.
            let misplaced = stage.length() % BLOCK_LEN as u64;
            if misplaced > 0 && run.len() >= BLOCK_LEN {
                stage.write(&[0; BLOCK_LEN][misplaced as usize..])?;
            }
            starts.push(self.length + stage.length());
            write_all(&mut stage, run)?;
        }
        let token = stage.finish()?;
        let length = token.length();
        let append = Operation::Append { at: self.place(0), data: Payload::Stage(token) };
        self.used = true;
        self.pending = Some(inner.gather.submit(Batch::new().then(append), Durability::Memory)?);
        self.length += length;
        Ok(starts)
    }

    /// Removes what is there.
    pub fn clear(&mut self, inner: &Inner) {
        if std::mem::take(&mut self.used) {
            let clear = Operation::DeleteRange { space: SPACE, range: self.range() };
            // Where this fails the store has stopped; opening it clears.
            drop(inner.engine.submit(Batch::new().then(clear), Durability::Memory));
        }
    }

    /// The commit that executed the transaction has removed everything.
    pub fn forget(&mut self) {
        self.used = false;
    }
}

fn write_all(stage: &mut Stage, bytes: &[u8]) -> Result<()> {
    bytes.chunks(STAGE_PIECE_LEN_MAX).try_for_each(|piece| stage.write(piece))
}

impl Transaction<'_> {
    /// Moves everything that is queued in memory to the device. After an error it is still in memory.
    pub(super) fn spool_memory(&mut self) -> Result<()> {
        let mut taken = Vec::new();
        for (number, queue) in &mut self.objects {
            taken.extend(queue.writes.take_memory().into_iter().map(|(offset, run)| (*number, offset, run)));
        }
        (self.memory_len, self.ranges) = (0, 0);
        let runs: Vec<&[u8]> = taken.iter().map(|(_, _, run)| run.as_slice()).collect();
        let starts = if runs.is_empty() { Ok(Vec::new()) } else { self.spool.add(&self.inner, &runs) };
        for (at, (number, offset, run)) in taken.iter().enumerate() {
            self.edit(*number, |writes| match &starts {
                Ok(starts) => writes.spooled(*offset, starts[at], run.len() as u64),
                Err(_) => writes.write(*offset, run),
            });
        }
        starts.map(drop)
    }

    /// Puts one long write on the device.
    pub(super) fn spool_run(&mut self, number: u64, offset: u64, data: &[u8]) -> Result<()> {
        let starts = self.spool.add(&self.inner, &[data])?;
        if let Some(start) = starts.first() {
            self.edit(number, |writes| writes.spooled(offset, *start, data.len() as u64));
        }
        Ok(())
    }
}
