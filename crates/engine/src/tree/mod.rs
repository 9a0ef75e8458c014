//! The one index of the engine: a copy-on-write B+ tree, in memory and on the device at once.
//!
//! A [`Tree`] is a root and a count. A clone of it is a view that never changes, and readers take no
//! locks. Changed nodes live in memory until a checkpoint writes those of one immutable root
//! ([`write_dirty`]) and so gives them addresses; the next change of a parent forgets the memory form of
//! children that were written. Of a changed leaf memory holds only what differs from the stored one (`delta_leaf`).
//!
//! Invariants:
//! - A node that more than one tree, cursor or checkpoint can reach is never changed, only copied.
//! - Every node that leaves the newest tree is reported once in [`Edit::replaced`], unless it was born in the
//!   same edit and never seen outside. Edits do nothing else that could not be taken back: dropping the edited tree
//!   and its `Edit` is a rollback.
//! - Keys ascend strictly; each child of an inner node holds keys from its separator on and below the
//!   next; the first separator is empty; all leaves lie at level 0.
//! - What is read from the device was checked against its parent ([`Node::decode`]).

mod branch;
mod chunked_array;
mod cursor;
mod delta_leaf;
mod diff;
mod dirty_size;
mod edit;
mod entry;
mod exchange;
mod found;
mod layout;
mod look;
mod merged;
mod node;
mod packed;
mod placement;
mod prune;
mod remove;
mod scan;
mod slice;
mod stored;
#[cfg(test)]
mod tests;
mod tombstones;
pub mod value;
mod write;

use std::sync::Arc;

use bytes::Bytes;

pub use branch::Copied;
pub use cursor::{Cursor, EntryAt};
pub use delta_leaf::Exchanged;
pub(crate) use diff::{Differences, diff};
pub use dirty_size::DirtySize;
pub use edit::{Edit, Replaced};
pub(crate) use found::UnverifiedHeader;
pub use layout::{NODE_FORMAT, NODE_HEADER_LEN, NODE_MAGIC, Stamp, StoreId};
use look::{Below, ChildRef};
pub use node::Node;
pub use placement::Placement;
pub use remove::Taken;
pub(crate) use scan::{Gap, ScanVisitor, Visit};
pub use slice::Stored;
pub use value::Held;
pub use write::{Encoded, NodeSink, unplaced, write_dirty};

use crate::address::{NODE_LEN_MAX, NodeRef};
use crate::allocator::Lease;
use crate::{Error, KeyRange, Result};
use value::Value;

/// The longest key of a tree, in bytes: a user's key and what the engine puts around it.
pub const TREE_KEY_LEN_MAX: usize = crate::batch::KEY_LEN_MAX + 16;
/// The longest value of a leaf, in bytes of its stored form. With the longest key, four entries fit into a node.
pub const TREE_VALUE_LEN_MAX: usize = 1984;
const _: () = assert!(4 * (4 + TREE_KEY_LEN_MAX + TREE_VALUE_LEN_MAX) + NODE_HEADER_LEN <= NODE_LEN_MAX);

/// Loads stored nodes: a cache over a device. `load` returns what [`Node::decode`] made of the bytes.
pub trait NodeSource {
    /// The node at `at`, checked.
    fn load(&self, at: &NodeRef) -> Result<Arc<Node>>;

    /// Keeps the blocks of a node that the newest tree reaches as they are. Only who gives blocks to others must do so.
    fn lease(&self, at: &NodeRef) -> Arc<Lease> {
        Arc::new(Lease::of_nothing((at.start_block, at.birth)))
    }
}

/// How a parent holds a child.
#[derive(Clone, Debug)]
pub(crate) enum Child {
    /// In memory; was perhaps also written since.
    Memory(Arc<Node>),
    /// On the device.
    Disk(NodeRef),
}

impl Child {
    /// Its place on the device, if it has one.
    pub(crate) fn stored(&self) -> Option<NodeRef> {
        match self {
            Child::Memory(node) => node.placed(),
            Child::Disk(at) => Some(*at),
        }
    }

    /// Its place, or the one that it is going to have.
    fn assigned(&self) -> Option<NodeRef> {
        match self {
            Child::Memory(node) => node.placement.assigned(),
            Child::Disk(at) => Some(*at),
        }
    }

    fn settles(&self) -> bool {
        matches!(self, Child::Memory(node) if node.placement.is_placed())
    }

    fn settle(&mut self) {
        if let Child::Memory(node) = self
            && let Some(at) = node.placed()
        {
            *self = Child::Disk(at);
        }
    }

    /// The node itself. `level` is what the parent says that it must be.
    fn load(&self, source: &dyn NodeSource, level: Option<u8>) -> Result<Arc<Node>> {
        self.as_ref().load(source, level)
    }

    fn as_ref(&self) -> ChildRef<'_> {
        match self {
            Child::Memory(node) => ChildRef::Memory(node),
            Child::Disk(at) => ChildRef::Disk(*at),
        }
    }
}

/// Loads a stored node and checks its level, so that no chain of nodes is endless.
fn load(source: &dyn NodeSource, at: &NodeRef, level: Option<u8>) -> Result<Arc<Node>> {
    let node = source.load(at)?;
    match level {
        Some(level) if level != node.level() => Err(Error::damaged(format!(
            "the node at block {} is of level {}, its parent expects {level}",
            at.start_block,
            node.level()
        ))),
        _ => Ok(node),
    }
}

