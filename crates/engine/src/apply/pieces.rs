//! Cutting, sharing and joining the pieces of values.
//!
//! Invariants:
//! - Pieces of a blob do not overlap; what no piece covers reads as zeros.
//! - A piece on the device names whole checksum chunks; two pieces that need the same chunk share its blocks.
//! - A piece that only memory holds belongs to one entry; sharing it makes another of the same bytes.

use std::sync::Arc;

use bytes::Bytes;

use crate::address::{BlockRange, Generation};
use crate::apply::write_transaction::{Dead, WriteTransaction};
use crate::batch::{Payload, SpaceId};
use crate::content::{Pieces, as_piece, piece_key, piece_range, split_piece_key};
use crate::device::BLOCK_LEN;
use crate::error::{Error, Result};
use crate::extent::Extent;
use crate::staged::Staged;
use crate::state::STAGES;
use crate::tree::Exchanged;
use crate::tree::value::{BlobId, Content, Frozen, INLINE_LEN_MAX, Pending, Piece, Record, Value};

/// A piece with its place in a value, in bytes.
pub(super) type Placed = (u64, Piece);

/// Bytes as a piece: in the leaf when short, else in memory until a checkpoint places them.
pub(super) fn piece_of(bytes: Bytes) -> Piece {
    if bytes.len() <= INLINE_LEN_MAX { Piece::Inline(bytes) } else { Piece::Pending(Arc::new(Pending::new(bytes))) }
}

/// The part of a piece from `from`, `length` bytes long. A pending piece that a checkpoint has placed
/// is one on the device from then on.
pub(super) fn slice(piece: &Piece, from: u64, length: u64, birth: Generation) -> Piece {
    match piece {
        Piece::Inline(bytes) => piece_of(bytes.slice(from as usize..(from + length) as usize)),
        Piece::Pending(pending) => match pending.placement.placed() {
            Some(extent) => Piece::Disk(extent.part(from, length, birth)),
            None => piece_of(pending.bytes.slice(from as usize..(from + length) as usize)),
        },
        Piece::Disk(extent) => Piece::Disk(extent.part(from, length, birth)),
        Piece::Frozen(frozen) => Piece::Frozen(frozen.part(from, length, birth)),
    }
}

/// The blocks that a piece names.
pub(super) fn blocks_of(piece: &Piece) -> Option<BlockRange> {
    piece.placed().map(|(_, blocks)| blocks)
}

