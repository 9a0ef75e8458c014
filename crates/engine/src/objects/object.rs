//! A handle on an object: read, write, resize, status, delete, close.
//!
//! Invariants:
//! - A handle counts as one use of the store from its making until it is closed, its object deleted through it,
//!   or it is dropped; then every call is an error.
//! - Calls of any number of threads on one handle, or on several of one object, are taken in some order, each whole.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::hint::Hint;
use super::inner::Inner;
use super::layout::{SPACE, object_key, object_place};
use super::node::{Node, absent};
use super::placing::staged;
use super::status::ObjectStatus;
use super::status_cell::KnownStatus;
use super::transaction::{Transaction, TransactionOptions};
use crate::batch::{Batch, Condition, Durability, Operation, Payload, VALUE_LEN_MAX};
use crate::content::Notes;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::read_ahead::{ReadAhead, Reader, Source};
use crate::stage::{Access, StageHint};
use crate::view::{Mapped, View};

/// So often a read looks again when what it reads has changed meanwhile.
const ATTEMPTS: usize = 4;

/// An open object. Thread-safe; share it by reference or `Arc`. Dropping it closes it.
pub struct Object {
    inner: Arc<Inner>,
    node: Arc<Node>,
    hint: Hint,
    /// Made by the first read.
    ahead: OnceLock<Arc<ReadAhead>>,
    closed: AtomicBool,
}

impl Object {
    /// A handle that has entered the store and the table already.
    pub(super) fn new(inner: Arc<Inner>, node: Arc<Node>, hint: Hint) -> Object {
        Object { inner, node, hint, ahead: OnceLock::new(), closed: AtomicBool::new(false) }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.node.number()
    }

