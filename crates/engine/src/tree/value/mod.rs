//! What the leaves of the index hold: records, pieces of large values, roots of other trees.
//!
//! Invariants:
//! - [`Value::encoded_len`] of a value never changes and is never below what [`Value::encode`] writes,
//!   also when a [`Pending`] piece is placed in between; nodes are split by it.
//! - Decoding is total: any bytes give a value or [`ErrorKind::Damaged`](crate::ErrorKind), and a decoded value
//!   takes memory in proportion to its bytes.
//! - What decodes, encodes to the same bytes.
//!
//! # Stored form
//!
//! All numbers are little-endian. A value is one tag byte and a body; nothing may follow it.
//!
//! | tag | value | body |
//! |---|---|---|
//! | 1 | raw | the bytes, to the end |
//! | 2 | record, empty | version u64, size u64 |
//! | 3 | record, single piece | version u64, size u64, piece |
//! | 4 | record, pieces | version u64, size u64, blob id u64 |
//! | 5 | piece | piece |
//! | 6 | root of an empty space | created u64, flags u32 |
//! | 7 | root of a space | created u64, flags u32, entries u64, node reference |
//! | 8 | as 6, with a lineage | created u64, flags u32, lineage |
//! | 9 | as 7, with a lineage | created u64, flags u32, lineage, entries u64, node reference |
//!
//! A lineage is origin u64, shared u64, dead list u64, frozen u64 (see [`Lineage`]), not all of them zero.
//!
//! A piece is one tag byte and a body:
//!
//! | tag | piece | body |
//! |---|---|---|
//! | 1 | inline | the bytes, to the end, at most 1,024 |
//! | 2 | extent | birth u64, start block u64, run length u32, skip u32, length u32, log2 of the chunk length u8 (9 to 30), number of chunks u16, then one CRC-32C u32 a chunk |
//! | 3 | part of a frozen blob | birth u64, blob id u64, first byte u64, length u64 |
//!
//! The run begins with its start block; `skip + length` is at most the run length; the number of chunks is
//! the run length divided by the chunk length, rounded up, and at most 512.
//! A node reference is 26 bytes: start block u64, blocks u16 (1 to 4), checksum u64 (CRC-64/NVME), birth u64.

mod frozen;
mod head;

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};

use frozen::FROZEN_LEN;
pub use frozen::{Frozen, blob_of, block_of};
pub use head::{Held, HeldBytes, RecordHead};

use super::{Placement, Tree};
use crate::address::{BlockRange, Generation, NODE_REF_LEN, NodeRef};
use crate::codec::short;
use crate::extent::{EXTENT_HEAD_LEN, Extent};
use crate::{Error, Result, Version};

/// The longest piece that lives in a leaf, in bytes.
pub const INLINE_LEN_MAX: usize = 1024;
/// The smallest chunk that a placed [`Pending`] may be cut into, in bytes.
pub const PENDING_CHUNK_LEN_MIN: usize = 4096;

const LINEAGE_LEN: usize = 32;

/// Names the pieces of one value inside its space's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(pub u64);

/// Bytes of a value that are in memory and in the ring only; a checkpoint writes them out.
#[derive(Debug)]
pub struct Pending {
    /// The bytes.
    pub bytes: Bytes,
    /// Where they were written. The extent has the length of `bytes` and at most
    /// [`Pending::chunks_max`] chunks in its run.
    pub placement: Placement<Extent>,
}

impl Pending {
    /// Bytes that were not written yet.
    pub fn new(bytes: Bytes) -> Self {
        Pending { bytes, placement: Placement::new() }
    }

    /// The most chunks of the run that these bytes may be placed in: room is kept in the leaf for them.
    pub fn chunks_max(&self) -> usize {
        self.bytes.len() / PENDING_CHUNK_LEN_MIN + 2
    }
}

/// A part of a value.
#[derive(Clone, Debug)]
pub enum Piece {
    /// In the leaf itself, at most [`INLINE_LEN_MAX`] bytes.
    Inline(Bytes),
    /// In memory until the next checkpoint.
    Pending(Arc<Pending>),
    /// On the device.
    Disk(Extent),
    /// In a frozen blob.
    Frozen(Frozen),
}

impl Piece {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Inline(bytes) => bytes.len() as u64,
            Piece::Pending(pending) => pending.bytes.len() as u64,
            Piece::Disk(extent) => u64::from(extent.length),
            Piece::Frozen(frozen) => frozen.length,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Turns a pending piece that was placed meanwhile into the extent it was placed at.
    pub fn settle(&mut self) {
        if let Piece::Pending(pending) = self
            && let Some(extent) = pending.placement.placed()
        {
            *self = Piece::Disk(extent);
        }
    }

