//! Bytes of one object that were written and are only in memory: disjoint ranges, their bytes in slabs.
//!
//! Invariants:
//! - Parts never overlap: a later write goes over what it covers.
//! - `runs` is how many ranges there are once neighbours are joined.
//! - A slab's bytes never move while parts name them; those that no part names any more are wasted until all go.

use std::sync::Arc;

use crate::device::AlignedBuffer;
use crate::range_map::{RangeMap, Span};

/// The longest slab in bytes, and the length of those that are used again.
pub const SLAB_LEN: usize = 1 << 20;
/// The shortest one.
const SLAB_LEN_MIN: usize = 4 << 10;

/// A part of a slab.
#[derive(Clone, Copy, Debug)]
struct Part {
    slab: usize,
    at: usize,
    len: usize,
}

impl Span for Part {
    fn span_len(&self) -> u64 {
        self.len as u64
    }

    fn split_off(&mut self, at: u64) -> Part {
        let cut = at as usize;
        let rest = Part { at: self.at + cut, len: self.len - cut, ..*self };
        self.len = cut;
        rest
    }
}

/// Memory that is filled from the front.
struct Slab {
    memory: AlignedBuffer,
    filled: usize,
}

impl Slab {
    fn is_full(&self) -> bool {
        self.filled == self.memory.len()
    }
}

/// Bytes at offsets.
#[derive(Default)]
pub struct Ranges {
    parts: RangeMap<Part>,
    slabs: Vec<Slab>,
    slabs_len: usize,
    runs: usize,
}

impl Ranges {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many ranges there are, neighbours joined.
    pub fn run_count(&self) -> usize {
        self.runs
    }

    /// Memory in use, in bytes.
    pub fn memory_len(&self) -> usize {
        self.slabs_len
    }

    /// The end of the last range.
    pub fn end(&self) -> u64 {
        self.parts.end()
    }

    /// Puts bytes at an offset. `slab` gives memory of the length asked for.
    pub fn write(&mut self, offset: u64, data: &[u8], mut slab: impl FnMut(usize) -> AlignedBuffer) {
        let end = offset + data.len() as u64;
        if let Some((start, part)) = self.parts.at_or_before(offset)
            && end <= start + part.len as u64
        {
            let at = part.at + (offset - start) as usize;
            if let Some(target) =
                self.slabs.get_mut(part.slab).and_then(|slab| slab.memory.get_mut(at..at + data.len()))
            {
                target.copy_from_slice(data);
            }
            return;
        }
        self.make_way(offset, end);
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let slab = self.slab_with_room(rest.len(), &mut slab);
            let Some(Slab { memory, filled }) = self.slabs.get_mut(slab) else { return };
            let (head, tail) = rest.split_at(rest.len().min(memory.len() - *filled));
            let part = Part { slab, at: *filled, len: head.len() };
            *filled += head.len();
            memory[part.at..*filled].copy_from_slice(head);
            self.add(at, part);
            (at, rest) = (at + head.len() as u64, tail);
        }
    }

    /// The number of a slab that is not full.
    fn slab_with_room(&mut self, wanted: usize, slab: &mut impl FnMut(usize) -> AlignedBuffer) -> usize {
        if self.slabs.last().is_none_or(Slab::is_full) {
            let length = wanted.max(self.slabs_len).next_power_of_two().clamp(SLAB_LEN_MIN, SLAB_LEN);
            self.slabs_len += length;
            self.slabs.push(Slab { memory: slab(length), filled: 0 });
        }
        self.slabs.len() - 1
    }

    /// Adds a part where there is none, to the part before it when its bytes follow on that one's.
    fn add(&mut self, offset: u64, part: Part) {
        if let Some((start, before)) = self.parts.at_or_before_mut(offset)
            && start + before.len as u64 == offset
            && (before.slab, before.at + before.len) == (part.slab, part.at)
        {
            before.len += part.len;
            return;
        }
        self.parts.insert(offset, part);
    }

    /// Counts what will be there once `from..to` is filled, and removes what lies in it.
    fn make_way(&mut self, from: u64, to: u64) {
        let (mut joined, mut last_end, mut covered) = (0, None, false);
        for (start, part) in self.parts.touching(from, to) {
            joined += usize::from(last_end != Some(start));
            let end = start + part.len as u64;
            last_end = Some(end);
            covered |= start < to && end > from;
        }
        // All that touch are one afterwards.
        self.runs = self.runs + 1 - joined;
        if covered {
            self.parts.carve(from, to, drop);
        }
    }

    /// The parts of `from..to`: where each begins, and where its bytes are.
    fn parts_within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, Part)> {
        self.parts.within(from, to).map(move |(start, part)| {
            let (head, tail) = (from.max(start), to.min(start + part.len as u64));
            let part = Part { at: part.at + (head - start) as usize, len: (tail - head) as usize, ..*part };
            (head, part)
        })
    }

    fn bytes(&self, part: Part) -> &[u8] {
        let slab = self.slabs.get(part.slab);
        slab.and_then(|slab| slab.memory.get(part.at..part.at + part.len)).unwrap_or_default()
    }

    /// The bytes of `from..to`, as far as there are any: where each part of them begins, and the part.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &[u8])> {
        self.parts_within(from, to).map(|(start, part)| (start, self.bytes(part)))
    }

    /// As `within`, in order, each part with what keeps it where it is.
    pub fn shared_within(
        self: &Arc<Ranges>,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = (&[u8], impl FnOnce() -> Kept)> {
        self.parts_within(from, to)
            .map(move |(_, part)| (self.bytes(part), move || Kept { ranges: Arc::clone(self), part }))
    }

    /// Offset and length of each range, in order, neighbours joined.
    pub fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::with_capacity(self.runs);
        for (start, part) in &self.parts {
            match runs.last_mut() {
                Some((first, length)) if *first + *length == *start => *length += part.len as u64,
                _ => runs.push((*start, part.len as u64)),
            }
        }
        runs
    }

    /// Copies what there is of `offset..` into the buffer. How far from its begin the buffer was filled without a gap.
    pub fn copy_into(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let mut without_gap = 0;
        for (start, bytes) in self.within(offset, offset.saturating_add(buffer.len() as u64)) {
            let at = (start - offset) as usize;
            if let Some(target) = buffer.get_mut(at..at + bytes.len()) {
                target.copy_from_slice(bytes);
            }
            if at == without_gap {
                without_gap += bytes.len();
            }
        }
        without_gap
    }

    /// Its memory, to be used again.
    pub fn into_slabs(self) -> impl Iterator<Item = AlignedBuffer> {
        self.slabs.into_iter().map(|slab| slab.memory)
    }
}

