//! The queued writes of one object: disjoint ranges in order, each in memory or in the transaction's spool.
//!
//! Invariants:
//! - Ranges never overlap: a later write cuts what it covers out of the earlier ones.
//! - A range in memory grows in place when the next write goes on where it ends; other neighbours are joined when
//!   they are taken out. So no write costs more than its own bytes and the ranges that it covers.

use crate::range_map::{RangeMap, Span};

/// Where the bytes of a range are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// In memory.
    Memory(Vec<u8>),
    /// In the spool.
    Spooled {
        /// Bytes from the start of the spool.
        at: u64,
        /// Length in bytes.
        length: u64,
    },
}

impl Part {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Part::Memory(bytes) => bytes.len() as u64,
            Part::Spooled { length, .. } => *length,
        }
    }

    fn memory_len(&self) -> usize {
        match self {
            Part::Memory(bytes) => bytes.len(),
            Part::Spooled { .. } => 0,
        }
    }
}

impl Span for Part {
    fn span_len(&self) -> u64 {
        self.len()
    }

    fn split_off(&mut self, cut: u64) -> Part {
        match self {
            Part::Memory(bytes) => Part::Memory(bytes.split_off(cut as usize)),
            Part::Spooled { at, length } => {
                let rest = Part::Spooled { at: *at + cut, length: *length - cut };
                *length = cut;
                rest
            }
        }
    }
}

/// The writes of one object.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    parts: RangeMap<Part>,
    memory_len: usize,
}

impl Writes {
    /// How many bytes are in memory.
    pub fn memory_len(&self) -> usize {
        self.memory_len
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// The end of the last range.
    pub fn end(&self) -> u64 {
        self.parts.end()
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Part)> {
        self.parts.iter().map(|(start, part)| (*start, part))
    }

    /// Adds a write.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        if let Some((start, Part::Memory(bytes))) = self.parts.at_or_before_mut(offset) {
            let from = (offset - start) as usize;
            if end <= start + bytes.len() as u64 {
                bytes[from..from + data.len()].copy_from_slice(data);
                return;
            }
        }
        self.carve(offset, end);
        self.memory_len += data.len();
        if let Some((start, Part::Memory(bytes))) = self.parts.at_or_before_mut(offset)
            && start + bytes.len() as u64 == offset
        {
            bytes.extend_from_slice(data);
            return;
        }
        self.parts.insert(offset, Part::Memory(data.to_vec()));
    }

    /// Adds a range that lies in the spool.
    pub fn spooled(&mut self, offset: u64, at: u64, length: u64) {
        self.carve(offset, offset + length);
        if let Some((start, Part::Spooled { at: before, length: so_far })) = self.parts.at_or_before_mut(offset)
            && start + *so_far == offset
            && *before + *so_far == at
        {
            *so_far += length;
            return;
        }
        self.parts.insert(offset, Part::Spooled { at, length });
    }

    /// Removes what lies in a range.
    fn carve(&mut self, from: u64, to: u64) {
        self.parts.carve(from, to, |part| self.memory_len -= part.memory_len());
    }

    /// Takes the ranges in memory out, neighbours joined, in order.
    pub fn take_memory(&mut self) -> Vec<(u64, Vec<u8>)> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut kept = RangeMap::new();
        for (start, part) in std::mem::take(&mut self.parts) {
            match part {
                Part::Memory(bytes) => match runs.last_mut() {
                    Some((first, run)) if *first + run.len() as u64 == start => run.extend_from_slice(&bytes),
                    _ => runs.push((start, bytes)),
                },
                spooled => kept.insert(start, spooled),
            }
        }
        self.parts = kept;
        self.memory_len = 0;
        runs
    }

    /// The ranges that overlap `from..to`.
    pub fn overlapping(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &Part)> {
        self.parts.within(from, to)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_last_write_of_a_byte_wins(
            steps in prop::collection::vec((0..200u64, 1..60usize, any::<bool>()), 1..40)
        ) {
            let mut writes = Writes::default();
            let (mut model, mut spool) = (vec![None; 300], Vec::new());
            for (number, (offset, length, spooled)) in steps.into_iter().enumerate() {
                let data: Vec<u8> = (0..length).map(|at| (at + number * 11) as u8).collect();
                if spooled {
                    writes.spooled(offset, spool.len() as u64, length as u64);
                    spool.extend_from_slice(&data);
                } else {
                    writes.write(offset, &data);
                }
                for (at, byte) in data.iter().enumerate() {
                    model[offset as usize + at] = Some(*byte);
                }
                let (mut memory_len, mut end) = (0, 0);
                for (start, part) in writes.iter() {
                    prop_assert!(start >= end, "ranges overlap");
                    end = start + part.len();
                    memory_len += part.memory_len();
                }
                prop_assert_eq!(memory_len, writes.memory_len());
                prop_assert_eq!(end, writes.end());
            }
            let mut got = vec![None; 300];
            let mut put = |start: u64, bytes: &[u8]| {
                for (at, byte) in bytes.iter().enumerate() {
                    got[start as usize + at] = Some(*byte);
                }
            };
            let runs = writes.take_memory();
            prop_assert!(runs.windows(2).all(|pair| pair[0].0 + (pair[0].1.len() as u64) < pair[1].0), "joined");
            runs.iter().for_each(|(start, bytes)| put(*start, bytes));
            for (start, part) in writes.iter() {
                let Part::Spooled { at, length } = part else { panic!("memory was taken") };
                put(start, &spool[*at as usize..(*at + *length) as usize]);
            }
            prop_assert_eq!(got, model);
        }
    }

    #[test]
    fn writes_that_follow_each_other_are_one_range() {
        let mut writes = Writes::default();
        (0..256u64).for_each(|at| writes.write(at * 4096, &[at as u8; 4096]));
        assert_eq!(writes.len(), 1);
        let mut writes = Writes::default();
        (0..256u64).rev().for_each(|at| writes.write(at * 4096, &[at as u8; 4096]));
        assert_eq!(writes.take_memory().len(), 1);
    }

    #[test]
    fn overlapping_ranges_begin_before() {
        let mut writes = Writes::default();
        writes.write(10, &[1; 10]);
        writes.spooled(30, 0, 10);
        let starts = |from, to| writes.overlapping(from, to).map(|(start, _)| start).collect::<Vec<u64>>();
        assert_eq!(starts(0, 10), [0; 0]);
        assert_eq!(starts(19, 31), [10, 30]);
        assert_eq!(starts(20, 30), [0; 0]);
        assert_eq!(starts(35, 36), [30]);
    }
}