    /// Which blocks it names, and since when; nothing for what is in memory. A part of a frozen blob names the blob as a block
    /// past the end of any device.
    pub fn placed(&self) -> Option<(Generation, BlockRange)> {
        match self {
            Piece::Disk(extent) => Some((extent.birth, extent.blocks())),
            Piece::Pending(pending) => pending.placement.placed().map(|extent| (extent.birth, extent.blocks())),
            Piece::Frozen(frozen) => Some((frozen.birth, block_of(frozen.blob))),
            Piece::Inline(_) => None,
        }
    }

    fn settles(&self) -> bool {
        matches!(self, Piece::Pending(pending) if pending.placement.is_placed())
    }

    fn encoded_len(&self) -> usize {
        1 + match self {
            Piece::Inline(bytes) => bytes.len(),
            Piece::Pending(pending) => EXTENT_HEAD_LEN + 4 * pending.chunks_max(),
            Piece::Disk(extent) => extent.encoded_len(),
            Piece::Frozen(_) => FROZEN_LEN,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Piece::Inline(bytes) => {
                out.put_u8(1);
                out.put_slice(bytes);
            }
            Piece::Pending(pending) => {
                let placed = pending.placement.placed();
                let extent =
                    placed.ok_or_else(|| Error::invalid("a pending piece was encoded before it was placed"))?;
                if extent.checksums.len() > pending.chunks_max() || extent.length as usize != pending.bytes.len() {
                    return Err(Error::invalid("a pending piece was placed in a run with too many chunks"));
                }
                out.put_u8(2);
                extent.encode(out);
            }
            Piece::Disk(extent) => {
                out.put_u8(2);
                extent.encode(out);
            }
            Piece::Frozen(frozen) => {
                out.put_u8(3);
                frozen.encode(out);
            }
        }
        Ok(())
    }

    fn decode(bytes: &mut Bytes) -> Result<Piece> {
        match bytes.try_get_u8().map_err(short)? {
            1 if bytes.len() <= INLINE_LEN_MAX => Ok(Piece::Inline(bytes.split_off(0))),
            1 => Err(Error::damaged(format!("an inline piece has {} bytes", bytes.len()))),
            2 => Ok(Piece::Disk(Extent::decode(bytes)?)),
            3 => Ok(Piece::Frozen(Frozen::decode(bytes)?)),
            tag => Err(Error::damaged(format!("a piece has the unknown tag {tag}"))),
        }
    }
}

/// Where the bytes of a value are. What no piece covers reads as zeros.
#[derive(Clone, Debug)]
pub enum Content {
    /// Nowhere: all zeros.
    Empty,
    /// In one piece that begins at offset 0.
    Single(Piece),
    /// In entries (blob, offset) of the same tree.
    Pieces(BlobId),
}

/// What is known of a key.
#[derive(Clone, Debug)]
pub struct Record {
    /// The commit that changed it last.
    pub version: Version,
    /// The length of the value in bytes.
    pub size: u64,
    /// Its bytes.
    pub content: Content,
}

/// Where a branch of a space comes from, and what it shares with its brothers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The branch point that it comes from; 0: none.
    pub origin: u64,
    /// What was born up to here belongs to the branch point as well.
    pub shared: Generation,
    /// The number of the list of what the branch point still needs and this branch does not; 0: none.
    pub dead: u64,
    /// Of a branch point: the generation that it ended. What it holds that is younger is its own.
    pub frozen: Generation,
}

/// A space as the master tree knows it, or a branch point.
#[derive(Clone, Debug, Default)]
pub struct SpaceRoot {
    /// Its keys.
    pub tree: Tree,
    /// The commit that made it.
    pub created: Version,
    /// Bit 0: read-only.
    pub flags: u32,
    /// Set when it was ever branched.
    pub lineage: Option<Box<Lineage>>,
}

impl SpaceRoot {
    /// The space may not be changed.
    pub const READ_ONLY: u32 = 1;

    /// Without keys.
    pub fn new(created: Version) -> SpaceRoot {
        SpaceRoot { created, ..SpaceRoot::default() }
    }

    /// Its lineage; all zero where it never was branched.
    pub fn lineage(&self) -> Lineage {
        self.lineage.as_deref().copied().unwrap_or_default()
    }

    /// Sets the lineage.
    pub fn set_lineage(&mut self, lineage: Lineage) {
        self.lineage = (lineage != Lineage::default()).then(|| Box::new(lineage));
    }

    /// Whether it may not be changed.
    pub fn is_read_only(&self) -> bool {
        self.flags & SpaceRoot::READ_ONLY != 0
    }

    fn encoded_len(&self) -> usize {
        let lineage = if self.lineage.is_some() { LINEAGE_LEN } else { 0 };
        12 + lineage + if self.tree.is_empty() { 0 } else { 8 + NODE_REF_LEN }
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u8(6 + u8::from(!self.tree.is_empty()) + 2 * u8::from(self.lineage.is_some()));
        out.put_u64_le(self.created.0);
        out.put_u32_le(self.flags);
        if let Some(lineage) = &self.lineage {
            for word in [lineage.origin, lineage.shared.0, lineage.dead, lineage.frozen.0] {
                out.put_u64_le(word);
            }
        }
        if !self.tree.is_empty() {
            out.put_u64_le(self.tree.len());
            let assigned = self.tree.assigned();
            assigned.ok_or_else(|| Error::invalid("a root was encoded before its nodes"))?.encode(out);
        }
        Ok(())
    }

