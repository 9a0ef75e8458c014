//! A node that was found by looking, not through its parent: for salvage.
//!
//! Invariant: what is handed out matched the checksum that the node carries, is of the store that the caller
//! names, and every entry in it makes sense.

use bytes::Bytes;

use super::node::Entries;
use super::{NODE_HEADER_LEN, NODE_MAGIC, Node, StoreId};
use crate::Version;
use crate::address::{Generation, NODE_LEN_MAX, NodeRef};
use crate::batch::SpaceId;
use crate::codec::Reader;
use crate::device::BLOCK_LEN;
use crate::error::Result;
use crate::tree::value::Value;

/// What the header of a node says, before anything is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnverifiedHeader {
    /// Where it says that it is, and its checksum.
    pub at: NodeRef,
    /// Whose it is.
    pub store: StoreId,
    /// The space it was written for; 0: the master tree.
    pub space: SpaceId,
    /// The last commit of the state it was written for.
    pub cut: Version,
    /// It was the root of its tree.
    pub is_root: bool,
}

impl UnverifiedHeader {
    /// Reads a header at the front of a block; `None` where no node begins.
    pub fn read(block: &[u8], start_block: u64) -> Option<UnverifiedHeader> {
        let mut reader = Reader::new(block);
        if reader.u32().ok()? != NODE_MAGIC {
            return None;
        }
        let [_, _, _, root, ..] = reader.u64().ok()?.to_le_bytes();
        let payload_len = reader.u32().ok()? as usize;
        let birth = Generation(reader.u64().ok()?);
        let store = StoreId(reader.u64().ok()?);
        let checksum = reader.u64().ok()?;
        let space = SpaceId(reader.u64().ok()?);
        let cut = Version(reader.u64().ok()?);
        let length = NODE_HEADER_LEN.checked_add(payload_len).filter(|length| *length <= NODE_LEN_MAX)?;
        let blocks = length.div_ceil(BLOCK_LEN) as u16;
        Some(UnverifiedHeader {
            at: NodeRef { start_block, blocks, checksum, birth },
            store,
            space,
            cut,
            is_root: root == 1,
        })
    }

    /// Verifies the bytes of the node against what it says of itself.
    pub fn verify(&self, bytes: Bytes) -> Result<Node> {
        Node::decode(bytes, &self.at, self.store)
    }
}

impl Node {
    /// The stored children of an inner node, each with the lowest key that may be below it.
    pub fn children(&self) -> Result<Vec<(Bytes, NodeRef)>> {
        Ok(match self.opened()?.as_ref() {
            Entries::Leaf(_) => Vec::new(),
            Entries::Inner(run) => {
                run.iter().filter_map(|(key, child)| child.stored().map(|at| (key.clone(), at))).collect()
            }
        })
    }

    /// The entries of a leaf.
    pub fn entries(&self) -> Result<Vec<(Bytes, Value)>> {
        Ok(match self.opened()?.as_ref() {
            Entries::Leaf(run) => run.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            Entries::Inner(_) => Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_total() {
        for length in [0usize, 3, 16, 47, 48, 4096] {
            let mut block = vec![0xff; length];
            assert_eq!(UnverifiedHeader::read(&block, 1), None);
            if let Some(magic) = block.get_mut(..4) {
                magic.copy_from_slice(&NODE_MAGIC.to_le_bytes());
            }
            assert_eq!(UnverifiedHeader::read(&block, 1), None, "too long a node of {length} bytes");
        }
    }
}
