//! Blocks that changes in memory still read although nothing stored needs them any more.
//!
//! A commit that changes a stored leaf frees its blocks at once, as far as the stored state is concerned; but what
//! it changed is kept in memory as a patch over that leaf until a checkpoint writes both together. A
//! [`Lease`] is what such a patch holds: its blocks are not given to other writers while one is alive.
//!
//! Invariant: a lease is taken while the newest tree or another lease reaches the blocks, so that none begins on
//! blocks that were freed and have none.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::value::BlockRange;

/// Which blocks are leased, by their first, and how often.
#[derive(Debug, Default)]
pub struct Leases(Mutex<BTreeMap<u64, u32>>);

/// Keeps blocks from being reused while it lives.
#[derive(Debug)]
pub struct Lease {
    start_block: u64,
    leases: Option<Arc<Leases>>,
}

impl Leases {
    /// Keeps the node that begins at a block.
    pub fn take(self: &Arc<Self>, start_block: u64) -> Lease {
        *self.0.lock().entry(start_block).or_default() += 1;
        Lease { start_block, leases: Some(Arc::clone(self)) }
    }

    /// Whether anything in a range is leased.
    pub fn hold(&self, range: &BlockRange) -> bool {
        self.0.lock().range(range.start..range.end()).next().is_some()
    }
}

impl Lease {
    /// For who never gives blocks to others.
    pub fn of_nothing(start_block: u64) -> Lease {
        Lease { start_block, leases: None }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(leases) = &self.leases else { return };
        let mut leases = leases.0.lock();
        if let Some(count) = leases.get_mut(&self.start_block) {
            *count -= 1;
            if *count == 0 {
                leases.remove(&self.start_block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_held_until_the_last_lease_ends() {
        let leases = Arc::new(Leases::default());
        let range = |start, count| BlockRange { start, count };
        let (one, two) = (leases.take(7), leases.take(7));
        assert!(leases.hold(&range(4, 4)) && leases.hold(&range(7, 1)));
        assert!(!leases.hold(&range(4, 3)) && !leases.hold(&range(8, 9)));
        drop(one);
        assert!(leases.hold(&range(7, 4)));
        drop(two);
        assert!(!leases.hold(&range(0, 100)));
    }
}
