//! A value as pieces by offset, with holes between them.
//!
//! Invariants:
//! - Pieces are not empty, do not overlap, and end at or before `length`.
//! - What no piece covers reads as zeros and takes no memory.
//! - One piece that is the whole value lies in no map: most values are that.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

/// A run of bytes that can be cut without copying.
pub(crate) trait Piece: Clone {
    fn length(&self) -> u64;

    /// The bytes from `start` to `end`, both inside.
    fn part(&self, start: u64, end: u64) -> Self;
}

impl Piece for Bytes {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn part(&self, start: u64, end: u64) -> Self {
        // Both are at most the length, which is a `usize`.
        self.slice(start as usize..end as usize)
    }
}

/// Pieces and holes.
#[derive(Clone, Debug)]
pub(crate) struct Sparse<P> {
    length: u64,
    /// The only piece, from the beginning to the end; there are no others then.
    whole: Option<P>,
    /// By their offset in the value.
    pieces: BTreeMap<u64, P>,
}

/// A value whose bytes are in memory.
pub(crate) type Value = Sparse<Bytes>;

impl<P> Default for Sparse<P> {
    fn default() -> Self {
        Sparse { length: 0, whole: None, pieces: BTreeMap::new() }
    }
}

impl<P: Piece> Sparse<P> {
    pub(crate) fn from_piece(piece: P) -> Self {
        match piece.length() {
            0 => Sparse::default(),
            length => Sparse { length, whole: Some(piece), pieces: BTreeMap::new() },
        }
    }

