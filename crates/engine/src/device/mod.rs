//! The seam to the medium: positional reads and writes, an explicit sync, nothing else.
//!
//! Contract of every [`Device`]:
//! - Offsets and lengths of writes are multiples of [`BLOCK_LEN`]; reads may lie anywhere inside the device.
//! - A write is durable only after a `sync` that was called after it returned; until then any part
//!   of it, in units of 512 bytes and in any order, may or may not survive a power cut.
//! - A read or write that returns an error may have happened in part. A failed `sync` says nothing
//!   about any write since the last one that succeeded; it is never retried.
//! - `read_at` fills the whole buffer or fails; reading past the end fails.

use std::io;

/// The unit of writing and of allocation, in bytes.
pub const BLOCK_LEN: usize = 4096;

/// How a read reaches the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Through the page cache where there is one.
    Cached,
    /// Past the page cache: what the medium holds (recovery, check, scrub).
    Direct,
    /// Through the page cache, only if that needs no wait; else `WouldBlock`.
    Now,
}

/// A medium: a file, a block device, memory, or one of the two for proof.
pub trait Device: Send + Sync {
    /// The length in bytes at present.
    fn len(&self) -> io::Result<u64>;

    /// Makes the device at least `length` bytes long; `Unsupported` where the size is fixed,
    /// `StorageFull` where there is no room. New bytes read as zeros.
    fn grow(&self, length: u64) -> io::Result<()>;

    /// Fills `buffer` from `offset`.
    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()>;

    /// Writes `data` at `offset`, both multiples of [`BLOCK_LEN`].
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;

    /// Makes every write that returned before this call durable.
    fn sync(&self) -> io::Result<()>;

    /// Says that the bytes are not needed; they may read as anything afterwards. A hint: may do nothing.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Gives the medium back (its lock, its descriptors). Later calls fail.
    fn close(&self) -> io::Result<()>;

    /// Whether the device can never be longer than it is.
    fn is_fixed(&self) -> bool;
}
