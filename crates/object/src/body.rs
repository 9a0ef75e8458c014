//! Bytes on their way in: counted, hashed, and staged when there are many.
//!
//! Invariants:
//! - At most one piece of 1 MiB (or one small body) is held in memory.
//! - Dropped at any time, a body leaves nothing behind.
//! - Nothing is handed on before every promise about length and checksums was kept.

use std::sync::Arc;

use bytes::Bytes;
use koine_kv::{Access, Kv, Payload, STAGE_PIECE_LEN_MAX, Stage, StageHint};

use crate::checksum::{ChecksumAlgorithm, Digests, Expected, Hasher};
use crate::error::{Error, ErrorKind, Result};
use crate::request::BODY_LEN_MAX;

/// A body that takes pieces.
pub(crate) struct Body {
    kv: Arc<dyn Kv>,
    hasher: Hasher,
    length: u64,
    length_wanted: Option<u64>,
    expected: Expected,
    inline_len_max: usize,
    buffer: Vec<u8>,
    stage: Option<Box<dyn Stage>>,
}

/// A body that came whole and as promised.
pub(crate) struct Finished {
    pub payload: Payload,
    pub size: u64,
    pub digests: Digests,
}

impl Body {
    /// A body of `length_wanted` bytes, where known, whose digests are `expected`; `algorithms` are computed too.
    pub fn new(
        kv: &Arc<dyn Kv>,
        length_wanted: Option<u64>,
        expected: Expected,
        algorithms: impl IntoIterator<Item = ChecksumAlgorithm>,
    ) -> Result<Self> {
        if length_wanted.is_some_and(|length| length > BODY_LEN_MAX) {
            return Err(too_large());
        }
        let mut wanted: Vec<_> = algorithms.into_iter().collect();
        wanted.extend(expected.checksums.iter().map(|checksum| checksum.algorithm));
        if wanted.is_empty() {
            wanted.push(ChecksumAlgorithm::Crc64Nvme);
        }
        let (kv, hasher) = (Arc::clone(kv), Hasher::new(wanted));
        let inline_len_max = kv.profile().inline_len_best;
        let buffer = Vec::new();
        Ok(Body { kv, hasher, length: 0, length_wanted, expected, inline_len_max, buffer, stage: None })
    }

    /// Adds a piece of any length.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        let length = self.length.saturating_add(piece.len() as u64);
        if self.length_wanted.is_some_and(|wanted| length > wanted) {
            return Err(Error::new(ErrorKind::IncompleteBody, "the body goes on past its promised length"));
        }
        if length > BODY_LEN_MAX {
            return Err(too_large());
        }
        self.hasher.update(piece);
        self.length = length;
        match &mut self.stage {
            None if length <= self.inline_len_max as u64 => {
                if self.buffer.is_empty() {
                    let whole = self.length_wanted.and_then(|wanted| usize::try_from(wanted).ok()).unwrap_or(0);
                    self.buffer.reserve_exact(whole.min(self.inline_len_max));
                }
                self.buffer.extend_from_slice(piece);
                Ok(())
            }
            None => {
                let hint = StageHint { length: self.length_wanted, access: Access::Sequential };
                let stage = self.stage.insert(self.kv.stage(hint)?);
                push(stage.as_mut(), &mut self.buffer, piece)
            }
            Some(stage) => push(stage.as_mut(), &mut self.buffer, piece),
        }
    }

    /// No more pieces.
    pub fn finish(mut self, trailers: &Expected) -> Result<Finished> {
        if let Some(wanted) = self.length_wanted
            && wanted != self.length
        {
            let message = format!("the body ended after {} of {wanted} bytes", self.length);
            return Err(Error::new(ErrorKind::IncompleteBody, message));
        }
        let digests = self.hasher.finish();
        digests.verify(&self.expected)?;
        digests.verify(trailers)?;
        let payload = match self.stage.take() {
            None => Payload::Bytes(Bytes::from(self.buffer)),
            Some(mut stage) => {
                if !self.buffer.is_empty() {
                    stage.write(&self.buffer)?;
                }
                Payload::Stage(stage.finish()?)
            }
        };
        Ok(Finished { payload, size: self.length, digests })
    }
}

/// Hands whole pieces of 1 MiB to the stage and keeps the rest; a piece that is whole already is not copied.
fn push(stage: &mut dyn Stage, buffer: &mut Vec<u8>, mut piece: &[u8]) -> Result<()> {
    while !piece.is_empty() {
        if buffer.is_empty() && piece.len() >= STAGE_PIECE_LEN_MAX {
            let (whole, rest) = piece.split_at(STAGE_PIECE_LEN_MAX);
            stage.write(whole)?;
            piece = rest;
            continue;
        }
        let (head, rest) = piece.split_at(piece.len().min(STAGE_PIECE_LEN_MAX - buffer.len()));
        buffer.reserve_exact(STAGE_PIECE_LEN_MAX - buffer.len());
        buffer.extend_from_slice(head);
        piece = rest;
        if buffer.len() == STAGE_PIECE_LEN_MAX {
            stage.write(buffer)?;
            buffer.clear();
        }
    }
    Ok(())
}

fn too_large() -> Error {
    let message = format!("a body may have {BODY_LEN_MAX} bytes; put larger objects in parts");
    Error::new(ErrorKind::EntityTooLarge, message)
}
