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
//!
//! A piece is one tag byte and a body:
//!
//! | tag | piece | body |
//! |---|---|---|
//! | 1 | inline | the bytes, to the end, at most 1,024 |
//! | 2 | extent | start block u64, run length u32, skip u32, length u32, log2 of the chunk length u8 (9 to 30), number of chunks u16, then one CRC-32C u32 a chunk |
//!
//! The run begins with its start block; `skip + length` is at most the run length; the number of chunks is
//! the run length divided by the chunk length, rounded up, and at most 512.
//! A node reference is 26 bytes: start block u64, blocks u16 (1 to 4), checksum u64 (CRC-64/NVME), birth u64.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};

pub use crate::tree::Fate;
use crate::tree::{NODE_REF_LEN, NodeRef, Tree};
use crate::{Error, Result, Version, device::BLOCK_LEN};

/// The longest piece that lives in a leaf, in bytes.
pub const INLINE_LEN_MAX: usize = 1024;
/// The most chunks of one run.
pub const CHUNKS_MAX: usize = 512;
/// The smallest chunk that a placed [`Pending`] may be cut into, in bytes.
pub const PENDING_CHUNK_LEN_MIN: usize = 4096;

const EXTENT_HEAD_LEN: usize = 8 + 4 + 4 + 4 + 1 + 2;

/// Blocks of 4,096 bytes on the device, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockRange {
    /// The number of the first block, from the start of the device.
    pub start: u64,
    /// How many.
    pub count: u32,
}

impl BlockRange {
    /// The block after the last one.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(u64::from(self.count))
    }
}

/// Names the pieces of one value inside its space's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(pub u64);

/// A part of a run of checksummed data on the device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Where the run begins.
    pub start_block: u64,
    /// Bytes of data in the run; the chunks divide these.
    pub run_length: u32,
    /// Bytes of the run before this part.
    pub skip: u32,
    /// Bytes of this part.
    pub length: u32,
    /// The chunk length is two to this power.
    pub chunk_log2: u8,
    /// CRC-32C of each chunk of the whole run; the last chunk may be shorter.
    pub checksums: Arc<[u32]>,
}

impl Extent {
    /// The blocks of the whole run.
    pub fn blocks(&self) -> BlockRange {
        BlockRange { start: self.start_block, count: self.run_length.div_ceil(BLOCK_LEN as u32) }
    }

    fn encoded_len(&self) -> usize {
        EXTENT_HEAD_LEN + 4 * self.checksums.len()
    }

    /// Appends the stored form.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.start_block);
        out.put_u32_le(self.run_length);
        out.put_u32_le(self.skip);
        out.put_u32_le(self.length);
        out.put_u8(self.chunk_log2);
        out.put_u16_le(self.checksums.len() as u16);
        self.checksums.iter().for_each(|checksum| out.put_u32_le(*checksum));
    }

    /// Reads the stored form from the front of `bytes`.
    pub(crate) fn decode(bytes: &mut Bytes) -> Result<Extent> {
        let start_block = bytes.try_get_u64_le().map_err(short)?;
        let run_length = bytes.try_get_u32_le().map_err(short)?;
        let skip = bytes.try_get_u32_le().map_err(short)?;
        let length = bytes.try_get_u32_le().map_err(short)?;
        let chunk_log2 = bytes.try_get_u8().map_err(short)?;
        let count = usize::from(bytes.try_get_u16_le().map_err(short)?);
        if !(9..=30).contains(&chunk_log2)
            || count > CHUNKS_MAX
            || count != run_length.div_ceil(1 << chunk_log2) as usize
        {
            return Err(Error::damaged(format!(
                "an extent of {run_length} bytes at block {start_block} has {count} chunks of 2^{chunk_log2} bytes"
            )));
        }
        let end = u64::from(skip) + u64::from(length);
        if length == 0 || end > u64::from(run_length) || start_block > u64::MAX / BLOCK_LEN as u64 - (1 << 20) {
            return Err(Error::damaged(format!(
                "an extent names bytes {skip} to {end} of a run of {run_length} bytes at block {start_block}"
            )));
        }
        if bytes.remaining() < 4 * count {
            return Err(truncated());
        }
        let checksums = (0..count).map(|_| bytes.try_get_u32_le().map_err(short)).collect::<Result<Vec<u32>>>()?;
        Ok(Extent { start_block, run_length, skip, length, chunk_log2, checksums: checksums.into() })
    }
}

