//! Writing what a frozen tree has only in memory.
//!
//! Invariants:
//! - Children and pieces are placed before the node that refers to them is encoded.
//! - What was placed before is skipped with all below it: no node is written twice.
//! - Runs beside edits of newer versions: nodes of a frozen tree never change, and a [`Fate`](super::Fate) settles who frees
//!   a node that left the newest tree meanwhile.
//! - After an error, what was placed so far stays placed; the tree can be written again.

use std::sync::Arc;

use super::node::Body;
use super::stored::Stamp;
use super::{Child, Node, NodeRef, Tree};
use crate::batch::SpaceId;
use crate::value::{Pending, Value};
use crate::{Error, Piece, Result, Version};

/// Where a checkpoint writes to.
pub trait NodeSink {
    /// Writes the bytes of a pending piece and calls `pending.fate.place`; where that names a commit it sees
    /// to it that the extent is freed in that commit's name. The extent keeps to [`Pending::chunks_max`].
    fn place_value(&mut self, pending: &Pending) -> Result<()>;

    /// Writes an encoded node, whole blocks, somewhere; returns the first block.
    fn write_node(&mut self, encoded: Vec<u8>) -> Result<u64>;

    /// A node that was just written had left the newest tree with commit `by`: its blocks are to be freed in
    /// that commit's name.
    fn unneeded(&mut self, at: NodeRef, by: Version);
}

/// Writes every node of `tree`, and of the trees in its leaves, that was not written yet. Returns the root's place.
pub fn write_dirty(tree: &Tree, stamp: Stamp, sink: &mut dyn NodeSink) -> Result<Option<NodeRef>> {
    write_tree(tree, Writing { stamp, space: MASTER }, sink)
}

/// What every node of one tree says of itself.
#[derive(Clone, Copy)]
struct Writing {
    stamp: Stamp,
    space: SpaceId,
}

/// What nodes of the master tree give as their space.
const MASTER: SpaceId = SpaceId(0);

fn write_tree(tree: &Tree, writing: Writing, sink: &mut dyn NodeSink) -> Result<Option<NodeRef>> {
    match &tree.root {
        None => Ok(None),
        Some(Child::Disk(at)) => Ok(Some(*at)),
        Some(Child::Memory(node)) => write_node(node, writing, sink).map(Some),
    }
}

/// Every pending piece that is not placed yet and that [`write_dirty`] would ask to place, in the order of keys: for
/// a sink that places many at once beforehand.
pub fn unplaced(tree: &Tree, out: &mut Vec<Arc<Pending>>) {
    if let Some(Child::Memory(node)) = &tree.root {
        unplaced_below(node, out);
    }
}

fn unplaced_below(node: &Arc<Node>, out: &mut Vec<Arc<Pending>>) {
    if node.placed().is_some() {
        return;
    }
    match &node.body {
        Body::Inner(run) => {
            for (_, child) in run.iter() {
                if let Child::Memory(child) = child {
                    unplaced_below(child, out);
                }
            }
        }
        Body::Leaf(run) => {
            for (_, value) in run.iter() {
                match (value, value.piece()) {
                    // A snapshot's tree is its branch point's, which is met elsewhere.
                    (Value::Root(root), _) if root.is_read_only() => {}
                    (Value::Root(root), _) => unplaced(&root.tree, out),
                    (_, Some(Piece::Pending(pending))) if !pending.fate.is_placed() => out.push(Arc::clone(pending)),
                    _ => {}
                }
            }
        }
    }
}

/// The depth is that of the tree, and of one tree within another, and that within the master tree.
fn write_node(node: &Arc<Node>, writing: Writing, sink: &mut dyn NodeSink) -> Result<NodeRef> {
    if let Some(at) = node.placed() {
        return Ok(at);
    }
    match &node.body {
        Body::Inner(run) => {
            for (_, child) in run.iter() {
                if let Child::Memory(child) = child {
                    write_node(child, writing, sink)?;
                }
            }
        }
        Body::Leaf(run) => {
            for (key, value) in run.iter() {
                write_held(key, value, writing, sink)?;
            }
        }
    }
    let encoded = node.encode(writing.stamp, writing.space)?;
    let mut at = NodeRef::of(&encoded, 0, writing.stamp.birth);
    at.start_block = sink.write_node(encoded)?;
    if let Some(by) = node.fate.place(at) {
        sink.unneeded(at, by);
    }
    Ok(at)
}

fn write_held(key: &[u8], value: &Value, writing: Writing, sink: &mut dyn NodeSink) -> Result<()> {
    if let Value::Root(root) = value {
        // Trees within a space of the engine's own (branch points, say) keep its name.
        let named = <[u8; 8]>::try_from(key).map_or(MASTER, |id| SpaceId(u64::from_be_bytes(id)));
        let space = if writing.space == MASTER { named } else { writing.space };
        write_tree(&root.tree, Writing { space, ..writing }, sink)?;
    }
    if let Some(Piece::Pending(pending)) = value.piece()
        && !pending.fate.is_placed()
    {
        sink.place_value(pending)?;
        if !pending.fate.is_placed() {
            return Err(Error::invalid("a checkpoint did not place a pending piece"));
        }
    }
    Ok(())
}
