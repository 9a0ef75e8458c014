//! Values on their way, in pieces.
//!
//! Invariant: of a value that is not inline one piece of each side is in memory at a time.

use bytes::Bytes;
use koine_engine::stage::STAGE_PIECE_LEN_MAX;
use koine_engine::{SpaceId, StageHint, StageToken};

use super::{CopyResult, Told, name};
use crate::seam::{Entry, Kv, View};

/// A view and the space in it that a value is in.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub view: &'a dyn View,
    pub space: SpaceId,
}

impl Side<'_> {
    fn piece(&self, entry: &Entry, offset: u64, length: usize) -> Result<Bytes, koine_engine::Error> {
        match &entry.value {
            Some(value) => {
                let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(value.len());
                Ok(value.slice(begin..begin.saturating_add(length).min(value.len())))
            }
            None => self.view.bytes(self.space, &entry.key, offset, length),
        }
    }
}

/// How long the piece at an offset is.
fn piece_len(entry: &Entry, offset: u64) -> usize {
    usize::try_from(entry.stat.size - offset).map_or(STAGE_PIECE_LEN_MAX, |left| left.min(STAGE_PIECE_LEN_MAX))
}

/// The whole of a small value of the source.
pub(super) fn small(source: Side<'_>, entry: &Entry) -> CopyResult<Bytes> {
    let length = usize::try_from(entry.stat.size).unwrap_or(usize::MAX);
    source.piece(entry, 0, length).source(|| format!("reading {}", name(source.space, &entry.key)))
}

/// Brings a large value of the source into a stage of the destination; `told` is called with the bytes of each piece.
pub(super) fn large(
    source: Side<'_>,
    entry: &Entry,
    destination: &dyn Kv,
    mut told: impl FnMut(u64),
) -> CopyResult<StageToken> {
    let what = || name(source.space, &entry.key);
    let staging = || format!("staging {}", what());
    let hint = StageHint { length: Some(entry.stat.size), ..StageHint::default() };
    let mut stage = destination.stage(hint).destination(staging)?;
    let mut offset = 0;
    while offset < entry.stat.size {
        let wanted = piece_len(entry, offset);
        let piece = source.piece(entry, offset, wanted).and_then(|piece| match piece.len() {
            count if count == wanted => Ok(piece),
            count => Err(koine_engine::Error::damaged(format!("{count} bytes at {offset}, of {wanted}"))),
        });
        let piece = piece.source(|| format!("reading {}", what()))?;
        stage.write(&piece).destination(staging)?;
        offset += piece.len() as u64;
        told(piece.len() as u64);
    }
    stage.finish().destination(staging)
}

/// The first byte in which two values of the same length differ.
pub(super) fn first_difference(
    source: Side<'_>,
    theirs: &Entry,
    destination: Side<'_>,
    ours: &Entry,
    mut told: impl FnMut(u64),
) -> CopyResult<Option<u64>> {
    let mut offset = 0;
    while offset < theirs.stat.size {
        let wanted = piece_len(theirs, offset);
        let reading = || format!("reading {}", name(source.space, &theirs.key));
        let expected = source.piece(theirs, offset, wanted).source(reading)?;
        let found = destination.piece(ours, offset, wanted).destination(reading)?;
        if expected != found || expected.len() != wanted {
            let at = expected.iter().zip(&found).position(|(a, b)| a != b).unwrap_or(expected.len().min(found.len()));
            return Ok(Some(offset + at as u64));
        }
        offset += wanted as u64;
        told(wanted as u64);
    }
    Ok(None)
}
