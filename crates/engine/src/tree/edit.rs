//! Changes of a tree, by copying the path from the root.
//!
//! Invariants: see the module's head. A node is changed in place only where this tree is the only
//! one that can reach it and it was never written; everything else is copied first, and the original goes to
//! [`Edit::replaced`]. All loads that a change needs happen before the change they are for.

use std::sync::Arc;

use bytes::Bytes;

use super::chunked_array::{ChunkedArray, Spot};
use super::entry::entry_len;
use super::layout::ENTRY_HEAD_LEN;
use super::node::{Body, Entries, Size, SplitAt, childless, not_open};
use super::remove::Taking;
use super::{Child, DirtySize, Node, NodeSource, TREE_KEY_LEN_MAX, TREE_VALUE_LEN_MAX, Tree, load};
use crate::address::{Generation, NodeRef};
use crate::tree::value::Value;
use crate::{Error, Result, Version};

/// What a node weighs that is not there.
const NOTHING: DirtySize = DirtySize { memory_len: 0, inner_len: 0, device_len: 0 };

/// One or more changes that are kept or dropped together.
pub struct Edit<'a> {
    /// Where stored nodes come from.
    pub source: &'a dyn NodeSource,
    /// What left the tree.
    pub replaced: Vec<Replaced>,
    /// The commit that it is for.
    pub by: Version,
    /// What nodes without a place have come to weigh more ([`Node::dirty_size`]); those in `replaced` are still in it.
    pub gained: DirtySize,
    /// What they have come to weigh less.
    pub lost: DirtySize,
    /// Nodes born up to here are reached by an older branch point too; to be set for each tree.
    pub shared: Generation,
    /// Nodes that left the tree but not that branch point: not to be freed.
    pub dead: Vec<NodeRef>,
}

impl<'a> Edit<'a> {
    /// Without changes, for commit `by`.
    pub fn new(source: &'a dyn NodeSource, by: Version) -> Self {
        let (gained, lost) = (DirtySize::default(), DirtySize::default());
        Edit { source, replaced: Vec::new(), by, gained, lost, shared: Generation::default(), dead: Vec::new() }
    }

    /// A node was made, or has changed.
    pub(super) fn weigh(&mut self, before: DirtySize, after: DirtySize) {
        self.gained += after;
        self.lost += before;
    }

    /// A node has left the tree.
    pub(super) fn replace(&mut self, child: Child) {
        match (child.stored(), child) {
            (Some(at), _) if at.birth <= self.shared => self.dead.push(at),
            (_, Child::Memory(node)) => self.replaced.push(Replaced::Node(node)),
            (_, Child::Disk(at)) => self.replaced.push(Replaced::Stored(at)),
        }
    }
}

/// A node that left the newest tree. Nothing is freed before the edit has succeeded.
#[derive(Clone, Debug)]
pub enum Replaced {
    /// Was in memory: call [`Node::replace`] and free the blocks that it returns.
    Node(Arc<Node>),
    /// Was on the device: free its blocks.
    Stored(NodeRef),
}

impl Replaced {
    /// Settles the matter in the name of commit `by`: the blocks to free, if there are any yet. To be called
    /// once nothing can undo the edit.
    #[must_use = "the blocks must be freed"]
    pub fn release(&self, by: Version) -> Option<NodeRef> {
        match self {
            Replaced::Node(node) => node.replace(by),
            Replaced::Stored(at) => Some(*at),
        }
    }

    /// The dirty size of a node in memory, and the commit that made it.
    pub fn dirty_size(&self) -> (DirtySize, Version) {
        match self {
            Replaced::Node(node) => (node.dirty_size(), node.born()),
            Replaced::Stored(_) => (DirtySize::default(), Version(0)),
        }
    }
}

/// What an insert below did: the value before, and the new neighbour of a node that was split.
type Inserted = (Option<Value>, Option<(Bytes, Node)>);