    /// What was said about its use when it was opened.
    pub fn hint(&self) -> Hint {
        self.hint
    }

    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Begins a transaction, which may take in other objects of the store too.
    pub fn transaction<'b>(&self) -> Result<Transaction<'b>> {
        self.check_open()?;
        Transaction::begin(&self.inner, TransactionOptions::default())
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::invalid(format!("object {} was closed: open it again by its number", self.number())));
        }
        Ok(())
    }

    /// Reads into `buffer` from `offset` on; a short count only at the object's end. Holes read as zeros.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.check_open()?;
        let behind = self.node.behind();
        for _ in 0..ATTEMPTS {
            // Asked before the epoch: what leaves it raises that.
            let holds = behind.holds();
            if holds {
                self.node.check()?;
                if behind.read_whole(offset, buffer) {
                    return Ok(buffer.len());
                }
            }
            let epoch = self.node.settle_submitted()?;
            let count = self.reader(&self.state(epoch)).read(offset, buffer)?;
            if !holds {
                return Ok(count);
            }
            if let Some(count) = behind.read_over(offset, buffer, count, self.node.epoch(), epoch) {
                return Ok(count);
            }
        }
        // Others change it all the time.
        let epoch = self.node.settle()?;
        self.reader(&self.state(epoch)).read(offset, buffer)
    }

    /// Bytes of a range as all changes so far leave them.
    pub(super) fn map_settled(&self, offset: u64, length: usize) -> Result<Mapped> {
        self.node.settle()?;
        let mapped = self.inner.engine.view().map(SPACE, &object_key(self.number()), offset, length);
        mapped.map_err(|error| not_there(self.number(), error))
    }

    /// The object as it is at an epoch.
    fn state(&self, epoch: u64) -> ObjectState {
        ObjectState { inner: Arc::clone(&self.inner), node: Arc::clone(&self.node), epoch }
    }

    fn reader<'a>(&'a self, source: &'a ObjectState) -> Reader<'a, ObjectState> {
        let eager = self.hint.access == Some(Access::Sequential);
        Reader {
            supply: self.inner.engine.shared().read_supply(),
            ahead: self.ahead.get_or_init(Arc::default),
            source,
            epoch: source.epoch,
            eager,
        }
    }

    /// Says that a range will be read soon: reads it now, on this thread. The first megabytes are kept for the next
    /// reads of this handle, as far as memory for reading ahead is free; the rest comes into the page cache.
    pub fn will_need(&self, offset: u64, length: u64) -> Result<()> {
        self.check_open()?;
        let source = self.state(self.node.settle()?);
        let end = offset.saturating_add(length);
        let mut at = self.reader(&source).prepare(offset, end)?;
        let mut scratch = vec![0; end.saturating_sub(at).min(CACHED_LEN) as usize];
        while at < end {
            let part = (end - at).min(scratch.len() as u64) as usize;
            if source.read(at, &mut scratch[..part], &Notes::default())? < part {
                break;
            }
            at += part as u64;
        }
        Ok(())
    }

    /// Writes `data` at `offset`; the object grows as needed, and a gap reads as zeros. All of it or nothing.
    pub fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()> {
        self.write_with(offset, data, durability, self.hint)
    }

    /// As [`Object::write`], with what is known about this write alone.
    pub fn write_with(&self, offset: u64, data: &[u8], durability: Durability, hint: Hint) -> Result<()> {
        self.check_open()?;
        check_range(offset, data.len() as u64)?;
        if data.is_empty() {
            return self.finish_changes(durability);
        }
        if durability == Durability::Memory && self.inner.gather.takes(data.len()) {
            return self.keep(offset, data, hint);
        }
        let reserved = self.reserved() > 0;
        // Who says nothing may read small pieces anywhere: a chunk is what each of them has to read and verify.
        let access = hint.access.unwrap_or(Access::Random);
        let hint = StageHint { length: Some(data.len() as u64), access, reserved, lifetime: hint.lifetime };
        let data = payload(&self.inner.engine, data, hint, durability)?;
        self.change(Operation::WriteAt { at: object_place(self.number()), offset, data }, durability)
    }

    /// Keeps a write in memory, to be submitted with others.
    fn keep(&self, offset: u64, data: &[u8], hint: Hint) -> Result<()> {
        let gather = &self.inner.gather;
        gather.check()?;
        let next = {
            let mut state = self.node.lock()?;
            self.node.forget_status();
            gather.write(&self.node, &mut state, offset, data, hint)
        };
        gather.after(next);
        Ok(())
    }

    /// Sets the size: what is cut off is gone, what is added reads as zeros.
    pub fn resize(&self, size: u64, durability: Durability) -> Result<()> {
        self.check_open()?;
        check_range(0, size)?;
        self.change(Operation::Truncate { at: object_place(self.number()), length: size }, durability)
    }

    /// Conditions keep a write from making an object anew that somebody removed past this module.
    fn change(&self, operation: Operation, durability: Durability) -> Result<()> {
        let there = Condition::Present { space: SPACE, key: object_key(self.number()) };
        self.node.change(&self.inner.gather, Batch::new().when(there).then(operation), durability, false)
    }

    /// The size in bytes.
    pub fn size(&self) -> Result<u64> {
        self.check_open()?;
        let behind = self.node.behind();
        for _ in 0..ATTEMPTS {
            let holds = behind.holds();
            let epoch = self.node.settle_submitted()?;
            let below = self.state(epoch).size()?;
            if !holds {
                return Ok(below);
            }
            if let Some(size) = behind.size_over(below, self.node.epoch(), epoch) {
                return Ok(size);
            }
        }
        let epoch = self.node.settle()?;
        self.state(epoch).size()
    }

    /// Number, size, allocated size, version and store. The first call after a change looks at every extent for the
    /// allocated size; the next ones are answered from memory, also when it was defragmented meanwhile.
    pub fn status(&self) -> Result<ObjectStatus> {
        self.check_open()?;
        let known = match self.node.known_status() {
            Some(known) => known,
            None => self.look_at_status()?,
        };
        Ok(ObjectStatus {
            number: self.number(),
            size: known.size,
            allocated: known.allocated,
            reserved: self.reserved(),
            version: known.version,
            store: Arc::clone(&self.inner.name),
        })
    }

    /// Bytes that are set aside for it.
    fn reserved(&self) -> u64 {
        let engine = &self.inner.engine;
        if engine.shared().reservations.are_any() { engine.reserved(&object_place(self.number())) } else { 0 }
    }

    fn look_at_status(&self) -> Result<KnownStatus> {
        let epoch = self.node.settle()?;
        let found = self.inner.engine.footprint(SPACE, &self.number().to_be_bytes())?;
        let (stat, allocated) = found.ok_or_else(|| absent(self.number()))?;
        let known = KnownStatus { size: stat.size, allocated, version: stat.version };
        self.node.note_status(epoch, known);
        Ok(known)
    }

    /// Makes every change so far survive power loss.
    pub fn sync(&self) -> Result<()> {
        self.check_open()?;
        self.finish_changes(Durability::Sync)
    }

    /// Waits until the changes so far are as durable as asked for. `Memory` only tells of failures known already.
    fn finish_changes(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Memory => {
                self.node.check()?;
                self.inner.engine.shared().check_running()
            }
            Durability::Written => {
                self.node.settle()?;
                self.inner.gather.commit(Batch::new(), durability)
            }
            Durability::Sync => {
                self.inner.gather.flush();
                self.node.check()?;
                self.inner.engine.sync()
            }
        }
    }

    /// Deletes the object and closes this handle. Other handles of it get `NotFound` from then on.
    pub fn delete(&self, durability: Durability) -> Result<()> {
        self.check_open()?;
        let done = self.inner.delete(&self.node, durability);
        if done.is_ok() {
            self.leave();
        }
        done
    }

    /// Closes the handle, with the changes so far as durable as asked for. It is closed also after an error.
    /// After the object was deleted through another handle this is no error.
    pub fn close(&self, durability: Durability) -> Result<()> {
        self.check_open()?;
        let done = match self.finish_changes(durability) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        };
        if self.leave() { done } else { self.check_open() }
    }

    /// Ends the handle; false when another thread was faster.
    fn leave(&self) -> bool {
        let first = !self.closed.swap(true, Ordering::AcqRel);
        if first {
            self.inner.table.leave(self.number());
        }
        first
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.leave();
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Object({} of {})", self.number(), self.inner.name)
    }
}

