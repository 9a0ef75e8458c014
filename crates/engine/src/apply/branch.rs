//! Branches of spaces: clones, snapshots, and what becomes of a space that is dropped.
//!
//! When a live space is branched, its tree as it is then becomes a *branch point*, which nobody changes; the space itself,
//! its clones and its snapshots come from that point and share what it reaches. Which branch a node or an extent belongs
//! to is told by its birth alone: what was born up to the generation in which a point was frozen is reached by the point,
//! what is younger belongs to one branch. No counts are kept and none are raised.
//!
//! - When a branch lets go of something that its point still reaches, it is noted in the branch's *dead list*.
//! - A point that no branch comes from any more goes the way of a dropped space: what is younger than its own point is freed.
//! - A point that one branch comes from is joined with it: of the branch's dead list, what is younger than the point
//!   before is freed, since the point alone had it; the point's own list goes to the branch.
//! - Both are work without end for a large space, so that the root goes to [`DROPPED`] in the commit, and later
//!   commits of the engine's own take it down ([`WriteTransaction::reclaim`]).
//!
//! Invariants:
//! - Every node and every piece is younger than the point of exactly one tree that reaches it; that one owns it.
//! - A dead list holds what its branch's point reaches and the branch does not; what in it is younger than `shared` is
//!   nobody's and about to be freed.
//! - Snapshots name their point and own nothing.

use bytes::{Bytes, BytesMut};

use crate::address::{BlockRange, Generation};
use crate::apply::write_transaction::{Dead, WriteTransaction};
use crate::batch::{KeyRange, SpaceId};
use crate::changes::Changed;
use crate::codec::{Reader, Writer};
use crate::error::{Error, Result};
use crate::state::{BRANCHES, DEAD, DROPPED, POINTS};
use crate::tree::Copied;
use crate::tree::value::{Lineage, SpaceRoot, Value};

/// The flag of a root in [`DROPPED`] that was a branch point with one branch left.
pub(crate) const JOINED: u32 = 1 << 8;

/// What comes from a branch point. Names sort first: one look tells whether there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Branch {
    /// A snapshot: another name of the point.
    Name(SpaceId),
    /// A live space.
    Space(SpaceId),
    /// Another point.
    Point(u64),
}