    /// Whether one piece is all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.is_some() || self.length == 0
    }

    /// Puts what is whole into the map, to be changed there.
    fn unfold(&mut self) {
        if let Some(whole) = self.whole.take() {
            self.pieces.insert(0, whole);
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes that pieces take.
    pub(crate) fn stored(&self) -> u64 {
        self.whole.iter().chain(self.pieces.values()).map(Piece::length).sum()
    }

    /// Sets the length; what is added is a hole.
    pub(crate) fn truncate(&mut self, length: u64) {
        if length == self.length {
            return;
        }
        self.unfold();
        if length < self.length {
            self.cut(length, self.length);
        }
        self.length = length;
    }

    /// Writes `data` over what is there; nothing happens when it is empty.
    pub(crate) fn write(&mut self, offset: u64, data: P) {
        if data.length() == 0 {
            return;
        }
        if offset == 0 && data.length() >= self.length {
            *self = Sparse::from_piece(data);
            return;
        }
        let end = offset + data.length();
        self.unfold();
        self.cut(offset, end);
        self.pieces.insert(offset, data);
        self.length = self.length.max(end);
    }

    /// Writes another value, holes included, over what is there; nothing happens when it is empty.
    pub(crate) fn write_value(&mut self, offset: u64, data: &Self) {
        if data.length == 0 {
            return;
        }
        let end = offset + data.length;
        self.unfold();
        self.cut(offset, end);
        data.each_within(0, data.length, |at, piece| {
            self.pieces.insert(offset + at, piece);
        });
        self.length = self.length.max(end);
    }

    /// The part from `offset` on, at most `length` bytes, sharing the data.
    pub(crate) fn slice(&self, offset: u64, length: u64) -> Self {
        let end = offset.saturating_add(length).min(self.length);
        if offset >= end {
            return Sparse::default();
        }
        if let Some(whole) = &self.whole {
            return Sparse::from_piece(whole.part(offset, end));
        }
        let mut part = Sparse { length: end - offset, ..Sparse::default() };
        self.each_within(offset, end, |at, piece| {
            part.pieces.insert(at - offset, piece);
        });
        part
    }

    /// Calls `visit` with the parts of pieces that lie from `start` to `end`, in order.
    pub(crate) fn each_within(&self, start: u64, end: u64, mut visit: impl FnMut(u64, P)) {
        if let Some(whole) = &self.whole {
            let end = end.min(self.length);
            if start < end {
                visit(start, whole.part(start, end));
            }
            return;
        }
        let first = self.pieces.range(..start).next_back().map_or(start, |(at, _)| *at);
        for (at, piece) in self.pieces.range(first..end) {
            let from = start.max(*at);
            let to = end.min(at + piece.length());
            if from < to {
                visit(from, piece.part(from - at, to - at));
            }
        }
    }

    /// Makes a hole from `start` to `end`.
    fn cut(&mut self, start: u64, end: u64) {
        let first = self.pieces.range(..start).next_back().map_or(start, |(at, _)| *at);
        let touched: Vec<u64> = self.pieces.range(first..end).map(|(at, _)| *at).collect();
        for at in touched {
            let Some(piece) = self.pieces.remove(&at) else { continue };
            let piece_end = at + piece.length();
            if at < start {
                self.pieces.insert(at, piece.part(0, piece_end.min(start) - at));
            }
            if piece_end > end {
                self.pieces.insert(end, piece.part(end - at, piece.length()));
            }
        }
    }
}

impl Value {
    /// Reads into `buffer`; a short count only at the end.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let end = offset.saturating_add(buffer.len() as u64).min(self.length);
        if offset >= end {
            return 0;
        }
        // It fits: the difference is at most the buffer's length.
        let count = (end - offset) as usize;
        let Some(target) = buffer.get_mut(..count) else { return 0 };
        target.fill(0);
        self.each_within(offset, end, |at, piece| {
            let start = (at - offset) as usize;
            if let Some(part) = target.get_mut(start..start + piece.len()) {
                part.copy_from_slice(&piece);
            }
        });
        count
    }

    /// A range as one run of bytes, shared when one piece covers it.
    pub(crate) fn bytes(&self, offset: u64, length: usize) -> Bytes {
        let end = offset.saturating_add(length as u64).min(self.length);
        if offset >= end {
            return Bytes::new();
        }
        let count = (end - offset) as usize;
        if let Some(whole) = &self.whole {
            let start = offset as usize;
            return whole.slice(start..start + count);
        }
        if let Some((at, piece)) = self.pieces.range(..=offset).next_back() {
            let start = (offset - at) as usize;
            if start + count <= piece.len() {
                return piece.slice(start..start + count);
            }
        }
        let mut run = BytesMut::zeroed(count);
        self.read(offset, &mut run);
        run.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(value: &Value) -> Vec<u8> {
        value.bytes(0, value.length() as usize).to_vec()
    }

    proptest! {
        #[test]
        fn behaves_as_a_plain_vector(
            steps in prop::collection::vec((0u8..4, 0u64..300, 0usize..200, any::<u8>()), 1..40),
        ) {
            let mut value = Value::default();
            let mut model: Vec<u8> = Vec::new();
            for (kind, offset, length, byte) in steps {
                let start = offset as usize;
                match kind {
                    0 | 1 => {
                        value.write(offset, Bytes::from(vec![byte; length]));
                        if length > 0 {
                            model.resize(model.len().max(start + length), 0);
                            model[start..start + length].fill(byte);
                        }
                    }
                    2 => {
                        value.truncate(offset);
                        model.resize(start, 0);
                    }
                    _ => {
                        let part = value.slice(offset, length as u64);
                        let from = start.min(model.len());
                        let part_model = model[from..(start + length).clamp(from, model.len())].to_vec();
                        prop_assert_eq!(&whole(&part), &part_model);
                        let at = u64::from(byte);
                        value.write_value(at, &part);
                        if !part_model.is_empty() {
                            let at = at as usize;
                            model.resize(model.len().max(at + part_model.len()), 0);
                            model[at..at + part_model.len()].copy_from_slice(&part_model);
                        }
                    }
                }
                prop_assert_eq!(whole(&value), model.clone());
                let mut buffer = vec![0xEE; length];
                let count = value.read(offset, &mut buffer);
                let from = start.min(model.len());
                prop_assert_eq!(&buffer[..count], &model[from..(start + length).clamp(from, model.len())]);
            }
        }
    }

    #[test]
    fn holes_take_no_memory() {
        let mut value = Value::default();
        value.truncate(1 << 50);
        value.write(1 << 40, Bytes::from_static(b"x"));
        assert_eq!(value.stored(), 1);
        assert_eq!(value.bytes((1 << 40) - 1, 3).as_ref(), b"\0x\0");
    }
}
