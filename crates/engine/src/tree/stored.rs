//! Nodes as bytes.
//!
//! Invariants:
//! - A stored node is believed only if its bytes have the checksum that its parent holds, it is of this store and
//!   of the birth that its parent says, and every entry in it makes sense. Everything else is an error that names the block.
//! - Decoding is total and takes memory in proportion to the bytes.
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

use bytes::{Buf, BufMut, Bytes};

use super::node::{Body, Entries, entry_len, not_open};
use super::packed::Packed;
use super::run::Run;
use super::{NODE_LEN_MAX, Node, NodeRef};
use crate::batch::SpaceId;
use crate::checksum::crc64_with_hole;
use crate::device::BLOCK_LEN;
use crate::value::{Generation, Value, truncated};
use crate::{Error, Result, Version};

/// The first bytes of every stored node.
pub const NODE_MAGIC: u32 = u32::from_le_bytes(*b"NODE");
/// The format of stored nodes.
pub const NODE_FORMAT: u8 = 0;
/// Bytes before the entries.
pub const NODE_HEADER_LEN: usize = 56;
const CHECKSUM_AT: usize = 32;
/// Bytes of a reference to a node.
pub const NODE_REF_LEN: usize = 26;
/// Bytes of an entry before its key.
pub(super) const ENTRY_HEAD_LEN: usize = 4;
const KIND_LEAF: u8 = 1;
const KIND_INNER: u8 = 2;
const LEVEL_MAX: u8 = 63;

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

impl NodeRef {
    /// Its length in bytes.
    pub fn len_bytes(&self) -> usize {
        usize::from(self.blocks) * BLOCK_LEN
    }

    /// The reference to a node that was encoded and put at a block.
    pub(super) fn of(encoded: &[u8], start_block: u64, birth: Generation) -> NodeRef {
        let blocks = encoded.len().div_ceil(BLOCK_LEN) as u16;
        NodeRef { start_block, blocks, checksum: checksum(encoded), birth }
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.start_block);
        out.put_u16_le(self.blocks);
        out.put_u64_le(self.checksum);
        out.put_u64_le(self.birth.0);
    }

    /// Reads the stored form from the front of `bytes`.
    pub fn decode(bytes: &mut impl Buf) -> Result<NodeRef> {
        if bytes.remaining() < NODE_REF_LEN {
            return Err(truncated());
        }
        let start_block = bytes.get_u64_le();
        let blocks = bytes.get_u16_le();
        let checksum = bytes.get_u64_le();
        let birth = Generation(bytes.get_u64_le());
        if !(1..=NODE_LEN_MAX / BLOCK_LEN).contains(&usize::from(blocks))
            || start_block > u64::MAX / BLOCK_LEN as u64 - u64::from(blocks)
        {
            return Err(Error::damaged(format!("a node reference names {blocks} blocks at block {start_block}")));
        }
        Ok(NodeRef { start_block, blocks, checksum, birth })
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    crc64_with_hole(bytes, CHECKSUM_AT)
}

