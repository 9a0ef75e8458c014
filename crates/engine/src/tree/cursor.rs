//! Walking over a range of keys, both ways, without holding anything but nodes.
//!
//! Invariants:
//! - A cursor stands between two keys of one unchanging tree; `next` returns the entry after it and `previous`
//!   the one before it, and either moves over what it returned.
//! - Nothing outside of the range is returned.
//! - An error moves nothing: the same call may be made again.

use std::sync::Arc;

use bytes::Bytes;

use super::chunked_array::Spot;
use super::look::ChildRef;
use super::value::{Held, Value};
use super::{Node, NodeSource, Tree};
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
    /// All keys of the leaf lie before the range's end: none of them need be compared with it.
    is_inside: bool,
}

/// An entry of a leaf, where it lies.
pub struct EntryAt<'a> {
    leaf: &'a Node,
    spot: Spot,
}

impl<'a> EntryAt<'a> {
    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.leaf.key(self.spot).unwrap_or_default()
    }

    /// The key, sharing the leaf's memory.
    pub fn key_bytes(&self) -> Bytes {
        self.leaf.key_bytes(self.spot)
    }

    /// What it holds.
    #[inline]
    pub fn held(&self) -> Result<Held<'a>> {
        self.leaf.held(self.spot).ok_or_else(super::node::childless)
    }

    fn to_owned(&self) -> Result<(Bytes, Value)> {
        Ok((self.key_bytes(), self.held()?.to_value()?))
    }
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
        self.step(source, false)?.map(|entry| entry.to_owned()).transpose()
    }

    /// The entry before the cursor, which moves before it; `None` at the start of the range.
    pub fn previous(&mut self, source: &dyn NodeSource) -> Result<Option<(Bytes, Value)>> {
        self.step(source, true)?.map(|entry| entry.to_owned()).transpose()
    }

    /// As [`Cursor::next`], or as [`Cursor::previous`], showing the entry where it lies.
    #[inline]
    pub fn step(&mut self, source: &dyn NodeSource, backward: bool) -> Result<Option<EntryAt<'_>>> {
        let found = if backward { self.retreat(source)? } else { self.advance(source)? };
        match (&self.position, found) {
            (Position::At(path), Some(spot)) => Ok(Some(EntryAt { leaf: &path.leaf, spot })),
            _ => Ok(None),
        }
    }

    /// Moves behind the next entry and gives the spot before it.
    #[inline]
    fn advance(&mut self, source: &dyn NodeSource) -> Result<Option<Spot>> {
        loop {
            self.descend(source)?;
            let Position::At(path) = &mut self.position else { return Ok(None) };
            if let Some(key) = path.leaf.key(path.spot)
                && let Some(after) = path.leaf.after(path.spot)
            {
                if !path.is_inside && self.range.end.as_ref().is_some_and(|end| key >= end.as_ref()) {
                    return Ok(None);
                }
                return Ok(Some(std::mem::replace(&mut path.spot, after)));
            }
            let last = path.leaf.before(path.leaf.end()).map(|spot| path.leaf.key_bytes(spot));
            let moved = path.next_leaf(source);
            match (moved, last) {
                (Ok(true), _) => path.look_where(&self.range),
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

    /// Moves before the previous entry and gives the spot before it.
    #[inline]
    fn retreat(&mut self, source: &dyn NodeSource) -> Result<Option<Spot>> {
        loop {
            self.descend(source)?;
            let Position::At(path) = &mut self.position else { return Ok(None) };
            if let Some(before) = path.leaf.before(path.spot)
                && let Some(key) = path.leaf.key(before)
            {
                if key < self.range.start.as_ref() {
                    return Ok(None);
                }
                path.spot = before;
                return Ok(Some(before));
            }
            let first = path.leaf.key(path.leaf.start()).map(|_| path.leaf.key_bytes(path.leaf.start()));
            let moved = path.previous_leaf(source);
            match (moved, first) {
                (Ok(true), _) => path.look_where(&self.range),
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
        let side = match &self.position {
            Position::At(_) => return Ok(()),
            Position::End => Side::Last,
            Position::Before(key) | Position::After(key) => Side::Key(key),
        };
        let Some(root) = &self.tree.root else { return Ok(()) };
        let mut inner = Vec::with_capacity(4);
        let (leaf, spot) = descend(source, root.as_ref(), None, &mut inner, side)?;
        let spot = match &self.position {
            Position::After(key) if leaf.find(key) == Ok(spot) => leaf.after(spot).unwrap_or(spot),
            _ => spot,
        };
        let mut path = Path { inner, leaf, spot, is_inside: false };
        path.look_where(&self.range);
        self.position = Position::At(path);
        Ok(())
    }
}

impl Path {
    /// Looks how the leaf lies in a range.
    fn look_where(&mut self, range: &KeyRange) {
        self.is_inside = match (&range.end, self.leaf.before(self.leaf.end()).and_then(|last| self.leaf.key(last))) {
            (Some(end), Some(last)) => last < end.as_ref(),
            (None, _) => true,
            (Some(_), None) => false,
        };
    }

    /// Moves to the start of the next leaf; false when this is the last one. After an error the path is of no use.
    fn next_leaf(&mut self, source: &dyn NodeSource) -> Result<bool> {
        while let Some((node, spot)) = self.inner.pop() {
            if let Some(after) = node.after(spot)
                && node.key(after).is_some()
            {
                let entered = Arc::clone(&node);
                self.inner.push((node, after));
                let level = entered.level.checked_sub(1);
                (self.leaf, self.spot) = descend(source, entered.child(after)?, level, &mut self.inner, Side::First)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves to the end of the leaf before; false when this is the first one. After an error the path is of no use.
    fn previous_leaf(&mut self, source: &dyn NodeSource) -> Result<bool> {
        while let Some((node, spot)) = self.inner.pop() {
            if let Some(before) = node.before(spot)
                && node.key(before).is_some()
            {
                let entered = Arc::clone(&node);
                self.inner.push((node, before));
                let level = entered.level.checked_sub(1);
                (self.leaf, self.spot) = descend(source, entered.child(before)?, level, &mut self.inner, Side::Last)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Goes down from a child to a leaf, noting the nodes passed.
fn descend(
    source: &dyn NodeSource,
    child: ChildRef<'_>,
    level: Option<u8>,
    inner: &mut Vec<(Arc<Node>, Spot)>,
    side: Side<'_>,
) -> Result<(Arc<Node>, Spot)> {
    let mut node = child.load(source, level)?;
    loop {
        if node.level == 0 {
            let spot = match side {
                Side::First => node.start(),
                Side::Last => node.end(),
                Side::Key(key) => node.find(key).unwrap_or_else(|spot| spot),
            };
            return Ok((node, spot));
        }
        let spot = match side {
            Side::First => Some(node.start()),
            Side::Last => node.before(node.end()),
            Side::Key(key) => node.covering(key),
        };
        let spot = spot.unwrap_or(node.start());
        let next = node.child(spot)?.load(source, node.level.checked_sub(1))?;
        inner.push((std::mem::replace(&mut node, next), spot));
    }
}
