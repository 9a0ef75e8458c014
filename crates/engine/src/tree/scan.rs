//! Seeing a range of a tree, and going on past what cannot be read: for check, scrub, salvage and the report of space.
//!
//! Invariants:
//! - Nodes and entries come in the order of keys, a node before what is below it. Levels and the bounds that separators set
//!   are verified on the way, so that a scan over damage ends.
//! - What cannot be read is told once, with all the keys of the tree that it may have held.

use bytes::Bytes;

use super::node::Entries;
use super::{Child, NodeSource, Tree};
use crate::address::NodeRef;
use crate::error::{Error, Result};
use crate::tree::value::Value;

/// A part of a tree that could not be read.
#[derive(Clone, Debug)]
pub struct Gap {
    /// Where the node is that should have held it.
    pub at: Option<NodeRef>,
    /// The lowest tree key that it may have held.
    pub start: Bytes,
    /// All its tree keys were below this; `None`: no end.
    pub end: Option<Bytes>,
    /// What is wrong with it.
    pub error: Error,
}

/// What a scan does about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Loads it and goes on below it.
    Into,
    /// Leaves it and all below it out.
    Skip,
}

/// What [`super::Tree::scan`] reports to. `false` ends the scan, as an error does.
pub trait ScanVisitor {
    /// A node that has a place, before it is loaded (which `in_memory` says is not needed).
    fn node(&mut self, at: &NodeRef, in_memory: bool) -> Result<Visit> {
        let _ = (at, in_memory);
        Ok(Visit::Into)
    }

    /// An entry of a leaf. To go into a [`Value::Root`], start another scan.
    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool>;

    /// A part that cannot be read; the scan goes on after it.
    fn gap(&mut self, gap: Gap) -> Result<bool>;
}

/// The scan of one tree.
struct TreeScan<'a> {
    from: &'a [u8],
    end: Option<&'a [u8]>,
    source: &'a dyn NodeSource,
    visitor: &'a mut dyn ScanVisitor,
}

impl Tree {
    /// Reports nodes and entries of the keys in `from..end`, in order, and what cannot be read with the keys
    /// that it may have held. Gives false when the visitor ended it.
    pub fn scan(
        &self,
        source: &dyn NodeSource,
        from: &[u8],
        end: Option<&[u8]>,
        visitor: &mut dyn ScanVisitor,
    ) -> Result<bool> {
        let Some(root) = &self.root else { return Ok(true) };
        TreeScan { from, end, source, visitor }.child(root, None, &[], None)
    }
}

impl TreeScan<'_> {
    /// The depth is that of the tree: a stored child's level is verified to be one less.
    fn child(&mut self, child: &Child, level: Option<u8>, lowest: &[u8], end: Option<&[u8]>) -> Result<bool> {
        if end.is_some_and(|end| end <= self.from) || self.end.is_some_and(|last| last <= lowest) {
            return Ok(true);
        }
        let at = child.stored();
        if let Some(at) = &at
            && self.visitor.node(at, matches!(child, Child::Memory(_)))? == Visit::Skip
        {
            return Ok(true);
        }
        let loaded = child.load(self.source, level).and_then(|node| {
            let first = if node.level == 0 { node.first_key() } else { None };
            let low = first.is_none_or(|key| key >= lowest);
            let high = end.is_none_or(|end| node.last_key().is_none_or(|key| key < end));
            if low && high {
                return Ok(node);
            }
            let place = at.map_or_else(|| "in memory".to_owned(), |at| format!("at block {}", at.start_block));
            Err(Error::damaged(format!("the index node {place} has keys outside of its parent's bounds")))
        });
        let node = match loaded {
            Ok(node) => node,
            Err(error) => {
                let (start, end) = (Bytes::copy_from_slice(lowest), end.map(Bytes::copy_from_slice));
                return self.visitor.gap(Gap { at, start, end, error });
            }
        };
        let entries = match node.opened() {
            Ok(entries) => entries,
            Err(error) => {
                let (start, end) = (Bytes::copy_from_slice(lowest), end.map(Bytes::copy_from_slice));
                return self.visitor.gap(Gap { at, start, end, error });
            }
        };
        match entries.as_ref() {
            Entries::Leaf(run) => {
                for (key, value) in run.iter() {
                    if key.as_ref() < self.from || self.end.is_some_and(|end| end <= key.as_ref()) {
                        continue;
                    }
                    if !self.visitor.entry(key, value)? {
                        return Ok(false);
                    }
                }
            }
            Entries::Inner(run) => {
                let mut children = run.iter().peekable();
                while let Some((separator, child)) = children.next() {
                    let lowest = if separator.is_empty() { lowest } else { separator.as_ref() };
                    let end = children.peek().map(|next| next.0.as_ref()).or(end);
                    if !self.child(child, node.level.checked_sub(1), lowest, end)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}
