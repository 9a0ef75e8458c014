//! From a stream to spaces: all of it in one commit at the end, or nothing.
//!
//! Invariants:
//! - What comes in is written to passing spaces, which nobody knows; one commit makes the wanted spaces of them, after
//!   the stream's end was verified. After an error, a crash or a cut stream they are dropped: receive it again from its begin.
//! - A snapshot that was received is known by its origin, so that a later stream against it finds it here.
//! - At most a few batches are under way at once.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;

use crate::batch::{Batch, Durability, KeyRange, Operation, Payload, Place, SpaceId, VALUE_LEN_MAX, Version};
use crate::codec::{Reader, Writer};
use crate::core::Core;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::log::record::inline_len;
use crate::stream::frame::{Frame, FrameReader, Origin, check_inside};
use crate::stream::passing::is_passing;
use crate::ticket::Ticket;
use crate::view::View;

/// Where snapshots come from that were received: space (8 bytes, big-endian) to store, space and commit (8 bytes each).
const RECEIVED: SpaceId = SpaceId(8);
/// Batches that may be under way.
const BATCHES_MAX: usize = 4;
/// Operations of a batch.
const OPERATIONS_MAX: usize = 1000;
/// Bytes of a batch.
const BATCH_LEN_MAX: usize = 4 << 20;

/// How a stream is received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// The id of the one space in the stream; `None`: as it was where it comes from.
    pub space: Option<SpaceId>,
    /// Snapshots become spaces that may be changed. Nothing can be received against them.
    pub writable: bool,
}

/// What was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The spaces that are there now.
    pub spaces: Vec<SpaceId>,
    /// Keys put, changed and deleted.
    pub keys: u64,
    /// Bytes of values that came in.
    pub bytes: u64,
}

impl Engine {
    /// Makes spaces of a stream. They are there all at once in the end, or nothing is; `progress` is told the bytes so far.
    pub fn receive(
        &self,
        input: &mut dyn Read,
        options: ReceiveOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Received> {
        let core = self.shared();
        core.check_takes_writes()?;
        let frames = FrameReader::begin(input)?;
        let mut receiving = Receiving {
            core: Arc::clone(core),
            options,
            store: frames.store,
            tickets: VecDeque::new(),
            batch: Batch::new(),
            batch_len: 0,
            most: core.limits.batch_bytes_max.min(BATCH_LEN_MAX) / 2,
            arrivals: Vec::new(),
            value: None,
            holes: None,
            received: Received::default(),
        };
        let done = receiving.all(frames, progress);
        if done.is_err() {
            receiving.give_up();
        }
        done.map(|()| receiving.received)
    }
}

/// A space that comes in.
struct Arrival {
    passing: SpaceId,
    target: SpaceId,
    is_snapshot: bool,
    origin: Origin,
}

struct Receiving {
    core: Arc<Core>,
    options: ReceiveOptions,
    store: u64,
    tickets: VecDeque<Ticket>,
    batch: Batch,
    batch_len: usize,
    most: usize,
    arrivals: Vec<Arrival>,
    /// The value that was named last, and its size.
    value: Option<(Place, u64)>,
    /// A space with one value that has no bytes, from which holes are cloned.
    holes: Option<SpaceId>,
    received: Received,
}

impl Receiving {
    fn all(&mut self, mut frames: FrameReader<'_>, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let (mut open, mut keys) = (false, 0);
        loop {
            let frame = frames.next()?;
            progress(frames.position());
            match frame {
                Frame::Space { space, created, is_snapshot, base } if !open => {
                    let origin = Origin { store: self.store, space, created };
                    let base = base.map(|(space, created)| Origin { store: self.store, space, created });
                    self.begin(origin, is_snapshot, base)?;
                    (open, keys) = (true, 0);
                }
                Frame::SpaceEnd { keys: told } if open && told == keys => {
                    open = false;
                    self.value = None;
                    self.received.keys += keys;
                }
                Frame::End { spaces } if !open && spaces == self.arrivals.len() as u64 => return self.finish(),
                Frame::Put { key, size, data } if open => {
                    keys += 1;
                    self.put(key, size, data)?;
                }
                Frame::Change { key, size } if open => {
                    keys += 1;
                    let at = self.place(key)?;
                    self.value = Some((at.clone(), size));
                    self.add(Operation::Truncate { at, length: size })?;
                }
                Frame::Data { offset, data } => {
                    let at = self.inside(&frames, offset, data.len() as u64)?;
                    self.received.bytes += data.len() as u64;
                    self.add(Operation::WriteAt { at, offset, data: Payload::Bytes(data) })?;
                }
                Frame::Hole { offset, length } => {
                    let to = self.inside(&frames, offset, length)?;
                    self.hole(to, offset, length)?;
                }
                Frame::Delete { key } if open => {
                    keys += 1;
                    self.value = None;
                    let at = self.place(key)?;
                    self.add(Operation::Delete { at })?;
                }
                _ => return Err(frames.damaged("a frame stands where it cannot")),
            }
        }
    }

