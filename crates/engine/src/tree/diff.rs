//! What differs between two trees that may share nodes.
//!
//! Invariants:
//! - Keys are told in order, each once; what both trees reach by the same node is left out without reading it.
//! - Only nodes that one of the two has for itself are loaded, and those of the other beside them that hold the same keys.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use super::node::Entries;
use super::{Child, NodeSource, Tree};
use crate::error::Result;
use crate::tree::value::Value;

/// What a comparison reports to.
pub trait Differences {
    /// Whether two values of one key count as the same.
    fn same(&self, old: &Value, new: &Value) -> bool;

    /// A key that only one tree has, or with different values. `false` ends the comparison.
    fn differs(&mut self, key: &Bytes, old: Option<&Value>, new: Option<&Value>) -> Result<bool>;
}

/// How a comparison went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Every key of the range was compared.
    pub finished: bool,
    /// Nodes that were looked into, of both trees.
    pub nodes: u64,
}

/// What is still to be compared of one tree, the next on top.
enum Item {
    Below { lowest: Bytes, child: Child, level: Option<u8> },
    Entry { key: Bytes, value: Value },
}

impl Item {
    fn lowest(&self) -> &[u8] {
        match self {
            Item::Below { lowest, .. } => lowest,
            Item::Entry { key, .. } => key,
        }
    }

    fn is_same_node(&self, other: &Item) -> bool {
        let (Item::Below { child: a, .. }, Item::Below { child: b, .. }) = (self, other) else { return false };
        match (a, b) {
            (Child::Memory(a), Child::Memory(b)) if Arc::ptr_eq(a, b) => true,
            _ => a.stored().is_some_and(|at| b.stored() == Some(at)),
        }
    }
}

struct Side<'a> {
    stack: Vec<Item>,
    source: &'a dyn NodeSource,
    from: &'a [u8],
    end: Option<&'a [u8]>,
    nodes: u64,
}

impl<'a> Side<'a> {
    fn new(tree: &Tree, source: &'a dyn NodeSource, from: &'a [u8], end: Option<&'a [u8]>) -> Side<'a> {
        let root =
            tree.root.iter().map(|child| Item::Below { lowest: Bytes::new(), child: child.clone(), level: None });
        Side { stack: root.collect(), source, from, end, nodes: 0 }
    }

    /// Puts what is right below a node in its place.
    fn open(&mut self, lowest: Bytes, child: &Child, level: Option<u8>) -> Result<()> {
        let node = child.load(self.source, level)?;
        self.nodes += 1;
        let before = self.stack.len();
        let entries = node.opened()?;
        match entries.as_ref() {
            Entries::Leaf(run) => {
                let inside = |key: &Bytes| key.as_ref() >= self.from && self.end.is_none_or(|end| key.as_ref() < end);
                let entries = run.iter().filter(|(key, _)| inside(key));
                self.stack.extend(entries.map(|(key, value)| Item::Entry { key: key.clone(), value: value.clone() }));
            }
            Entries::Inner(run) => {
                let level = node.level().checked_sub(1);
                let mut children = run.iter().peekable();
                while let Some((separator, child)) = children.next() {
                    let lowest = if separator.is_empty() { lowest.clone() } else { separator.clone() };
                    let ends_before = children.peek().is_some_and(|next| next.0.as_ref() <= self.from);
                    if ends_before || self.end.is_some_and(|end| lowest.as_ref() >= end) {
                        continue;
                    }
                    self.stack.push(Item::Below { lowest, child: child.clone(), level });
                }
            }
        }
        if let Some(fresh) = self.stack.get_mut(before..) {
            fresh.reverse();
        }
        Ok(())
    }
}

/// Compares the keys in `from..end` of two trees.
pub fn diff(
    old: &Tree,
    new: &Tree,
    source: &dyn NodeSource,
    (from, end): (&[u8], Option<&[u8]>),
    told: &mut dyn Differences,
) -> Result<Compared> {
    let (mut old, mut new) = (Side::new(old, source, from, end), Side::new(new, source, from, end));
    let mut goes_on = true;
    while goes_on {
        let order = match (old.stack.last(), new.stack.last()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) if a.is_same_node(b) => {
                old.stack.pop();
                new.stack.pop();
                continue;
            }
            (Some(a), Some(b)) => a.lowest().cmp(b.lowest()),
        };
        let (left, right) = match order {
            Ordering::Less => (old.stack.pop(), None),
            Ordering::Greater => (None, new.stack.pop()),
            Ordering::Equal => (old.stack.pop(), new.stack.pop()),
        };
        goes_on = match (left, right) {
            (Some(Item::Entry { key, value: a }), Some(Item::Entry { value: b, .. })) => {
                told.same(&a, &b) || told.differs(&key, Some(&a), Some(&b))?
            }
            (Some(Item::Entry { key, value }), None) => told.differs(&key, Some(&value), None)?,
            (None, Some(Item::Entry { key, value })) => told.differs(&key, None, Some(&value))?,
            (left, right) => {
                open_higher(&mut old, &mut new, left, right)?;
                true
            }
        };
    }
    Ok(Compared { finished: goes_on, nodes: old.nodes + new.nodes })
}

/// Opens the nodes among the two; where both are nodes the higher one, since the other may be found below it.
fn open_higher<'a>(old: &mut Side<'a>, new: &mut Side<'a>, left: Option<Item>, right: Option<Item>) -> Result<()> {
    let level = |item: &Option<Item>| match item {
        Some(Item::Below { child: Child::Memory(node), .. }) => Some(node.level()),
        Some(Item::Below { level, .. }) => *level,
        _ => None,
    };
    let (left_level, right_level) = (level(&left), level(&right));
    let both = left_level.is_some() && right_level.is_some();
    for (side, item, own, others) in [(old, left, left_level, right_level), (new, right, right_level, left_level)] {
        match item {
            Some(Item::Below { lowest, child, level }) if !both || own >= others => side.open(lowest, &child, level)?,
            Some(item) => side.stack.push(item),
            None => {}
        }
    }
    Ok(())
}
