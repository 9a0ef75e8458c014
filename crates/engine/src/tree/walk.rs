//! Seeing everything that a tree reaches, for checks and accounts.
//!
//! Invariants: every node and entry is reported once, in key order, a node before what is below it; levels
//! and the bounds that separators set are verified on the way, so that a walk over damage ends.

use bytes::Bytes;

use super::node::Entries;
use super::{Child, Node, NodeSource, Tree};
use crate::address::NodeRef;
use crate::tree::value::Value;
use crate::{Error, Result};

/// What a walk does about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Loads it and goes on below it.
    Into,
    /// Leaves it and all below it out (it was seen before, say).
    Skip,
}

/// What a walk reports to. An error from any method ends the walk.
pub trait Visitor {
    /// A node that has a place, before it is loaded. Nodes in memory only are not reported.
    fn node(&mut self, at: &NodeRef) -> Result<Visit>;

    /// An entry of a leaf. To go into a [`Value::Root`], start another walk.
    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<()>;

    /// A node could not be loaded or breaks the order; the walk goes on after it unless this fails.
    fn unreadable(&mut self, at: Option<&NodeRef>, error: Error) -> Result<()> {
        let _ = at;
        Err(error)
    }
}

/// Visits all of a tree.
pub fn walk(tree: &Tree, source: &dyn NodeSource, visitor: &mut dyn Visitor) -> Result<()> {
    match &tree.root {
        None => Ok(()),
        Some(root) => walk_child(root, None, Bounds { lowest: &[], end: None }, source, visitor),
    }
}

/// The keys that may be below a node.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    lowest: &'a [u8],
    end: Option<&'a [u8]>,
}

impl Bounds<'_> {
    fn hold(&self, node: &Node) -> bool {
        // The first separator of an inner node is empty and stands for the lowest key.
        let first = if node.level == 0 { node.first_key() } else { None };
        let low = first.is_none_or(|key| key >= self.lowest);
        let high = self.end.is_none_or(|end| node.last_key().is_none_or(|key| key < end));
        low && high
    }
}

/// The depth is that of the tree: a stored child's level is verified to be one less.
fn walk_child(
    child: &Child,
    level: Option<u8>,
    bounds: Bounds<'_>,
    source: &dyn NodeSource,
    visitor: &mut dyn Visitor,
) -> Result<()> {
    let at = child.stored();
    if let Some(at) = &at
        && visitor.node(at)? == Visit::Skip
    {
        return Ok(());
    }
    let node = match child.load(source, level) {
        Ok(node) => node,
        Err(error) => return visitor.unreadable(at.as_ref(), error),
    };
    if !bounds.hold(&node) {
        let place = at.map_or_else(|| "in memory".to_owned(), |at| format!("at block {}", at.start_block));
        let error = Error::damaged(format!("the index node {place} has keys outside of its parent's bounds"));
        return visitor.unreadable(at.as_ref(), error);
    }
    let entries = match node.opened() {
        Ok(entries) => entries,
        Err(error) => return visitor.unreadable(at.as_ref(), error),
    };
    match entries.as_ref() {
        Entries::Leaf(run) => {
            for (key, value) in run.iter() {
                visitor.entry(key, value)?;
            }
        }
        Entries::Inner(run) => {
            let mut children = run.iter().peekable();
            while let Some((separator, child)) = children.next() {
                let lowest = if separator.is_empty() { bounds.lowest } else { separator.as_ref() };
                let end = children.peek().map(|next| next.0.as_ref()).or(bounds.end);
                walk_child(child, node.level.checked_sub(1), Bounds { lowest, end }, source, visitor)?;
            }
        }
    }
    Ok(())
}
