//! The bytes of one value as frames: all of them, or what differs from the base.
//!
//! Invariants:
//! - A part is at most some MiB of memory, and what follows it is told by a position in the value alone.
//! - What is told of a change is read from the new value: telling a part twice does no harm.

use bytes::Bytes;

use crate::content::{Pieces, Reading, as_piece, piece_key, piece_range, split_piece_key};
use crate::core::Core;
use crate::device::ReadMode;
use crate::error::{Error, Result};
use crate::stream::compared::{self, Compared};
use crate::stream::frame::{DATA_LEN_MAX, Frame};
use crate::stream::source::Trees;
use crate::tree::value::{BlobId, Content, Piece, Record, Value};
use crate::tree::{Differences, diff};

/// Where telling a value goes on.
#[derive(Clone, Debug)]
pub enum Rest {
    /// The bytes from here on.
    Whole { record: Record, at: u64 },
    /// What differs in the pieces from here on.
    Changed { values: Box<Compared>, blob: BlobId },
    /// The same where parts of frozen blobs are among them.
    Compared(Box<Compared>),
}

/// Frames, and what is left.
pub struct Part {
    pub frames: Vec<Frame>,
    pub rest: Option<Rest>,
    /// Nodes that were looked into for differences.
    pub nodes: u64,
}

/// Begins with a key that was put or changed.
pub fn begin(core: &Core, trees: &Trees, key: Bytes, old: Option<&Record>, new: &Record) -> Result<Part> {
    let size = new.size;
    let rest = match (old.map(|old| &old.content), &new.content) {
        (Some(Content::Pieces(before)), Content::Pieces(blob)) if before == blob => {
            old.map(|old| Rest::Changed { values: Compared::begin(old, new), blob: *blob })
        }
        (Some(Content::Single(Piece::Frozen(_))), Content::Single(Piece::Frozen(_)) | Content::Pieces(_)) => {
            old.map(|old| Rest::Compared(Compared::begin(old, new)))
        }
        _ => None,
    };
    if rest.is_some() {
        return Ok(Part { frames: vec![Frame::Change { key, size }], rest, nodes: 0 });
    }
    match next_data(core, trees, new, 0)? {
        Some((0, data)) => {
            let at = data.len() as u64;
            let rest = (at < size).then(|| Rest::Whole { record: new.clone(), at });
            Ok(Part { frames: vec![Frame::Put { key, size, data }], rest, nodes: 0 })
        }
        found => {
            let rest = found.map(|(at, _)| Rest::Whole { record: new.clone(), at });
            Ok(Part { frames: vec![Frame::Put { key, size, data: Bytes::new() }], rest, nodes: 0 })
        }
    }
}

/// Goes on with a value.
pub fn go_on(core: &Core, trees: &Trees, rest: &Rest) -> Result<Part> {
    match rest {
        Rest::Whole { record, at } => {
            let Some((offset, data)) = next_data(core, trees, record, *at)? else {
                return Ok(Part { frames: Vec::new(), rest: None, nodes: 0 });
            };
            let at = offset + data.len() as u64;
            let rest = (at < record.size).then(|| Rest::Whole { record: record.clone(), at });
            Ok(Part { frames: vec![Frame::Data { offset, data }], rest, nodes: 0 })
        }
        Rest::Changed { values, blob } => changed(core, trees, values, *blob),
        Rest::Compared(compared) => compared::go_on(core, trees, compared),
    }
}

/// The next bytes that are there, at or after a place in a value, and where they lie.
fn next_data(core: &Core, trees: &Trees, record: &Record, at: u64) -> Result<Option<(u64, Bytes)>> {
    let (start, end) = match &record.content {
        Content::Empty => return Ok(None),
        Content::Single(piece) => (at, piece.len().min(record.size)),
        Content::Pieces(blob) => {
            let mut pieces = Pieces::new(&trees.new, &core.nodes, *blob, at, record.size)?;
            let Some((offset, piece)) = pieces.next(&core.nodes)? else { return Ok(None) };
            let (start, mut end) = (offset.max(at), offset.saturating_add(piece.len()));
            while end < start + DATA_LEN_MAX as u64 {
                match pieces.next(&core.nodes)? {
                    Some((offset, piece)) if offset == end => end = end.saturating_add(piece.len()),
                    _ => break,
                }
            }
            (start, end.min(record.size))
        }
    };
    if start >= end {
        return Ok(None);
    }
    let bytes = read(core, trees, record, start, (end - start).min(DATA_LEN_MAX as u64))?;
    Ok(Some((start, bytes)))
}

pub(super) fn read(core: &Core, trees: &Trees, record: &Record, offset: u64, length: u64) -> Result<Bytes> {
    let mut buffer = vec![0; length as usize];
    let reading = Reading::new(&core.nodes, core.device.as_ref(), ReadMode::Cached).within(trees.view.state());
    reading.read(&trees.new, record, offset, &mut buffer)?;
    Ok(Bytes::from(buffer))
}

