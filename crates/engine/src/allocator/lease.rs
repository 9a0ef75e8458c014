//! Blocks that changes in memory still read although nothing stored needs them any more.
//!
//! A commit that changes a stored leaf frees its blocks at once, as far as the stored state is concerned; but what
//! it changed is kept in memory as a delta leaf over it until a checkpoint writes both together. A
//! [`Lease`] is what such a delta leaf holds: its blocks are not given to other writers while one is alive.
//!
//! Invariant: a lease is taken while the newest tree or another lease reaches the blocks, so that none begins on
//! blocks that were freed and have none.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::address::{BlockRange, Generation};

/// A node on the device: its first block and its birth.
pub type Leased = (u64, Generation);

/// Which blocks are leased.
#[derive(Debug, Default)]
pub struct Leases(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    /// By their first block: how often.
    running: BTreeMap<u64, u32>,
    /// Nodes that hardly anybody wants any more.
    ended: Vec<Leased>,
}

/// Keeps blocks from being reused while it lives.
#[derive(Debug)]
pub struct Lease {
    node: Leased,
    leases: Option<Arc<Leases>>,
}

impl Leases {
    /// Keeps a node.
    pub fn take(self: &Arc<Self>, node: Leased) -> Lease {
        *self.0.lock().running.entry(node.0).or_default() += 1;
        Lease { node, leases: Some(Arc::clone(self)) }
    }

    /// Whether anything in a range is leased.
    pub fn hold(&self, range: &BlockRange) -> bool {
        self.0.lock().running.range(range.start..range.end()).next().is_some()
    }

    /// The nodes whose last lease has ended since this was asked last: only older views may still read them.
    pub fn take_ended(&self) -> Vec<Leased> {
        std::mem::take(&mut self.0.lock().ended)
    }
}

impl Lease {
    /// For who never gives blocks to others.
    pub fn of_nothing(node: Leased) -> Lease {
        Lease { node, leases: None }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(leases) = &self.leases else { return };
        let books = &mut *leases.0.lock();
        if let Some(count) = books.running.get_mut(&self.node.0) {
            *count -= 1;
            if *count == 0 {
                books.running.remove(&self.node.0);
                books.ended.push(self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use koine_env::SeededRandom;

    use super::*;
    use crate::batch::{Batch, Durability, Operation, SpaceId};
    use crate::content::record_key;
    use crate::device::{MemoryDevice, ReadMode};
    use crate::engine::Engine;
    use crate::format::FormatOptions;
    use crate::node_cache::NodeCache;
    use crate::options::{Background, Options};

    #[test]
    fn what_a_delta_leaf_lies_over_stays_on_the_device_as_long_as_anybody_reads_through_it() {
        let device = Arc::new(MemoryDevice::fixed(32 << 20));
        Engine::format(device.as_ref(), FormatOptions::default(), &SeededRandom::new(1)).unwrap();
        let options = Options { background: Background::Manual, ..Options::default() };
        let engine = Engine::open(Arc::clone(&device) as _, options).unwrap();
        let space = SpaceId::FIRST;
        let key = |number: usize| format!("{number:04}").into_bytes();
        let put = |number: usize, value: Vec<u8>| {
            engine.commit(Batch::new().put(space, key(number), value), Durability::Sync).unwrap();
        };
        engine.commit(Batch::new().then(Operation::CreateSpace { space }), Durability::Sync).unwrap();
        (0..200).for_each(|number| put(number, vec![1; 300]));
        engine.checkpoint().unwrap();
        (0..200).step_by(20).for_each(|number| put(number, vec![2; 300]));
        // The view is no older than the commits that freed the leaves: only leases hold those.
        let view = engine.view();
        let state = engine.shared().visible.read().clone();
        for round in 0..12 {
            (0..200).step_by(3).for_each(|number| put(number, vec![round; 300]));
            engine.checkpoint().unwrap();
        }
        view.stat(space, &key(0)).expect("the view was not ended to make room");
        // Read from the device, not from what memory has kept.
        let fresh = NodeCache::new(Arc::clone(&device) as _, engine.shared().store, 1 << 20, ReadMode::Direct);
        let tree = state.space(&fresh, space).unwrap().unwrap().tree;
        for number in 0..200 {
            assert!(tree.get(&fresh, &record_key(&key(number))).unwrap().is_some(), "{number}");
        }
        drop((view, state, tree));
        engine.checkpoint().unwrap();
        engine.close().unwrap();
    }

    #[test]
    fn blocks_are_held_until_the_last_lease_ends() {
        let leases = Arc::new(Leases::default());
        let range = |start, count| BlockRange { start, count };
        let node = (7, Generation(1));
        let (one, two) = (leases.take(node), leases.take(node));
        assert!(leases.hold(&range(4, 4)) && leases.hold(&range(7, 1)));
        assert!(!leases.hold(&range(4, 3)) && !leases.hold(&range(8, 9)));
        drop(one);
        assert!(leases.hold(&range(7, 4)) && leases.take_ended().is_empty());
        drop(two);
        assert!(!leases.hold(&range(0, 100)));
        assert_eq!((leases.take_ended(), leases.take_ended()), (vec![node], vec![]));
    }
}
