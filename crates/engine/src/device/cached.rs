//! What the page cache has, and what is worth keeping there.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::STEP_LEN;

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

/// Ranges that were streamed lately are worth a place in the page cache when they are wanted again. Remembered by the
/// places where their steps begin, two in one set of slots.
pub(super) struct Streamed(Box<[[AtomicU64; 2]]>);

/// Of how many sets.
const SETS_LOG2: u32 = 15;

impl Default for Streamed {
    fn default() -> Streamed {
        let set = || [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)];
        Streamed((0..1 << SETS_LOG2).map(|_| set()).collect())
    }
}

impl Streamed {
    /// Whether this place was streamed lately; from now on the range was.
    pub(super) fn again(&self, offset: u64, length: u64) -> bool {
        let known = self.knows(offset);
        (offset..offset + length.max(1)).step_by(STEP_LEN).for_each(|at| self.note(at));
        known
    }

    /// Whether a step that begins here was streamed lately.
    pub(super) fn knows(&self, offset: u64) -> bool {
        self.set(offset).is_some_and(|set| set.iter().any(|slot| slot.load(Ordering::Relaxed) == offset))
    }

    fn note(&self, offset: u64) {
        if let Some([newest, older]) = self.set(offset)
            && older.load(Ordering::Relaxed) != offset
        {
            let before = newest.swap(offset, Ordering::Relaxed);
            if before != offset {
                older.store(before, Ordering::Relaxed);
            }
        }
    }

    fn set(&self, offset: u64) -> Option<&[AtomicU64; 2]> {
        // Places are multiples of one length mostly, which one multiplication alone spreads badly.
        let mixed = (offset >> 12).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let set = (mixed ^ mixed >> 29).wrapping_mul(0x94D0_49BB_1331_11EB) >> (u64::BITS - SETS_LOG2);
        self.0.get(set as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_streamed_before_is_known() {
        const MIB: u64 = 1 << 20;
        let streamed = Streamed::default();
        assert!((0..2000).all(|at| !streamed.again(at * MIB, MIB)));
        // Three places may share a set.
        let again = (0..2000).filter(|at| streamed.again(at * MIB, MIB)).count();
        assert!(again > 1900, "{again}");
        let step = STEP_LEN as u64;
        assert!(
            streamed.knows(1999 * MIB + 3 * step) && !streamed.knows(1999 * MIB + 1) && !streamed.knows(2000 * MIB)
        );
        assert!(!streamed.again(4096, 0) && streamed.again(4096, 0));
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