/// Collects ranges of a value in which the pieces differ.
struct Ranges {
    ranges: Vec<(u64, u64)>,
    length: u64,
    size: u64,
    last: u64,
    /// A part of a frozen blob was met here.
    frozen: bool,
}

impl Differences for Ranges {
    fn same(&self, old: &Value, new: &Value) -> bool {
        let (Value::Piece(old), Value::Piece(new)) = (old, new) else { return false };
        is_same_piece(old.clone(), new.clone())
    }

    fn differs(&mut self, key: &Bytes, old: Option<&Value>, new: Option<&Value>) -> Result<bool> {
        let (_, offset) = split_piece_key(key)?;
        let mut end = offset;
        if [old, new].into_iter().flatten().any(|value| matches!(value.piece(), Some(Piece::Frozen(_)))) {
            (self.last, self.frozen) = (offset, true);
            return Ok(false);
        }
        for value in [old, new].into_iter().flatten() {
            end = end.max(offset.saturating_add(as_piece(value.clone())?.len()));
        }
        let end = end.min(self.size);
        if offset < end {
            self.length += end - offset;
            match self.ranges.last_mut() {
                Some((_, before)) if *before >= offset => *before = end.max(*before),
                _ => self.ranges.push((offset, end)),
            }
        }
        self.last = offset;
        Ok(self.length < DATA_LEN_MAX as u64)
    }
}

/// Whether two values of one version are seen to be the same without a look at their pieces.
pub fn is_same(old: &Record, new: &Record) -> bool {
    old.size == new.size
        && match (&old.content, &new.content) {
            (Content::Empty, Content::Empty) => true,
            (Content::Single(old), Content::Single(new)) => is_same_piece(old.clone(), new.clone()),
            _ => false,
        }
}

pub(super) fn is_same_piece(mut old: Piece, mut new: Piece) -> bool {
    old.settle();
    new.settle();
    match (&old, &new) {
        (Piece::Inline(a), Piece::Inline(b)) => a == b,
        (Piece::Pending(a), Piece::Pending(b)) => a.bytes == b.bytes,
        (Piece::Disk(a), Piece::Disk(b)) => {
            (a.start_block, a.skip, a.length, &a.checksums) == (b.start_block, b.skip, b.length, &b.checksums)
        }
        (Piece::Frozen(a), Piece::Frozen(b)) => (a.blob, a.first, a.length) == (b.blob, b.first, b.length),
        _ => false,
    }
}

fn changed(core: &Core, trees: &Trees, values: &Compared, blob: BlobId) -> Result<Part> {
    let Compared { new: record, at, .. } = values;
    let at = *at;
    let mut found = Ranges { ranges: Vec::new(), length: 0, size: record.size, last: at, frozen: false };
    let (from, end) = (piece_key(blob, at), piece_range(blob).end.unwrap_or_default());
    let compared = diff(&trees.old, &trees.new, &core.nodes, (&from, Some(&end)), &mut found)?;
    let mut frames = Vec::new();
    for (from, to) in &found.ranges {
        tell_range(core, trees, record, blob, (*from, *to), &mut frames)?;
    }
    if found.frozen {
        let rest = Rest::Compared(Box::new(Compared { at: found.last, ..values.clone() }));
        return Ok(Part { frames, rest: Some(rest), nodes: compared.nodes });
    }
    let next = found.last.checked_add(1).ok_or_else(|| Error::damaged("a piece lies past the end of numbers"))?;
    let values = (!compared.finished).then(|| Box::new(Compared { at: next, ..values.clone() }));
    let rest = values.map(|values| Rest::Changed { values, blob });
    Ok(Part { frames, rest, nodes: compared.nodes })
}

/// Tells what the new value has in a range: bytes, and zeros where it has none.
fn tell_range(
    core: &Core,
    trees: &Trees,
    record: &Record,
    blob: BlobId,
    (from, to): (u64, u64),
    frames: &mut Vec<Frame>,
) -> Result<()> {
    let mut pieces = Pieces::new(&trees.new, &core.nodes, blob, from, to)?;
    let mut at = from;
    while let Some((start, piece)) = pieces.next(&core.nodes)? {
        let (mut start, end) = (start.max(at), start.saturating_add(piece.len()).min(to));
        if start >= end {
            continue;
        }
        if at < start {
            frames.push(Frame::Hole { offset: at, length: start - at });
        }
        while start < end {
            let data = read(core, trees, record, start, (end - start).min(DATA_LEN_MAX as u64))?;
            let offset = start;
            start += data.len() as u64;
            frames.push(Frame::Data { offset, data });
        }
        at = end;
    }
    if at < to {
        frames.push(Frame::Hole { offset: at, length: to - at });
    }
    Ok(())
}
