//! What is known of one value: which bytes lie where, and which are lost.
//!
//! Invariants:
//! - Parts do not overlap; what no part covers is zeros.
//! - A part that is lost stays lost until something known is written over it: nothing turns it into zeros but a
//!   truncation that cut it off.

use std::collections::{BTreeMap, btree_map};

use bytes::Bytes;

use crate::content::{Reading, piece_bound, piece_range, split_piece_key};
use crate::error::Result;
use crate::extent::Extent;
use crate::range_map::{RangeMap, Span};
use crate::tree::value::{BlobId, Content, Piece, Record, Value};
use crate::tree::{Gap, NodeSource, ScanVisitor, Tree};

/// Where the bytes of a part are.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// In memory or on the device.
    Piece(Piece),
    /// They are lost.
    Lost,
}

/// A part of a value.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub length: u64,
    pub source: Source,
}

impl Part {
    fn lost(length: u64) -> Part {
        Part { length, source: Source::Lost }
    }

    fn of(piece: Piece) -> Part {
        Part { length: piece.len(), source: Source::Piece(piece) }
    }

    /// From `from` on, `length` bytes.
    fn slice(&self, from: u64, length: u64) -> Part {
        let source = match &self.source {
            Source::Lost => Source::Lost,
            Source::Piece(Piece::Disk(extent)) => Source::Piece(Piece::Disk(Extent {
                skip: extent.skip + from as u32,
                length: length as u32,
                ..extent.clone()
            })),
            Source::Piece(Piece::Frozen(frozen)) => {
                Source::Piece(Piece::Frozen(frozen.part(from, length, frozen.birth)))
            }
            Source::Piece(Piece::Inline(bytes)) => {
                Source::Piece(Piece::Inline(bytes.slice(from as usize..(from + length) as usize)))
            }
            // What is read from a device never waits for a checkpoint.
            Source::Piece(Piece::Pending(pending)) => {
                Source::Piece(Piece::Inline(pending.bytes.slice(from as usize..(from + length) as usize)))
            }
        };
        Part { length, source }
    }
}

impl Span for Part {
    fn span_len(&self) -> u64 {
        self.length
    }

    fn split_off(&mut self, at: u64) -> Part {
        let rest = self.slice(at, self.length - at);
        *self = self.slice(0, at);
        rest
    }
}

/// Parts with their places, in bytes.
pub(super) type Parts = RangeMap<Part>;

/// A value.
#[derive(Clone, Debug, Default)]
pub(super) struct RecoveredValue {
    pub size: u64,
    pub parts: Parts,
}

impl RecoveredValue {
    /// A value of these bytes.
    pub fn of_bytes(bytes: &Bytes) -> RecoveredValue {
        let mut parts = Parts::new();
        if !bytes.is_empty() {
            parts.insert(0, Part::of(Piece::Inline(bytes.clone())));
        }
        RecoveredValue { size: bytes.len() as u64, parts }
    }

    /// The value of a record in a tree, and the tree of frozen blobs; what they cannot tell of it is lost.
    pub fn of_record(record: &Record, tree: &Tree, frozen: &Tree, source: &dyn NodeSource) -> Result<RecoveredValue> {
        let mut recovered = RecoveredValue { size: record.size, parts: Parts::new() };
        match &record.content {
            Content::Empty => {}
            Content::Single(piece) => recovered.write(0, Part::of(piece.clone())),
            Content::Pieces(blob) => {
                recovered.parts = pieces_of(*blob, tree, source)?;
                recovered.carve(record.size, u64::MAX);
            }
        }
        thaw(&mut recovered.parts, frozen, source)?;
        Ok(recovered)
    }

    /// Makes room in `from..to`.
    fn carve(&mut self, from: u64, to: u64) {
        self.parts.carve(from, to, drop);
    }

    /// Puts a part over what is there; the size stays.
    fn write(&mut self, at: u64, part: Part) {
        if part.length > 0 {
            self.carve(at, at.saturating_add(part.length));
            self.parts.insert(at, part);
        }
    }

