//! Taking down what was dropped, a part in each commit.
//!
//! Invariants:
//! - What is left after each part is sound, so that a crash loses nothing and frees nothing twice.
//! - Roots go in the order in which they were dropped: a list that is merged into another is there in full before
//!   that other one goes.

use bytes::Bytes;

use crate::address::Generation;
use crate::apply::branch::{JOINED, dead_range, decode_dead};
use crate::apply::frozen::decode_buried;
use crate::apply::write_transaction::WriteTransaction;
use crate::error::Result;
use crate::state::{DEAD, DROPPED};
use crate::tree::value::{Content, Lineage, Piece, Record, SpaceRoot, Value, block_of};

/// Entries of a dead list that count as much as a leaf.
const ROWS_A_LEAF: u32 = 32;

/// Extents of a frozen blob that count as much as a leaf: each frees blocks of its own.
const EXTENTS_A_LEAF: u32 = 4;

/// What is done with an entry of a dead list.
#[derive(Clone, Copy)]
enum Row {
    /// Nobody reaches it: its blocks are free.
    Free,
    /// The branch that noted it is gone; the point still has it.
    Forget,
    /// It belongs to another list now.
    Move(u64),
}

impl WriteTransaction<'_> {
    /// Takes up to about `leaves` leaves away of the first root that was dropped; nothing when there is none.
    pub(super) fn reclaim(&mut self, leaves: u32) -> Result<()> {
        let Some(space) = self.find_space(DROPPED)? else { return Ok(()) };
        let tree = space.tree.clone();
        let Some((key, value)) = tree.first_at_or_after(self.source(), &[])? else { return Ok(()) };
        let mut root = match value {
            Value::Root(root) => root,
            blob => {
                if self.take_blob_down(decode_buried(&blob)?, leaves.saturating_mul(EXTENTS_A_LEAF))? {
                    self.remove(DROPPED, &key)?;
                }
                return Ok(());
            }
        };
        let lineage = root.lineage();
        let joined = root.flags & JOINED != 0;
        if joined && !self.rows(lineage.origin, Generation(lineage.frozen.0 + 1), Row::Free, leaves)? {
            return Ok(());
        }
        if !self.take_down(&mut root, lineage, leaves)? {
            self.insert(DROPPED, key, Value::Root(root))?;
            return Ok(());
        }
        let fate = if joined { Row::Move(lineage.origin) } else { Row::Forget };
        if self.rows(lineage.dead, Generation(0), fate, leaves)? {
            self.remove(DROPPED, &key)?;
        } else {
            self.insert(DROPPED, key, Value::Root(root))?;
        }
        Ok(())
    }

    /// Takes leaves off a tree; true when none is left.
    fn take_down(&mut self, root: &mut SpaceRoot, lineage: Lineage, leaves: u32) -> Result<bool> {
        let mut pieces = Vec::new();
        self.edit.shared = lineage.shared;
        let done = root.tree.prune(&mut self.edit, leaves, &mut |_: Bytes, value| {
            match value {
                Value::Piece(piece) => pieces.push(piece),
                Value::Record(Record { content: Content::Single(piece), .. }) => pieces.push(piece),
                _ => {}
            }
            Ok(())
        });
        self.edit.shared = Generation::default();
        let done = done?;
        for mut piece in pieces {
            piece.settle();
            match &piece {
                Piece::Disk(extent) if extent.birth <= lineage.shared => {}
                Piece::Disk(extent) => self.unshare(extent.blocks())?,
                Piece::Pending(pending) => self.retired.push(std::sync::Arc::clone(pending)),
                Piece::Frozen(frozen) if frozen.birth <= lineage.shared => {}
                Piece::Frozen(frozen) => self.unshare(block_of(frozen.blob))?,
                Piece::Inline(_) => {}
            }
        }
        Ok(done)
    }

    /// Goes through a dead list from a birth on; true when nothing is left there.
    fn rows(&mut self, list: u64, from: Generation, fate: Row, leaves: u32) -> Result<bool> {
        if list == 0 || self.find_space(DEAD)?.is_none() {
            return Ok(true);
        }
        let tree = self.tree(DEAD)?;
        let source = self.source();
        let mut cursor = tree.cursor(dead_range(list, from));
        for _ in 0..leaves.saturating_mul(ROWS_A_LEAF) {
            let Some((key, value)) = cursor.next(source)? else { return Ok(true) };
            self.remove(DEAD, &key)?;
            match fate {
                Row::Forget => {}
                Row::Move(to) => {
                    let mut moved = to.to_be_bytes().to_vec();
                    moved.extend_from_slice(key.get(8..).unwrap_or_default());
                    self.insert(DEAD, Bytes::from(moved), value)?;
                }
                Row::Free => {
                    let dead = decode_dead(&key, &value)?;
                    if dead.is_node { self.freed.push(dead.blocks) } else { self.unshare(dead.blocks)? }
                }
            }
        }
        Ok(cursor.next(source)?.is_none())
    }
}
