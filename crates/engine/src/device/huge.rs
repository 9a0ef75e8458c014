//! Memory in huge pages, from the system and not from the program's allocator: that would clear what it was given back,
//! hold twice as much for the alignment, and keep what one thread took and another gave back.
//!
//! Invariants:
//! - A page is zeros when it is made. With the second of its halves its memory goes back to the system; its addresses are
//!   kept for the next page, for to map and unmap them stops every thread that reads into such memory meanwhile.
//! - Each half is one owner's alone.

use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;
use std::sync::Arc;
use std::{io, slice};

use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// The length of a huge page in bytes, as most machines have them.
pub const HUGE_LEN: usize = 2 << 20;

/// So many pages get their addresses at once.
const MAPPED_AT_ONCE: usize = 32;

/// Addresses of pages that nobody has. None of them has memory.
static UNUSED: Mutex<Vec<Page>> = Mutex::new(Vec::new());

/// The address of [`HUGE_LEN`] bytes at a multiple of that.
struct Page(*mut u8);

// SAFETY: the page is only memory, which belongs to no thread.
#[allow(unsafe_code)]
unsafe impl Send for Page {}
// SAFETY: its bytes are reached through its halves alone.
#[allow(unsafe_code)]
unsafe impl Sync for Page {}

impl Page {
    fn take() -> io::Result<Page> {
        let mut unused = UNUSED.lock();
        if unused.is_empty() {
            *unused = Page::map()?;
        }
        unused.pop().ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn map() -> io::Result<Vec<Page>> {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        let length = (MAPPED_AT_ONCE + 1) * HUGE_LEN;
        // SAFETY: the kernel chooses an address where nothing is mapped. It is mapped until the process ends.
        #[allow(unsafe_code)]
        let start = unsafe { mmap_anonymous(null_mut(), length, flags, MapFlags::PRIVATE | MapFlags::NORESERVE) }?;
        // A hint: without it the memory is as good as any other.
        // SAFETY: the range was mapped above, and this advice changes no byte of it.
        #[allow(unsafe_code)]
        let _ = unsafe { madvise(start, length, Advice::LinuxHugepage) };
        let first = start.wrapping_byte_add(start.cast::<u8>().align_offset(HUGE_LEN));
        Ok((0..MAPPED_AT_ONCE).rev().map(|at| Page(first.wrapping_byte_add(at * HUGE_LEN).cast())).collect())
    }

    /// Gives its memory back to the system.
    fn give_back(&self) {
        // SAFETY: both halves are gone, and nothing else refers to the page.
        #[allow(unsafe_code)]
        let given = unsafe { madvise(self.0.cast(), HUGE_LEN, Advice::LinuxDontNeed) };
        // Where the system would not take it, it is not zeros, and is not used again.
        if given.is_ok() {
            UNUSED.lock().push(Page(self.0));
        }
    }
}

/// A page that is in use.
struct Used(Page);

impl Drop for Used {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// Half of a huge page.
pub(super) struct Half {
    page: Arc<Used>,
    /// Where it begins in the page, in bytes.
    start: usize,
}

impl Half {
    /// Both of one page.
    pub(super) fn pair() -> io::Result<[Half; 2]> {
        let page = Arc::new(Used(Page::take()?));
        Ok([Half { page: Arc::clone(&page), start: 0 }, Half { page, start: HUGE_LEN / 2 }])
    }
}

impl Deref for Half {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the page lives as long as its halves; this half is the only one that begins here, and is borrowed.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts(self.page.0.0.add(self.start), HUGE_LEN / 2)
        }
    }
}

impl DerefMut for Half {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed by nobody else.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts_mut(self.page.0.0.add(self.start), HUGE_LEN / 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_zeros_apart_and_aligned() {
        for _ in 0..20 {
            let [mut first, mut second] = Half::pair().unwrap();
            assert_eq!(first.as_ptr().align_offset(HUGE_LEN), 0);
            assert_eq!(first.as_ptr().wrapping_add(HUGE_LEN / 2), second.as_ptr());
            assert!(first.iter().chain(&*second).all(|byte| *byte == 0));
            first.fill(1);
            second.fill(2);
            assert!(first.iter().all(|byte| *byte == 1));
            drop(first);
            assert!(second.iter().all(|byte| *byte == 2));
        }
    }
}
