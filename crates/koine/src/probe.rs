//! What a path holds, found without changing it.
//!
//! Invariants:
//! - A path counts as free only when it is missing, empty, or zero in its first and last MiB.
//! - What else is there is named where it can be recognised, so that nobody formats the wrong disk.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, Result};

/// How much of each end is looked at.
const END_LEN: u64 = 1 << 20;

/// The first bytes of a store (docs/format.md).
const STORE_MAGIC: &[u8] = b"KOINE\0S\n";

/// Where the second superblock lies.
const SECOND_SLOT: usize = 128 * 4096;

/// What a path holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing is there.
    Missing,
    /// A file of no bytes.
    Empty,
    /// Zeros at both ends.
    Zeros,
    /// A store, by its first bytes.
    Store,
    /// Something else, and what it looks like.
    Other(String),
}

/// Looks at the first and last MiB of a file or block device.
pub fn probe(path: &Path) -> Result<Found> {
    let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => return Err(failed("look at")(error)),
    };
    if metadata.is_dir() {
        return Ok(Found::Other("a folder".to_owned()));
    }
    let mut file = File::open(path).map_err(failed("open"))?;
    // A block device tells its length by seeking only.
    let length = file.seek(SeekFrom::End(0)).map_err(failed("find the size of"))?;
    if length == 0 {
        return Ok(Found::Empty);
    }
    let first = read_end(&mut file, 0, length.min(END_LEN)).map_err(failed("read"))?;
    // The second superblock tells a store whose first one was damaged.
    if [0, SECOND_SLOT].into_iter().any(|at| first.get(at..).is_some_and(|bytes| bytes.starts_with(STORE_MAGIC))) {
        return Ok(Found::Store);
    }
    let last = read_end(&mut file, length.saturating_sub(END_LEN), length.min(END_LEN)).map_err(failed("read"))?;
    if first.iter().chain(&last).all(|byte| *byte == 0) {
        return Ok(Found::Zeros);
    }
    Ok(Found::Other(describe(&first)))
}

fn read_end(file: &mut File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Signatures of what is often found: offset, bytes, name.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (1080, &[0x53, 0xEF], "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (65_600, b"_BHRfS_M", "a btrfs file system"),
    (3, b"NTFS", "an NTFS file system"),
    (0, b"LUKS\xBA\xBE", "an encrypted (LUKS) volume"),
    (536, b"LVM2 001", "an LVM volume"),
    (4086, b"SWAPSPACE2", "swap space"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"\x1F\x8B", "gzip data"),
    (0, b"\x28\xB5\x2F\xFD", "zstd data"),
    (0, b"\x7FELF", "a program"),
    (257, b"ustar", "a tar archive"),
    (0, b"QFI\xFB", "a qcow2 disk image"),
    (510, &[0x55, 0xAA], "a partition table or boot sector"),
];

/// A name for what begins with these bytes.
fn describe(first: &[u8]) -> String {
    for (offset, bytes, name) in SIGNATURES {
        if first.get(*offset..offset + bytes.len()) == Some(*bytes) {
            return (*name).to_owned();
        }
    }
    match first.iter().position(|byte| *byte != 0) {
        None => "data (zeros first, other bytes at its end)".to_owned(),
        Some(0) if first.iter().take(512).all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) => {
            "text".to_owned()
        }
        Some(at) => format!("data that is not recognised (first byte other than zero at {at})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("thing");
        assert_eq!(probe(&path).expect("probe"), Found::Missing);
        assert_eq!(probe(folder.path()).expect("probe"), Found::Other("a folder".to_owned()));

        let check = |content: Vec<u8>, expected: &str| {
            std::fs::write(&path, content).expect("write");
            let found = match probe(&path).expect("probe") {
                Found::Other(name) => name,
                other => format!("{other:?}"),
            };
            assert!(found.contains(expected), "{found:?} is not {expected:?}");
        };
        let with = |at: usize, bytes: &[u8]| {
            let mut content = vec![0; 3 << 20];
            content[at..at + bytes.len()].copy_from_slice(bytes);
            content
        };
        check(vec![], "Empty");
        check(vec![0; 10], "Zeros");
        check(vec![0; 3 << 20], "Zeros");
        check(with(0, b"KOINE\0S\n"), "Store");
        check(with(128 * 4096, b"KOINE\0S\n"), "Store");
        check(with(1080, &[0x53, 0xEF]), "ext4");
        check(with(512, b"EFI PART"), "GPT");
        check(with((3 << 20) - 1, &[1]), "at its end");
        check(b"hello\n".to_vec(), "text");
        check(with(5, &[7]), "at 5");
        // The middle is not looked at: a sparse image with data there only counts as zeros.
        check(with(3 << 19, &[7]), "Zeros");
    }
}