impl Tree {
    /// Sets a key; returns the value before. After an error the tree may only be dropped.
    pub fn insert(&mut self, edit: &mut Edit<'_>, key: Bytes, value: Value) -> Result<Option<Value>> {
        if key.len() > TREE_KEY_LEN_MAX || value.encoded_len() > TREE_VALUE_LEN_MAX {
            return Err(Error::invalid(format!(
                "an entry of {} and {} bytes is too long for the index; the most is {TREE_KEY_LEN_MAX} and {TREE_VALUE_LEN_MAX}",
                key.len(),
                value.encoded_len()
            )));
        }
        let Some(root) = &mut self.root else {
            let leaf = Node::new(0, Entries::Leaf(ChunkedArray::from_sorted(vec![(key, value)])), edit.by);
            edit.weigh(NOTHING, leaf.dirty_size());
            self.root = Some(Child::Memory(Arc::new(leaf)));
            self.len = 1;
            return Ok(None);
        };
        let node = own(root, None, edit)?;
        let (old, upper) = insert_into(node, edit, key, value)?;
        self.grow(edit, upper);
        if old.is_none() {
            self.len = self.len.saturating_add(1);
        }
        Ok(old)
    }

    /// Takes a key away; returns its value. After an error the tree may only be dropped.
    pub fn remove(&mut self, edit: &mut Edit<'_>, key: &[u8]) -> Result<Option<Value>> {
        let mut old = None;
        self.remove_sorted(edit, &[key], &mut |_, value| {
            old = Some(value);
            Ok(())
        })?;
        Ok(old)
    }

    /// Takes keys away that lie in one leaf.
    pub(super) fn remove_in_leaf(&mut self, edit: &mut Edit<'_>, taking: &mut Taking<'_>) -> Result<()> {
        let Some(root) = &mut self.root else { return Ok(()) };
        let node = own(root, None, edit)?;
        let upper = remove_from(node, edit, taking)?;
        let emptied = node.is_empty();
        let dirty_size = node.dirty_size();
        self.grow(edit, upper);
        if emptied {
            edit.weigh(dirty_size, NOTHING);
            self.root = None;
        }
        self.shrink(edit)?;
        self.len = self.len.saturating_sub(taking.count);
        Ok(())
    }

    /// Puts a root above a split one.
    pub(super) fn grow(&mut self, edit: &mut Edit<'_>, upper: Option<(Bytes, Node)>) {
        let Some((separator, upper)) = upper else { return };
        let Some(lower) = self.root.take() else { return };
        let level = upper.level + 1;
        let children = vec![(Bytes::new(), lower), (separator, Child::Memory(Arc::new(upper)))];
        let root = Node::new(level, Entries::Inner(ChunkedArray::from_sorted(children)), edit.by);
        edit.weigh(NOTHING, root.dirty_size());
        self.root = Some(Child::Memory(Arc::new(root)));
    }

    /// Takes away roots with a single child. What is the root then is written anew, so that it says that it is one.
    fn shrink(&mut self, edit: &mut Edit<'_>) -> Result<()> {
        if self.take_single_roots(edit)?
            && let Some(root) = &mut self.root
        {
            own(root, None, edit)?;
        }
        Ok(())
    }

    fn take_single_roots(&mut self, edit: &mut Edit<'_>) -> Result<bool> {
        let mut taken = false;
        while let Some(child) = &mut self.root {
            let (only, level) = match child {
                Child::Memory(node) => match &node.body {
                    Body::Open(Entries::Inner(run)) if run.after(run.start()).is_some_and(|spot| run.is_end(spot)) => {
                        (run.first().map(|entry| entry.1.clone()), node.level)
                    }
                    _ => return Ok(taken),
                },
                Child::Disk(_) => return Ok(taken),
            };
            debug_assert!(level > 0);
            // Makes sure that the root that goes is reported if anybody saw it.
            let dirty_size = own(child, None, edit)?.dirty_size();
            edit.weigh(dirty_size, NOTHING);
            self.root = only;
            taken = true;
        }
        Ok(taken)
    }
}

