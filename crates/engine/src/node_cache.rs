//! Nodes of the index in memory: verified once, on the way in.
//!
//! Invariants:
//! - A node is known by its block *and* its birth, so that a block that was written anew never answers for its
//!   predecessor.
//! - Fetching around a node is a hint to the device alone, given for cursors only: only nodes that somebody asked for are
//!   read and taken in. A point read, and a cursor's first node of a place, cost one node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::address::{Generation, NodeRef};
use crate::allocator::{Lease, Leases};
use crate::device::{BLOCK_LEN, Device, ReadMode};
use crate::error::{Error, ErrorKind, Result};
use crate::tree::{Node, NodeSource, StoreId};

type Key = (u64, Generation);

/// What a node costs besides its own memory, in bytes: counts, its place in the cache, what the allocator rounds up.
const CACHED_LEN: usize = 128;

/// Where a cursor has to read a second node, so many bytes around it are fetched.
const NEIGHBOURHOOD_LEN: u64 = 64 << 10;
/// So many neighbourhoods are remembered: those of 64 MiB of an index.
const NEIGHBOURHOODS_MAX: usize = 1024;

#[derive(Clone)]
struct ByLength;

impl Weighter<Key, Arc<Node>> for ByLength {
    fn weight(&self, _: &Key, node: &Arc<Node>) -> u64 {
        // What the cache itself keeps for a node is a guess.
        (node.memory_len() + CACHED_LEN) as u64
    }
}

/// A bounded cache of nodes over a device.
pub struct NodeCache {
    device: Arc<dyn Device>,
    store: StoreId,
    nodes: Cache<Key, Arc<Node>, ByLength>,
    mode: ReadMode,
    leases: Arc<Leases>,
    missed: Neighbourhoods,
}

impl NodeCache {
    /// A cache of at most `budget_len` bytes.
    pub fn new(device: Arc<dyn Device>, store: StoreId, budget_len: u64, mode: ReadMode) -> NodeCache {
        let items = (budget_len / 8192).max(16) as usize;
        let nodes = Cache::with_weighter(items, budget_len.max(1 << 20), ByLength);
        NodeCache { device, store, nodes, mode, leases: Arc::default(), missed: Neighbourhoods::default() }
    }

    /// Blocks of nodes that changes in memory still read.
    pub fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// The same nodes for a reader that must not wait: what is not here is `Busy`.
    pub fn now(&self) -> CachedOnly<'_> {
        CachedOnly(self)
    }

    /// The same nodes for who walks over them: what lies around those that have to be read is fetched too.
    pub fn in_order(&self) -> InOrder<'_> {
        InOrder(self)
    }

    /// Takes in a node that was just written, and lets go of those that such ones have come for.
    pub fn put(&self, at: &NodeRef, node: Node) {
        for ended in self.leases.take_ended() {
            self.nodes.remove(&ended);
        }
        self.nodes.insert((at.start_block, at.birth), Arc::new(node));
    }

    fn read(&self, at: &NodeRef) -> Result<Arc<Node>> {
        let mut bytes = vec![0; usize::from(at.blocks) * BLOCK_LEN];
        let offset = at.start_block * BLOCK_LEN as u64;
        self.device.read_at(&mut bytes, offset, self.mode).map_err(|e| Error::read_failed(offset, e))?;
        match Node::decode(Bytes::from(bytes), at, self.store) {
            Err(error) if error.kind() == ErrorKind::Damaged && self.mode == ReadMode::Cached => {
                // The page cache may hold what was there before; only the medium's word counts.
                let mut bytes = vec![0; usize::from(at.blocks) * BLOCK_LEN];
                self.device.read_at(&mut bytes, offset, ReadMode::Direct).map_err(|e| Error::read_failed(offset, e))?;
                Ok(Arc::new(Node::decode(Bytes::from(bytes), at, self.store)?))
            }
            node => Ok(Arc::new(node?)),
        }
    }
}

impl NodeCache {
    /// A node of the cache, else read after `before` was called.
    fn load_after(&self, at: &NodeRef, before: impl FnOnce()) -> Result<Arc<Node>> {
        let key = (at.start_block, at.birth);
        if let Some(node) = self.nodes.get(&key) {
            return Ok(node);
        }
        before();
        let node = self.read(at)?;
        self.nodes.insert(key, Arc::clone(&node));
        Ok(node)
    }
}

impl NodeSource for NodeCache {
    fn load(&self, at: &NodeRef) -> Result<Arc<Node>> {
        self.load_after(at, || ())
    }

    fn lease(&self, at: &NodeRef) -> Arc<Lease> {
        Arc::new(self.leases.take((at.start_block, at.birth)))
    }
}

/// Where nodes had to be read lately: what a checkpoint wrote lies side by side, so who comes back is likely to want more.
struct Neighbourhoods(Box<[AtomicU64]>);

impl Default for Neighbourhoods {
    fn default() -> Neighbourhoods {
        Neighbourhoods((0..NEIGHBOURHOODS_MAX).map(|_| AtomicU64::new(u64::MAX)).collect())
    }
}

impl Neighbourhoods {
    /// Where the neighbourhood of a place begins, if somebody was there lately; from now on somebody was.
    fn again(&self, offset: u64) -> Option<u64> {
        let number = offset / NEIGHBOURHOOD_LEN;
        let slot = self.0.get((number % self.0.len() as u64) as usize)?;
        (slot.swap(number, Ordering::Relaxed) == number).then_some(number * NEIGHBOURHOOD_LEN)
    }
}

/// The nodes of a cache for who walks over them.
pub struct InOrder<'a>(&'a NodeCache);

impl NodeSource for InOrder<'_> {
    fn load(&self, at: &NodeRef) -> Result<Arc<Node>> {
        let cache = self.0;
        cache.load_after(at, || {
            if cache.mode == ReadMode::Cached
                && let Some(start) = cache.missed.again(at.start_block * BLOCK_LEN as u64)
            {
                cache.device.prefetch(start, NEIGHBOURHOOD_LEN);
            }
        })
    }

    fn lease(&self, at: &NodeRef) -> Arc<Lease> {
        self.0.lease(at)
    }
}

/// Only what is in the cache.
pub struct CachedOnly<'a>(&'a NodeCache);

impl NodeSource for CachedOnly<'_> {
    fn load(&self, at: &NodeRef) -> Result<Arc<Node>> {
        self.0.nodes.get(&(at.start_block, at.birth)).ok_or_else(Error::would_block)
    }

    fn lease(&self, at: &NodeRef) -> Arc<Lease> {
        self.0.lease(at)
    }
}

#[cfg(test)]
mod tests;