impl WriteTransaction<'_> {
    /// A piece has lost its entry in a space.
    pub(super) fn release_piece(&mut self, space: SpaceId, piece: Piece) -> Result<()> {
        match (&piece, piece.placed()) {
            (_, Some((birth, blocks))) => {
                let lineage = self.lineage(space)?;
                if birth > lineage.shared {
                    return self.unshare(blocks);
                }
                self.dead.push(Dead { list: lineage.dead, birth, blocks, is_node: false });
                Ok(())
            }
            (Piece::Pending(pending), None) => {
                self.retired.push(Arc::clone(pending));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A value has lost its record: its pieces go.
    pub(super) fn release_content(&mut self, space: SpaceId, content: Content) -> Result<()> {
        match content {
            Content::Empty => Ok(()),
            Content::Single(piece) => self.release_piece(space, piece),
            Content::Pieces(blob) => {
                let tree = self.tree(space)?;
                let source = self.source();
                let mut cursor = tree.cursor(piece_range(blob));
                while let Some((key, value)) = cursor.next(source)? {
                    self.remove(space, &key)?;
                    self.release_piece(space, as_piece(value)?)?;
                }
                Ok(())
            }
        }
    }

    /// Makes room: removes what lies in `from..to` of a blob, keeping the parts outside. `refilled` says that the caller
    /// puts a piece at `from` next: the entry that is there may stay for that.
    pub(super) fn carve(&mut self, space: SpaceId, blob: BlobId, from: u64, to: u64, refilled: bool) -> Result<()> {
        let tree = self.tree(space)?;
        let source = self.source();
        let mut pieces = Pieces::new(&tree, source, blob, from, to)?;
        while let Some((start, piece)) = pieces.next(source)? {
            let end = start + piece.len();
            if start > from || (start == from && !refilled) {
                self.remove(space, &piece_key(blob, start))?;
            }
            let birth = self.generation;
            let left = (start < from).then(|| slice(&piece, 0, from - start, birth));
            let right = (end > to).then(|| slice(&piece, to - start, end - to, birth));
            self.settle_cut(space, &piece, left.as_ref(), right.as_ref())?;
            if let Some(left) = left {
                self.insert(space, piece_key(blob, start), Value::Piece(left))?;
            }
            if let Some(right) = right {
                self.insert(space, piece_key(blob, to), Value::Piece(right))?;
            }
        }
        Ok(())
    }

    /// Counts the blocks of a piece anew that was cut into what is left of it.
    fn settle_cut(&mut self, space: SpaceId, whole: &Piece, left: Option<&Piece>, right: Option<&Piece>) -> Result<()> {
        if blocks_of(whole).is_none() {
            return self.release_piece(space, whole.clone());
        }
        // First what stays counts once more, then the whole once less: no block is free in between.
        for part in [left, right].into_iter().flatten() {
            if let Some(range) = blocks_of(part) {
                self.share(range)?;
            }
        }
        self.release_piece(space, whole.clone())
    }

    /// A record's content as a blob of pieces, so that single ones can be changed.
    pub(super) fn as_blob(&mut self, space: SpaceId, content: Content) -> Result<BlobId> {
        match content {
            Content::Pieces(blob) => Ok(blob),
            Content::Empty => Ok(self.new_blob()),
            Content::Single(piece) => {
                let blob = self.new_blob();
                self.insert(space, piece_key(blob, 0), Value::Piece(piece))?;
                Ok(blob)
            }
        }
    }

    /// Puts pieces, which lie one after the other or leave holes, in the place of what is in `from..to` of a blob.
    pub(super) fn exchange(
        &mut self,
        space: SpaceId,
        blob: BlobId,
        from: u64,
        to: u64,
        mut pieces: Vec<Placed>,
    ) -> Result<()> {
        if let [(0, piece)] = pieces.as_slice()
            && piece.len() == to - from
            && let Some((_, piece)) = pieces.pop()
        {
            // One piece for another: nothing else lies there.
            let is_like = |value: &Value| matches!(value, Value::Piece(old) if old.len() == to - from);
            match self.exchange_like(space, &piece_key(blob, from), Value::Piece(piece), &is_like)? {
                Exchanged::Old(old) => return self.settle_cut(space, &as_piece(old)?, None, None),
                Exchanged::Not(new) => pieces.push((0, as_piece(new)?)),
            }
        }
        let refilled = pieces.first().is_some_and(|(offset, _)| *offset == 0);
        self.carve(space, blob, from, to, refilled)?;
        self.place(space, blob, from, pieces)
    }

    /// Puts pieces, which lie one after the other or leave holes, into a blob at an offset.
    pub(super) fn place(&mut self, space: SpaceId, blob: BlobId, at: u64, pieces: Vec<Placed>) -> Result<()> {
        for (offset, piece) in pieces {
            self.insert(space, piece_key(blob, at + offset), Value::Piece(piece))?;
        }
        Ok(())
    }

    /// Pieces as the whole content of a value.
    pub(super) fn content_of(&mut self, space: SpaceId, pieces: Vec<Placed>) -> Result<Content> {
        let mut pieces = self.freeze_many(pieces)?;
        if pieces.len() == 1 && pieces.first().is_some_and(|(offset, _)| *offset == 0) {
            return Ok(pieces.pop().map_or(Content::Empty, |(_, piece)| Content::Single(piece)));
        }
        if pieces.is_empty() {
            return Ok(Content::Empty);
        }
        let blob = self.new_blob();
        self.place(space, blob, 0, pieces)?;
        Ok(Content::Pieces(blob))
    }

    /// The pieces of a payload. Those of a stage belong to the state from now on.
    pub(super) fn payload_pieces(&mut self, payload: &Payload) -> Result<Vec<Placed>> {
        match payload {
            Payload::Bytes(bytes) if bytes.is_empty() => Ok(Vec::new()),
            Payload::Bytes(bytes) => {
                if bytes.len() > INLINE_LEN_MAX {
                    // What fits into a leaf weighs there.
                    self.bytes_in_memory += bytes.len().next_multiple_of(BLOCK_LEN) as u64;
                }
                // A copy: the caller's bytes may be a small part of a large buffer.
                Ok(vec![(0, piece_of(Bytes::copy_from_slice(bytes)))])
            }
            Payload::Stage(token) => {
                let staged = token.content::<Staged>().ok_or_else(|| Error::invalid("a stage of another store"))?;
                if !staged.take() {
                    return Err(Error::invalid("the stage was committed before; a stage can be named once"));
                }
                self.taken.push(Arc::clone(&staged));
                let pieces = self.staged_pieces(&staged)?;
                self.freeze_many(pieces)
            }
        }
    }

    fn staged_pieces(&mut self, staged: &Staged) -> Result<Vec<Placed>> {
        let mut pieces = Vec::new();
        if staged.spilled() > 0 {
            let tree = self.tree(STAGES)?;
            let source = self.source();
            let mut cursor = tree.cursor(piece_range(BlobId(staged.id())));
            while let Some((key, value)) = cursor.next(source)? {
                self.remove(STAGES, &key)?;
                pieces.push((split_piece_key(&key)?.1, self.reborn(as_piece(value)?)));
            }
        }
        let mut at = staged.spilled();
        for extent in staged.extents() {
            self.allocated.push(extent.blocks());
            pieces.push((at, self.reborn(Piece::Disk(extent.clone()))));
            at += u64::from(extent.length);
        }
        Ok(pieces)
    }

    /// A stage logs extents of its own.
    pub(super) fn stage_slab(&mut self, stage: u64, offset: u64, extents: &[Extent]) -> Result<()> {
        self.ensure_space(STAGES)?;
        let mut at = offset;
        for extent in extents {
            self.allocated.push(extent.blocks());
            let piece = self.reborn(Piece::Disk(extent.clone()));
            self.insert(STAGES, piece_key(BlobId(stage), at), Value::Piece(piece))?;
            at += u64::from(extent.length);
        }
        Ok(())
    }

    /// A stage was given up: what its slabs name is free.
    pub(super) fn stage_drop(&mut self, stage: u64) -> Result<()> {
        self.ensure_space(STAGES)?;
        self.release_content(STAGES, Content::Pieces(BlobId(stage)))
    }

    /// The pieces of `from..to` of a value, offsets counted from `from`, for another value to share.
    pub(super) fn shared_pieces(&mut self, space: SpaceId, record: &Record, from: u64, to: u64) -> Result<Vec<Placed>> {
        let mut out = Vec::new();
        let birth = self.generation;
        let mut part = |start: u64, piece: &Piece| {
            let (head, tail) = (from.max(start), to.min(start + piece.len()));
            if head < tail {
                out.push((head - from, slice(piece, head - start, tail - head, birth)));
            }
        };
        match &record.content {
            Content::Empty => {}
            Content::Single(piece) => part(0, piece),
            Content::Pieces(blob) => {
                let tree = self.tree(space)?;
                let source = self.source();
                let mut pieces = Pieces::new(&tree, source, *blob, from, to)?;
                while let Some((start, piece)) = pieces.next(source)? {
                    part(start, &piece);
                }
            }
        }
        for (_, piece) in &out {
            match blocks_of(piece) {
                Some(range) => self.share(range)?,
                None => self.bytes_in_memory += piece.len(),
            }
        }
        Ok(out)
    }

    /// Takes all pieces out of a value that goes away.
    pub(super) fn moved_pieces(&mut self, space: SpaceId, content: Content) -> Result<Vec<Placed>> {
        match content {
            Content::Empty => Ok(Vec::new()),
            Content::Single(piece) => Ok(vec![(0, self.moved(space, piece)?)]),
            Content::Pieces(blob) => {
                let tree = self.tree(space)?;
                let source = self.source();
                let mut cursor = tree.cursor(piece_range(blob));
                let mut pieces = Vec::new();
                while let Some((key, value)) = cursor.next(source)? {
                    self.remove(space, &key)?;
                    pieces.push((split_piece_key(&key)?.1, self.moved(space, as_piece(value)?)?));
                }
                Ok(pieces)
            }
        }
    }

    /// A piece that leaves a space for an entry elsewhere. What the space's branch point still reaches stays there, and is
    /// named once more.
    fn moved(&mut self, space: SpaceId, mut piece: Piece) -> Result<Piece> {
        piece.settle();
        if let Some((birth, blocks)) = piece.placed()
            && birth <= self.lineage(space)?.shared
        {
            self.share(blocks)?;
            self.release_piece(space, piece.clone())?;
        }
        Ok(self.reborn(piece))
    }

    /// A piece as one that its tree came to name just now.
    fn reborn(&self, piece: Piece) -> Piece {
        match piece {
            Piece::Disk(extent) => Piece::Disk(Extent { birth: self.generation, ..extent }),
            Piece::Frozen(frozen) => Piece::Frozen(Frozen { birth: self.generation, ..frozen }),
            other => other,
        }
    }
}
