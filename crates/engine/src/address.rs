//! Where things lie on the device, and when they came there.
//!
//! Invariant: decoding a reference is total: any bytes give one that lies within the largest device, or `Damaged`.

use bytes::{Buf, BufMut};

use crate::codec::truncated;
use crate::device::BLOCK_LEN;
use crate::{Error, Result};

/// The most bytes of a stored node.
pub const NODE_LEN_MAX: usize = 16384;
/// Bytes of a reference to a node.
pub const NODE_REF_LEN: usize = 26;

/// Counts checkpoints and branchings. What was born (written as a node, named as an extent) up to the generation in
/// which a space was branched off is reached by both branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

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

/// Where a stored node is and how to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeRef {
    /// Its first block.
    pub start_block: u64,
    /// Its blocks, 1 to 4.
    pub blocks: u16,
    /// CRC-64/NVME over all its bytes, padding too.
    pub checksum: u64,
    /// The generation of the checkpoint that wrote it.
    pub birth: Generation,
}

impl NodeRef {
    /// The blocks that it takes.
    pub fn range(&self) -> BlockRange {
        BlockRange { start: self.start_block, count: u32::from(self.blocks) }
    }

    /// Its length in bytes.
    pub fn len_bytes(&self) -> usize {
        usize::from(self.blocks) * BLOCK_LEN
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
