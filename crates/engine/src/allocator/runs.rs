//! A set of blocks, kept as runs.
//!
//! Invariants: runs do not touch or overlap; a block is added only when absent and removed only
//! when present, anything else is an error (a block counted twice is how stores lose data).

use std::collections::BTreeMap;

use crate::address::BlockRange;
use crate::error::{Error, Result};

/// Blocks as runs: start to count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    by_start: BTreeMap<u64, u64>,
    blocks: u64,
}

impl Runs {
    /// The empty set.
    pub fn new() -> Self {
        Runs::default()
    }

    /// The number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The number of runs.
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// The runs in order: start and count.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.by_start.iter().map(|(start, count)| (*start, *count))
    }

    /// Adds blocks, joining runs that touch. Gives the run that they are in now.
    pub fn add(&mut self, start: u64, count: u64) -> Result<(u64, u64)> {
        let end = start.checked_add(count).ok_or_else(|| Error::damaged("a run of blocks past the end of numbers"))?;
        if count == 0 {
            return Ok((start, 0));
        }
        let before = self.by_start.range(..=start).next_back().map(|(s, c)| (*s, *c));
        let after = self.by_start.range(start..).next().map(|(s, c)| (*s, *c));
        if before.is_some_and(|(s, c)| s + c > start) || after.is_some_and(|(s, _)| s < end) {
            return Err(Error::damaged(format!("blocks {start}..{end} are freed twice")));
        }
        let mut run = (start, count);
        if let Some((s, c)) = before.filter(|(s, c)| s + c == start) {
            self.by_start.remove(&s);
            run = (s, c + count);
        }
        if let Some((s, c)) = after.filter(|(s, _)| *s == end) {
            self.by_start.remove(&s);
            run.1 += c;
        }
        self.by_start.insert(run.0, run.1);
        self.blocks += count;
        Ok(run)
    }

    /// Takes blocks away. Gives the run that they were in.
    pub fn remove(&mut self, start: u64, count: u64) -> Result<(u64, u64)> {
        let end = start.saturating_add(count);
        let found = self.by_start.range(..=start).next_back().map(|(s, c)| (*s, *c));
        let Some((run, length)) = found.filter(|(s, c)| s + c >= end) else {
            return Err(Error::damaged(format!("blocks {start}..{end} are used twice")));
        };
        self.by_start.remove(&run);
        if run < start {
            self.by_start.insert(run, start - run);
        }
        if run + length > end {
            self.by_start.insert(end, run + length - end);
        }
        self.blocks -= count;
        Ok((run, length))
    }

    /// The run that a block is in.
    pub fn run_at(&self, block: u64) -> Option<(u64, u64)> {
        let found = self.by_start.range(..=block).next_back().map(|(s, c)| (*s, *c));
        found.filter(|(s, c)| s + c > block)
    }

    /// Whether all these blocks are in the set.
    pub fn contains(&self, range: BlockRange) -> bool {
        let end = range.start + u64::from(range.count);
        self.by_start.range(..=range.start).next_back().is_some_and(|(s, c)| s + c >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_there_twice_is_an_error() {
        let mut runs = Runs::new();
        runs.add(10, 10).unwrap();
        runs.add(5, 0).unwrap();
        assert_eq!(runs.len(), 1, "nothing is no run");
        assert!(runs.add(19, 1).is_err());
        assert!(runs.add(5, 6).is_err());
        assert!(runs.remove(9, 2).is_err());
        assert!(runs.remove(15, 6).is_err());
        assert_eq!(runs.blocks(), 10);
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_blocks(steps in prop::collection::vec((any::<bool>(), 0u64..64, 1u64..8), 1..200)) {
            let mut runs = Runs::new();
            let mut model = std::collections::BTreeSet::new();
            for (add, start, count) in steps {
                let blocks: Vec<u64> = (start..start + count).collect();
                let legal = blocks.iter().all(|b| model.contains(b) != add);
                let done = if add { runs.add(start, count).is_ok() } else { runs.remove(start, count).is_ok() };
                prop_assert_eq!(done, legal);
                if legal {
                    for block in blocks {
                        if add { model.insert(block); } else { model.remove(&block); }
                    }
                }
                let listed: Vec<u64> = runs.iter().flat_map(|(s, c)| s..s + c).collect();
                prop_assert_eq!(listed, model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(runs.blocks(), model.len() as u64);
            }
        }
    }
}
