//! What the page cache has, and what is worth keeping there.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// `cachestat`, the same on all architectures; Linux 6.5.
const CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether the page cache holds all of a range; no where the system cannot say.
pub(super) fn is_cached(file: &File, offset: u64, length: u64) -> bool {
    let Some(page_len) = page_len() else { return false };
    let pages = (offset + length).div_ceil(page_len) - offset / page_len;
    let (range, mut counts) = (Range { offset, length }, Counts::default());
    // SAFETY: cachestat reads a range of two u64 and writes counts of five u64, which live until the call returns;
    // a kernel that does not know the call answers with an error.
    #[allow(unsafe_code)]
    let answer = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0) };
    answer == 0 && counts.cached >= pages
}

/// Bytes of a page.
fn page_len() -> Option<u64> {
    // SAFETY: sysconf takes no pointer.
    #[allow(unsafe_code)]
    let length = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(length).ok().filter(|length| *length > 0)
}

/// Ranges that were streamed lately are worth a place in the page cache when they are wanted again.
pub(super) struct Streamed(Box<[AtomicU64]>);

/// How many of them are remembered.
const STREAMED_MAX: usize = 8192;

impl Default for Streamed {
    fn default() -> Streamed {
        Streamed((0..STREAMED_MAX).map(|_| AtomicU64::new(u64::MAX)).collect())
    }
}

impl Streamed {
    /// Whether this place was asked about lately; from now on it was.
    pub(super) fn again(&self, offset: u64) -> bool {
        let slot = (offset >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 51;
        self.0.get(slot as usize).is_some_and(|slot| slot.swap(offset, Ordering::Relaxed) == offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_streamed_before_is_known() {
        let streamed = Streamed::default();
        assert!((0..1000).all(|at| !streamed.again(at << 20)));
        let again = (0..1000).filter(|at| streamed.again(at << 20)).count();
        // Two places may share a slot.
        assert!(again > 900, "{again}");
        assert!(!streamed.again(4096) && streamed.again(4096));
    }

    #[test]
    fn the_page_cache_is_asked_without_filling_it() {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 1 << 16], 0).unwrap();
        // What was just written is there, where the system can say so.
        let known = is_cached(&file, 100, 1000);
        assert!(!is_cached(&file, 0, 1 << 20), "there is no page beyond the end");
        assert_eq!(known, is_cached(&file, 0, 1 << 16));
    }
}
