//! The pieces of a value in order, and the extents that those of them name which are parts of frozen blobs.
//!
//! Invariant: a frozen blob has no holes; where the index has none of its extents, that is damage, never zeros.

use crate::batch::KeyRange;
use crate::content::{PIECE, as_piece, piece_key, piece_range, split_piece_key};
use crate::error::{Error, Result};
use crate::state::FROZEN;
use crate::state::State;
use crate::tree::value::{BlobId, Content, Frozen, Piece};
use crate::tree::{Cursor, NodeSource, Tree};

/// Pieces of a blob that overlap a range, in order, each with its offset in the blob.
pub struct Pieces {
    cursor: Cursor,
    end: u64,
    first: Option<(u64, Piece)>,
}

impl Pieces {
    /// From the piece that holds `from` (or the first after it) up to `end`.
    pub fn new(tree: &Tree, source: &dyn NodeSource, blob: BlobId, from: u64, end: u64) -> Result<Pieces> {
        let before = tree.last_before(source, &piece_key(blob, from))?;
        let mut first = None;
        if let Some((key, value)) = before
            && key.first() == Some(&PIECE)
        {
            let (owner, offset) = split_piece_key(&key)?;
            let piece = as_piece(value)?;
            if owner == blob && offset.saturating_add(piece.len()) > from {
                first = Some((offset, piece));
            }
        }
        let cursor = tree.cursor(KeyRange { start: piece_key(blob, from), ..piece_range(blob) });
        Ok(Pieces { cursor, end, first })
    }

    /// The next piece.
    pub fn next(&mut self, source: &dyn NodeSource) -> Result<Option<(u64, Piece)>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Some((key, value)) = self.cursor.next(source)? else { return Ok(None) };
        let (_, offset) = split_piece_key(&key)?;
        if offset >= self.end {
            return Ok(None);
        }
        Ok(Some((offset, as_piece(value)?)))
    }
}

/// Where frozen blobs are.
#[derive(Clone, Copy)]
pub enum Blobs<'a> {
    /// In the space of them that a state has.
    Of(&'a State),
    /// In this tree.
    In(&'a Tree),
    /// Nobody will ask for one.
    Nowhere,
}

impl Blobs<'_> {
    fn tree(&self, source: &dyn NodeSource) -> Result<Tree> {
        match self {
            Blobs::Of(state) => Ok(state.space(source, FROZEN)?.map(|space| space.tree).unwrap_or_default()),
            Blobs::In(tree) => Ok((*tree).clone()),
            Blobs::Nowhere => Ok(Tree::new()),
        }
    }
}

/// What holds bytes of a range of a value, in order: of a part of a frozen blob the extents of that, cut to the part.
pub struct Flat<'a> {
    blobs: Blobs<'a>,
    from: u64,
    end: u64,
    outer: Outer,
    inner: Option<Inner>,
    /// The tree of frozen blobs, once it was looked up.
    frozen: Option<Tree>,
}

enum Outer {
    Pieces(Pieces),
    Single(Option<Piece>),
}

/// The extents of a part of a frozen blob.
struct Inner {
    part: Frozen,
    pieces: Pieces,
    /// Where the whole blob would begin in the value, modulo 2^64.
    origin: u64,
    /// The bytes of the blob that are still to be told.
    at: u64,
    end: u64,
}

impl<'a> Flat<'a> {
    /// Of `from..end` of a value with this content in a space's tree.
    pub fn new(
        tree: &Tree,
        source: &dyn NodeSource,
        blobs: Blobs<'a>,
        content: &Content,
        from: u64,
        end: u64,
    ) -> Result<Flat<'a>> {
        let outer = match content {
            Content::Empty => Outer::Single(None),
            Content::Single(piece) => Outer::Single(Some(piece.clone())),
            Content::Pieces(blob) => Outer::Pieces(Pieces::new(tree, source, *blob, from, end)?),
        };
        Ok(Flat { blobs, from, end, outer, inner: None, frozen: None })
    }

    /// Of `from..end` of a piece.
    pub fn of(piece: Piece, blobs: Blobs<'a>, from: u64, end: u64) -> Flat<'a> {
        Flat { blobs, from, end, outer: Outer::Single(Some(piece)), inner: None, frozen: None }
    }

    /// The next piece with its place in the value; never a part of a frozen blob.
    pub fn next(&mut self, source: &dyn NodeSource) -> Result<Option<(u64, Piece)>> {
        loop {
            if let Some(inner) = &mut self.inner {
                match inner.next(source)? {
                    Some(found) => return Ok(Some(found)),
                    None => self.inner = None,
                }
            }
            let next = match &mut self.outer {
                Outer::Pieces(pieces) => pieces.next(source)?,
                Outer::Single(piece) => piece.take().map(|piece| (0, piece)),
            };
            match next {
                Some((start, Piece::Frozen(part))) => self.inner = self.open(source, start, part)?,
                other => return Ok(other),
            }
        }
    }

    fn open(&mut self, source: &dyn NodeSource, start: u64, part: Frozen) -> Result<Option<Inner>> {
        let (from, to) = (self.from.max(start), self.end.min(start.saturating_add(part.length)));
        if from >= to {
            return Ok(None);
        }
        if self.frozen.is_none() {
            self.frozen = Some(self.blobs.tree(source)?);
        }
        let tree = self.frozen.as_ref().map_or_else(Tree::new, Tree::clone);
        let (at, end) = (part.first + (from - start), part.first + (to - start));
        let pieces = Pieces::new(&tree, source, part.blob, at, end)?;
        Ok(Some(Inner { part, pieces, origin: start.wrapping_sub(part.first), at, end }))
    }
}

impl Inner {
    fn next(&mut self, source: &dyn NodeSource) -> Result<Option<(u64, Piece)>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let found = self.pieces.next(source)?;
        let Some((offset, Piece::Disk(extent))) = found.filter(|(offset, _)| *offset <= self.at) else {
            let blob = self.part.blob.0;
            return Err(Error::damaged(format!("frozen blob {blob} lacks the bytes from {} on", self.at)));
        };
        let end = offset.saturating_add(u64::from(extent.length));
        if end <= self.at {
            return Err(Error::damaged(format!(
                "extents of frozen blob {} overlap at byte {offset}",
                self.part.blob.0
            )));
        }
        let (from, to) = (offset.max(self.part.first), end.min(self.part.end()));
        self.at = end;
        let whole = (from, to) == (offset, end);
        let extent = if whole { extent } else { extent.part(from - offset, to - from, extent.birth) };
        Ok(Some((self.origin.wrapping_add(from), Piece::Disk(extent))))
    }
}
