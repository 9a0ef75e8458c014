//! Reads over many pieces: what is wanted of the device is known before any of it is waited for.
//!
//! Invariants:
//! - Every part is verified before it is handed out, and its own read tells what is wrong with it.
//! - Where one part has to be waited for, all the others are asked for first, in the order of the device, those that lie
//!   close together as one: it fetches them at the same time. Only then is any of them waited for.
//! - While nothing has to be waited for, each part is asked for once, and nothing else is done.

use std::ops::Range;

use super::{Notes, Reading, STREAM_LEN_MIN, first_damaged, step_len};
use crate::device::{BLOCK_LEN, ReadMode};
use crate::error::{Error, ErrorKind, Result};
use crate::extent::Extent;
use crate::tree::value::Piece;

/// So many bytes of a read are asked for before any of them is waited for.
const PARTS_LEN_MAX: u64 = 4 << 20;
/// What lies no further apart than this on the device is fetched with what is between.
const GAP_MAX: u64 = 16 << 10;

/// A part of a read.
pub(super) enum Part {
    /// Extents that are wanted whole.
    Row(Row),
    /// This range of the value, out of a piece that begins at `start` of it.
    Piece { piece: Piece, start: u64, range: Range<u64> },
}

/// Parts of a read, in the order of the value.
#[derive(Default)]
pub(super) struct Parts {
    parts: Vec<Part>,
    length: u64,
}

/// Extents that are wanted whole and lie one behind the other, in their value and on the device.
pub(super) struct Row {
    /// Where the first begins in the value.
    start: u64,
    /// The length of all in bytes.
    length: u64,
    extents: Vec<Extent>,
}

impl Row {
    /// Whether an extent at `from` of the value follows the last one.
    fn goes_on(&self, from: u64, extent: &Extent) -> bool {
        self.extents.last().is_some_and(|last| {
            let last_len = u64::from(last.run_length);
            let end_block = last.start_block + last_len / BLOCK_LEN as u64;
            from == self.start + self.length && last_len % BLOCK_LEN as u64 == 0 && extent.start_block == end_block
        })
    }
}

impl Parts {
    /// Adds `range` of the value out of a piece that begins at `start` of it; gives the piece back where there are
    /// enough parts already.
    pub fn add(&mut self, piece: Piece, start: u64, range: Range<u64>) -> Option<Piece> {
        let length = range.end - range.start;
        let whole = matches!(&piece, Piece::Disk(extent) if length == u64::from(extent.run_length));
        if let (Some(Part::Row(row)), Piece::Disk(extent)) = (self.parts.last_mut(), &piece)
            && whole
            && row.goes_on(range.start, extent)
        {
            row.length += length;
            row.extents.push(extent.clone());
        } else if self.length >= PARTS_LEN_MAX {
            return Some(piece);
        } else {
            self.parts.push(match piece {
                Piece::Disk(extent) if whole => Part::Row(Row { start: range.start, length, extents: vec![extent] }),
                piece => Part::Piece { piece, start, range },
            });
        }
        self.length += length;
        None
    }
}

impl Part {
    /// What has to be read for it on the device, in whole chunks; nothing for what is in memory.
    fn on_device(&self) -> Range<u64> {
        match self {
            Part::Row(row) => {
                let at = row.extents.first().map_or(0, |extent| extent.start_block * BLOCK_LEN as u64);
                at..at + row.length
            }
            Part::Piece { piece: Piece::Disk(extent), start, range } => {
                let (at, chunk) = (extent.start_block * BLOCK_LEN as u64, 1u64 << extent.chunk_log2);
                let within = |place: u64| u64::from(extent.skip) + (place - start);
                let first = within(range.start) / chunk * chunk;
                let last = within(range.end).next_multiple_of(chunk).min(u64::from(extent.run_length));
                at + first..at + last.max(first)
            }
            Part::Piece { .. } => 0..0,
        }
    }
}

/// Whether two ranges, one behind the other, are fetched sooner with what is between them. Long ones are none: they are
/// streams, which go past the page cache.
fn lie_close(one: &Range<u64>, other: &Range<u64>) -> bool {
    let is_short = |range: &Range<u64>| range.end > 0 && range.end - range.start < STREAM_LEN_MIN as u64;
    is_short(one) && is_short(other) && other.start <= one.end + GAP_MAX
}

