//! What is particular to block devices: they have a fixed size, and discarding is a request of its own.

use std::fs::File;
use std::io;

use rustix::fs::{SeekFrom, seek};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `BLKDISCARD` of linux/fs.h: `_IO(0x12, 119)`.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);

/// The size of the device in bytes.
pub(super) fn length(file: &File) -> io::Result<u64> {
    Ok(seek(file, SeekFrom::End(0))?)
}

/// Tells the device that the range is not needed.
pub(super) fn discard(file: &File, offset: u64, length: u64) -> rustix::io::Result<()> {
    // SAFETY: BLKDISCARD reads two u64 (start and length in bytes) from the pointer and writes nothing.
    #[allow(unsafe_code)]
    unsafe {
        ioctl(file, Setter::<BLKDISCARD, [u64; 2]>::new([offset, length]))
    }
}