    /// Puts a piece over what is there and gives its length; the size stays.
    pub fn put_piece(&mut self, at: u64, piece: Piece) -> u64 {
        let length = piece.len();
        self.write(at, Part::of(piece));
        length
    }

    /// Writes a value's bytes at an offset, as the operation does.
    pub fn write_at(&mut self, at: u64, data: &RecoveredValue) {
        if data.size == 0 {
            return;
        }
        let end = at.saturating_add(data.size);
        self.carve(at, end);
        data.parts.iter().for_each(|(offset, part)| self.parts.insert(at + offset, part.clone()));
        self.size = self.size.max(end);
    }

    /// Sets the length.
    pub fn truncate(&mut self, length: u64) {
        self.carve(length, u64::MAX);
        self.size = length;
    }

    /// The bytes `from..to` as a value of their own.
    pub fn range(&self, from: u64, to: u64) -> RecoveredValue {
        let mut cut = RecoveredValue { size: to, parts: self.parts.clone() };
        cut.carve(0, from);
        cut.carve(to, u64::MAX);
        let mut parts = Parts::new();
        cut.parts.into_iter().for_each(|(at, part)| parts.insert(at - from, part));
        RecoveredValue { size: to - from, parts }
    }

    /// A value of which only the length is known.
    pub fn lost(size: u64) -> RecoveredValue {
        let mut recovered = RecoveredValue { size, parts: Parts::new() };
        recovered.write(0, Part::lost(size));
        recovered
    }

    /// The value as a number of 8 bytes; `None` when it cannot be read.
    pub fn number(&self, reading: &Reading<'_>) -> Option<i64> {
        let mut bytes = [0; 8];
        if self.size != 8 {
            return None;
        }
        for (at, part) in &self.parts {
            let Source::Piece(piece) = &part.source else { return None };
            let range = *at as usize..(*at + part.length) as usize;
            reading.read_piece(piece, 0, bytes.get_mut(range)?).ok()?;
        }
        Some(i64::from_le_bytes(bytes))
    }
}

/// The pieces of a blob in a space's tree, with the ranges that no readable leaf tells of as lost.
pub(super) fn pieces_of(blob: BlobId, tree: &Tree, source: &dyn NodeSource) -> Result<Parts> {
    let range = piece_range(blob);
    let mut found = Found { blob, parts: Parts::new(), unread: Vec::new() };
    tree.scan(source, &range.start, range.end.as_deref(), &mut found)?;
    let Found { mut parts, unread, .. } = found;
    for (from, to) in unread {
        fill_lost(&mut parts, from, to);
    }
    Ok(parts)
}

/// Puts the extents of frozen blobs in the place of parts of those; what the tree of blobs cannot tell is lost.
fn thaw(parts: &mut Parts, frozen: &Tree, source: &dyn NodeSource) -> Result<()> {
    let part_of = |part: &Part| match part.source {
        Source::Piece(Piece::Frozen(part)) => Some(part),
        _ => None,
    };
    let names: Vec<_> = parts.iter().filter_map(|(at, part)| Some((*at, part_of(part)?))).collect();
    let mut blobs = BTreeMap::new();
    for (at, name) in names {
        let whole = match blobs.entry(name.blob) {
            btree_map::Entry::Occupied(known) => known.into_mut(),
            btree_map::Entry::Vacant(new) => new.insert(pieces_of(name.blob, frozen, source)?),
        };
        let mut inside = Parts::new();
        for (start, extent) in whole.within(name.first, name.end()) {
            let (from, to) = (start.max(name.first), start.saturating_add(extent.length).min(name.end()));
            inside.insert(from - name.first, extent.slice(from - start, to - from));
        }
        // A blob has no holes: what no extent holds is lost.
        fill_lost(&mut inside, 0, name.length);
        parts.remove(at);
        inside.into_iter().for_each(|(offset, part)| parts.insert(at + offset, part));
    }
    Ok(())
}