/// Makes a child changeable: a node that only this tree holds and that has no place yet.
pub(super) fn own<'c>(child: &'c mut Child, level: Option<u8>, edit: &mut Edit<'_>) -> Result<&'c mut Node> {
    let successor = match child {
        Child::Disk(at) => {
            let node = load(edit.source, at, level)?;
            Some(if node.level == 0 { Node::over(*at, edit.source, edit.by)? } else { node.successor(edit.by)? })
        }
        Child::Memory(node) => match node.placement.placed() {
            Some(at) if node.level == 0 => Some(Node::over(at, edit.source, edit.by)?),
            None if Arc::get_mut(node).is_some() => None,
            _ => Some(node.successor(edit.by)?),
        },
    };
    if let Some(successor) = successor {
        edit.weigh(NOTHING, successor.dirty_size());
        let before = std::mem::replace(child, Child::Memory(Arc::new(successor)));
        edit.replace(before);
    }
    match child {
        Child::Memory(node) => {
            Arc::get_mut(node).ok_or_else(|| Error::invalid("a tree was shared while it was changed"))
        }
        Child::Disk(_) => Err(not_open()),
    }
}

/// As [`own`], with all entries of the child in memory.
fn own_whole(child: &mut Child, level: Option<u8>, edit: &mut Edit<'_>) -> Result<()> {
    let source = edit.source;
    let node = own(child, level, edit)?;
    let before = node.dirty_size();
    node.open_up(source)?;
    let after = node.dirty_size();
    edit.weigh(before, after);
    Ok(())
}

fn insert_into(node: &mut Node, edit: &mut Edit<'_>, key: Bytes, value: Value) -> Result<Inserted> {
    let mut at = SplitAt::Middle;
    let before = node.dirty_size();
    let old = match &mut node.body {
        Body::Packed(_) | Body::Merged(_) => return Err(not_open()),
        Body::DeltaLeaf(delta) => {
            let (new_len, key_len) = (entry_len(&key, &value), key.len());
            let changed = delta.put(edit.source, key, value)?;
            if let Some(old) = &changed.old {
                node.size.take(ENTRY_HEAD_LEN + key_len + old.encoded_len());
            }
            node.size.add(new_len);
            if changed.is_last {
                at = SplitAt::Tail;
            }
            changed.old
        }
        Body::Open(Entries::Leaf(run)) => match run.find(&key) {
            Ok(spot) => {
                node.size.add(entry_len(&key, &value));
                let old = run.get_mut(spot).map(|entry| std::mem::replace(&mut entry.1, value));
                node.size.take(old.as_ref().map_or(0, |old| entry_len(&key, old)));
                old
            }
            Err(spot) => {
                if run.is_end(spot) {
                    at = SplitAt::Tail;
                }
                node.size.add(entry_len(&key, &value));
                run.insert(spot, key, value);
                None
            }
        },
        Body::Open(Entries::Inner(run)) => {
            let spot = run.find_covering(&key).unwrap_or(run.start());
            let child = run.get_mut(spot).map(|entry| &mut entry.1).ok_or_else(childless)?;
            let child = own(child, node.level.checked_sub(1), edit)?;
            let (old, upper) = insert_into(child, edit, key, value)?;
            if put_upper(run, &mut node.size, spot, upper) {
                at = SplitAt::Tail;
            }
            old
        }
    };
    let upper = split_if_full(node, edit, at)?;
    edit.weigh(before, node.dirty_size());
    Ok((old, upper))
}

/// Puts the neighbour of a split child behind it; says whether it is the last child now.
pub(super) fn put_upper(
    run: &mut ChunkedArray<Child>,
    size: &mut Size,
    child: Spot,
    upper: Option<(Bytes, Node)>,
) -> bool {
    let (Some((separator, upper)), Some(after)) = (upper, run.after(child)) else { return false };
    let upper = Child::Memory(Arc::new(upper));
    size.add(entry_len(&separator, &upper));
    let last = run.is_end(after);
    run.insert(after, separator, upper);
    last
}

