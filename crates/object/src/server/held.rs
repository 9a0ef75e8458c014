//! What a connection has open: readers, writers and pinned versions, by the numbers that its client chose.
//!
//! Invariants:
//! - There are at most so many of each.
//! - A writer that failed says why to every later piece and to its end, since pieces may be on their way already.

use std::collections::HashMap;
use std::sync::Arc;

use koine_kv::{Bytes, Version};

use super::load::{Load, Share};
use super::transactions::Transactions;
use super::{Request, tell_when_done};
use crate::calls::field::whole;
use crate::calls::verbs::FinishObject;
use crate::calls::{FIRST_LEN, PIECE_LEN_MAX, PINS_MAX, Writing};
use crate::checksum::Expected;
use crate::error::{Error, ErrorKind, Result};
use crate::info::ObjectInfo;
use crate::objects::{BodyWriter, EditWriter, ObjectReader, ObjectWriter, Objects, PartWriter, Pinned, StagedBody};

/// The most readers of a connection.
pub(super) const READERS_MAX: usize = 256;
/// The most writers of a connection, and the most bodies that wait for their transaction.
pub(super) const WRITERS_MAX: usize = 256;

/// What a connection has open.
pub(super) struct Held {
    readers: HashMap<u64, ObjectReader>,
    writers: HashMap<u64, Result<Writer>>,
    bodies: HashMap<u64, StagedBody>,
    pins: HashMap<u64, Pinned>,
    pub transactions: Transactions,
    load: Arc<Load>,
}

/// A body on its way in.
struct Writer {
    work: Work,
    length: u64,
    share: Share,
}

enum Work {
    Put(Box<ObjectWriter>),
    Edit(Box<EditWriter>),
    Part(Box<PartWriter>),
    Body(Box<BodyWriter>),
}

fn full(what: &str, most: usize) -> Error {
    Error::new(ErrorKind::Busy, format!("{most} {what} are open on this connection: close some and try again"))
}

fn unknown(what: &str, number: u64) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("there is no {what} {number} on this connection"))
}

fn taken(what: &str, number: u64) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{what} {number} is open already"))
}

impl Held {
    /// Nothing.
    pub fn new(load: Load) -> Held {
        Held {
            readers: HashMap::new(),
            writers: HashMap::new(),
            bodies: HashMap::new(),
            pins: HashMap::new(),
            transactions: Transactions::default(),
            load: Arc::new(load),
        }
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        let bodies = self.writers.is_empty() && self.bodies.is_empty();
        bodies && self.readers.is_empty() && self.pins.is_empty() && self.transactions.is_empty()
    }

    /// Closes all.
    pub fn clear(&mut self) {
        self.readers.clear();
        self.writers.clear();
        self.bodies.clear();
        self.pins.clear();
        self.transactions.clear();
    }

    /// A body that waits for its transaction.
    pub fn body(&self, number: u64) -> Result<StagedBody> {
        self.bodies.get(&number).cloned().ok_or_else(|| unknown("body", number))
    }

    /// Pins the newest version of the store.
    pub fn pin(&mut self, objects: &Objects, number: u64) -> Result<Version> {
        if self.pins.contains_key(&number) {
            return Err(taken("pinned version", number));
        }
        if self.pins.len() >= PINS_MAX {
            return Err(full("pinned versions", PINS_MAX));
        }
        let pinned = objects.pin()?;
        let version = pinned.version();
        self.pins.insert(number, pinned);
        Ok(version)
    }

    /// The calls at a pinned version.
    pub fn at_pin(&self, number: u64) -> Result<Objects> {
        let pinned = self.pins.get(&number).ok_or_else(|| unknown("pinned version", number))?;
        Ok(pinned.objects().clone())
    }

    /// Pins one no more; one that is not there is gone already.
    pub fn unpin(&mut self, number: u64) {
        self.pins.remove(&number);
    }

    /// Has `open` open an object, and reads its first bytes; where those are all, it is closed again.
    pub fn open_reader(
        &mut self,
        number: u64,
        first: u32,
        open: impl FnOnce() -> Result<ObjectReader>,
    ) -> Result<(Opened, Bytes)> {
        if self.readers.contains_key(&number) {
            return Err(taken("reader", number));
        }
        let reader = open()?;
        let info = reader.info().clone();
        let bytes = reader.bytes(0, (first as usize).min(FIRST_LEN))?;
        let stays = bytes.len() as u64 != info.size || info.part_count.is_some();
        if stays {
            if self.readers.len() >= READERS_MAX {
                return Err(full("objects", READERS_MAX));
            }
            self.readers.insert(number, reader);
        }
        Ok(((info, stays), bytes))
    }

