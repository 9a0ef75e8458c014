//! CRC-64/NVME of parts, and of the whole that they make; MD5 of files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crc_fast::{CrcAlgorithm, checksum_combine};
use md5::{Digest, Md5};

/// The checksum of some bytes.
pub fn of(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// The checksum of parts one after the other, from their checksums and lengths.
pub fn join(parts: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    let mut parts = parts.into_iter();
    let Some((first, _)) = parts.next() else { return of(&[]) };
    parts.fold(first, |whole, (part, length)| checksum_combine(CrcAlgorithm::Crc64Nvme, whole, part, length))
}

/// The MD5 of a file, in hexadecimal digits.
pub fn md5_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Md5::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(digest.finalize())),
            count => digest.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_the_whole() {
        assert_eq!(of(b"123456789"), 0xAE8B_1486_0A79_9888);
        let check = |parts: &[&[u8]]| {
            let pairs = parts.iter().map(|part| (of(part), part.len() as u64));
            assert_eq!(join(pairs), of(&parts.concat()), "{parts:?}");
        };
        check(&[]);
        check(&[b"123"]);
        check(&[b"123", b"", b"4567", b"89"]);
    }
}
