//! Writing what an immutable tree has only in memory.
//!
//! Invariants:
//! - Children are assigned a place, and pieces placed, before the node that refers to them is encoded.
//! - What has a place is skipped with all below it: no node is written twice.
//! - Runs beside edits of newer versions: nodes of an immutable tree never change, and a [`Placement`](super::Placement) settles who frees
//!   a node that left the newest tree meanwhile.
//! - After an error, what was placed so far stays placed; the tree can be written again.

use std::sync::Arc;

use bytes::Bytes;

use super::layout::Stamp;
use super::node::{Body, Entries};
use super::{Child, Node, NodeSource, Tree};
use crate::address::NodeRef;
use crate::batch::SpaceId;
use crate::tree::value::{Pending, Value};
use crate::{Error, Piece, Result, Version};

/// Where a checkpoint writes to.
pub trait NodeSink {
    /// Writes the bytes of a pending piece and calls `pending.placement.place`; where that names a commit it sees
    /// to it that the extent is freed in that commit's name. The extent keeps to [`Pending::chunks_max`].
    fn place_value(&mut self, pending: &Pending) -> Result<()>;

    /// Where stored leaves come from that are written anew with their changes.
    fn source(&self) -> &dyn NodeSource;

    /// Finds a place for an encoded node, whole blocks, and calls [`Encoded::assign`]. It may write it later,
    /// many at once, and calls [`Encoded::place`] when that is done: also where something else failed in between.
    fn write_node(&mut self, encoded: Encoded) -> Result<()>;
}

/// A node on its way to the device.
pub struct Encoded {
    node: Arc<Node>,
    bytes: Bytes,
    at: NodeRef,
}

impl Encoded {
    /// What is to be written.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Where it is going to be written; the first block is as was assigned.
    pub fn at(&self) -> NodeRef {
        self.at
    }

    /// Says where it is going to be written.
    pub fn assign(&mut self, start_block: u64) {
        self.at.start_block = start_block;
        self.node.placement.assign(self.at);
    }

    /// The bytes are on the device. Gives the node as it would be read from there; a version says that the node has left
    /// the newest tree with that commit, and that its blocks are to be freed in that commit's name.
    #[must_use = "a version means that the blocks must be freed"]
    pub fn place(self) -> (Result<Node>, Option<Version>) {
        let by = self.node.placement.place(self.at);
        (self.node.written(self.bytes, self.at), by)
    }
}

/// Writes every node of `tree`, and of the trees in its leaves, that was not written yet. Returns the root's place.
pub fn write_dirty(tree: &Tree, stamp: Stamp, sink: &mut dyn NodeSink) -> Result<Option<NodeRef>> {
    write_tree(tree, Writing { stamp, space: MASTER, is_root: true }, sink)
}

/// What every node of one tree says of itself.
#[derive(Clone, Copy)]
struct Writing {
    stamp: Stamp,
    space: SpaceId,
    is_root: bool,
}

/// What nodes of the master tree give as their space.
const MASTER: SpaceId = SpaceId(0);

fn write_tree(tree: &Tree, writing: Writing, sink: &mut dyn NodeSink) -> Result<Option<NodeRef>> {
    match &tree.root {
        None => Ok(None),
        Some(Child::Disk(at)) => Ok(Some(*at)),
        Some(Child::Memory(node)) => write_node(node, Writing { is_root: true, ..writing }, sink).map(Some),
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
        Body::Packed(_) | Body::Merged(_) => {}
        Body::Open(Entries::Inner(run)) => {
            for (_, child) in run.iter() {
                if let Child::Memory(child) = child {
                    unplaced_below(child, out);
                }
            }
        }
        Body::Open(Entries::Leaf(run)) => run.iter().for_each(|(_, value)| unplaced_in(value, out)),
        Body::DeltaLeaf(delta) => delta.changes().iter().for_each(|(_, value)| unplaced_in(value, out)),
    }
}

fn unplaced_in(value: &Value, out: &mut Vec<Arc<Pending>>) {
    match (value, value.piece()) {
        // A snapshot's tree is its branch point's, which is met elsewhere.
        (Value::Root(root), _) if root.is_read_only() => {}
        (Value::Root(root), _) => unplaced(&root.tree, out),
        (_, Some(Piece::Pending(pending))) if !pending.placement.is_placed() => out.push(Arc::clone(pending)),
        _ => {}
    }
}

/// The depth is that of the tree, and of one tree within another, and that within the master tree.
fn write_node(node: &Arc<Node>, writing: Writing, sink: &mut dyn NodeSink) -> Result<NodeRef> {
    if let Some(at) = node.placement.assigned() {
        return Ok(at);
    }
    match &node.body {
        Body::Packed(_) | Body::Merged(_) => {}
        Body::Open(Entries::Inner(run)) => {
            for (_, child) in run.iter() {
                if let Child::Memory(child) = child {
                    write_node(child, Writing { is_root: false, ..writing }, sink)?;
                }
            }
        }
        Body::Open(Entries::Leaf(run)) => {
            for (key, value) in run.iter() {
                write_held(key, value, writing, sink)?;
            }
        }
        Body::DeltaLeaf(delta) => {
            for (key, value) in delta.changes().iter() {
                write_held(key, value, writing, sink)?;
            }
        }
    }
    let whole = node.whole(sink.source())?;
    let bytes = whole.as_ref().unwrap_or(node).encode(writing.stamp, writing.space, writing.is_root)?;
    let at = super::layout::reference(&bytes, 0, writing.stamp.birth);
    sink.write_node(Encoded { node: Arc::clone(node), bytes: bytes.into(), at })?;
    node.placement.assigned().ok_or_else(|| Error::invalid("a checkpoint did not place a node"))
}

fn write_held(key: &[u8], value: &Value, writing: Writing, sink: &mut dyn NodeSink) -> Result<()> {
    if let Value::Root(root) = value {
        // Trees within a space of the engine's own (branch points, say) keep its name.
        let named = <[u8; 8]>::try_from(key).map_or(MASTER, |id| SpaceId(u64::from_be_bytes(id)));
        let space = if writing.space == MASTER { named } else { writing.space };
        write_tree(&root.tree, Writing { space, ..writing }, sink)?;
    }
    if let Some(Piece::Pending(pending)) = value.piece()
        && !pending.placement.is_placed()
    {
        sink.place_value(pending)?;
        if !pending.placement.is_placed() {
            return Err(Error::invalid("a checkpoint did not place a pending piece"));
        }
    }
    Ok(())
}
