//! What lies below: heads, lists of extents, pieces, counts.
//!
//! | key | value |
//! |---|---|
//! | `h`, key | the head of a value |
//! | `l`, list (16 bytes), number (4 bytes) | a part of a long list of extents |
//! | `n` | never there |
//! | `o`, blob (16 bytes) | empty: a stage that no commit took yet |
//! | `p`, blob, number (8 bytes) | a piece |
//! | `r`, blob | how many extents are of this blob; where it is one and always was, there is no record |
//!
//! Numbers in keys are big-endian, in values little-endian.
//!
//! Invariants:
//! - Heads sort before everything else, so that what nobody watches is one range.
//! - Extents of a value are in order, do not overlap, and end at or before its size; what none covers is zeros.

use bytes::{BufMut, Bytes, BytesMut};
use koine_engine::{Error, KeyRange, Place, Result};

use crate::emulate::SOLE;
use crate::sparse::{Piece, Sparse};

pub(super) const HEAD: &[u8] = b"h";
pub(super) const STAGED: &[u8] = b"o";
const LIST: &[u8] = b"l";
const NEVER: &[u8] = b"n";
const PIECE: &[u8] = b"p";
const COUNT: &[u8] = b"r";

/// Names the pieces of one write, at random.
pub(super) type BlobId = [u8; 16];

/// The value follows.
const INLINE: u8 = 0;
/// Size, then extents.
const EXTENTS: u8 = 1;
/// Size, list, length of the list in bytes.
const LISTED: u8 = 2;
/// Up to so many extents are in the head itself.
pub(super) const HEAD_EXTENTS_MAX: usize = 8;
const EXTENT_LEN: usize = 40;
/// What an inline value is shorter by than its head.
pub(super) const INLINE_HEADER_LEN: usize = 1;

/// A run of a value that lies in a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Where it is in the value.
    pub(super) at: u64,
    pub(super) length: u64,
    pub(super) blob: BlobId,
    /// Where it is in the blob.
    pub(super) from: u64,
}

impl Extent {
    /// How far the value's offsets are from the blob's.
    pub(super) fn shift(&self) -> i128 {
        i128::from(self.at) - i128::from(self.from)
    }

    /// The numbers of the first and the last piece.
    pub(super) fn pieces(&self, piece_len: u64) -> (u64, u64) {
        (self.from / piece_len, (self.from + self.length.saturating_sub(1)) / piece_len)
    }
}

/// What a key has below.
#[derive(Clone, Debug)]
pub(super) enum Head {
    Inline(Bytes),
    Extents { size: u64, extents: Vec<Extent> },
    Listed { size: u64, list: BlobId, length: u32 },
}