    fn begin(&mut self, origin: Origin, is_snapshot: bool, base: Option<Origin>) -> Result<()> {
        let target = self.options.space.unwrap_or(origin.space);
        if target < SpaceId::FIRST || is_passing(target) {
            return Err(Error::invalid(format!("{} is no id of a space that may be received", target.0)));
        }
        if self.arrivals.iter().any(|arrival| arrival.target == target) {
            return Err(Error::invalid("the stream has several spaces, which cannot have one id: leave it out"));
        }
        let view = View::new(&self.core);
        if view.has_space(target)? {
            let message = format!("space {} is there already: drop it, or receive under another id", target.0);
            return Err(Error::invalid(message));
        }
        let passing = self.core.passing_space();
        let operation = match base {
            None => Operation::CreateSpace { space: passing },
            Some(base) => Operation::CloneSpace { from: self.find_base(&view, base)?, to: passing },
        };
        drop(view);
        self.arrivals.push(Arrival { passing, target, is_snapshot, origin });
        self.add(operation)?;
        self.flush()
    }

    /// The snapshot here that is the same as one elsewhere.
    fn find_base(&self, view: &View, base: Origin) -> Result<SpaceId> {
        let snapshot_of = |space: SpaceId| {
            let root = view.state().space(&self.core.nodes, space)?;
            Result::Ok(root.filter(|root| root.is_read_only()).map(|root| root.created))
        };
        if base.store == self.core.store.0 && snapshot_of(base.space)? == Some(base.created) {
            return Ok(base.space);
        }
        let mut cursor = view.cursor(RECEIVED, KeyRange::all(), false)?;
        while let Some(entry) = cursor.next()? {
            let (space, origin) = read_origin(&entry.key, entry.value.as_deref().unwrap_or_default())?;
            // Another snapshot may have got the id since; its commit is another then.
            if origin == base && snapshot_of(space)? == Some(entry.stat.version) {
                return Ok(space);
            }
        }
        let message = format!(
            "the stream tells what changed since snapshot {} (commit {}) of store {:016x}, which is not here: receive that first",
            base.space.0, base.created.0, base.store
        );
        Err(Error::new(ErrorKind::NotFound, message))
    }

    fn place(&self, key: Bytes) -> Result<Place> {
        let arrival = self.arrivals.last().ok_or_else(|| Error::damaged("a key without a space"))?;
        Ok(Place { space: arrival.passing, key })
    }

    fn inside(&self, frames: &FrameReader<'_>, offset: u64, length: u64) -> Result<Place> {
        let Some((at, size)) = &self.value else { return Err(frames.damaged("bytes of no value")) };
        check_inside(*size, offset, length).map_err(|error| frames.damaged(error.message()))?;
        Ok(at.clone())
    }

    fn put(&mut self, key: Bytes, size: u64, data: Bytes) -> Result<()> {
        let at = self.place(key)?;
        self.value = Some((at.clone(), size));
        self.received.bytes += data.len() as u64;
        let is_whole = data.len() as u64 == size;
        self.add(Operation::Put { at: at.clone(), value: Payload::Bytes(data) })?;
        if is_whole { Ok(()) } else { self.add(Operation::Truncate { at, length: size }) }
    }