    /// One that is open.
    pub fn reader(&self, number: u64) -> Result<&ObjectReader> {
        self.readers.get(&number).ok_or_else(|| unknown("reader", number))
    }

    /// Reads from one.
    pub fn read(&self, number: u64, offset: u64, length: u32) -> Result<Bytes> {
        if length as usize > PIECE_LEN_MAX {
            let message = format!("{length} bytes at once; at most {PIECE_LEN_MAX} are given: read on");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        self.reader(number)?.bytes(offset, length as usize)
    }

    /// Closes one; one that is not open is closed already.
    pub fn close_reader(&mut self, number: u64) {
        self.readers.remove(&number);
    }

    /// Begins a body.
    pub fn open_writer(&mut self, objects: &Objects, number: u64, writing: Writing) -> Result<()> {
        if self.writers.contains_key(&number) || self.bodies.contains_key(&number) {
            return Err(taken("writer", number));
        }
        if self.writers.len() + self.bodies.len() >= WRITERS_MAX {
            return Err(full("writers", WRITERS_MAX));
        }
        let work = match writing {
            Writing::Put(name, options) => Work::Put(Box::new(objects.put(&name.bucket, &name.key, *options)?)),
            Writing::At(name, offset, options) => {
                Work::Edit(Box::new(objects.write_at(name.as_name(), offset, *options)?))
            }
            Writing::End(name, options) => Work::Edit(Box::new(objects.append(name.as_name(), *options)?)),
            Writing::Part(name, upload, part, options) => {
                Work::Part(Box::new(objects.put_part(name.as_name(), upload, part, *options)?))
            }
            Writing::Body(options) => Work::Body(Box::new(objects.stage(options)?)),
        };
        self.writers.insert(number, Ok(Writer { work, length: 0, share: Share::new(&self.load) }));
        Ok(())
    }

    /// Adds a piece. After an error what came before it is gone, and the error stays.
    pub fn write_piece(&mut self, number: u64, piece: &[u8]) -> Result<()> {
        let writer = self.writers.get_mut(&number).ok_or_else(|| unknown("writer", number))?;
        let written = match writer {
            Ok(writer) => writer.write(piece),
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = &written {
            *writer = Err(error.clone());
        }
        written
    }

    /// Adds the last piece, and tells what comes of all.
    pub fn finish_writer(&mut self, request: Request) {
        let asked = whole::<(u64, Expected)>(&request.message);
        let finished = asked.and_then(|(number, trailers)| {
            self.write_piece(number, &request.data)?;
            let writer = self.writers.remove(&number).unwrap_or_else(|| Err(unknown("writer", number)))?;
            Ok((number, writer, trailers))
        });
        let (number, writer, trailers) = match finished {
            Ok(finished) => finished,
            Err(error) => {
                // It has ended, in whatever way.
                if let Ok((number, _)) = whole::<<FinishObject as super::Call>::Asked>(&request.message) {
                    self.writers.remove(&number);
                }
                return request.refuse(&error);
            }
        };
        // What a body held is in a commit from now on, and bounded by how many requests are in flight.
        match writer.work {
            Work::Put(writer) => tell_when_done::<ObjectInfo>(writer.finish(&trailers), request.answer),
            Work::Edit(writer) => tell_when_done::<ObjectInfo>(writer.finish(&trailers), request.answer),
            Work::Part(writer) => tell_when_done(writer.finish(&trailers), request.answer),
            Work::Body(body) => match body.finish(&trailers) {
                Ok(body) => {
                    let length = body.size();
                    self.bodies.insert(number, body);
                    tell_when_done(crate::pending::Pending::ready(Ok(length)), request.answer);
                }
                Err(error) => request.refuse(&error),
            },
        }
    }

    /// Drops a writer, or a body that waits; one that is not there is dropped already.
    pub fn drop_writer(&mut self, number: u64) {
        self.writers.remove(&number);
        self.bodies.remove(&number);
    }
}

/// What is known of an object that was opened, and whether it is open still.
type Opened = (ObjectInfo, bool);

impl Writer {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        if piece.is_empty() {
            return Ok(());
        }
        self.length = self.length.saturating_add(piece.len() as u64);
        self.share.grow(self.length)?;
        match &mut self.work {
            Work::Put(writer) => writer.write(piece),
            Work::Edit(writer) => writer.write(piece),
            Work::Part(writer) => writer.write(piece),
            Work::Body(writer) => writer.write(piece),
        }
    }
}
