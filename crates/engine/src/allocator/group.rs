//! The free blocks of one group, found by their number or, where space is given out in larger units, by what they hold
//! from the first boundary of a unit on.
//!
//! Invariant: every run stands in both indexes as it is, in the one of boundaries only when it reaches one.

use std::collections::BTreeSet;

use crate::allocator::runs::Runs;
use crate::error::Result;

/// So many runs are looked at for one that lies near an end of the group.
const SEARCHED_MAX: usize = 64;

/// Free runs of a group.
pub struct Group {
    /// Blocks of a unit; a group begins on a boundary.
    unit: u64,
    runs: Runs,
    /// Count and start of every run.
    by_count: BTreeSet<(u64, u64)>,
    /// Blocks from the first boundary on, and start of the run. Empty where every block is a boundary.
    by_aligned: BTreeSet<(u64, u64)>,
}

impl Group {
    /// Without free blocks.
    pub fn new(unit: u64) -> Group {
        Group { unit, runs: Runs::new(), by_count: BTreeSet::new(), by_aligned: BTreeSet::new() }
    }

    /// The runs in order: start and count.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter()
    }

    /// The blocks that a run has from its first boundary on, if it reaches one.
    fn aligned(&self, start: u64, count: u64) -> Option<u64> {
        count.checked_sub(start.next_multiple_of(self.unit) - start).filter(|blocks| *blocks > 0)
    }

    fn enlist(&mut self, start: u64, count: u64) {
        self.by_count.insert((count, start));
        if self.unit > 1
            && let Some(blocks) = self.aligned(start, count)
        {
            self.by_aligned.insert((blocks, start));
        }
    }

    fn strike(&mut self, start: u64, count: u64) {
        self.by_count.remove(&(count, start));
        if self.unit > 1
            && let Some(blocks) = self.aligned(start, count)
        {
            self.by_aligned.remove(&(blocks, start));
        }
    }

    /// Blocks become free.
    pub fn add(&mut self, start: u64, count: u64) -> Result<()> {
        let (joined, length) = self.runs.add(start, count)?;
        // The neighbours that were joined leave the indexes.
        if joined < start {
            self.strike(joined, start - joined);
        }
        let end = start + count;
        if joined + length > end {
            self.strike(end, joined + length - end);
        }
        self.enlist(joined, length);
        Ok(())
    }

    /// Blocks are free no more.
    pub fn remove(&mut self, start: u64, count: u64) -> Result<()> {
        let (run, length) = self.runs.remove(start, count)?;
        self.strike(run, length);
        if run < start {
            self.enlist(run, start - run);
        }
        let end = start + count;
        if run + length > end {
            self.enlist(end, run + length - end);
        }
        Ok(())
    }

    /// The front of the smallest run that holds `want`.
    pub fn fit(&mut self, want: u64) -> Option<(u64, u64)> {
        let (_, start) = *self.by_count.range((want, 0)..).next()?;
        self.remove(start, want).ok()?;
        Some((start, want))
    }

    /// `want` blocks from a boundary on, where the fewest are left over.
    pub fn fit_aligned(&mut self, want: u64) -> Option<(u64, u64)> {
        if self.unit <= 1 {
            return self.fit(want);
        }
        let (_, start) = *self.by_aligned.range((want, 0)..).next()?;
        let start = start.next_multiple_of(self.unit);
        self.remove(start, want).ok()?;
        Some((start, want))
    }

    /// `want` blocks from a boundary on, as near to the begin of the group as a short search finds them.
    pub fn fit_front(&mut self, want: u64) -> Option<(u64, u64)> {
        let fits = |(run, count): (u64, u64)| {
            let start = run.next_multiple_of(self.unit);
            (start + want <= run + count).then_some(start)
        };
        let Some(start) = self.runs.iter().take(SEARCHED_MAX).find_map(fits) else { return self.fit_aligned(want) };
        self.remove(start, want).ok()?;
        Some((start, want))
    }

    /// `want` blocks from a boundary on, as near to the end of the group as a short search finds them.
    pub fn fit_back(&mut self, want: u64) -> Option<(u64, u64)> {
        let fits = |(run, count): (u64, u64)| {
            let start = (run + count).checked_sub(want)? / self.unit * self.unit;
            (start >= run).then_some(start)
        };
        let found = self.runs.iter().rev().take(SEARCHED_MAX).find_map(fits);
        let start = found.or_else(|| self.by_count.last().and_then(|(count, run)| fits((*run, *count))));
        let Some(start) = start else { return self.fit_aligned(want) };
        self.remove(start, want).ok()?;
        Some((start, want))
    }

    /// What is free from a block to the next boundary, if that is at least `least`.
    pub fn rest_of_unit(&mut self, start: u64, least: u64) -> Option<(u64, u64)> {
        let rest = start.next_multiple_of(self.unit) - start;
        let (run, count) = self.runs.run_at(start)?;
        let count = rest.min(run + count - start);
        if count < least.max(1) {
            return None;
        }
        self.remove(start, count).ok()?;
        Some((start, count))
    }

    /// The length of the longest run.
    pub fn longest(&self) -> u64 {
        self.by_count.last().map_or(0, |(count, _)| *count)
    }

    /// Whether a whole unit is free, or so many blocks from a boundary on.
    pub fn has_aligned(&self, want: u64) -> bool {
        let index = if self.unit <= 1 { &self.by_count } else { &self.by_aligned };
        index.last().is_some_and(|(count, _)| *count >= want.min(self.unit))
    }

    /// The most blocks in a row that are whole units.
    pub fn longest_aligned(&self) -> u64 {
        let index = if self.unit <= 1 { &self.by_count } else { &self.by_aligned };
        index.last().map_or(0, |(count, _)| count / self.unit.max(1) * self.unit.max(1))
    }
}
