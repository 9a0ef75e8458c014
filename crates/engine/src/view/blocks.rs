//! How many blocks a value's data takes.
//!
//! Invariant: blocks that several pieces of a value name count once. A part of a frozen blob takes what as many bytes take, wherever
//! the extents of the blob begin.

use crate::content::Pieces;
use crate::device::BLOCK_LEN;
use crate::error::Result;
use crate::tree::value::{BlobId, Content, Piece};
use crate::tree::{NodeSource, Tree};

/// How many blocks a piece takes by itself.
pub(crate) fn blocks_of_piece(piece: &Piece) -> u64 {
    match piece {
        Piece::Inline(_) => 0,
        Piece::Pending(pending) => match pending.placement.placed() {
            Some(extent) => u64::from(extent.blocks().count),
            None => pending.bytes.len().div_ceil(BLOCK_LEN) as u64,
        },
        Piece::Disk(extent) => u64::from(extent.blocks().count),
        Piece::Frozen(frozen) => {
            let (first, end) = frozen.blocks();
            end - first
        }
    }
}

/// How many blocks a value's pieces take. Pieces that were cut from one run, or one blob, may name the same blocks.
pub(super) fn blocks_of(tree: &Tree, source: &dyn NodeSource, content: &Content) -> Result<u64> {
    let mut waiting = 0;
    // Of the device, or of a blob: from a block on, up to another.
    let mut ranges: Vec<(Option<BlobId>, u64, u64)> = Vec::new();
    let mut add = |piece: &Piece| match (piece, piece.placed()) {
        (Piece::Frozen(frozen), _) => {
            let (first, end) = frozen.blocks();
            ranges.push((Some(frozen.blob), first, end));
        }
        (_, Some((_, blocks))) => ranges.push((None, blocks.start, blocks.end())),
        _ => waiting += blocks_of_piece(piece),
    };
    match content {
        Content::Empty => {}
        Content::Single(piece) => add(piece),
        Content::Pieces(blob) => {
            let mut pieces = Pieces::new(tree, source, *blob, 0, u64::MAX)?;
            while let Some((_, piece)) = pieces.next(source)? {
                add(&piece);
            }
        }
    }
    ranges.sort_unstable();
    let (mut placed, mut whose, mut counted_to) = (0, None, 0);
    for (of, start, end) in ranges {
        if of != whose {
            (whose, counted_to) = (of, 0);
        }
        placed += end.saturating_sub(start.max(counted_to));
        counted_to = counted_to.max(end);
    }
    Ok(waiting + placed)
}