impl Head {
    pub(super) fn size(&self) -> u64 {
        match self {
            Head::Inline(bytes) => bytes.len() as u64,
            Head::Extents { size, .. } | Head::Listed { size, .. } => *size,
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut record = BytesMut::new();
        match self {
            Head::Inline(bytes) => {
                record.reserve(INLINE_HEADER_LEN + bytes.len());
                record.put_u8(INLINE);
                record.put_slice(bytes);
            }
            Head::Extents { size, extents } => {
                record.put_u8(EXTENTS);
                record.put_u64_le(*size);
                record.put(encode_extents(extents));
            }
            Head::Listed { size, list, length } => {
                record.put_u8(LISTED);
                record.put_u64_le(*size);
                record.put_slice(list);
                record.put_u32_le(*length);
            }
        }
        record.freeze()
    }

    pub(super) fn decode(record: &Bytes) -> Result<Head> {
        match record.first() {
            Some(&INLINE) => Ok(Head::Inline(record.slice(1..))),
            Some(&EXTENTS) if record.len() >= 9 => {
                Ok(Head::Extents { size: number(record, 1)?, extents: decode_extents(&record.slice(9..))? })
            }
            Some(&LISTED) => {
                let list = record.get(9..25).and_then(|list| list.try_into().ok()).ok_or_else(damaged)?;
                let length = record.get(25..29).and_then(|length| length.try_into().ok()).ok_or_else(damaged)?;
                Ok(Head::Listed { size: number(record, 1)?, list, length: u32::from_le_bytes(length) })
            }
            _ => Err(damaged()),
        }
    }
}

pub(super) fn damaged() -> Error {
    Error::damaged("a value below is not of the form that `Split` writes")
}

pub(super) fn number(bytes: &[u8], at: usize) -> Result<u64> {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    Ok(u64::from_le_bytes(bytes.ok_or_else(damaged)?))
}

pub(super) fn encode_extents(extents: &[Extent]) -> Bytes {
    let mut list = BytesMut::with_capacity(extents.len() * EXTENT_LEN);
    for extent in extents {
        list.put_u64_le(extent.at);
        list.put_u64_le(extent.length);
        list.put_slice(&extent.blob);
        list.put_u64_le(extent.from);
    }
    list.freeze()
}

pub(super) fn decode_extents(list: &[u8]) -> Result<Vec<Extent>> {
    let (entries, rest) = list.as_chunks::<EXTENT_LEN>();
    if !rest.is_empty() {
        return Err(damaged());
    }
    let mut extents: Vec<Extent> = Vec::with_capacity(entries.len());
    for entry in entries {
        let blob = entry.get(16..32).and_then(|blob| blob.try_into().ok()).ok_or_else(damaged)?;
        let extent = Extent { at: number(entry, 0)?, length: number(entry, 8)?, blob, from: number(entry, 32)? };
        if extent.at.checked_add(extent.length).is_none() || extent.from.checked_add(extent.length).is_none() {
            return Err(damaged());
        }
        if extents.last().is_some_and(|last| last.at + last.length > extent.at) {
            return Err(damaged());
        }
        extents.push(extent);
    }
    Ok(extents)
}

fn key(parts: &[&[u8]]) -> Bytes {
    Bytes::from(parts.concat())
}

fn below(parts: &[&[u8]]) -> Place {
    Place::new(SOLE, key(parts))
}

pub(super) fn head_key(of: &[u8]) -> Bytes {
    key(&[HEAD, of])
}

pub(super) fn never_key() -> Bytes {
    Bytes::from_static(NEVER)
}

pub(super) fn count_at(blob: &BlobId) -> Place {
    below(&[COUNT, blob])
}

pub(super) fn staged_at(blob: &BlobId) -> Place {
    below(&[STAGED, blob])
}

pub(super) fn piece_at(blob: &BlobId, number: u64) -> Place {
    below(&[PIECE, blob, &number.to_be_bytes()])
}

/// The pieces of a blob from one number to another, both included.
pub(super) fn pieces_between(blob: &BlobId, first: u64, last: u64) -> KeyRange {
    let end = KeyRange::single(piece_at(blob, last).key).end;
    KeyRange { start: piece_at(blob, first).key, end }
}

pub(super) fn pieces_of(blob: &BlobId) -> KeyRange {
    KeyRange::prefix(key(&[PIECE, blob]))
}

pub(super) fn list_at(list: &BlobId, number: u32) -> Place {
    below(&[LIST, list, &number.to_be_bytes()])
}

/// Where the bytes of a value are while a batch is planned.
#[derive(Clone)]
pub(super) enum Source {
    Inline(Bytes),
    Blob { blob: BlobId, from: u64, length: u64 },
}

impl Piece for Source {
    fn length(&self) -> u64 {
        match self {
            Source::Inline(bytes) => bytes.len() as u64,
            Source::Blob { length, .. } => *length,
        }
    }

    fn part(&self, start: u64, end: u64) -> Self {
        match self {
            Source::Inline(bytes) => Source::Inline(bytes.part(start, end)),
            Source::Blob { blob, from, .. } => Source::Blob { blob: *blob, from: from + start, length: end - start },
        }
    }
}

/// A value of extents.
pub(super) fn value_of(size: u64, extents: &[Extent]) -> Sparse<Source> {
    let mut value = Sparse::default();
    value.truncate(size);
    for extent in extents {
        value.write(extent.at, Source::Blob { blob: extent.blob, from: extent.from, length: extent.length });
    }
    value
}