impl Node {
    /// The stored form, padded to whole blocks. All that it refers to must have a place, or be promised one.
    pub(super) fn encode(&self, stamp: Stamp, space: SpaceId, is_root: bool) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.size.encoded_len.next_multiple_of(BLOCK_LEN));
        out.put_u32_le(NODE_MAGIC);
        out.put_u8(NODE_FORMAT);
        out.put_u8(if self.level == 0 { KIND_LEAF } else { KIND_INNER });
        out.put_u8(self.level);
        out.put_u8(is_root.into());
        out.put_u16_le(self.len() as u16);
        out.put_u16_le(0);
        out.put_u32_le(0);
        out.put_u64_le(stamp.birth.0);
        out.put_u64_le(stamp.store.0);
        out.put_u64_le(0); // the checksum's place
        out.put_u64_le(space.0);
        out.put_u64_le(stamp.cut.0);
        match &self.body {
            Body::Open(Entries::Leaf(run)) => encode_entries(run, &mut out, Value::encode)?,
            Body::Open(Entries::Inner(run)) => encode_entries(run, &mut out, |child, out| {
                let at = child.promised().ok_or_else(|| Error::invalid("a node was encoded before its children"))?;
                at.encode(out);
                Ok(())
            })?,
            Body::Merged(merged) => merged.encode(&mut out)?,
            // A patch is merged by who writes it; what is packed is written already.
            Body::Patch(_) | Body::Packed(_) => return Err(not_open()),
        }
        let payload_len = (out.len() - NODE_HEADER_LEN) as u32;
        if let Some(field) = out.get_mut(12..16) {
            field.copy_from_slice(&payload_len.to_le_bytes());
        }
        debug_assert!(out.len() <= self.size.encoded_len && out.len() <= NODE_LEN_MAX);
        out.resize(out.len().next_multiple_of(BLOCK_LEN), 0);
        let own = checksum(&out);
        if let Some(field) = out.get_mut(CHECKSUM_AT..CHECKSUM_AT + 8) {
            field.copy_from_slice(&own.to_le_bytes());
        }
        Ok(out)
    }

    /// The node that was stored at `at` in this store. Keys and values share the memory of `bytes`.
    pub fn decode(bytes: Bytes, at: &NodeRef, store: StoreId) -> Result<Node> {
        let damaged = |what: String| Error::damaged(format!("the index node at block {} {what}", at.start_block));
        if bytes.len() != at.len_bytes() {
            return Err(damaged(format!("has {} bytes, not {}", bytes.len(), at.len_bytes())));
        }
        let found = checksum(&bytes);
        if found != at.checksum {
            return Err(damaged(format!("has the checksum {found:016x}, its parent expects {:016x}", at.checksum)));
        }
        let whole = bytes.clone();
        let mut rest = bytes;
        if rest.remaining() < NODE_HEADER_LEN {
            return Err(damaged("is shorter than its header".into()));
        }
        let (magic, format, kind, level) = (rest.get_u32_le(), rest.get_u8(), rest.get_u8(), rest.get_u8());
        let root = rest.get_u8();
        let (count, zeros, payload_len) = (rest.get_u16_le(), rest.get_u16_le(), rest.get_u32_le() as usize);
        let (birth, found_store) = (Generation(rest.get_u64_le()), StoreId(rest.get_u64_le()));
        let (own, _space, _cut) = (rest.get_u64_le(), rest.get_u64_le(), rest.get_u64_le());
        if magic != NODE_MAGIC || format != NODE_FORMAT || root > 1 || zeros != 0 {
            return Err(damaged(format!("is none (magic {magic:08x}, format {format})")));
        }
        if found_store != store {
            return Err(damaged(format!("belongs to store {:016x}, not {:016x}", found_store.0, store.0)));
        }
        if birth != at.birth {
            return Err(damaged(format!("is of generation {}, its parent expects {}", birth.0, at.birth.0)));
        }
        if own != found {
            return Err(damaged(format!("says that its checksum is {own:016x}, it is {found:016x}")));
        }
        if payload_len > rest.len() || count == 0 {
            return Err(damaged(format!("says {count} entries in {payload_len} bytes")));
        }
        let named = |error: Error| damaged(format!("is damaged: {}", error.message()));
        let is_leaf = match (kind, level) {
            (KIND_LEAF, 0) => true,
            (KIND_INNER, 1..=LEVEL_MAX) => false,
            _ => return Err(damaged(format!("is of kind {kind} and level {level}"))),
        };
        let packed = Packed::verified(whole, count, payload_len, is_leaf).map_err(named)?;
        Ok(Node::stored(level, packed, NODE_HEADER_LEN + payload_len, *at))
    }

    /// The stored form of this node, which was encoded as `bytes` and written to `at`.
    pub(super) fn written(&self, bytes: Bytes, at: NodeRef) -> Result<Node> {
        let payload_len = bytes.get(12..16).and_then(|field| field.try_into().ok()).map_or(0, u32::from_le_bytes);
        let packed = Packed::trusted(bytes, self.len() as u16, payload_len as usize, self.level == 0)?;
        Ok(Node::stored(self.level, packed, NODE_HEADER_LEN + payload_len as usize, at))
    }
}

fn encode_entries<T: super::node::Held>(
    run: &Run<T>,
    out: &mut Vec<u8>,
    encode: impl Fn(&T, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    run.iter().try_for_each(|(key, held)| encode_entry(key, held, out, &encode))
}

/// Appends the stored form of an entry.
pub(super) fn encode_entry<T: super::node::Held>(
    key: &Bytes,
    held: &T,
    out: &mut Vec<u8>,
    encode: impl Fn(&T, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let start = out.len();
    out.put_u16_le(key.len() as u16);
    out.put_u16_le(0);
    out.put_slice(key);
    let held_start = out.len();
    encode(held, out)?;
    let held_len = (out.len() - held_start) as u16;
    if let Some(field) = out.get_mut(start + 2..start + 4) {
        field.copy_from_slice(&held_len.to_le_bytes());
    }
    debug_assert!(out.len() - start <= entry_len(key, held));
    Ok(())
}
