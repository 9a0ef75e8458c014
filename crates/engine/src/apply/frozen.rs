//! Frozen blobs: extents that many values share under one name.
//!
//! What comes in many extents becomes a blob in [`FROZEN`], and the value that it came for names it with one piece. Cutting,
//! sharing, moving, branching do with that piece what they do with an extent: a blob is one block to them, past the end of
//! any device ([`block_of`](crate::tree::value::block_of)), counted in the table of references and noted in dead lists as others are.
//! Where such a block becomes free, its blob goes to [`DROPPED`], and later commits take it down.
//!
//! Invariants:
//! - A blob has extents alone, one behind the other from its byte 0 on, and never changes while anything names it.
//! - Nothing in [`FROZEN`] is a part of a frozen blob itself: one look finds the bytes.
//! - A blob in [`DROPPED`] is named by nothing, and never will be again: numbers of blobs are not used twice.

use bytes::Bytes;

use crate::address::BlockRange;
use crate::apply::branch::number_key;
use crate::apply::pieces::{Placed, blocks_of};
use crate::apply::write_transaction::WriteTransaction;
use crate::codec::{Reader, Writer};
use crate::content::{Blobs, Flat, as_piece, piece_key, piece_range};
use crate::error::{Error, Result};
use crate::state::{DROPPED, FROZEN};
use crate::tree::Tree;
use crate::tree::value::{BlobId, Frozen, Piece, Value, blob_of, block_of};

/// The blob that an entry of [`DROPPED`] names, where it is no root.
pub(crate) fn decode_buried(value: &Value) -> Result<BlobId> {
    let Value::Raw(bytes) = value else { return Err(Error::damaged("what was dropped is neither a root nor a blob")) };
    let mut reader = Reader::new(bytes);
    let blob = BlobId(reader.u64()?);
    reader.end()?;
    Ok(blob)
}

/// How many pieces at the front lie one behind the other and can be part of a frozen blob.
fn extents_in_order(pieces: &[Placed]) -> usize {
    let Some((start, _)) = pieces.first() else { return 0 };
    let mut at = *start;
    let follows = |(offset, piece): &&Placed| {
        let fits = *offset == at && matches!(piece, Piece::Disk(_) | Piece::Frozen(_));
        at += piece.len();
        fits
    };
    pieces.iter().take_while(follows).count()
}

impl WriteTransaction<'_> {
    /// The tree of frozen blobs.
    pub(super) fn frozen_tree(&mut self) -> Result<Tree> {
        Ok(self.find_space(FROZEN)?.map(|space| space.tree.clone()).unwrap_or_default())
    }

    /// The same bytes in fewer pieces: extents that are many become a frozen blob.
    pub(super) fn freeze_many(&mut self, pieces: Vec<Placed>) -> Result<Vec<Placed>> {
        if pieces.len() <= self.limits.frozen_above {
            return Ok(pieces);
        }
        let (mut out, mut runs, mut ahead) = (Vec::new(), Vec::new(), pieces.as_slice());
        while !ahead.is_empty() {
            let run = extents_in_order(ahead);
            ahead = ahead.get(run.max(1)..).unwrap_or_default();
            runs.push(run);
        }
        let mut rest = pieces.into_iter();
        for run in runs {
            let part: Vec<Placed> = rest.by_ref().take(run.max(1)).collect();
            // What is one part of a blob already stays that.
            match part.as_slice() {
                [(_, Piece::Frozen(_))] => out.extend(part),
                _ if run > self.limits.frozen_above => out.push(self.freeze_all(part)?),
                _ => out.extend(part),
            }
        }
        Ok(out)
    }

    /// Pieces that lie one behind the other as a part of a new blob. What they name of other blobs it names itself, so that nothing
    /// is frozen within what is frozen.
    fn freeze_all(&mut self, extents: Vec<Placed>) -> Result<Placed> {
        self.ensure_space(FROZEN)?;
        let blob = self.new_blob();
        let (mut begin, mut length) = (None, 0);
        for (offset, extent) in extents {
            let start = *begin.get_or_insert(offset);
            length = offset + extent.len() - start;
            match extent {
                Piece::Frozen(part) => self.thaw_into(blob, offset - start, part)?,
                extent => drop(self.insert(FROZEN, piece_key(blob, offset - start), Value::Piece(extent))?),
            }
        }
        Ok((begin.unwrap_or_default(), Piece::Frozen(Frozen { birth: self.generation, blob, first: 0, length })))
    }

    /// Names the extents of a part of another blob in this one, in its place.
    fn thaw_into(&mut self, blob: BlobId, at: u64, part: Frozen) -> Result<()> {
        let (tree, source) = (self.frozen_tree()?, self.source());
        let mut extents = Flat::of(Piece::Frozen(part), Blobs::In(&tree), 0, part.length);
        while let Some((offset, extent)) = extents.next(source)? {
            if let Some(blocks) = blocks_of(&extent) {
                self.share(blocks)?;
            }
            self.insert(FROZEN, piece_key(blob, at + offset), Value::Piece(extent))?;
        }
        self.unshare(block_of(part.blob))
    }

    /// Nothing names these blocks any more: they are free, or stand for blobs that are to be taken down.
    pub(super) fn give_up(&mut self, range: BlockRange) -> Result<()> {
        if blob_of(range.start).is_none() {
            self.freed.push(range);
            return Ok(());
        }
        for blob in (range.start..range.end()).filter_map(blob_of) {
            self.ensure_space(DROPPED)?;
            let number = self.new_blob().0;
            let mut value = Vec::with_capacity(8);
            value.put_u64(blob.0);
            self.insert(DROPPED, number_key(number), Value::Raw(Bytes::from(value)))?;
            self.has_dropped = true;
        }
        Ok(())
    }

    /// Takes up to `most` extents off a blob; true when none is left.
    pub(super) fn take_blob_down(&mut self, blob: BlobId, most: u32) -> Result<bool> {
        let tree = self.frozen_tree()?;
        let source = self.source();
        let mut cursor = tree.cursor(piece_range(blob));
        for _ in 0..most {
            let Some((key, value)) = cursor.next(source)? else { return Ok(true) };
            self.remove(FROZEN, &key)?;
            self.release_piece(FROZEN, as_piece(value)?)?;
        }
        Ok(cursor.next(source)?.is_none())
    }
}
