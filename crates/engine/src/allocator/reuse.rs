//! Blocks that commits have freed, until nothing can need them any more.
//!
//! Invariant (the reuse rule): a block freed by commit `f` goes back to the writers only when the roots
//! of *both* superblocks hold `f`, and no view is older than `f`. Then `f` is durable, no recovery can
//! replay a record that names the block, and nobody can read it but through a [lease](super::lease), which holds it back too.

use std::collections::BTreeMap;

use crate::address::BlockRange;
use crate::allocator::Leases;
use crate::batch::Version;

/// Freed blocks in the order of the commits that freed them.
#[derive(Debug, Default)]
pub struct ReuseQueue {
    waiting: BTreeMap<Version, Vec<BlockRange>>,
    /// Held back by leases alone, when they were looked at last.
    leased: Vec<BlockRange>,
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

    /// Takes what commits up to `safe` have freed (the oldest cut of the superblocks, or the oldest view if that is
    /// older), but for what is leased.
    pub fn take(&mut self, safe: Version, leases: &Leases) -> Vec<BlockRange> {
        let later = self.waiting.split_off(&Version(safe.0.saturating_add(1)));
        let mut ranges = std::mem::take(&mut self.leased);
        ranges.extend(std::mem::replace(&mut self.waiting, later).into_values().flatten());
        let (leased, free): (Vec<_>, Vec<_>) = ranges.into_iter().partition(|range| leases.hold(range));
        self.leased = leased;
        self.blocks -= free.iter().map(|range| u64::from(range.count)).sum::<u64>();
        free
    }

    /// How many blocks wait that commits up to `cut` have freed: held back by views and leases alone.
    pub fn blocks_up_to(&self, cut: Version) -> u64 {
        let waiting = self.waiting.range(..=cut).flat_map(|(_, ranges)| ranges);
        waiting.chain(&self.leased).map(|range| u64::from(range.count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::address::Generation;

    #[test]
    fn nothing_comes_back_before_its_commit_is_safe() {
        let (mut queue, leases) = (ReuseQueue::new(), Leases::default());
        queue.push(Version(5), BlockRange { start: 1, count: 2 });
        queue.push(Version(6), BlockRange { start: 9, count: 1 });
        assert!(queue.take(Version(4), &leases).is_empty());
        assert_eq!(queue.take(Version(5), &leases), vec![BlockRange { start: 1, count: 2 }]);
        assert_eq!(queue.blocks(), 1);
        assert_eq!(queue.take(Version(u64::MAX), &leases).len(), 1);
    }

    #[test]
    fn what_is_leased_comes_back_when_the_lease_has_ended() {
        let (mut queue, leases) = (ReuseQueue::new(), Arc::new(Leases::default()));
        queue.push(Version(5), BlockRange { start: 1, count: 2 });
        queue.push(Version(5), BlockRange { start: 3, count: 4 });
        let lease = leases.take((3, Generation(1)));
        assert_eq!(queue.take(Version(9), &leases), vec![BlockRange { start: 1, count: 2 }]);
        assert_eq!((queue.blocks(), queue.take(Version(9), &leases)), (4, vec![]));
        drop(lease);
        assert_eq!(queue.take(Version(0), &leases), vec![BlockRange { start: 3, count: 4 }]);
        assert_eq!(queue.blocks(), 0);
    }
}