/// A part of ranges that stays where it is.
pub struct Kept {
    ranges: Arc<Ranges>,
    part: Part,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        self.ranges.bytes(self.part)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_newest_bytes_are_there(writes in prop::collection::vec((0u64..30_000, 1usize..6000, any::<u8>()), 1..60)) {
            let (mut ranges, mut model) = (Ranges::default(), vec![None; 40_000]);
            for (offset, length, byte) in writes {
                let data: Vec<u8> = (0..length).map(|at| byte.wrapping_add(at as u8)).collect();
                ranges.write(offset, &data, AlignedBuffer::zeroed);
                for (at, byte) in data.iter().enumerate() {
                    model[offset as usize + at] = Some(*byte);
                }
                let runs = ranges.runs();
                prop_assert_eq!(runs.len(), ranges.run_count());
                prop_assert!(runs.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
                prop_assert_eq!(runs.last().map_or(0, |(start, length)| start + length), ranges.end());
            }
            let mut read = vec![None; model.len()];
            for (start, length) in ranges.runs() {
                for (at, part) in ranges.within(start, start + length) {
                    for (index, byte) in part.iter().enumerate() {
                        read[at as usize + index] = Some(*byte);
                    }
                }
            }
            prop_assert_eq!(&read, &model);
            for offset in (0..model.len() - 5000).step_by(1777) {
                let mut buffer = vec![0; 5000];
                let whole = ranges.copy_into(offset as u64, &mut buffer);
                let expected = &model[offset..offset + 5000];
                prop_assert_eq!(whole, expected.iter().take_while(|byte| byte.is_some()).count());
                prop_assert!(buffer.iter().zip(expected).all(|(byte, expected)| *byte == expected.unwrap_or(0)));
            }
        }
    }

    #[test]
    fn writes_in_order_are_one_part_a_slab() {
        let mut ranges = Ranges::default();
        let mut lengths = Vec::new();
        for at in 0..1024u64 {
            ranges.write(at * 4096, &[7; 4096], |length| {
                lengths.push(length);
                AlignedBuffer::zeroed(length)
            });
        }
        assert_eq!((ranges.run_count(), ranges.parts.len()), (1, lengths.len()));
        assert_eq!((lengths[0], *lengths.last().unwrap()), (SLAB_LEN_MIN, SLAB_LEN));
        assert!(ranges.memory_len() < 5 << 20);
        assert_eq!(ranges.into_slabs().count(), lengths.len());
    }
}
