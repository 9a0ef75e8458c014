//! Blocks that commits have freed, until nothing can need them any more.
//!
//! Invariant (the reuse rule): a block freed by commit `f` goes back to the writers only when the roots
//! of *both* superblocks hold `f`, and no view is older than `f`. Then `f` is durable, no recovery can
//! replay a record that names the block, and nobody can read it.

use std::collections::BTreeMap;

use crate::batch::Version;
use crate::value::BlockRange;

/// Freed blocks in the order of the commits that freed them.
#[derive(Debug, Default)]
pub struct ReuseQueue {
    waiting: BTreeMap<Version, Vec<BlockRange>>,
    blocks: u64,
}

impl ReuseQueue {
    /// Without anything waiting.
    pub fn new() -> Self {
        ReuseQueue::default()
    }

    /// How many blocks wait.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Commit `by` has freed these blocks.
    pub fn push(&mut self, by: Version, range: BlockRange) {
        self.waiting.entry(by).or_default().push(range);
        self.blocks += u64::from(range.count);
    }

    /// Takes what commits up to `safe` have freed: the oldest cut of the superblocks, or the oldest view if that is older.
    pub fn take(&mut self, safe: Version) -> Vec<BlockRange> {
        let later = self.waiting.split_off(&Version(safe.0.saturating_add(1)));
        let free: Vec<BlockRange> = std::mem::replace(&mut self.waiting, later).into_values().flatten().collect();
        self.blocks -= free.iter().map(|range| u64::from(range.count)).sum::<u64>();
        free
    }

    /// How many blocks wait that commits up to `cut` have freed: held back by views alone.
    pub fn blocks_up_to(&self, cut: Version) -> u64 {
        self.waiting.range(..=cut).flat_map(|(_, ranges)| ranges).map(|range| u64::from(range.count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_back_before_its_commit_is_safe() {
        let mut queue = ReuseQueue::new();
        queue.push(Version(5), BlockRange { start: 1, count: 2 });
        queue.push(Version(6), BlockRange { start: 9, count: 1 });
        assert!(queue.take(Version(4)).is_empty());
        assert_eq!(queue.take(Version(5)), vec![BlockRange { start: 1, count: 2 }]);
        assert_eq!(queue.blocks(), 1);
        assert_eq!(queue.take(Version(u64::MAX)).len(), 1);
    }
}