/// Says of `from..to` that what no part covers is lost.
pub(super) fn fill_lost(parts: &mut Parts, from: u64, to: u64) {
    let known: Vec<(u64, u64)> = parts.within(from, to).map(|(at, part)| (at, part.length)).collect();
    let mut at = from;
    for (start, length) in known {
        if at < start {
            parts.insert(at, Part::lost(start - at));
        }
        at = at.max(start.saturating_add(length));
    }
    if at < to {
        parts.insert(at, Part::lost(to - at));
    }
}

/// Gathers the pieces of one blob.
struct Found {
    blob: BlobId,
    parts: Parts,
    unread: Vec<(u64, u64)>,
}

impl ScanVisitor for Found {
    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool> {
        let (_, offset) = split_piece_key(key)?;
        if let Value::Piece(piece) = value {
            self.parts.carve(offset, offset.saturating_add(piece.len()), drop);
            self.parts.insert(offset, Part::of(piece.clone()));
        }
        Ok(true)
    }

    fn gap(&mut self, gap: Gap) -> Result<bool> {
        let offset = |key: &[u8], other: u64| match piece_bound(key) {
            (blob, offset) if blob == self.blob => offset,
            _ => other,
        };
        let (from, to) = (offset(&gap.start, 0), gap.end.map_or(u64::MAX, |end| offset(&end, u64::MAX)));
        self.unread.push((from, to));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same value byte by byte: `None` is lost.
    fn plain(recovered: &RecoveredValue) -> Vec<Option<u8>> {
        let mut out = vec![Some(0); recovered.size as usize];
        for (at, part) in &recovered.parts {
            for offset in 0..part.length {
                out[(at + offset) as usize] = match &part.source {
                    Source::Piece(Piece::Inline(bytes)) => Some(bytes[offset as usize]),
                    _ => None,
                };
            }
        }
        out
    }

    fn data(bytes: &[u8], lost: bool) -> RecoveredValue {
        if lost {
            RecoveredValue::lost(bytes.len() as u64)
        } else {
            RecoveredValue::of_bytes(&Bytes::copy_from_slice(bytes))
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_vector_of_known_and_lost_bytes(
            steps in prop::collection::vec((0u8..4, 0u64..60, prop::collection::vec(1u8.., 0..30), any::<bool>()), 1..30),
        ) {
            let mut recovered = RecoveredValue::default();
            let mut model: Vec<Option<u8>> = Vec::new();
            for (kind, at, bytes, lost) in steps {
                let known: Vec<Option<u8>> = bytes.iter().map(|byte| (!lost).then_some(*byte)).collect();
                let from = at as usize;
                match kind {
                    0 => {
                        recovered.write_at(at, &data(&bytes, lost));
                        if !bytes.is_empty() {
                            model.resize(model.len().max(from + bytes.len()), Some(0));
                            model[from..from + bytes.len()].copy_from_slice(&known);
                        }
                    }
                    1 => {
                        recovered.truncate(at);
                        model.resize(from, Some(0));
                    }
                    2 => {
                        let from = from.min(model.len());
                        let to = (from + bytes.len()).min(model.len());
                        recovered = recovered.range(from as u64, to as u64);
                        model = model[from..to].to_vec();
                    }
                    _ => {
                        // What a leaf that cannot be read may have told of: only gaps are lost by it.
                        let to = (from + bytes.len()).min(model.len());
                        let covered = |at: usize| recovered.parts.iter().any(|(start, part)| {
                            (*start as usize..(*start + part.length) as usize).contains(&at)
                        });
                        let gaps: Vec<usize> = (from..to).filter(|at| !covered(*at)).collect();
                        if from < to {
                            fill_lost(&mut recovered.parts, from as u64, to as u64);
                        }
                        gaps.into_iter().for_each(|at| model[at] = None);
                    }
                }
                prop_assert_eq!(plain(&recovered), model.clone());
            }
        }
    }
}
