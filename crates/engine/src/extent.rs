//! Extents: runs of checksummed data on the device, and parts of them.
//!
//! Invariant: decoding is total: any bytes give an extent whose numbers fit together, or `Damaged`.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};

use crate::address::{BlockRange, Generation};
use crate::codec::{Reader, short, truncated};
use crate::device::BLOCK_LEN;
use crate::{Error, Result};

/// The most chunks of one run.
pub const CHUNKS_MAX: usize = 512;
/// Bytes of the stored form before the checksums.
pub(crate) const EXTENT_HEAD_LEN: usize = 8 + 8 + 4 + 4 + 4 + 1 + 2;

/// A part of a run of checksummed data on the device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// When its space's tree came to name it; zero where no tree does yet.
    pub birth: Generation,
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

    /// The part from `from`, `length` bytes long, naming only the chunks that it needs: another name of them.
    pub fn part(&self, from: u64, length: u64, birth: Generation) -> Extent {
        let chunk = 1u64 << self.chunk_log2;
        let start = u64::from(self.skip) + from;
        let first = start / chunk;
        let last = (start + length).div_ceil(chunk);
        let run_end = (last * chunk).min(u64::from(self.run_length));
        let checksums = self.checksums.get(first as usize..last as usize).unwrap_or_default();
        Extent {
            birth,
            start_block: self.start_block + first * chunk / BLOCK_LEN as u64,
            run_length: (run_end - first * chunk) as u32,
            skip: (start - first * chunk) as u32,
            length: length as u32,
            chunk_log2: self.chunk_log2,
            checksums: checksums.into(),
        }
    }

    pub(crate) fn encoded_len(&self) -> usize {
        EXTENT_HEAD_LEN + 4 * self.checksums.len()
    }

    /// Appends the stored form.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.birth.0);
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
        let birth = Generation(bytes.try_get_u64_le().map_err(short)?);
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
        Ok(Extent { birth, start_block, run_length, skip, length, chunk_log2, checksums: checksums.into() })
    }

    /// Reads the stored form from the front of what a reader has left.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Extent> {
        let mut bytes = Bytes::copy_from_slice(reader.peek(EXTENT_HEAD_LEN + 4 * CHUNKS_MAX));
        let before = bytes.len();
        let extent = Extent::decode(&mut bytes)?;
        reader.take(before - bytes.len())?;
        Ok(extent)
    }
}
