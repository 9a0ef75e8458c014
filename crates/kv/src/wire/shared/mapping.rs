//! A file in memory, mapped: the one place of the wire with unsafe code.
//!
//! Invariants:
//! - A mapping is as long as its file, which cannot become shorter; it lives as long as somebody has it.
//! - Offsets and lengths are compared with the mapping's length before memory is touched.

#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use bytes::Bytes;
use koine_engine::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::copies;
use crate::wire::fields::malformed;

/// What may be done to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read.
    Read,
    /// It is read and written.
    Write,
}

/// A mapped file.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
    access: Access,
}

// SAFETY: the mapping is memory that belongs to no thread; who touches it, and how, is up to the methods below, which take
// raw copies or ask the caller for what they need.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of a file, which must have so many for ever.
    pub fn new(file: BorrowedFd<'_>, length: usize, access: Access) -> std::io::Result<Mapping> {
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in use.
        let start = unsafe { mmap(null_mut(), length, protection, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, length, access })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Where a part begins; an error unless all of it lies inside.
    fn part(&self, offset: u64, length: usize) -> Result<NonNull<u8>> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        match offset.checked_add(length) {
            // SAFETY: `offset` is at most the mapping's length.
            Some(end) if end <= self.length => Ok(unsafe { self.start.add(offset) }),
            _ => Err(malformed(format!("{length} bytes at {offset} of a shared memory of {}", self.length))),
        }
    }

    /// A copy of a part, of this process alone: the other side cannot change it any more.
    pub fn copy_out(&self, offset: u64, length: usize) -> Result<Bytes> {
        let from = self.part(offset, length)?;
        let mut copy: Vec<u8> = Vec::with_capacity(length);
        // SAFETY: `from` has `length` bytes inside the mapping, `copy` has room for as many, and the two do not overlap.
        // Afterwards that many bytes of `copy` have been written.
        unsafe {
            copy_raw(from.as_ptr(), copy.as_mut_ptr(), length);
            copy.set_len(length);
        }
        copies::copied(length);
        Ok(copy.into())
    }

    /// Copies bytes into a part.
    pub fn copy_in(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let to = self.part(offset, bytes.len())?;
        if self.access != Access::Write {
            return Err(malformed("shared memory that is only read"));
        }
        // SAFETY: `to` has as many bytes inside the mapping, which may be written, and no reference to it exists on this
        // side: who holds a part by a reference ([`Mapping::read_only`], [`Mapping::exclusive`]) is the other side, or has the
        // part lent from `slots`, which lends it once.
        unsafe { copy_raw(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        copies::copied(bytes.len());
        Ok(())
    }

    /// The bytes of a part.
    ///
    /// # Safety
    ///
    /// Nobody, in no process, may write the part while the reference lives.
    pub unsafe fn read_only(&self, offset: usize, length: usize) -> &[u8] {
        let Ok(part) = self.part(offset as u64, length) else { return &[] };
        // SAFETY: the part lies inside the mapping, which lives as long as `self`; nobody writes it, says the caller.
        unsafe { std::slice::from_raw_parts(part.as_ptr(), length) }
    }

    /// The bytes of a part, to be written.
    ///
    /// # Safety
    ///
    /// Nobody, in no process, may read it by a reference or write it while the reference lives.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn exclusive(&self, offset: usize, length: usize) -> &mut [u8] {
        let part = match self.part(offset as u64, length) {
            Ok(part) if self.access == Access::Write => part,
            _ => return &mut [],
        };
        // SAFETY: the part lies inside the mapping, which may be written and lives as long as `self`; nobody else has it,
        // says the caller.
        unsafe { std::slice::from_raw_parts_mut(part.as_ptr(), length) }
    }

    /// Where bytes lie in the mapping, if they do.
    pub fn find(&self, bytes: &[u8]) -> Option<u64> {
        let offset = (bytes.as_ptr() as usize).checked_sub(self.start.as_ptr() as usize)?;
        (offset + bytes.len() <= self.length).then_some(offset as u64)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and whoever had a reference to it had `self` too.
        let _cannot_fail = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Copies bytes that another process may be writing: what comes out is some mixture of old and new then.
///
/// # Safety
///
/// Both sides must have `length` bytes, and must not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_raw(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: one instruction of the processor moves the bytes. The compiler knows only that memory has changed: it assumes
    // nothing of what the bytes are, nor that they stay so, as it would of a `memcpy`.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") length => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// As above.
///
/// # Safety
///
/// As above.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_raw(from: *const u8, to: *mut u8, length: usize) {
    let word = std::mem::size_of::<u64>();
    let is_aligned = (from as usize).is_multiple_of(word) && (to as usize).is_multiple_of(word);
    let words = if is_aligned { length / word } else { 0 };
    for at in 0..words {
        // SAFETY: both are aligned and inside, says the caller. Volatile, so that the compiler assumes nothing of the bytes.
        unsafe { to.cast::<u64>().add(at).write_volatile(from.cast::<u64>().add(at).read_volatile()) };
    }
    for at in words * word..length {
        // SAFETY: as above.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn copies_are_exact_at_every_length_and_never_reach_out() {
        let file = rustix::fs::memfd_create("koine-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 8192).unwrap();
        let mapping = Mapping::new(file.as_fd(), 8192, Access::Write).unwrap();
        let bytes: Vec<u8> = (0..8192_u32).map(|at| (at % 251) as u8).collect();
        for (offset, length) in [(0, 0), (0, 1), (1, 7), (3, 4097), (4095, 4097), (0, 8192), (8192, 0)] {
            mapping.copy_in(offset, &bytes[..length]).unwrap();
            assert_eq!(mapping.copy_out(offset, length).unwrap(), bytes[..length]);
        }
        for (offset, length) in [(8192, 1), (0, 8193), (u64::MAX, 1), (u64::MAX, usize::MAX), (4096, 4097)] {
            assert!(mapping.copy_out(offset, length).is_err(), "{offset} {length}");
        }
        assert!(mapping.copy_in(8000, &bytes[..193]).is_err());
        let reader = Mapping::new(file.as_fd(), 8192, Access::Read).unwrap();
        assert!(reader.copy_in(0, b"x").is_err());
        assert_eq!(reader.copy_out(0, 8192).unwrap(), bytes);
        assert_eq!(reader.find(&bytes), None);
    }
}
