//! Taking many keys away: one way down for all of a leaf.
//!
//! Invariants:
//! - Keys ascend strictly. What is left is what as many single removals leave, though perhaps in other leaves.
//! - A leaf that holds none of the keys is not copied, and nothing above it for its sake.

use bytes::Bytes;

use super::chunked_array::ChunkedArray;
use super::delta_leaf::DeltaLeaf;
use super::entry::entry_len;
use super::layout::ENTRY_HEAD_LEN;
use super::look::ChildRef;
use super::node::{Body, Size, childless};
use super::value::Value;
use super::{Edit, Node, NodeSource, Tree, load};
use crate::Result;

/// Hears the number of each key that was there, and its value.
pub type Taken<'a> = dyn FnMut(usize, Value) -> Result<()> + 'a;

/// Keys of one leaf on their way out.
pub(super) struct Taking<'a> {
    keys: &'a [&'a [u8]],
    taken: &'a mut Taken<'a>,
    /// So many were there.
    pub count: u64,
}

/// What is known of the leaf in which the first of some keys belongs.
struct Leaf {
    /// So many of the keys belong there, at least one.
    keys: usize,
    /// One of them is there.
    holds_any: bool,
}

impl Tree {
    /// Takes keys away that ascend strictly. After an error the tree may only be dropped.
    pub fn remove_sorted(&mut self, edit: &mut Edit<'_>, keys: &[&[u8]], taken: &mut Taken<'_>) -> Result<()> {
        debug_assert!(keys.is_sorted_by(|a, b| a < b));
        let mut from = 0;
        while let Some(rest) = keys.get(from..).filter(|rest| !rest.is_empty()) {
            let leaf = self.leaf_of(edit.source, rest)?;
            if leaf.holds_any {
                let keys = rest.get(..leaf.keys).unwrap_or(rest);
                let mut taken = |number, value| taken(from + number, value);
                self.remove_in_leaf(edit, &mut Taking { keys, taken: &mut taken, count: 0 })?;
            }
            from += leaf.keys.max(1);
        }
        Ok(())
    }

    /// Looks at the leaf of the first key.
    fn leaf_of(&self, source: &dyn NodeSource, keys: &[&[u8]]) -> Result<Leaf> {
        let (Some(root), Some(first)) = (&self.root, keys.first()) else {
            return Ok(Leaf { keys: keys.len(), holds_any: false });
        };
        let mut end = None;
        let (mut child, mut level) = (root.as_ref(), None);
        // As in `Tree::look`.
        let mut at = loop {
            let node = match child {
                ChildRef::Memory(node) => node,
                ChildRef::Disk(at) => break at,
            };
            if node.level() == 0 {
                return node.leaf(source, keys, end);
            }
            (child, level) = (node.child_for(first, &mut end)?, node.level().checked_sub(1));
        };
        loop {
            let node = load(source, &at, level)?;
            if node.level() == 0 {
                return node.leaf(source, keys, end);
            }
            match node.child_for(first, &mut end)? {
                ChildRef::Disk(next) => (at, level) = (next, node.level().checked_sub(1)),
                ChildRef::Memory(_) => return Err(super::node::not_open()),
            }
        }
    }
}

impl Node {
    /// The child for a key, and where its keys end if another child follows.
    fn child_for(&self, key: &[u8], end: &mut Option<Bytes>) -> Result<ChildRef<'_>> {
        let spot = self.covering(key).ok_or_else(childless)?;
        if let Some(next) = self.after(spot).filter(|next| self.key(*next).is_some()) {
            *end = Some(self.key_bytes(next));
        }
        self.child(spot)
    }

    fn leaf(&self, source: &dyn NodeSource, keys: &[&[u8]], end: Option<Bytes>) -> Result<Leaf> {
        let count = match end {
            Some(end) => keys.iter().take_while(|key| **key < end.as_ref()).count(),
            None => keys.len(),
        };
        let mut own = keys.iter().take(count);
        let holds_any = match &self.body {
            Body::DeltaLeaf(delta) => {
                let base = delta.load(source)?;
                let packed = base.packed()?;
                own.any(|key| delta.holds(packed, key))
            }
            _ => own.any(|key| self.find(key).is_ok()),
        };
        Ok(Leaf { keys: count, holds_any })
    }
}

impl Taking<'_> {
    /// The first key.
    pub(super) fn first(&self) -> &[u8] {
        self.keys.first().copied().unwrap_or_default()
    }

    /// Takes the keys out of a delta leaf of this size.
    pub(super) fn take_from_delta(
        &mut self,
        delta: &mut DeltaLeaf,
        size: &mut Size,
        source: &dyn NodeSource,
    ) -> Result<()> {
        let base = delta.load(source)?;
        let packed = base.packed()?;
        for (number, key) in self.keys.iter().enumerate() {
            if let Some(old) = delta.take(packed, key)? {
                size.take(ENTRY_HEAD_LEN + key.len() + old.encoded_len());
                self.count += 1;
                (self.taken)(number, old)?;
            }
        }
        Ok(())
    }

    /// Takes the keys out of a leaf of this size.
    pub(super) fn take_from_run(&mut self, run: &mut ChunkedArray<Value>, size: &mut Size) -> Result<()> {
        let (taken, count) = (&mut self.taken, &mut self.count);
        run.remove_sorted(self.keys, &mut |number, (key, old)| {
            size.take(entry_len(key, old));
            *count += 1;
            taken(number, old.clone())
        })
    }
}