pub(super) fn split_if_full(node: &mut Node, edit: &mut Edit<'_>, at: SplitAt) -> Result<Option<(Bytes, Node)>> {
    if !node.is_full() {
        return Ok(None);
    }
    node.open_up(edit.source)?;
    let upper = node.split(at);
    edit.weigh(NOTHING, upper.as_ref().map_or(NOTHING, |upper| upper.1.dirty_size()));
    Ok(upper)
}

fn remove_from(node: &mut Node, edit: &mut Edit<'_>, taking: &mut Taking<'_>) -> Result<Option<(Bytes, Node)>> {
    let before = node.dirty_size();
    match &mut node.body {
        Body::Packed(_) | Body::Merged(_) => return Err(not_open()),
        Body::DeltaLeaf(delta) => taking.take_from_delta(delta, &mut node.size, edit.source)?,
        Body::Open(Entries::Leaf(run)) => taking.take_from_run(run, &mut node.size)?,
        Body::Open(Entries::Inner(run)) => {
            let spot = run.find_covering(taking.first()).unwrap_or(run.start());
            let child = run.get_mut(spot).map(|entry| &mut entry.1).ok_or_else(childless)?;
            let child = own(child, node.level.checked_sub(1), edit)?;
            let upper = remove_from(child, edit, taking)?;
            let (emptied, small, dirty_size) = (child.is_empty(), child.is_small(), child.dirty_size());
            if upper.is_some() {
                // A longer separator from a rebalance below made it too long.
                put_upper(run, &mut node.size, spot, upper);
            } else if emptied {
                edit.weigh(dirty_size, NOTHING);
                drop_child(run, spot);
                node.measure();
            } else if small {
                rebalance(node, edit, spot)?;
            }
        }
    }
    let upper = split_if_full(node, edit, SplitAt::Middle)?;
    edit.weigh(before, node.dirty_size());
    Ok(upper)
}

/// Takes an empty child away; the first separator stays empty.
fn drop_child(run: &mut ChunkedArray<Child>, spot: Spot) {
    run.remove(spot);
    run.rename_first(Bytes::new());
}

/// Joins a small child with a neighbour, or evens the two out.
fn rebalance(node: &mut Node, edit: &mut Edit<'_>, small: Spot) -> Result<()> {
    let level = node.level.checked_sub(1);
    let Body::Open(Entries::Inner(run)) = &mut node.body else { return Ok(()) };
    let (lower_spot, upper_spot) = match (run.before(small), run.after(small)) {
        (Some(lower), _) => (lower, small),
        (None, Some(upper)) if !run.is_end(upper) => (small, upper),
        _ => return Ok(()),
    };
    // Both are loaded and owned before anything moves.
    own_whole(run.get_mut(upper_spot).map(|entry| &mut entry.1).ok_or_else(childless)?, level, edit)?;
    own_whole(run.get_mut(lower_spot).map(|entry| &mut entry.1).ok_or_else(childless)?, level, edit)?;
    let Some((separator, Child::Memory(upper))) = run.remove(upper_spot) else { return Err(childless()) };
    let upper = Arc::try_unwrap(upper).map_err(|_| Error::invalid("a tree was shared while it was changed"))?;
    // Taking an entry away may have moved the one before it to another chunk.
    let lower_spot = match run.find_covering(&separator) {
        Some(spot) => spot,
        None => return Err(childless()),
    };
    let lower = run.get_mut(lower_spot).map(|entry| &mut entry.1).ok_or_else(childless)?;
    let lower = own(lower, level, edit)?;
    edit.weigh(lower.dirty_size() + upper.dirty_size(), NOTHING);
    lower.append(separator, upper);
    let upper = if lower.is_too_full_to_join() { lower.split(SplitAt::Middle) } else { None };
    edit.weigh(NOTHING, lower.dirty_size());
    if let Some((separator, upper)) = upper
        && let Some(after) = run.after(lower_spot)
    {
        edit.weigh(NOTHING, upper.dirty_size());
        run.insert(after, separator, Child::Memory(Arc::new(upper)));
    }
    node.measure();
    Ok(())
}
