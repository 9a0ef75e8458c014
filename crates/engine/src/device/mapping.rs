//! Parts of a file seen as one stretch of memory, to read only.
//!
//! Invariants:
//! - The stretch stays where it is until the mapping is dropped; nothing else is ever mapped there.
//! - Whoever makes one sees to it that the parts are not written meanwhile.
//! - Its pages are in memory when it is made and stay there. Where the medium does not give one, or the process may not keep
//!   so many, making it fails: looking at a page never waits for the medium, and never ends the process (SIGBUS).

use std::fs::File;
use std::io;
use std::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, mmap_anonymous, munmap};

use super::BLOCK_LEN;

/// Bytes of a device in memory, without a copy.
pub struct Mapping {
    start: *mut core::ffi::c_void,
    length: usize,
}

// SAFETY: the memory is only read, by any thread, and unmapped once, when nobody has it any more.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Parts of `file`, each an offset and a length in whole blocks, one after the other.
    pub(super) fn of(file: &File, parts: &[(u64, usize)]) -> io::Result<Mapping> {
        let length = parts.iter().map(|(_, length)| length).sum();
        if length == 0 || parts.iter().any(|(_, length)| !length.is_multiple_of(BLOCK_LEN)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the kernel chooses an address where nothing is mapped.
        #[allow(unsafe_code)]
        let start = unsafe { mmap_anonymous(null_mut(), length, ProtFlags::empty(), MapFlags::PRIVATE) }?;
        let mapping = Mapping { start, length };
        let mut at = 0;
        for (offset, length) in parts {
            let place = start.wrapping_byte_add(at);
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: the place lies in the stretch that was reserved above and belongs to this mapping alone.
            #[allow(unsafe_code)]
            let placed = unsafe { mmap(place, *length, ProtFlags::READ, flags, file, *offset) };
            placed?;
            at += length;
        }
        // SAFETY: the stretch is this mapping's own; unmapping it ends the lock.
        #[allow(unsafe_code)]
        unsafe { mlock(start, length) }?;
        Ok(mapping)
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `length` bytes from `start` are mapped to be read until the mapping is dropped, and are not written
        // meanwhile: that is the maker's word.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.start.cast(), self.length)
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the stretch is this mapping's, and nobody borrows from it any more.
        #[allow(unsafe_code)]
        let _gone = unsafe { munmap(self.start, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_file_are_joined() {
        let file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..40 * BLOCK_LEN).map(|index| (index / BLOCK_LEN) as u8).collect();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        let b = BLOCK_LEN as u64;
        // Where pages are larger than blocks, such parts cannot be mapped; nor where no memory may be kept.
        let Ok(mapping) = Mapping::of(&file, &[(7 * b, 2 * BLOCK_LEN), (3 * b, BLOCK_LEN)]) else { return };
        let blocks: Vec<u8> = mapping.as_ref().chunks(BLOCK_LEN).map(|block| block[17]).collect();
        assert_eq!(blocks, [7, 8, 3]);
        assert!(Mapping::of(&file, &[(0, 100)]).is_err() && Mapping::of(&file, &[]).is_err());
    }
}
