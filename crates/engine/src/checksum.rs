//! The two checksums of the format.
//!
//! - CRC-32C (Castagnoli) for chunks of data: four bytes a chunk, kept with the extent that names it.
//! - CRC-64/NVME for everything else (superblocks, groups of the ring, nodes, the free list), where
//!   one number covers kilobytes.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-64/NVME of `bytes`.
pub fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// CRC-64/NVME of `bytes` with the eight bytes at `hole` read as zeros: how a structure carries its own checksum.
pub fn crc64_with_hole(bytes: &[u8], hole: usize) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    let (before, rest) = bytes.split_at(hole.min(bytes.len()));
    digest.update(before);
    digest.update(&[0; 8]);
    digest.update(rest.get(8..).unwrap_or_default());
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc64(b"123456789"), 0xAE8B_1486_0A79_9888);
    }

    #[test]
    fn the_hole_does_not_matter_and_the_rest_does() {
        let mut bytes = vec![7; 64];
        let before = crc64_with_hole(&bytes, 16);
        bytes[16] = 1;
        bytes[23] = 1;
        assert_eq!(crc64_with_hole(&bytes, 16), before);
        bytes[24] = 1;
        assert_ne!(crc64_with_hole(&bytes, 16), before);
    }
}