/// An object in one state: from one change of it to the next.
#[derive(Clone)]
struct ObjectState {
    inner: Arc<Inner>,
    node: Arc<Node>,
    epoch: u64,
}

impl Source for ObjectState {
    fn read(&self, offset: u64, buffer: &mut [u8], notes: &Notes) -> Result<usize> {
        let number = self.node.number();
        let read = self.inner.engine.view().read_noting(SPACE, &object_key(number), offset, buffer, notes);
        read.map_err(|error| not_there(number, error))
    }

    fn size(&self) -> Result<u64> {
        let stat = self.inner.engine.stat(SPACE, &self.node.number().to_be_bytes())?;
        stat.map(|stat| stat.size).ok_or_else(|| absent(self.node.number()))
    }

    fn still_holds(&self) -> bool {
        self.node.is_at(self.epoch)
    }
}

/// Reads of at most this length go through the page cache.
const CACHED_LEN: u64 = 64 << 10;

fn not_there(number: u64, error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => absent(number),
        _ => error,
    }
}

/// Refuses what would end beyond the longest object.
pub(super) fn check_range(offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= VALUE_LEN_MAX => Ok(()),
        _ => {
            let message = format!("{length} bytes at {offset} end beyond the longest object, {VALUE_LEN_MAX} bytes");
            Err(Error::invalid(message))
        }
    }
}

/// Reads what a view sees of an object.
pub(super) fn read_visible(view: &View, number: u64, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    view.read(SPACE, &object_key(number), offset, buffer).map_err(|error| not_there(number, error))
}

/// Bytes for a batch: as they are when the log takes them; else placed, to be written with a batch that is synced at
/// once where they are few enough, or written now.
fn payload(engine: &Engine, data: &[u8], hint: StageHint, durability: Durability) -> Result<Payload> {
    if data.len() <= engine.limits().pending_len_max {
        return Ok(Payload::Bytes(Bytes::copy_from_slice(data)));
    }
    if durability == Durability::Sync
        && let Some(token) = engine.place(data, hint)?
    {
        return Ok(Payload::Stage(token));
    }
    staged(engine, hint, std::iter::once(data))
}