/// An ordered map from bytes to [`Value`]s. Cloning takes constant time; clones are independent.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    root: Option<Child>,
    len: u64,
}

impl Tree {
    /// Without entries.
    pub fn new() -> Self {
        Tree::default()
    }

    /// The stored tree with this root node and number of entries.
    pub fn at(root: NodeRef, len: u64) -> Self {
        Tree { root: Some(Child::Disk(root)), len }
    }

    /// The number of entries.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Where the root node was written, if it was.
    pub fn stored(&self) -> Option<NodeRef> {
        self.root.as_ref().and_then(Child::stored)
    }

    /// Where the root node was written or is going to be, for who writes what refers to it.
    pub(crate) fn assigned(&self) -> Option<NodeRef> {
        self.root.as_ref().and_then(Child::assigned)
    }

    /// Whether the two are clones of each other without a change in between (false tells nothing).
    pub fn same(&self, other: &Tree) -> bool {
        match (&self.root, &other.root) {
            (None, None) => true,
            (Some(Child::Memory(a)), Some(Child::Memory(b))) => Arc::ptr_eq(a, b),
            (Some(a), Some(b)) => a.stored().is_some_and(|at| b.stored() == Some(at)),
            _ => false,
        }
    }

    /// Whether [`Tree::settle`] would change it.
    pub(crate) fn settles(&self) -> bool {
        self.root.as_ref().is_some_and(Child::settles)
    }

    /// Forgets the memory form of the root if it was written: what is needed comes back through the cache.
    pub fn settle(&mut self) {
        if let Some(root) = &mut self.root {
            root.settle();
        }
    }

    /// The same tree without the memory forms of what is written below a written root. The other one may
    /// not be changed any more.
    pub(crate) fn settled(&self) -> Result<Tree> {
        let root = match &self.root {
            Some(Child::Memory(node)) => match node.placement.placed() {
                Some(at) if node.level == 0 => Some(Child::Disk(at)),
                Some(_) => Some(Child::Memory(Arc::new(node.settled()?))),
                None => Some(Child::Memory(Arc::clone(node))),
            },
            other => other.clone(),
        };
        Ok(Tree { root, len: self.len })
    }

    /// A settled tree with what every look-up passes in memory: its root, if that is a leaf, and the roots of the trees
    /// in it as far as `source` has them.
    pub(crate) fn with_roots(self, source: &dyn NodeSource) -> Result<Tree> {
        let Some(Child::Disk(at)) = &self.root else { return Ok(self) };
        let Ok(node) = load(source, at, Some(0)) else { return Ok(self) };
        let mut entries = node.packed()?.entries()?;
        for (_, value) in &mut entries {
            if let Value::Root(root) = value
                && let Some(Child::Disk(at)) = &root.tree.root
                && let Ok(node) = source.load(at)
            {
                root.tree.root = Some(Child::Memory(node));
            }
        }
        let root = Node::resident(*at, entries);
        Ok(Tree { root: Some(Child::Memory(Arc::new(root))), len: self.len })
    }

    /// The value of a key.
    pub fn get(&self, source: &dyn NodeSource, key: &[u8]) -> Result<Option<Value>> {
        self.look(source, key, |held| held.map(|held| held.to_value()).transpose())
    }

    /// Shows what a key holds where it lies, taking nothing out.
    pub fn look<R>(
        &self,
        source: &dyn NodeSource,
        key: &[u8],
        see: impl FnOnce(Option<Held<'_>>) -> Result<R>,
    ) -> Result<R> {
        let Some(root) = &self.root else { return see(None) };
        let (mut child, mut level) = (root.as_ref(), None);
        // Nodes in memory are borrowed; below the first stored one all are stored.
        let mut at = loop {
            let node = match child {
                ChildRef::Memory(node) => node,
                ChildRef::Disk(at) => break at,
            };
            match node.below(key)? {
                Below::Here(held) => return see(held),
                Below::Child(next) => (child, level) = (next, node.level().checked_sub(1)),
                Below::Base(delta) => return see(delta.stored(delta.load(source)?.packed()?, key)),
            }
        };
        loop {
            let node = load(source, &at, level)?;
            match node.below(key)? {
                Below::Here(held) => return see(held),
                Below::Child(ChildRef::Disk(next)) => (at, level) = (next, node.level().checked_sub(1)),
                Below::Child(ChildRef::Memory(_)) | Below::Base(_) => return Err(node::not_open()),
            }
        }
    }

    /// A cursor over the keys of a range, before the first of them.
    pub fn cursor(&self, range: KeyRange) -> Cursor {
        Cursor::new(self.clone(), range)
    }

    /// The first entry whose key is `key` or above.
    pub fn first_at_or_after(&self, source: &dyn NodeSource, key: &[u8]) -> Result<Option<(Bytes, Value)>> {
        let mut cursor = self.cursor(KeyRange::all());
        cursor.seek(key);
        cursor.next(source)
    }

    /// The last entry whose key is below `key`.
    pub fn last_before(&self, source: &dyn NodeSource, key: &[u8]) -> Result<Option<(Bytes, Value)>> {
        let mut cursor = self.cursor(KeyRange::all());
        cursor.seek(key);
        cursor.previous(source)
    }
}