    fn decode(tag: u8, bytes: &mut Bytes) -> Result<SpaceRoot> {
        let created = Version(bytes.try_get_u64_le().map_err(short)?);
        let flags = bytes.try_get_u32_le().map_err(short)?;
        let mut root = SpaceRoot { created, flags, ..SpaceRoot::default() };
        if tag >= 8 {
            let mut word = || bytes.try_get_u64_le().map_err(short);
            let (origin, shared, dead, frozen) = (word()?, Generation(word()?), word()?, Generation(word()?));
            root.set_lineage(Lineage { origin, shared, dead, frozen });
            if root.lineage.is_none() {
                return Err(Error::damaged("a root has a lineage of zeros"));
            }
        }
        if tag == 7 || tag == 9 {
            let len = bytes.try_get_u64_le().map_err(short)?;
            root.tree = Tree::at(NodeRef::decode(bytes)?, len);
        }
        Ok(root)
    }
}

/// What a leaf holds for a key.
#[derive(Clone, Debug)]
pub enum Value {
    /// A key of a space.
    Record(Record),
    /// A part of a large value.
    Piece(Piece),
    /// A space.
    Root(SpaceRoot),
    /// Anything else that the engine keeps (free space, request outcomes, counts).
    Raw(Bytes),
}

impl Value {
    /// An upper bound of the encoded length, in bytes, exact but for pending pieces.
    pub fn encoded_len(&self) -> usize {
        1 + match self {
            Value::Raw(bytes) => bytes.len(),
            Value::Record(record) => {
                16 + match &record.content {
                    Content::Empty => 0,
                    Content::Single(piece) => piece.encoded_len(),
                    Content::Pieces(_) => 8,
                }
            }
            Value::Piece(piece) => piece.encoded_len(),
            Value::Root(root) => root.encoded_len(),
        }
    }

    /// Appends the stored form. Pending pieces and the nodes of roots must have been placed.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Value::Raw(bytes) => {
                out.put_u8(1);
                out.put_slice(bytes);
            }
            Value::Record(record) => {
                let tag = match record.content {
                    Content::Empty => 2,
                    Content::Single(_) => 3,
                    Content::Pieces(_) => 4,
                };
                out.put_u8(tag);
                out.put_u64_le(record.version.0);
                out.put_u64_le(record.size);
                match &record.content {
                    Content::Empty => {}
                    Content::Single(piece) => piece.encode(out)?,
                    Content::Pieces(blob) => out.put_u64_le(blob.0),
                }
            }
            Value::Piece(piece) => {
                out.put_u8(5);
                piece.encode(out)?;
            }
            Value::Root(root) => root.encode(out)?,
        }
        Ok(())
    }

    /// Reads the stored form; byte strings share the memory of `bytes`.
    pub fn decode(mut bytes: Bytes) -> Result<Value> {
        let bytes = &mut bytes;
        let value = match bytes.try_get_u8().map_err(short)? {
            1 => Value::Raw(bytes.split_off(0)),
            tag @ 2..=4 => {
                let version = Version(bytes.try_get_u64_le().map_err(short)?);
                let size = bytes.try_get_u64_le().map_err(short)?;
                let content = match tag {
                    2 => Content::Empty,
                    3 => Content::Single(Piece::decode(bytes)?),
                    _ => Content::Pieces(BlobId(bytes.try_get_u64_le().map_err(short)?)),
                };
                Value::Record(Record { version, size, content })
            }
            5 => Value::Piece(Piece::decode(bytes)?),
            tag @ 6..=9 => Value::Root(SpaceRoot::decode(tag, bytes)?),
            tag => return Err(Error::damaged(format!("a value has the unknown tag {tag}"))),
        };
        if bytes.has_remaining() {
            return Err(Error::damaged(format!("{} bytes follow a value", bytes.remaining())));
        }
        Ok(value)
    }

    /// The piece that a value carries itself.
    pub fn piece(&self) -> Option<&Piece> {
        match self {
            Value::Piece(piece) | Value::Record(Record { content: Content::Single(piece), .. }) => Some(piece),
            _ => None,
        }
    }

    /// Whether [`Value::settle`] would change it.
    pub(crate) fn settles(&self) -> bool {
        match self {
            Value::Root(root) => root.tree.settles(),
            other => other.piece().is_some_and(Piece::settles),
        }
    }

    /// Forgets the memory form of what was placed meanwhile.
    pub(crate) fn settle(&mut self) {
        match self {
            Value::Piece(piece) | Value::Record(Record { content: Content::Single(piece), .. }) => piece.settle(),
            Value::Root(root) => root.tree.settle(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
