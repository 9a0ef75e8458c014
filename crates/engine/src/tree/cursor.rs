//! Walking over a range of keys, both ways, without holding anything but nodes.
//!
//! Invariants:
//! - A cursor stands between two keys of one unchanging tree; `next` returns the entry after it and `previous`
//!   the one before it, and either moves over what it returned.
//! - Nothing outside of the range is returned.
//! - An error moves nothing: the same call may be made again.

use std::sync::Arc;

use bytes::Bytes;

use super::node::Body;
use super::run::Spot;
use super::{Child, Node, NodeSource, Tree};
use crate::value::Value;
use crate::{KeyRange, Result};

/// A place between two keys of a tree. It holds its tree's version in memory while it lives.
#[derive(Clone, Debug)]
pub struct Cursor {
    tree: Tree,
    range: KeyRange,
    position: Position,
}

#[derive(Clone, Debug)]
enum Position {
    /// Before the first key at or above this.
    Before(Bytes),
    /// After the last key at or below this.
    After(Bytes),
    /// After all keys.
    End,
    /// In a leaf; the spots of inner nodes are before the child that was entered.
    At(Path),
}

#[derive(Clone, Debug)]
struct Path {
    inner: Vec<(Arc<Node>, Spot)>,
    leaf: Arc<Node>,
    spot: Spot,
}

/// Which child to enter on the way down.
#[derive(Clone, Copy)]
enum Side<'a> {
    First,
    Last,
    Key(&'a [u8]),
}

impl Cursor {
    pub(super) fn new(tree: Tree, range: KeyRange) -> Self {
        let position = Position::Before(range.start.clone());
        Cursor { tree, range, position }
    }

    /// Moves before the first key at or above `key` (and into the range).
    pub fn seek(&mut self, key: &[u8]) {
        if self.range.end.as_ref().is_some_and(|end| key >= end.as_ref()) {
            self.seek_end();
        } else if key <= self.range.start.as_ref() {
            self.seek_start();
        } else {
            self.position = Position::Before(Bytes::copy_from_slice(key));
        }
    }

    /// Moves before the first key of the range.
    pub fn seek_start(&mut self) {
        self.position = Position::Before(self.range.start.clone());
    }

    /// Moves after the last key of the range.
    pub fn seek_end(&mut self) {
        self.position = match &self.range.end {
            Some(end) if *end >= self.range.start => Position::Before(end.clone()),
            Some(_) => Position::Before(self.range.start.clone()),
            None => Position::End,
        };
    }

    /// The tree that it walks over.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The entry after the cursor, which moves behind it; `None` at the end of the range.
    #[allow(clippy::should_implement_trait, reason = "a source is needed for each step")]
    pub fn next(&mut self, source: &dyn NodeSource) -> Result<Option<(Bytes, Value)>> {
        loop {
            self.descend(source)?;
            let Position::At(path) = &mut self.position else { return Ok(None) };
            let Body::Leaf(run) = &path.leaf.body else { return Ok(None) };
            if let (Some(entry), Some(after)) = (run.get(path.spot), run.after(path.spot)) {
                if self.range.end.as_ref().is_some_and(|end| entry.0 >= *end) {
                    return Ok(None);
                }
                let entry = entry.clone();
                path.spot = after;
                return Ok(Some(entry));
            }
            let last = path.leaf.last_key().cloned();
            let moved = path.next_leaf(source);
            match (moved, last) {
                (Ok(true), _) => {}
                (Ok(false), Some(last)) => {
                    self.position = Position::After(last);
                    return Ok(None);
                }
                (Err(error), Some(last)) => {
                    self.position = Position::After(last);
                    return Err(error);
                }
                (moved, None) => return moved.map(|_| None),
            }
        }
    }

