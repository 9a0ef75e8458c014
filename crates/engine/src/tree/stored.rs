//! Nodes as bytes.
//!
//! Invariants:
//! - A stored node is believed only if its bytes have the checksum that its parent holds, it is of this store and
//!   of the birth that its parent says, and every entry in it makes sense. Everything else is an error that names the block.
//! - Decoding is total and takes memory in proportion to the bytes.

use bytes::{Buf, BufMut, Bytes};

use super::Node;
use super::entry::encode_entry;
use super::layout::{
    CHECKSUM_AT, KIND_INNER, KIND_LEAF, LEVEL_MAX, NODE_FORMAT, NODE_HEADER_LEN, NODE_MAGIC, Stamp, StoreId, checksum,
};
use super::node::{Body, Entries, not_open};
use super::packed::Packed;
use super::value::Value;
use crate::address::{Generation, NODE_LEN_MAX, NodeRef};
use crate::batch::SpaceId;
use crate::device::BLOCK_LEN;
use crate::{Error, Result};

impl Node {
    /// The stored form, padded to whole blocks. All that it refers to must have a place, or be assigned one.
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
            Body::Open(Entries::Leaf(run)) => {
                run.iter().try_for_each(|(key, value)| encode_entry(key, value, &mut out, Value::encode))?
            }
            Body::Open(Entries::Inner(run)) => run.iter().try_for_each(|(key, child)| {
                let at = child.assigned().ok_or_else(|| Error::invalid("a node was encoded before its children"))?;
                encode_entry(key, child, &mut out, |_, out| {
                    at.encode(out);
                    Ok(())
                })
            })?,
            Body::Merged(merged) => merged.encode(&mut out)?,
            // A delta is merged by who writes it; what is packed is written already.
            Body::DeltaLeaf(_) | Body::Packed(_) => return Err(not_open()),
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
