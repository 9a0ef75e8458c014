//! What differs between two values, of which at least one has parts of frozen blobs: piece by piece, in order.
//!
//! Such a piece may be as long as its value, so that an edit shows in the index as other pieces over all of it. What both values
//! name of one blob at one place is the same, however it is cut.
//!
//! Invariant: a call looks at a bounded number of pieces and tells a bounded number of bytes.

use bytes::Bytes;

use crate::content::Pieces;
use crate::core::Core;
use crate::error::Result;
use crate::stream::frame::{DATA_LEN_MAX, Frame};
use crate::stream::source::Trees;
use crate::stream::value::{Part, Rest, is_same_piece, read};
use crate::tree::value::{Content, Piece, Record};
use crate::tree::{NodeSource, Tree};

/// So many stretches of a value are looked at in one call.
const STRETCHES_MAX: usize = 4096;

/// Two values of one key, and where comparing them goes on.
#[derive(Clone, Debug)]
pub struct Compared {
    pub old: Record,
    pub new: Record,
    pub at: u64,
}

impl Compared {
    /// From their beginning.
    pub fn begin(old: &Record, new: &Record) -> Box<Compared> {
        Box::new(Compared { old: old.clone(), new: new.clone(), at: 0 })
    }
}

/// The pieces of one value from a place on.
struct Side {
    pieces: Option<Pieces>,
    /// The piece that holds the place, or the next.
    next: Option<(u64, Piece)>,
}

impl Side {
    fn new(tree: &Tree, source: &dyn NodeSource, record: &Record, at: u64) -> Result<Side> {
        let mut side = match &record.content {
            Content::Empty => Side { pieces: None, next: None },
            Content::Single(piece) => Side { pieces: None, next: Some((0, piece.clone())) },
            Content::Pieces(blob) => {
                Side { pieces: Some(Pieces::new(tree, source, *blob, at, record.size)?), next: None }
            }
        };
        if side.pieces.is_some() {
            side.go_on(source)?;
        }
        Ok(side)
    }

    fn go_on(&mut self, source: &dyn NodeSource) -> Result<()> {
        self.next = match &mut self.pieces {
            Some(pieces) => pieces.next(source)?,
            None => None,
        };
        Ok(())
    }

    /// What holds a byte and where it begins, if anything does; and the place up to which that is so.
    fn look(&mut self, source: &dyn NodeSource, at: u64) -> Result<(Option<(u64, Piece)>, u64)> {
        while let Some((start, piece)) = &self.next {
            let end = start.saturating_add(piece.len());
            if at < *start {
                return Ok((None, *start));
            }
            if at < end {
                return Ok((self.next.clone(), end));
            }
            self.go_on(source)?;
        }
        Ok((None, u64::MAX))
    }
}

/// Whether two pieces have the same bytes where they overlap.
fn is_same(old: Option<&(u64, Piece)>, new: Option<&(u64, Piece)>) -> bool {
    match (old, new) {
        (None, None) => true,
        (Some((old_at, Piece::Frozen(old))), Some((new_at, Piece::Frozen(new)))) => {
            old.blob == new.blob && old.first.wrapping_sub(*old_at) == new.first.wrapping_sub(*new_at)
        }
        (Some((old_at, old)), Some((new_at, new))) => old_at == new_at && is_same_piece(old.clone(), new.clone()),
        _ => false,
    }
}

/// Tells the next bytes that differ.
pub fn go_on(core: &Core, trees: &Trees, compared: &Compared) -> Result<Part> {
    let source = &core.nodes;
    let Compared { old, new, mut at } = compared.clone();
    let mut before = Side::new(&trees.old, source, &old, at)?;
    let mut after = Side::new(&trees.new, source, &new, at)?;
    let (mut frames, mut told) = (Vec::new(), 0);
    for _ in 0..STRETCHES_MAX {
        if at >= new.size || told >= DATA_LEN_MAX as u64 {
            break;
        }
        // What was cut off by the new size is zeros, whatever the old value has beyond it.
        let (old_piece, old_end) = before.look(source, at)?;
        let (new_piece, new_end) = after.look(source, at)?;
        let mut end = old_end.min(new_end).min(new.size);
        if !is_same(old_piece.as_ref(), new_piece.as_ref()) {
            if new_piece.is_some() {
                end = end.min(at + DATA_LEN_MAX as u64);
                let data: Bytes = read(core, trees, &new, at, end - at)?;
                told += data.len() as u64;
                frames.push(Frame::Data { offset: at, data });
            } else {
                frames.push(Frame::Hole { offset: at, length: end - at });
            }
        }
        at = end;
    }
    let rest = (at < new.size).then(|| Rest::Compared(Box::new(Compared { old, new, at })));
    Ok(Part { frames, rest, nodes: 0 })
}
