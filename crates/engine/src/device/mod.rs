//! The seam to the medium: positional reads and writes, an explicit sync, nothing else.
//!
//! Contract of every [`Device`]:
//! - Offsets and lengths of writes are multiples of [`BLOCK_LEN`]; reads may lie anywhere inside the device.
//! - A write is durable only after a `sync` that was called after it returned; until then any part
//!   of it, in units of 512 bytes and in any order, may or may not survive a power cut.
//! - A read or write that returns an error may have happened in part. A failed `sync` says nothing
//!   about any write since the last one that succeeded; it is never retried.
//! - `read_at` fills the whole buffer or fails; reading past the end fails.

mod aio;
mod aligned;
mod block;
mod cached;
mod faulty;
mod file;
mod huge;
mod image;
mod io_mode;
mod lock;
mod mapping;
mod memory;
#[cfg(test)]
mod passing;
mod positional;
mod process;
mod recording;
mod uring;
mod writing;

use std::io;
use std::ops::Range;
use std::sync::Arc;

pub use aligned::{AlignedBuffer, is_aligned};
pub use faulty::{Call, Calls, Fault, FaultyDevice, Times, Trouble};
pub use file::{FileDevice, OpenOptions};
pub use huge::HUGE_LEN;
pub use image::Image;
pub use io_mode::IoMode;
pub use lock::owner_pid;
pub use mapping::Mapping;
pub use memory::MemoryDevice;
#[cfg(test)]
pub(crate) use passing::pass_on;
pub use process::Process;
pub use recording::{ImageWalker, Recording, RecordingDevice};
pub use writing::Writing;

/// The unit of writing and of allocation, in bytes.
pub const BLOCK_LEN: usize = 4096;

/// A long read of what the page cache may have comes in steps of so many bytes, each from where the one before has ended:
/// so much is in the processor's cache when it is verified.
pub const STEP_LEN: usize = 256 << 10;

/// How a read reaches the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Through the page cache where there is one.
    Cached,
    /// Past the page cache: what the medium holds (recovery, check, scrub).
    Direct,
    /// Through the page cache, only if that needs no wait; else `WouldBlock`. Where there is a page cache it begins to
    /// fetch the range then: whoever asks for many ranges so has them fetched at the same time.
    Now,
    /// Large pieces of a stream: past the page cache, which takes them several times as long to come through; where
    /// the same range was read so a short while ago, through it, so that it stays there.
    Stream,
}

/// A medium: a file, a block device, memory, or one of the two for proof.
#[allow(clippy::len_without_is_empty)] // An empty device is nothing that callers ask for.
pub trait Device: Send + Sync {
    /// The length in bytes at present.
    fn len(&self) -> io::Result<u64>;

    /// Makes the device at least `length` bytes long; `Unsupported` where the size is fixed,
    /// `StorageFull` where there is no room. New bytes read as zeros.
    fn grow(&self, length: u64) -> io::Result<()>;

    /// Whether a range would probably be read without waiting for the medium.
    fn holds(&self, offset: u64, length: usize) -> bool;

    /// Fills `buffer` from `offset`.
    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()>;

    /// Says that a range will be read soon through the page cache: the device begins to fetch all of it and does not
    /// wait. A hint: may do nothing, and tells of no error, which the read will meet.
    fn prefetch(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Writes `data` at `offset`, both multiples of [`BLOCK_LEN`].
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;

    /// Begins to write `buffer` at `offset`, as `write_at` does, and does not wait for it where that can be. The write has
    /// returned, for a later `sync`, when [`Writing::wait`] has; until then nobody may read or write the range.
    fn begin_write(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        let outcome = self.write_at(&buffer, offset);
        Writing::ended(buffer, outcome)
    }

    /// As `begin_write`, for what is read through the page cache later: where that could keep older bytes the write is done
    /// before this returns.
    fn begin_data(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        let outcome = self.write_at(&buffer, offset);
        Writing::ended(buffer, outcome)
    }

    /// Writes as `write_at` does, through the page cache where there is one: it returns sooner and survives the end
    /// of the process, and the next `sync` takes longer. For small writes that nobody syncs at once.
    fn write_cached(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(data, offset)
    }

    /// Makes every write that returned before this call durable.
    fn sync(&self) -> io::Result<()>;

    /// Says that the bytes are not needed; they may read as anything afterwards. A hint: may do nothing.
    /// Both are multiples of [`BLOCK_LEN`]. A file gives the blocks back to its file system, so that a
    /// later write there may find it full.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Parts of the device, each an offset and a length in whole blocks, as one stretch of memory; `None` where there
    /// are no pages to show. The caller sees to it that nobody writes to the parts while it has the mapping.
    fn map(&self, parts: &[(u64, usize)]) -> io::Result<Option<Mapping>> {
        let _ = parts;
        Ok(None)
    }

    /// Gives the medium back (its lock, its descriptors). Later calls fail.
    fn close(&self) -> io::Result<()>;

    /// Whether the store cannot make it longer: only its owner can, and `refresh` notices.
    fn is_fixed(&self) -> bool;

    /// Looks again how long the medium is, and knows it so from now on: a partition may have become longer.
    fn refresh(&self) -> io::Result<u64> {
        self.len()
    }
}

/// The range of a read in memory, if it lies within `device_length`.
fn check_read(length: usize, offset: u64, device_length: u64) -> io::Result<Range<usize>> {
    inside(length, offset, device_length).ok_or_else(|| {
        let message = format!("{length} bytes at {offset} reach past the end of the device at {device_length}");
        io::Error::new(io::ErrorKind::UnexpectedEof, message)
    })
}

/// The range of a write in memory, if it is made of whole blocks and lies within `device_length`.
fn check_write(length: usize, offset: u64, device_length: u64) -> io::Result<Range<usize>> {
    let blocks = length.is_multiple_of(BLOCK_LEN) && offset.is_multiple_of(BLOCK_LEN as u64);
    inside(length, offset, device_length).filter(|_| blocks).ok_or_else(|| {
        let message =
            format!("{length} bytes at {offset} are not whole blocks within a device of {device_length} bytes");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })
}

fn inside(length: usize, offset: u64, device_length: u64) -> Option<Range<usize>> {
    let end = offset.checked_add(length as u64).filter(|end| *end <= device_length)?;
    Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

impl<D: Device + ?Sized> Device for Arc<D> {
    fn len(&self) -> io::Result<u64> {
        (**self).len()
    }

    fn grow(&self, length: u64) -> io::Result<()> {
        (**self).grow(length)
    }

    fn holds(&self, offset: u64, length: usize) -> bool {
        (**self).holds(offset, length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
        (**self).read_at(buffer, offset, mode)
    }

    fn prefetch(&self, offset: u64, length: u64) {
        (**self).prefetch(offset, length);
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_at(data, offset)
    }

    fn begin_write(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        (**self).begin_write(buffer, offset)
    }

    fn begin_data(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        (**self).begin_data(buffer, offset)
    }

    fn write_cached(&self, data: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_cached(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        (**self).discard(offset, length)
    }

    fn map(&self, parts: &[(u64, usize)]) -> io::Result<Option<Mapping>> {
        (**self).map(parts)
    }

    fn close(&self) -> io::Result<()> {
        (**self).close()
    }

    fn is_fixed(&self) -> bool {
        (**self).is_fixed()
    }

    fn refresh(&self) -> io::Result<u64> {
        (**self).refresh()
    }
}

#[cfg(test)]
mod tests;
