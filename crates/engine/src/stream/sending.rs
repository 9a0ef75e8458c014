//! From spaces to a stream, a part at a time.
//!
//! Invariants:
//! - Keys are told in order, so that the position is a key (and a place in one value); every part takes the trees anew.
//! - Against a base only what differs is read: subtrees that both reach are not looked into.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::batch::{SpaceId, Version};
use crate::content::{as_record, record_key, record_range, user_key};
use crate::core::Core;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::frame::{DATA_LEN_MAX, Frame, FrameWriter};
use crate::stream::source::{Source, Sources, Trees};
use crate::stream::value::{self, Rest};
use crate::tree::value::{Record, Value};
use crate::tree::{Differences, diff};

/// Keys that are looked for at once.
const KEYS_AT_ONCE: usize = 256;
/// A call gives about so many bytes.
const PART_LEN: usize = 1 << 20;
/// A view that was taken back is taken again so often.
const TRIES: usize = 8;

/// A stream being made. Dropped before its end it leaves nothing behind.
pub struct Sending {
    core: Arc<Core>,
    sources: Sources,
    frames: FrameWriter,
    header: Option<Vec<u8>>,
    note: Option<Bytes>,
    /// The source that is told.
    at: usize,
    place: Place,
    nodes: u64,
}

/// How far a source has been told.
enum Place {
    Begin,
    /// Keys from here on are to be compared, after those that wait.
    Keys {
        from: Option<Bytes>,
        found: VecDeque<Found>,
        rest: Option<Rest>,
        told: u64,
    },
    End,
}

/// A key that differs.
struct Found {
    key: Bytes,
    old: Option<Record>,
    new: Option<Record>,
}

impl Engine {
    /// Begins a stream of one space. With `base`, a snapshot that the space comes from, only what differs from it.
    pub fn send(&self, space: SpaceId, base: Option<SpaceId>) -> Result<Sending> {
        let mut sources = Sources::of(self.shared(), &[space])?;
        if let Some(base) = base {
            sources.compare_with(base)?;
        }
        Sending::new(self.shared(), sources, None)
    }

    /// The same of several spaces as they are in one version, or of one against a base, with a note of up to 1 MiB that
    /// says what they are to who receives them.
    pub fn send_noted(&self, spaces: &[SpaceId], base: Option<SpaceId>, note: Bytes) -> Result<Sending> {
        if note.len() > DATA_LEN_MAX {
            return Err(Error::invalid(format!("a note of {} bytes; {DATA_LEN_MAX} are allowed", note.len())));
        }
        let mut sources = Sources::of(self.shared(), spaces)?;
        if let Some(base) = base {
            sources.compare_with(base)?;
        }
        Sending::new(self.shared(), sources, Some(note))
    }

    /// Begins a stream of several spaces, all as they are in one version; without any, of every space that users made.
    pub fn export(&self, spaces: &[SpaceId]) -> Result<Sending> {
        Sending::new(self.shared(), Sources::of(self.shared(), spaces)?, None)
    }
}

impl Sending {
    fn new(core: &Arc<Core>, sources: Sources, note: Option<Bytes>) -> Result<Sending> {
        let mut header = Vec::new();
        let frames = FrameWriter::begin(core.store.0, &mut header);
        let core = Arc::clone(core);
        Ok(Sending { core, sources, frames, header: Some(header), note, at: 0, place: Place::Begin, nodes: 0 })
    }

