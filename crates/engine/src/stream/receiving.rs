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
        let arrived = self.arrive(input, &mut |_| Ok(Some(options)), progress)?;
        let landings = arrived.landings();
        arrived.land(&landings, Batch::default())
    }

    /// Reads a stream to its end and verifies it, without making its spaces yet: [`Arrived::land`] does. `accept` is told the
    /// note of the stream before anything else of it is read, and may refuse it. With options, ids that are taken are
    /// refused at once too.
    pub fn arrive(
        &self,
        input: &mut dyn Read,
        accept: &mut Accept<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Arrived> {
        Receiving::read(self.shared(), input, accept, progress).map(Arrived)
    }
}

/// Told the note of a stream, where it has one; gives the options by which it is received, where ids alone say that.
pub type Accept<'a> = dyn FnMut(Option<&Bytes>) -> Result<Option<ReceiveOptions>> + 'a;

/// Where a space of a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Its id in the stream.
    pub from: SpaceId,
    /// The id that it gets.
    pub to: SpaceId,
    /// It becomes a snapshot, which later streams can be received against; else it may be changed.
    pub is_snapshot: bool,
}

/// A stream that was read and verified. Dropped, it leaves nothing behind.
pub struct Arrived(Receiving);

impl Arrived {
    /// Every space, where the options say that it goes.
    pub fn landings(&self) -> Vec<Landing> {
        let writable = self.0.options.is_some_and(|options| options.writable);
        let landing = |arrival: &Arrival| {
            let (from, to) = (arrival.origin.space, arrival.target);
            Landing { from, to, is_snapshot: arrival.is_snapshot && !writable }
        };
        self.0.arrivals.iter().map(landing).collect()
    }

    /// Makes spaces of it, in one commit with `others`. One of the stream may become several spaces, or none.
    pub fn land(mut self, landings: &[Landing], others: Batch) -> Result<Received> {
        self.0.finish(landings, others)
    }
}

/// A space that comes in.
struct Arrival {
    passing: SpaceId,
    /// What it becomes, where that is known from the beginning.
    target: SpaceId,
    is_snapshot: bool,
    origin: Origin,
}

/// Dropped before its end, it takes away what came in.
struct Receiving {
    core: Arc<Core>,
    /// Where nothing says so, what becomes of the spaces is said at the end.
    options: Option<ReceiveOptions>,
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

impl Drop for Receiving {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Receiving {
    /// Reads a stream to its end.
    fn read(
        core: &Arc<Core>,
        input: &mut dyn Read,
        accept: &mut Accept<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Receiving> {
        core.check_takes_writes()?;
        let frames = FrameReader::begin(input)?;
        let mut receiving = Receiving {
            core: Arc::clone(core),
            options: None,
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
        receiving.all(frames, accept, progress)?;
        Ok(receiving)
    }

    fn all(
        &mut self,
        mut frames: FrameReader<'_>,
        accept: &mut Accept<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let (mut open, mut keys) = (false, 0);
        let mut next = frames.next()?;
        match &next {
            Frame::Note { bytes } => {
                self.options = accept(Some(bytes))?;
                next = frames.next()?;
            }
            _ => self.options = accept(None)?,
        }
        loop {
            progress(frames.position());
            match next {
                Frame::Space { space, created, is_snapshot, base, within } if !open => {
                    let origin = Origin { store: self.store, space, created };
                    let base = base.map(|(space, created)| Origin { store: self.store, space, created });
                    self.begin(&frames, origin, is_snapshot, (base, within))?;
                    (open, keys) = (true, 0);
                }
                Frame::SpaceEnd { keys: told } if open && told == keys => {
                    open = false;
                    self.value = None;
                    self.received.keys += keys;
                }
                Frame::End { spaces } if !open && spaces == self.arrivals.len() as u64 => return self.settle(),
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
            next = frames.next()?;
        }
    }

    fn begin(
        &mut self,
        frames: &FrameReader<'_>,
        origin: Origin,
        is_snapshot: bool,
        (base, within): (Option<Origin>, bool),
    ) -> Result<()> {
        let target = self.options.and_then(|options| options.space).unwrap_or(origin.space);
        let view = View::new(&self.core);
        if self.arrivals.iter().any(|arrival| arrival.target == target) {
            return Err(Error::invalid("the stream has several spaces, which cannot have one id: leave it out"));
        }
        if self.options.is_some() {
            check_free(&view, target)?;
        }
        let passing = self.core.passing_space();
        let operation = match base {
            None => Operation::CreateSpace { space: passing },
            Some(base) if within => {
                let told = self.arrivals.iter().find(|arrival| arrival.origin == base);
                let told =
                    told.ok_or_else(|| frames.damaged("a space is told against one that was not told before"))?;
                Operation::CloneSpace { from: told.passing, to: passing }
            }
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

    /// The stream's end was verified: waits until all of it is in.
    fn settle(&mut self) -> Result<()> {
        self.flush()?;
        while !self.tickets.is_empty() {
            self.wait_for_one()?;
        }
        Ok(())
    }

    /// Makes spaces of what came in, in one commit with other operations.
    fn finish(&mut self, landings: &[Landing], others: Batch) -> Result<Received> {
        let Batch { conditions, operations, request } = others;
        let mut batch = Batch { conditions, operations: Vec::new(), request };
        let view = View::new(&self.core);
        if landings.iter().any(|landing| landing.is_snapshot) && !view.has_space(RECEIVED)? {
            batch.operations.push(Operation::CreateSpace { space: RECEIVED });
        }
        for Landing { from, to, is_snapshot } in landings {
            check_free(&view, *to)?;
            let arrival = self.arrivals.iter().find(|arrival| arrival.origin.space == *from);
            let arrival = arrival.ok_or_else(|| Error::invalid(format!("the stream has no space {}", from.0)))?;
            let (from, to) = (arrival.passing, *to);
            if *is_snapshot {
                let at = Place::new(RECEIVED, to.0.to_be_bytes().to_vec());
                let value = Payload::Bytes(write_origin(&arrival.origin));
                batch.operations.extend([Operation::SnapshotSpace { from, to }, Operation::Put { at, value }]);
            } else {
                batch.operations.push(Operation::CloneSpace { from, to });
            }
            self.received.spaces.push(to);
        }
        let passing = self.arrivals.iter().map(|arrival| arrival.passing).chain(self.holes);
        batch.operations.extend(passing.map(|space| Operation::DropSpace { space }));
        batch.operations.extend(operations);
        self.core.submit(batch, Durability::Sync).wait()?;
        (self.arrivals, self.holes) = (Vec::new(), None);
        self.received.spaces.sort();
        Ok(std::mem::take(&mut self.received))
    }

    /// Drops what came in. Where that fails the next opening does it.
    fn give_up(&mut self) {
        while let Some(ticket) = self.tickets.pop_front() {
            let _ = ticket.wait();
        }
        if self.arrivals.is_empty() && self.holes.is_none() {
            return;
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

/// Fails unless a space may be received under the id.
fn check_free(view: &View, space: SpaceId) -> Result<()> {
    if space < SpaceId::FIRST || is_passing(space) {
        return Err(Error::invalid(format!("{} is no id of a space that may be received", space.0)));
    }
    if view.has_space(space)? {
        let message = format!("space {} is there already: drop it, or receive under another id", space.0);
        return Err(Error::invalid(message));
    }
    Ok(())
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