/// Bytes of a value that are in memory and in the ring only; a checkpoint writes them out.
#[derive(Debug)]
pub struct Pending {
    /// The bytes.
    pub bytes: Bytes,
    /// Where they were written. The extent has the length of `bytes` and at most
    /// [`Pending::chunks_max`] chunks in its run.
    pub fate: Fate<Extent>,
}

impl Pending {
    /// Bytes that were not written yet.
    pub fn new(bytes: Bytes) -> Self {
        Pending { bytes, fate: Fate::new() }
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
}

impl Piece {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Inline(bytes) => bytes.len() as u64,
            Piece::Pending(pending) => pending.bytes.len() as u64,
            Piece::Disk(extent) => u64::from(extent.length),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Turns a pending piece that was placed meanwhile into the extent it was placed at.
    pub fn settle(&mut self) {
        if let Piece::Pending(pending) = self
            && let Some(extent) = pending.fate.placed()
        {
            *self = Piece::Disk(extent);
        }
    }

    fn settles(&self) -> bool {
        matches!(self, Piece::Pending(pending) if pending.fate.is_placed())
    }

    fn encoded_len(&self) -> usize {
        1 + match self {
            Piece::Inline(bytes) => bytes.len(),
            Piece::Pending(pending) => EXTENT_HEAD_LEN + 4 * pending.chunks_max(),
            Piece::Disk(extent) => extent.encoded_len(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Piece::Inline(bytes) => {
                out.put_u8(1);
                out.put_slice(bytes);
            }
            Piece::Pending(pending) => {
                let placed = pending.fate.placed();
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
        }
        Ok(())
    }

    fn decode(bytes: &mut Bytes) -> Result<Piece> {
        match bytes.try_get_u8().map_err(short)? {
            1 if bytes.len() <= INLINE_LEN_MAX => Ok(Piece::Inline(bytes.split_off(0))),
            1 => Err(Error::damaged(format!("an inline piece has {} bytes", bytes.len()))),
            2 => Ok(Piece::Disk(Extent::decode(bytes)?)),
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

/// A space as the master tree knows it.
#[derive(Clone, Debug)]
pub struct SpaceRoot {
    /// Its keys.
    pub tree: Tree,
    /// The commit that made it.
    pub created: Version,
    /// Bit 0: read-only.
    pub flags: u32,
}

impl SpaceRoot {
    /// The space may not be changed.
    pub const READ_ONLY: u32 = 1;
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
            Value::Root(root) if root.tree.is_empty() => 12,
            Value::Root(_) => 20 + NODE_REF_LEN,
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
            Value::Root(root) => {
                out.put_u8(if root.tree.is_empty() { 6 } else { 7 });
                out.put_u64_le(root.created.0);
                out.put_u32_le(root.flags);
                if !root.tree.is_empty() {
                    out.put_u64_le(root.tree.len());
                    let stored = root.tree.stored();
                    stored.ok_or_else(|| Error::invalid("a root was encoded before its nodes"))?.encode(out);
                }
            }
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
            tag @ 6..=7 => {
                let created = Version(bytes.try_get_u64_le().map_err(short)?);
                let flags = bytes.try_get_u32_le().map_err(short)?;
                let mut tree = Tree::new();
                if tag == 7 {
                    let len = bytes.try_get_u64_le().map_err(short)?;
                    tree = Tree::at(NodeRef::decode(bytes)?, len);
                }
                Value::Root(SpaceRoot { tree, created, flags })
            }
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

/// The error for a value that ends too early.
pub(crate) fn truncated() -> Error {
    Error::damaged("a stored value ends too early")
}

fn short(_: bytes::TryGetError) -> Error {
    truncated()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extent() -> impl Strategy<Value = Extent> {
        (0u64..1 << 40, 1u32..1 << 20, 12u8..18).prop_map(|(start_block, run_length, chunk_log2)| {
            let count = run_length.div_ceil(1 << chunk_log2);
            let skip = run_length / 3;
            let checksums = (0..count).map(|number| number.wrapping_mul(2_654_435_761)).collect();
            Extent { start_block, run_length, skip, length: run_length - skip, chunk_log2, checksums }
        })
    }

    fn piece() -> impl Strategy<Value = Piece> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..=INLINE_LEN_MAX).prop_map(|bytes| Piece::Inline(bytes.into())),
            extent().prop_map(Piece::Disk),
        ]
    }

    fn value() -> impl Strategy<Value = Value> {
        let content = prop_oneof![
            Just(Content::Empty),
            piece().prop_map(Content::Single),
            any::<u64>().prop_map(|id| Content::Pieces(BlobId(id))),
        ];
        let node = (0u64..1 << 40, 1u16..=4, any::<u64>(), any::<u64>());
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..100).prop_map(|bytes| Value::Raw(bytes.into())),
            piece().prop_map(Value::Piece),
            (any::<u64>(), any::<u64>(), content).prop_map(|(version, size, content)| Value::Record(Record {
                version: Version(version),
                size,
                content
            })),
            (prop::option::of(node), 1u64.., any::<u64>(), any::<u32>()).prop_map(|(node, len, created, flags)| {
                let tree = node.map_or_else(Tree::new, |(start_block, blocks, checksum, birth)| {
                    Tree::at(NodeRef { start_block, blocks, checksum, birth: Version(birth) }, len)
                });
                Value::Root(SpaceRoot { tree, created: Version(created), flags })
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_value_comes_back(value in value()) {
            let mut stored = Vec::new();
            value.encode(&mut stored).unwrap();
            prop_assert_eq!(stored.len(), value.encoded_len());
            let back = Value::decode(stored.clone().into()).unwrap();
            prop_assert_eq!(format!("{back:?}"), format!("{value:?}"));
            let mut longer = stored.clone();
            longer.push(0);
            let open_ended = matches!(&value, Value::Raw(_)) || matches!(value.piece(), Some(Piece::Inline(_)));
            prop_assert!(open_ended || Value::decode(longer.into()).is_err());
        }

        #[test]
        fn wrong_bytes_are_damage_or_another_value(value in value(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
            let mut stored = Vec::new();
            value.encode(&mut stored).unwrap();
            let at = at.index(stored.len());
            stored[at] = byte;
            stored.truncate(cut.index(stored.len()) + 1);
            match Value::decode(stored.clone().into()) {
                Ok(other) => {
                    let mut again = Vec::new();
                    other.encode(&mut again).unwrap();
                    prop_assert_eq!(again, stored);
                }
                Err(error) => prop_assert_eq!(error.kind(), crate::ErrorKind::Damaged),
            }
        }

        #[test]
        fn noise_is_damage_or_a_value(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Err(error) = Value::decode(bytes.into()) {
                prop_assert_eq!(error.kind(), crate::ErrorKind::Damaged);
            }
        }
    }

    #[test]
    fn a_pending_piece_needs_its_place_and_keeps_its_room() {
        let pending = Arc::new(Pending::new(Bytes::from(vec![7; 10_000])));
        let mut value = Value::Piece(Piece::Pending(Arc::clone(&pending)));
        let room = value.encoded_len();
        assert!(value.encode(&mut Vec::new()).is_err());
        let checksums = Arc::from([1, 2, 3]);
        let extent = Extent { start_block: 9, run_length: 10_000, skip: 0, length: 10_000, chunk_log2: 12, checksums };
        assert_eq!(pending.fate.place(extent.clone()), None);
        assert_eq!(value.encoded_len(), room);
        let mut stored = Vec::new();
        value.encode(&mut stored).unwrap();
        assert!(stored.len() <= room);
        assert!(value.settles());
        value.settle();
        assert!(matches!(&value, Value::Piece(Piece::Disk(at)) if *at == extent));
        assert_eq!(extent.blocks(), BlockRange { start: 9, count: 3 });
    }
}
