//! Branching a tree: a second tree with the same entries, in the time that its unwritten nodes take.
//!
//! Invariants:
//! - What was written and is old enough is shared by both; what was not, or is younger, is copied, so that each
//!   node and each pending piece has one owner until it has a place.
//! - The tree that is copied does not change, and neither does what others hold of it.

use std::sync::Arc;

use super::chunked_array::ChunkedArray;
use super::node::{Body, Entries};
use super::{Child, DirtySize, Node, NodeSource, Tree};
use crate::Result;
use crate::address::Generation;
use crate::tree::value::{Content, Frozen, Pending, Piece, Record, Value, block_of};

/// What a copy has made.
#[derive(Debug, Default)]
pub struct Copied {
    /// Nodes that need a place at the next checkpoint.
    pub nodes: u64,
    /// Their dirty size ([`Node::dirty_size`]).
    pub dirty_size: DirtySize,
    /// Bytes of pending pieces, as many times as they are held now.
    pub bytes: u64,
    /// Pieces on the device that are too young to be shared silently: each is named once more than before.
    pub named_again: Vec<crate::address::BlockRange>,
}

impl Tree {
    /// How many nodes were not written yet, counted up to `most`.
    pub fn unwritten(&self, most: usize) -> usize {
        fn below(child: &Child, most: usize) -> usize {
            let Child::Memory(node) = child else { return 0 };
            if node.placement.is_placed() {
                return 0;
            }
            let mut count = 1;
            if let Body::Open(Entries::Inner(run)) = &node.body {
                for (_, child) in run.iter() {
                    if count >= most {
                        break;
                    }
                    count += below(child, most - count);
                }
            }
            count
        }
        self.root.as_ref().map_or(0, |root| below(root, most))
    }

    /// A tree with the same entries that shares the nodes written up to generation `upto`. Pieces that it
    /// must name anew are born in `birth`.
    pub fn branch(
        &self,
        source: &dyn NodeSource,
        upto: Generation,
        birth: Generation,
        copied: &mut Copied,
    ) -> Result<Tree> {
        let mut branching = Branching { source, upto, birth, copied };
        let root = self.root.as_ref().map(|root| branching.child(root, None)).transpose()?;
        Ok(Tree { root, len: self.len })
    }
}

struct Branching<'a> {
    source: &'a dyn NodeSource,
    upto: Generation,
    birth: Generation,
    copied: &'a mut Copied,
}

impl Branching<'_> {
    /// The depth is that of the tree.
    fn child(&mut self, child: &Child, level: Option<u8>) -> Result<Child> {
        if let Some(at) = child.stored()
            && at.birth <= self.upto
        {
            return Ok(Child::Disk(at));
        }
        let node = child.load(self.source, level)?;
        self.copied.nodes += 1;
        let entries = match node.opened()?.as_ref() {
            Entries::Inner(run) => {
                let level = node.level.checked_sub(1);
                let children: Result<Vec<_>> =
                    run.iter().map(|(key, child)| Ok((key.clone(), self.child(child, level)?))).collect();
                Entries::Inner(ChunkedArray::from_sorted(children?))
            }
            Entries::Leaf(run) => {
                let entries = run.iter().map(|(key, value)| (key.clone(), self.value(value))).collect();
                Entries::Leaf(ChunkedArray::from_sorted(entries))
            }
        };
        let node = Node::new(node.level, entries, node.born());
        self.copied.dirty_size += node.dirty_size();
        Ok(Child::Memory(Arc::new(node)))
    }

    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Piece(piece) => Value::Piece(self.piece(piece)),
            Value::Record(record) => {
                let content = match &record.content {
                    Content::Single(piece) => Content::Single(self.piece(piece)),
                    other => other.clone(),
                };
                Value::Record(Record { content, ..*record })
            }
            other => other.clone(),
        }
    }

    fn piece(&mut self, piece: &Piece) -> Piece {
        let extent = match piece {
            Piece::Inline(_) => return piece.clone(),
            Piece::Disk(extent) => extent.clone(),
            Piece::Frozen(frozen) if frozen.birth <= self.upto => return piece.clone(),
            Piece::Frozen(frozen) => {
                self.copied.named_again.push(block_of(frozen.blob));
                return Piece::Frozen(Frozen { birth: self.birth, ..*frozen });
            }
            Piece::Pending(pending) => match pending.placement.placed() {
                Some(extent) => extent,
                None => {
                    self.copied.bytes += pending.bytes.len() as u64;
                    return Piece::Pending(Arc::new(Pending::new(pending.bytes.clone())));
                }
            },
        };
        if extent.birth <= self.upto {
            return Piece::Disk(extent);
        }
        self.copied.named_again.push(extent.blocks());
        Piece::Disk(crate::extent::Extent { birth: self.birth, ..extent })
    }
}