    /// Takes the bytes of a range away, by cloning from a value that has none.
    fn hole(&mut self, to: Place, to_offset: u64, length: u64) -> Result<()> {
        let space = match self.holes {
            Some(space) => space,
            None => {
                let space = self.core.passing_space();
                self.holes = Some(space);
                self.add(Operation::CreateSpace { space })?;
                self.add(Operation::Truncate { at: Place::new(space, Bytes::new()), length: VALUE_LEN_MAX })?;
                space
            }
        };
        let from = Place::new(space, Bytes::new());
        self.add(Operation::CloneRange { from, from_offset: 0, length, to, to_offset })
    }

    /// Adds an operation to the batch; one that is full goes on its way.
    fn add(&mut self, operation: Operation) -> Result<()> {
        let length = inline_len(&operation) + 64;
        if !self.batch.operations.is_empty()
            && (self.batch_len + length > self.most || self.batch.operations.len() >= OPERATIONS_MAX)
        {
            self.flush()?;
        }
        self.batch_len += length;
        self.batch.operations.push(operation);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.batch_len = 0;
        let batch = std::mem::take(&mut self.batch);
        if !batch.operations.is_empty() {
            self.tickets.push_back(self.core.submit(batch, Durability::Memory));
        }
        while self.tickets.len() > BATCHES_MAX {
            self.wait_for_one()?;
        }
        Ok(())
    }

    fn wait_for_one(&mut self) -> Result<()> {
        self.tickets.pop_front().map_or(Ok(()), |ticket| ticket.wait().map(drop))
    }

    /// The stream's end was verified: makes the spaces.
    fn finish(&mut self) -> Result<()> {
        self.flush()?;
        while !self.tickets.is_empty() {
            self.wait_for_one()?;
        }
        if self.arrivals.iter().any(|arrival| arrival.is_snapshot) && !View::new(&self.core).has_space(RECEIVED)? {
            self.add(Operation::CreateSpace { space: RECEIVED })?;
        }
        for arrival in &self.arrivals {
            let Arrival { passing, target, is_snapshot, origin } = arrival;
            let keep = *is_snapshot && !self.options.writable;
            let (from, to) = (*passing, *target);
            let made = if keep { Operation::SnapshotSpace { from, to } } else { Operation::CloneSpace { from, to } };
            self.batch.operations.extend([made, Operation::DropSpace { space: from }]);
            if keep {
                let at = Place::new(RECEIVED, target.0.to_be_bytes().to_vec());
                self.batch.operations.push(Operation::Put { at, value: Payload::Bytes(write_origin(origin)) });
            }
            self.received.spaces.push(*target);
        }
        self.batch.operations.extend(self.holes.map(|space| Operation::DropSpace { space }));
        let batch = std::mem::take(&mut self.batch);
        self.core.submit(batch, Durability::Sync).wait().map(drop)
    }

    /// Drops what came in. Where that fails the next opening does it.
    fn give_up(&mut self) {
        while let Some(ticket) = self.tickets.pop_front() {
            let _ = ticket.wait();
        }
        let view = View::new(&self.core);
        let spaces = self.arrivals.iter().map(|arrival| arrival.passing).chain(self.holes);
        let there = spaces.filter(|space| view.has_space(*space).unwrap_or(false));
        let drops: Vec<Operation> = there.map(|space| Operation::DropSpace { space }).collect();
        if !drops.is_empty() {
            let _ = self.core.submit(Batch { operations: drops, ..Batch::default() }, Durability::Written).wait();
        }
    }
}

fn write_origin(origin: &Origin) -> Bytes {
    let mut out = Vec::with_capacity(24);
    [origin.store, origin.space.0, origin.created.0].into_iter().for_each(|word| out.put_u64(word));
    Bytes::from(out)
}

fn read_origin(key: &[u8], value: &[u8]) -> Result<(SpaceId, Origin)> {
    let space = key.try_into().map_err(|_| Error::damaged("the table of received snapshots has a wrong key"))?;
    let mut reader = Reader::new(value);
    let (store, from, created) = (reader.u64()?, SpaceId(reader.u64()?), Version(reader.u64()?));
    reader.end()?;
    Ok((SpaceId(u64::from_be_bytes(space)), Origin { store, space: from, created }))
}