impl Reading<'_> {
    /// Fills what belongs to these parts in `buffer`, which begins at `offset` of the value.
    pub(super) fn read_parts(&self, parts: &Parts, offset: u64, buffer: &mut [u8], notes: &Notes) -> Result<()> {
        let parts = &parts.parts[..];
        if self.mode != ReadMode::Cached || parts.len() < 2 {
            return parts.iter().try_for_each(|part| self.read_part_of(part, offset, buffer, notes));
        }
        let now = Reading { mode: ReadMode::Now, ..*self };
        let mut is_there = |part: &Part| match now.read_part_of(part, offset, buffer, notes) {
            Err(error) if error.kind() == ErrorKind::Busy => Ok(false),
            read => read.map(|()| true),
        };
        let mut rest = parts.iter();
        let mut waiting = Vec::new();
        for part in rest.by_ref() {
            if !is_there(part)? {
                waiting.push(part);
                break;
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        notes.cold.set(true);
        let mut rest: Vec<(Range<u64>, &Part)> = rest.map(|part| (part.on_device(), part)).collect();
        rest.sort_unstable_by_key(|(range, _)| range.start);
        for cluster in rest.chunk_by(|(one, _), (other, _)| lie_close(one, other)) {
            match cluster {
                [(_, part)] if is_there(part)? => {}
                [(_, part)] => waiting.push(part),
                _ => {
                    let start = cluster.iter().map(|(range, _)| range.start).min().unwrap_or_default();
                    let end = cluster.iter().map(|(range, _)| range.end).max().unwrap_or_default();
                    self.device.prefetch(start, end - start);
                    waiting.extend(cluster.iter().map(|(_, part)| *part));
                }
            }
        }
        waiting.into_iter().try_for_each(|part| self.read_part_of(part, offset, buffer, notes))
    }

    fn read_part_of(&self, part: &Part, offset: u64, buffer: &mut [u8], notes: &Notes) -> Result<()> {
        match part {
            Part::Row(row) => {
                let begin = (row.start - offset) as usize;
                self.read_row(row, &mut buffer[begin..begin + row.length as usize], notes)
            }
            Part::Piece { piece, start, range } => {
                let part = &mut buffer[(range.start - offset) as usize..(range.end - offset) as usize];
                self.read_part(piece, *start, range.start - start, part, notes)
            }
        }
    }

    /// Reads whole extents that lie one behind the other, some at once; whether all of them are sound.
    fn read_whole(&self, mut extents: &[Extent], mut buffer: &mut [u8], mode: ReadMode) -> Result<bool> {
        while let [first, ..] = extents {
            let mut length = 0;
            let fits = |extent: &&Extent| {
                let is_first = length == 0;
                length += extent.run_length as usize;
                is_first || length <= step_len(mode)
            };
            let count = extents.iter().take_while(fits).count();
            let (some, others) = extents.split_at(count);
            let length = some.iter().map(|extent| extent.run_length as usize).sum();
            let (part, behind) = buffer.split_at_mut(length);
            let at = first.start_block * BLOCK_LEN as u64;
            self.device.read_at(part, at, mode).map_err(|e| Error::read_failed(at, e))?;
            let mut rest = &part[..];
            for extent in some {
                let (own, behind) = rest.split_at(extent.run_length as usize);
                if first_damaged(extent, 0, own).is_some() {
                    return Ok(false);
                }
                rest = behind;
            }
            (extents, buffer) = (others, behind);
        }
        Ok(true)
    }

    /// Reads extents that lie one behind the other at once.
    fn read_row(&self, row: &Row, buffer: &mut [u8], notes: &Notes) -> Result<()> {
        // The cache of data has runs, and takes them in, each by itself.
        let takes_runs = |extent: &Extent| self.data.is_some() && extent.run_length as usize >= STREAM_LEN_MIN;
        if let [first, _, ..] = &row.extents[..]
            && !row.extents.iter().any(takes_runs)
        {
            let mode = self.mode_for(first.start_block * BLOCK_LEN as u64, buffer.len(), notes)?;
            if self.read_whole(&row.extents, buffer, mode)? {
                return Ok(());
            }
        }
        // One, or each by itself: that looks past the page cache too, and says what is damaged.
        let (mut rest, mut start) = (buffer, row.start);
        for extent in &row.extents {
            let (own, behind) = rest.split_at_mut(extent.run_length as usize);
            self.read_extent(extent, start, 0, own, notes)?;
            (rest, start) = (behind, start + u64::from(extent.run_length));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
