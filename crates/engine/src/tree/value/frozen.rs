//! Parts of frozen blobs: many extents under one name, which any number of values share.
//!
//! Invariants:
//! - A frozen blob lies in a space of the engine's own and never changes until nobody names it: extents one behind the other, from its
//!   byte 0 on, without a hole.
//! - Where blocks are counted, freed and noted, a blob is one block past the end of any device.

use bytes::{Buf, BufMut, Bytes};

use super::BlobId;
use crate::address::{BlockRange, Generation};
use crate::codec::short;
use crate::device::BLOCK_LEN;
use crate::{Error, Result};

/// Offsets on a device have at most 63 bits, so that no device has this block.
const FIRST_BLOCK: u64 = 1 << 51;

pub(super) const FROZEN_LEN: usize = 32;

/// A part of a frozen blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frozen {
    /// When its space's tree came to name it.
    pub birth: Generation,
    /// The blob.
    pub blob: BlobId,
    /// The first byte of the blob that is part of it.
    pub first: u64,
    /// How many bytes.
    pub length: u64,
}

/// The block that stands for a blob where blocks are counted.
pub fn block_of(blob: BlobId) -> BlockRange {
    BlockRange { start: FIRST_BLOCK.saturating_add(blob.0), count: 1 }
}

/// The blob that a block stands for; `None` for a block of a device.
pub fn blob_of(block: u64) -> Option<BlobId> {
    block.checked_sub(FIRST_BLOCK).map(BlobId)
}

impl Frozen {
    /// The part of it from `from`, `length` bytes long: another name of the blob.
    pub fn part(&self, from: u64, length: u64, birth: Generation) -> Frozen {
        Frozen { birth, first: self.first + from, length, ..*self }
    }

    /// The byte of the blob after the last.
    pub fn end(&self) -> u64 {
        self.first + self.length
    }

    /// Which blocks' worth of the blob it needs: the first, and the one after the last.
    pub fn blocks(&self) -> (u64, u64) {
        (self.first / BLOCK_LEN as u64, self.end().div_ceil(BLOCK_LEN as u64))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for word in [self.birth.0, self.blob.0, self.first, self.length] {
            out.put_u64_le(word);
        }
    }

    pub(super) fn decode(bytes: &mut Bytes) -> Result<Frozen> {
        let mut word = || bytes.try_get_u64_le().map_err(short);
        let (birth, blob, first, length) = (Generation(word()?), BlobId(word()?), word()?, word()?);
        if length == 0 || first.checked_add(length).is_none() || blob.0 >= u64::MAX - FIRST_BLOCK {
            return Err(Error::damaged(format!(
                "a piece names {length} bytes from byte {first} of frozen blob {}",
                blob.0
            )));
        }
        Ok(Frozen { birth, blob, first, length })
    }
}