/// The key of a numbered entry.
pub(crate) fn number_key(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// The number in a key.
pub(crate) fn number_of(key: &[u8]) -> Result<u64> {
    let number = key.try_into().map_err(|_| Error::damaged("a key of the engine's own has no number"))?;
    Ok(u64::from_be_bytes(number))
}

fn words(words: &[u64]) -> Bytes {
    let mut out = BytesMut::with_capacity(words.len() * 8);
    words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    out.freeze()
}

fn branch_key(point: u64, branch: Branch) -> Bytes {
    let (kind, id) = match branch {
        Branch::Name(space) => (0, space.0),
        Branch::Space(space) => (1, space.0),
        Branch::Point(point) => (2, point),
    };
    words(&[point, kind, id])
}

/// The point and the branch that a key of [`BRANCHES`] names.
pub(crate) fn split_branch_key(key: &[u8]) -> Result<(u64, Branch)> {
    let mut parts = key.chunks(8).map(number_of);
    let mut next = || parts.next().unwrap_or_else(|| Err(Error::damaged("the key of a branch is too short")));
    let (point, kind, id) = (next()?, next()?, next()?);
    let branch = match kind {
        0 => Branch::Name(SpaceId(id)),
        1 => Branch::Space(SpaceId(id)),
        2 => Branch::Point(id),
        _ => return Err(Error::damaged(format!("a branch of point {point} is of unknown kind {kind}"))),
    };
    Ok((point, branch))
}

/// The keys of a dead list from a birth on.
pub(crate) fn dead_range(list: u64, from: Generation) -> KeyRange {
    KeyRange { start: words(&[list, from.0]), end: Some(words(&[list.saturating_add(1)])) }
}

/// Reads an entry of a dead list.
pub(crate) fn decode_dead(key: &[u8], value: &Value) -> Result<Dead> {
    let mut parts = key.chunks(8).map(number_of);
    let (Some(list), Some(birth), Some(_), Value::Raw(bytes)) = (parts.next(), parts.next(), parts.next(), value)
    else {
        return Err(Error::damaged("a dead list holds something else"));
    };
    let mut reader = Reader::new(bytes);
    let (start, count, kind) = (reader.u64()?, reader.u32()?, reader.u8()?);
    reader.end()?;
    if count == 0 || kind > 1 {
        return Err(Error::damaged(format!("an entry of a dead list names {count} blocks of kind {kind}")));
    }
    let blocks = BlockRange { start, count };
    Ok(Dead { list: list?, birth: Generation(birth?), blocks, is_node: kind == 1 })
}

impl WriteTransaction<'_> {
    /// Makes `to` a copy of `from`: a snapshot, or a clone that may be changed.
    pub(super) fn copy_space(&mut self, from: SpaceId, to: SpaceId, read_only: bool) -> Result<()> {
        let Some(source) = self.find_space(from)?.cloned() else {
            return Err(self.refuse(format!("space {} is not there", from.0)));
        };
        if self.find_space(to)?.is_some() {
            return Err(self.refuse(format!("space {} exists already", to.0)));
        }
        let point = if source.is_read_only() { source.lineage().origin } else { self.freeze(from, source)? };
        let Some(root) = self.point(point)? else {
            return Err(Error::damaged(format!("branch point {point} is not there")));
        };
        let frozen = root.lineage().frozen;
        let mut copy = SpaceRoot::new(self.version());
        let branch = if read_only {
            copy.flags = SpaceRoot::READ_ONLY;
            copy.tree = root.tree;
            copy.set_lineage(Lineage { origin: point, shared: frozen, ..Lineage::default() });
            Branch::Name(to)
        } else {
            copy.tree = self.branch_tree(&root, frozen)?;
            let dead = self.new_blob().0;
            copy.set_lineage(Lineage { origin: point, shared: frozen, dead, ..Lineage::default() });
            Branch::Space(to)
        };
        self.add_branch(point, branch)?;
        self.set_space(to, Some(copy))?;
        self.changes.push((to, Changed::Range(KeyRange::all())));
        Ok(())
    }

    /// Makes a branch point of a live space as it is now.
    fn freeze(&mut self, space: SpaceId, mut source: SpaceRoot) -> Result<u64> {
        let frozen = self.generation;
        self.generation = Generation(frozen.0 + 1);
        let point = self.new_blob().0;
        let before = source.lineage();
        let mut root = SpaceRoot { tree: self.branch_tree(&source, frozen)?, ..source.clone() };
        root.set_lineage(Lineage { frozen, ..before });
        self.set_point(point, root)?;
        if before.origin != 0 {
            self.remove_branch(before.origin, Branch::Space(space))?;
            self.add_branch(before.origin, Branch::Point(point))?;
        }
        self.add_branch(point, Branch::Space(space))?;
        let dead = self.new_blob().0;
        source.set_lineage(Lineage { origin: point, shared: frozen, dead, ..Lineage::default() });
        self.set_space(space, Some(source))?;
        Ok(point)
    }

    /// A tree with the same entries; what was not written yet, or after the generation, is copied.
    fn branch_tree(&mut self, root: &SpaceRoot, upto: Generation) -> Result<crate::tree::Tree> {
        let mut copied = Copied::default();
        let tree = root.tree.branch(self.source(), upto, self.generation, &mut copied)?;
        self.edit.gained += copied.dirty_size;
        self.bytes_in_memory += copied.bytes;
        copied.named_again.into_iter().try_for_each(|range| self.share(range))?;
        Ok(tree)
    }

    /// Takes a space away; its content goes later.
    pub(super) fn drop_space(&mut self, space: SpaceId) -> Result<()> {
        let Some(root) = self.find_space(space)?.cloned() else {
            return Err(self.refuse(format!("space {} is not there", space.0)));
        };
        let origin = root.lineage().origin;
        let branch = if root.is_read_only() { Branch::Name(space) } else { Branch::Space(space) };
        self.set_space(space, None)?;
        self.changes.push((space, Changed::Range(KeyRange::all())));
        if !root.is_read_only() {
            self.bury(root)?;
        }
        if origin != 0 {
            self.remove_branch(origin, branch)?;
            self.settle_point(origin)?;
        }
        Ok(())
    }

    /// A root that nothing comes from: what it alone reaches is freed by and by.
    fn bury(&mut self, mut root: SpaceRoot) -> Result<()> {
        let lineage = root.lineage();
        if root.tree.is_empty() && lineage.dead == 0 {
            return Ok(());
        }
        root.flags = 0;
        root.set_lineage(Lineage { shared: lineage.shared, dead: lineage.dead, ..Lineage::default() });
        self.put_dropped(root)
    }

    fn put_dropped(&mut self, root: SpaceRoot) -> Result<()> {
        self.ensure_space(DROPPED)?;
        let number = self.new_blob().0;
        self.insert(DROPPED, number_key(number), Value::Root(root))?;
        self.has_dropped = true;
        Ok(())
    }

    /// Lets a point go that nothing comes from, and joins one with the only branch that does.
    fn settle_point(&mut self, mut point: u64) -> Result<()> {
        while point != 0 {
            let branches = self.branches(point, 2)?;
            match branches.as_slice() {
                [] => {
                    let root = self.take_point(point)?;
                    let origin = root.lineage().origin;
                    self.bury(root)?;
                    if origin != 0 {
                        self.remove_branch(origin, Branch::Point(point))?;
                    }
                    point = origin;
                }
                [branch] if !matches!(branch, Branch::Name(_)) => return self.join(point, *branch),
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Joins a point with the one branch that comes from it.
    fn join(&mut self, point: u64, branch: Branch) -> Result<()> {
        let mut root = self.take_point(point)?;
        let above = root.lineage();
        let mut joined = match branch {
            Branch::Point(below) => self.point(below)?,
            Branch::Space(space) | Branch::Name(space) => self.find_space(space)?.cloned(),
        }
        .ok_or_else(|| Error::damaged(format!("a branch of point {point} is not there")))?;
        let lineage = joined.lineage();
        joined.set_lineage(Lineage { origin: above.origin, shared: above.shared, ..lineage });
        match branch {
            Branch::Point(below) => self.set_point(below, joined)?,
            Branch::Space(space) | Branch::Name(space) => self.set_space(space, Some(joined))?,
        }
        self.remove_branch(point, branch)?;
        if above.origin != 0 {
            self.remove_branch(above.origin, Branch::Point(point))?;
            self.add_branch(above.origin, branch)?;
        }
        root.flags = JOINED;
        root.set_lineage(Lineage {
            origin: lineage.dead,
            shared: above.frozen,
            dead: above.dead,
            frozen: above.shared,
        });
        self.put_dropped(root)
    }

    /// A branch point.
    fn point(&mut self, point: u64) -> Result<Option<SpaceRoot>> {
        let Some(space) = self.find_space(POINTS)? else { return Ok(None) };
        let tree = space.tree.clone();
        match tree.get(self.source(), &point.to_be_bytes())? {
            None => Ok(None),
            Some(Value::Root(root)) => Ok(Some(root)),
            Some(_) => Err(Error::damaged(format!("branch point {point} is no root"))),
        }
    }

    fn set_point(&mut self, point: u64, root: SpaceRoot) -> Result<()> {
        self.ensure_space(POINTS)?;
        self.insert(POINTS, number_key(point), Value::Root(root))?;
        Ok(())
    }

    fn take_point(&mut self, point: u64) -> Result<SpaceRoot> {
        match self.remove(POINTS, &point.to_be_bytes())? {
            Some(Value::Root(root)) => Ok(root),
            _ => Err(Error::damaged(format!("branch point {point} is not there"))),
        }
    }

    fn add_branch(&mut self, point: u64, branch: Branch) -> Result<()> {
        self.ensure_space(BRANCHES)?;
        self.insert(BRANCHES, branch_key(point, branch), Value::Raw(Bytes::new()))?;
        Ok(())
    }

    fn remove_branch(&mut self, point: u64, branch: Branch) -> Result<()> {
        match self.remove(BRANCHES, &branch_key(point, branch))? {
            Some(_) => Ok(()),
            None => Err(Error::damaged(format!("{branch:?} is not known to come from point {point}"))),
        }
    }

    /// Up to `most` branches of a point.
    fn branches(&mut self, point: u64, most: usize) -> Result<Vec<Branch>> {
        self.ensure_space(BRANCHES)?;
        let tree = self.tree(BRANCHES)?;
        let source = self.source();
        let end = words(&[point.saturating_add(1)]);
        let mut cursor = tree.cursor(KeyRange { start: words(&[point]), end: Some(end) });
        let mut found = Vec::new();
        while found.len() < most {
            let Some((key, _)) = cursor.next(source)? else { break };
            found.push(split_branch_key(&key)?.1);
        }
        Ok(found)
    }

    /// Notes in the dead lists what this commit has let go of.
    pub(super) fn write_dead(&mut self) -> Result<()> {
        for dead in std::mem::take(&mut self.dead) {
            self.ensure_space(DEAD)?;
            let serial = self.new_blob().0;
            let key = words(&[dead.list, dead.birth.0, serial]);
            let mut value = Vec::with_capacity(13);
            value.put_u64(dead.blocks.start);
            value.put_u32(dead.blocks.count);
            value.push(u8::from(dead.is_node));
            self.insert(DEAD, key, Value::Raw(Bytes::from(value)))?;
        }
        Ok(())
    }
}