    /// Index nodes that were looked into to find what differs.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Appends the next part, about 1 MiB; false when the stream is complete.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let before = out.len();
        if let Some(header) = self.header.take() {
            out.extend_from_slice(&header);
        }
        if let Some(bytes) = self.note.take() {
            self.frames.write(&Frame::Note { bytes }, out);
        }
        while out.len() - before < PART_LEN {
            if !self.step(out)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the whole stream; gives its length. `progress` is told the bytes so far.
    pub fn write_to(&mut self, out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> Result<u64> {
        let (mut part, mut length) = (Vec::with_capacity(2 * PART_LEN), 0);
        loop {
            part.clear();
            let more = self.next(&mut part)?;
            out.write_all(&part).map_err(|e| Error::device("cannot write the stream", e))?;
            length += part.len() as u64;
            progress(length);
            if !more {
                out.flush().map_err(|e| Error::device("cannot write the stream", e))?;
                return Ok(length);
            }
        }
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let place = std::mem::replace(&mut self.place, Place::End);
        let source = self.sources.all.get(self.at).copied();
        match (place, source) {
            (Place::Begin, None) => {
                let spaces = self.sources.all.len() as u64;
                self.frames.write(&Frame::End { spaces }, out);
                Ok(false)
            }
            (Place::End, _) | (_, None) => Ok(false),
            (Place::Begin, Some(source)) => {
                let Source { space, created, is_snapshot, base, .. } = source;
                let within = base.is_some_and(|base| base.within);
                let base = base.map(|base| (base.space, base.created));
                self.frames.write(&Frame::Space { space, created, is_snapshot, base, within }, out);
                self.place = Place::Keys { from: Some(record_key(&[])), found: VecDeque::new(), rest: None, told: 0 };
                Ok(true)
            }
            (Place::Keys { from, found, rest, told }, Some(source)) => {
                self.place = self.tell(&source, (from, found, rest, told), out)?;
                Ok(true)
            }
        }
    }

    fn tell(
        &mut self,
        source: &Source,
        (mut from, mut found, rest, mut told): (Option<Bytes>, VecDeque<Found>, Option<Rest>, u64),
        out: &mut Vec<u8>,
    ) -> Result<Place> {
        if let Some(rest) = rest {
            let part = self.with_trees(source, |core, trees| value::go_on(core, trees, &rest))?;
            self.nodes += part.nodes;
            part.frames.iter().for_each(|frame| self.frames.write(frame, out));
            return Ok(Place::Keys { from, found, rest: part.rest, told });
        }
        if let Some(Found { key, old, new }) = found.pop_front() {
            told += 1;
            let Some(new) = new else {
                self.frames.write(&Frame::Delete { key }, out);
                return Ok(Place::Keys { from, found, rest: None, told });
            };
            let part =
                self.with_trees(source, |core, trees| value::begin(core, trees, key.clone(), old.as_ref(), &new))?;
            part.frames.iter().for_each(|frame| self.frames.write(frame, out));
            return Ok(Place::Keys { from, found, rest: part.rest, told });
        }
        let Some(start) = from.take() else {
            self.frames.write(&Frame::SpaceEnd { keys: told }, out);
            self.at += 1;
            return Ok(Place::Begin);
        };
        let (keys, nodes, next) = self.with_trees(source, |core, trees| look(core, trees, source, &start))?;
        self.nodes += nodes;
        Ok(Place::Keys { from: next, found: keys.into(), rest: None, told })
    }

    /// Reads through a view; again through another where that was taken back meanwhile.
    fn with_trees<T>(&self, source: &Source, read: impl Fn(&Core, &Trees) -> Result<T>) -> Result<T> {
        for _ in 0..TRIES {
            let trees = self.sources.trees(source)?;
            let done = read(&self.core, &trees);
            if trees.view.still_holds() {
                return done;
            }
        }
        let message = "the store takes views back faster than a part can be read: it has too little free space";
        Err(Error::new(ErrorKind::Expired, message))
    }
}

/// The next keys that differ, nodes looked into, and where to go on.
fn look(core: &Core, trees: &Trees, source: &Source, from: &Bytes) -> Result<(Vec<Found>, u64, Option<Bytes>)> {
    let before = source.base.map_or(Version(0), |base| base.before);
    let mut keys = Keys { found: Vec::new(), length: 0, before };
    let end = record_range(&crate::batch::KeyRange::all()).end;
    let compared = diff(&trees.old, &trees.new, &core.nodes, (from, end.as_deref()), &mut keys)?;
    let last = keys.found.last().map(|found| {
        let mut after = BytesMut::from(record_key(&found.key).as_ref());
        after.extend_from_slice(&[0]);
        after.freeze()
    });
    let next = if compared.finished { None } else { last };
    Ok((keys.found, compared.nodes, next))
}

struct Keys {
    found: Vec<Found>,
    length: usize,
    /// What both have of an older version is the same.
    before: Version,
}

impl Differences for Keys {
    fn same(&self, old: &Value, new: &Value) -> bool {
        let (Value::Record(old), Value::Record(new)) = (old, new) else { return false };
        // One commit may have given the key another value in each: that of the snapshot, or one for two branches.
        old.version == new.version && (new.version < self.before || value::is_same(old, new))
    }

    fn differs(&mut self, key: &Bytes, old: Option<&Value>, new: Option<&Value>) -> Result<bool> {
        let record = |value: Option<&Value>| value.cloned().map(as_record).transpose();
        let (old, new) = (record(old)?, record(new)?);
        self.length += key.len() + new.as_ref().map_or(0, |new| Value::Record(new.clone()).encoded_len());
        self.found.push(Found { key: user_key(key), old, new });
        Ok(self.found.len() < KEYS_AT_ONCE && self.length < DATA_LEN_MAX)
    }
}
