//! The stored form of a node.
//!
//! # Stored form
//!
//! A node takes 1 to 4 blocks of 4,096 bytes. All numbers are little-endian.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic 0x45444F4E ("NODE") |
//! | 4 | 1 | format, 0 |
//! | 5 | 1 | kind: 1 leaf, 2 inner |
//! | 6 | 1 | level: 0 for leaves, 1 to 63 for inner nodes |
//! | 7 | 1 | 1: the root of its tree; 0: below it (stores of format 0 have 0 everywhere) |
//! | 8 | 2 | number of entries, at least 1 |
//! | 10 | 2 | zero |
//! | 12 | 4 | bytes of all entries |
//! | 16 | 8 | birth: the generation of the checkpoint that wrote it |
//! | 24 | 8 | store id |
//! | 32 | 8 | CRC-64/NVME of the whole node, with these eight bytes as zeros; its parent holds the same |
//! | 40 | 8 | the space it was written for; 0: the master tree |
//! | 48 | 8 | the last commit of the state it was written for |
//! | 56 | | entries, then zeros up to the end of the block |
//!
//! The last three fields of the header, and whether it is a root, are for salvage alone: a node that no readable parent names still proves itself.
//!
//! An entry is: key length u16, held length u16, key, held. A leaf holds values (see `value`), an inner node holds
//! references to its children (26 bytes: start block u64, blocks u16, checksum u64, birth u64). Keys ascend strictly; an inner
//! node's key is the lowest that may be below the child, and its first key is empty. A child's level is one less.

use crate::Version;
use crate::address::{Generation, NodeRef};
use crate::checksum::crc64_with_hole;
use crate::device::BLOCK_LEN;

/// The first bytes of every stored node.
pub const NODE_MAGIC: u32 = u32::from_le_bytes(*b"NODE");
/// The format of stored nodes.
pub const NODE_FORMAT: u8 = 0;
/// Bytes before the entries.
pub const NODE_HEADER_LEN: usize = 56;
/// Where the checksum stands.
pub(super) const CHECKSUM_AT: usize = 32;
/// Bytes of an entry before its key.
pub(super) const ENTRY_HEAD_LEN: usize = 4;
/// What a leaf says that it is.
pub(super) const KIND_LEAF: u8 = 1;
/// What an inner node says that it is.
pub(super) const KIND_INNER: u8 = 2;
/// The highest level.
pub(super) const LEVEL_MAX: u8 = 63;

/// Tells one store's nodes from another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u64);

/// What every node of a checkpoint says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// The checkpoint's generation.
    pub birth: Generation,
    /// The last commit of the state that it stores.
    pub cut: Version,
    /// The store.
    pub store: StoreId,
}

/// The checksum of a node's bytes.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    crc64_with_hole(bytes, CHECKSUM_AT)
}

/// The reference to a node that was encoded and put at a block.
pub(super) fn reference(encoded: &[u8], start_block: u64, birth: Generation) -> NodeRef {
    let blocks = encoded.len().div_ceil(BLOCK_LEN) as u16;
    NodeRef { start_block, blocks, checksum: checksum(encoded), birth }
}