    /// The entry before the cursor, which moves before it; `None` at the start of the range.
    pub fn previous(&mut self, source: &dyn NodeSource) -> Result<Option<(Bytes, Value)>> {
        loop {
            self.descend(source)?;
            let Position::At(path) = &mut self.position else { return Ok(None) };
            let Body::Leaf(run) = &path.leaf.body else { return Ok(None) };
            if let Some(before) = run.before(path.spot)
                && let Some(entry) = run.get(before)
            {
                if entry.0 < self.range.start {
                    return Ok(None);
                }
                let entry = entry.clone();
                path.spot = before;
                return Ok(Some(entry));
            }
            let first = path.leaf.first_key().cloned();
            let moved = path.previous_leaf(source);
            match (moved, first) {
                (Ok(true), _) => {}
                (Ok(false), Some(first)) => {
                    self.position = Position::Before(first);
                    return Ok(None);
                }
                (Err(error), Some(first)) => {
                    self.position = Position::Before(first);
                    return Err(error);
                }
                (moved, None) => return moved.map(|_| None),
            }
        }
    }

    /// Goes down to where the cursor was sent; in an empty tree it goes nowhere.
    fn descend(&mut self, source: &dyn NodeSource) -> Result<()> {
        let Some(root) = &self.tree.root else { return Ok(()) };
        let side = match &self.position {
            Position::At(_) => return Ok(()),
            Position::End => Side::Last,
            Position::Before(key) | Position::After(key) => Side::Key(key),
        };
        let mut inner = Vec::with_capacity(4);
        let (leaf, spot) = descend(source, root, None, &mut inner, side)?;
        let spot = match (&self.position, &leaf.body) {
            (Position::After(key), Body::Leaf(run)) if run.find(key) == Ok(spot) => run.after(spot).unwrap_or(spot),
            _ => spot,
        };
        self.position = Position::At(Path { inner, leaf, spot });
        Ok(())
    }
}

impl Path {
    /// Moves to the start of the next leaf; false when this is the last one. After an error the path is of no use.
    fn next_leaf(&mut self, source: &dyn NodeSource) -> Result<bool> {
        while let Some((node, spot)) = self.inner.pop() {
            if let Body::Inner(run) = &node.body
                && let Some(after) = run.after(spot)
                && let Some(entry) = run.get(after)
            {
                let child = entry.1.clone();
                let level = node.level.checked_sub(1);
                self.inner.push((node, after));
                (self.leaf, self.spot) = descend(source, &child, level, &mut self.inner, Side::First)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves to the end of the leaf before; false when this is the first one. After an error the path is of no use.
    fn previous_leaf(&mut self, source: &dyn NodeSource) -> Result<bool> {
        while let Some((node, spot)) = self.inner.pop() {
            if let Body::Inner(run) = &node.body
                && let Some(before) = run.before(spot)
                && let Some(entry) = run.get(before)
            {
                let child = entry.1.clone();
                let level = node.level.checked_sub(1);
                self.inner.push((node, before));
                (self.leaf, self.spot) = descend(source, &child, level, &mut self.inner, Side::Last)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Goes down from a child to a leaf, noting the nodes passed.
fn descend(
    source: &dyn NodeSource,
    child: &Child,
    level: Option<u8>,
    inner: &mut Vec<(Arc<Node>, Spot)>,
    side: Side<'_>,
) -> Result<(Arc<Node>, Spot)> {
    let mut node = child.load(source, level)?;
    loop {
        let (spot, next) = match &node.body {
            Body::Leaf(run) => {
                let spot = match side {
                    Side::First => run.start(),
                    Side::Last => run.end(),
                    Side::Key(key) => run.find(key).unwrap_or_else(|spot| spot),
                };
                return Ok((node, spot));
            }
            Body::Inner(run) => {
                let spot = match side {
                    Side::First => Some(run.start()),
                    Side::Last => run.before(run.end()),
                    Side::Key(key) => run.find_covering(key),
                };
                let spot = spot.unwrap_or(run.start());
                let entry = run.get(spot).ok_or_else(super::edit::childless)?;
                (spot, entry.1.load(source, node.level.checked_sub(1))?)
            }
        };
        inner.push((std::mem::replace(&mut node, next), spot));
    }
}
