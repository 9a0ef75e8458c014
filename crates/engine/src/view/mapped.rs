//! Bytes of a value without a copy: the pages that the kernel has of the device.
//!
//! Invariants:
//! - Every chunk was verified when the mapping was made, in the pages that are handed out: they are kept in memory, so that
//!   nothing is read again that nobody verifies, and a medium that fails later does not end the process.
//! - What a mapping holds is pinned: its view is not taken back, however old it is, so its blocks are not written.
//! - What cannot be mapped (bytes that wait for a checkpoint or lie in the index, pieces that do not join in whole
//!   blocks, a device without pages, more than the process may keep in memory) is a verified copy.

use std::ops::Deref;

use bytes::Bytes;

use super::{View, absent};
use crate::batch::SpaceId;
use crate::checksum::crc32c;
use crate::content::{Blobs, Flat};
use crate::device::{BLOCK_LEN, Mapping};
use crate::error::Result;
use crate::extent::Extent;
use crate::tree::Tree;
use crate::tree::value::{Content, Piece, Record};

/// Verified bytes of a value, pinned until they are dropped.
pub struct Mapped {
    bytes: Held,
    _view: View,
}

enum Held {
    Map { mapping: Mapping, from: usize, length: usize },
    Copy(Bytes),
}

impl Mapped {
    /// Whether these are the pages of the device themselves, not a copy.
    pub fn is_mapping(&self) -> bool {
        matches!(self.bytes, Held::Map { .. })
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Held::Map { mapping, from, length } => mapping.as_ref().get(*from..*from + *length).unwrap_or_default(),
            Held::Copy(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Chunks of a run, from one byte of the run to another.
struct Part {
    extent: Extent,
    from: u64,
    to: u64,
}

impl Part {
    /// Where it lies on the device, in whole blocks.
    fn place(&self) -> (u64, usize) {
        let length = (self.to - self.from).next_multiple_of(BLOCK_LEN as u64);
        (self.extent.start_block * BLOCK_LEN as u64 + self.from, length as usize)
    }

    fn is_sound(&self, bytes: &[u8]) -> bool {
        let first = (self.from >> self.extent.chunk_log2) as usize;
        let held = bytes.get(..(self.to - self.from) as usize).unwrap_or_default();
        let mut chunks = held.chunks(1 << self.extent.chunk_log2).enumerate();
        chunks.all(|(index, chunk)| self.extent.checksums.get(first + index) == Some(&crc32c(chunk)))
    }
}

impl View {
    /// Bytes of a range without a copy where the device allows it, verified now; shorter only at the value's end.
    ///
    /// They are pinned: freed blocks are held back until they are dropped. So are their pages: what verification saw stays in
    /// memory, as far as the process may keep so much there (`ulimit -l`); what goes beyond that is a copy.
    pub fn map(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Mapped> {
        let view = self.kept()?;
        let core = view.core();
        let found = view.find(&core.nodes, space, key);
        let Some((tree, record)) = view.checked(found)? else { return Err(absent()) };
        let count = record.size.saturating_sub(offset).min(length as u64);
        if count > 0
            && let Some((parts, from)) = view.parts(&tree, &record, offset, offset + count)?
            && let Some(mapping) = view.map_parts(&parts)
        {
            let bytes = Held::Map { mapping, from, length: count as usize };
            return Ok(Mapped { bytes, _view: view });
        }
        let bytes = Held::Copy(view.bytes(space, key, offset, count as usize)?);
        Ok(Mapped { bytes, _view: view })
    }

    /// The mapping, if it can be made and is what it should be; if not, the read by copy tells why.
    fn map_parts(&self, parts: &[Part]) -> Option<Mapping> {
        let places: Vec<_> = parts.iter().map(Part::place).collect();
        let mapping = self.core().device.map(&places).ok().flatten()?;
        let mut rest = mapping.as_ref();
        for (part, (_, length)) in parts.iter().zip(&places) {
            let (bytes, after) = rest.split_at_checked(*length)?;
            if !part.is_sound(bytes) {
                return None;
            }
            rest = after;
        }
        Some(mapping)
    }

    /// The parts of the device that hold a range and join in whole blocks, and where the range begins in them.
    fn parts(&self, tree: &Tree, record: &Record, offset: u64, end: u64) -> Result<Option<(Vec<Part>, usize)>> {
        let mut parts: Vec<Part> = Vec::new();
        let (mut at, mut skip) = (offset, 0);
        let mut add = |start: u64, piece: Piece| {
            let Piece::Disk(extent) = piece else { return false };
            let Some((part, lead)) = part_of(extent, start, at, end).filter(|(_, lead)| at == offset || *lead == 0)
            else {
                return false;
            };
            if at == offset {
                skip = lead as usize;
            }
            at = start + u64::from(part.extent.length);
            let joins = at >= end || (part.to - part.from).is_multiple_of(BLOCK_LEN as u64);
            parts.push(part);
            joins
        };
        let whole = match &record.content {
            Content::Single(_) | Content::Pieces(_) => {
                let source = &self.core().nodes;
                let mut pieces = Flat::new(tree, source, Blobs::Of(self.state()), &record.content, offset, end)?;
                let mut joins = true;
                while joins && let Some((start, piece)) = pieces.next(source)? {
                    joins = add(start, piece);
                }
                joins
            }
            Content::Empty => false,
        };
        Ok((whole && at >= end).then_some((parts, skip)))
    }
}

/// The whole chunks of a piece at `start` that hold the value from `at` to `end`, and the bytes before `at` in them;
/// `None` where the chunks would reach into what is not the value's, or where there is a hole.
fn part_of(extent: Extent, start: u64, at: u64, end: u64) -> Option<(Part, u64)> {
    let chunk = 1u64 << extent.chunk_log2;
    let (skip, run) = (u64::from(extent.skip), u64::from(extent.run_length));
    let wanted = skip + at.checked_sub(start)?;
    let from = wanted - wanted % chunk;
    let piece_end = start + u64::from(extent.length);
    let to = (skip + end.min(piece_end) - start).next_multiple_of(chunk).min(run);
    // The next piece begins where this one ends.
    let ends_right = end <= piece_end || to == skip + u64::from(extent.length);
    (ends_right && wanted < skip + u64::from(extent.length)).then_some((Part { extent, from, to }, wanted - from))
}

#[cfg(test)]
mod tests;
