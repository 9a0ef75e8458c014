//! Whether long reads in order go past the page cache or through it: whichever this medium gives more by.
//!
//! Some disks answer large direct reads fastest, others serve the kernel's own reading ahead half as fast again; which it is
//! depends on what lies below the block layer and changes with it. So both are tried, a little now and then.
//!
//! Invariants:
//! - Only time is judged: what is read is the same either way.
//! - What the kernel has read ahead for a read through the page cache counts for that way, and what others have in the
//!   page cache for none.
//! - One way is kept for [`PERIOD`] bytes; then the other gets [`PROBE`] bytes, and the reads again if it was faster by a
//!   tenth at least.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Advice, fadvise};

use super::BLOCK_LEN;
use super::positional::read_full;

/// Bytes by which a way is judged.
const PROBE: u64 = 16 << 20;
/// Bytes between two trials.
const PERIOD: u64 = 512 << 20;
/// The other way must take at most so much of the time.
const SHARE: f64 = 0.9;

/// So far behind a read through the page cache the kernel may have read ahead.
const AHEAD: u64 = 16 << 20;
/// Reads through the page cache that are remembered.
const ENDS_MAX: usize = 8;

/// A way of long reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Past the page cache.
    Past,
    /// Through it.
    Through,
}

impl Way {
    fn other(self) -> Way {
        match self {
            Way::Past => Way::Through,
            Way::Through => Way::Past,
        }
    }
}

/// Which way is taken, and what is known of both.
pub(super) struct Pace(Mutex<State>);

struct State {
    way: Way,
    /// The way that is kept, while the other one is tried.
    kept: Way,
    /// Bytes and time since this way was taken.
    bytes: u64,
    spent: Duration,
    /// Seconds a byte of `Past` and of `Through`, when last judged.
    known: [Option<f64>; 2],
    /// Where reads through the page cache have ended, and which is replaced next.
    ends: [u64; ENDS_MAX],
    oldest: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        let state = State {
            way: Way::Past,
            kept: Way::Past,
            bytes: 0,
            spent: Duration::ZERO,
            known: [None; 2],
            ends: [u64::MAX; ENDS_MAX],
            oldest: 0,
        };
        Pace(Mutex::new(state))
    }
}

impl Pace {
    /// The way to take now.
    pub fn way(&self) -> Way {
        self.0.lock().way
    }

    /// Remembers a read through the page cache.
    pub fn went_through(&self, offset: u64, length: u64) {
        let mut state = self.0.lock();
        if !state.follow(offset, length) {
            let oldest = state.oldest;
            state.ends[oldest] = offset + length;
            state.oldest = (oldest + 1) % ENDS_MAX;
        }
    }

    /// Whether what the page cache has here may be there because of such a read.
    pub fn follows(&self, offset: u64, length: u64) -> bool {
        self.0.lock().follow(offset, length)
    }

    /// Reads through the page cache, and leaves nothing there.
    pub fn read_through(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let begun = Instant::now();
        read_full(file, buffer, offset)?;
        // Pages at the ends may hold what others read.
        let start = offset.next_multiple_of(BLOCK_LEN as u64);
        let end = (offset + buffer.len() as u64) / BLOCK_LEN as u64 * BLOCK_LEN as u64;
        if let Some(length) = NonZeroU64::new(end.saturating_sub(start)) {
            // Only a hint.
            let _ = fadvise(file, start, Some(length), Advice::DontNeed);
        }
        self.note(Way::Through, buffer.len() as u64, begun.elapsed());
        Ok(())
    }

    /// So many bytes were read one way in so much time.
    pub fn note(&self, way: Way, bytes: u64, spent: Duration) {
        let mut state = self.0.lock();
        // Those that were under way when the way changed say nothing of the new one.
        if state.way == way {
            state.bytes += bytes;
            state.spent += spent;
            state.judge();
        }
    }
}

impl State {
    fn follow(&mut self, offset: u64, length: u64) -> bool {
        let near = |end: &&mut u64| offset.checked_sub(**end).is_some_and(|gap| gap < AHEAD);
        let found = self.ends.iter_mut().find(near);
        found.map(|end| *end = (*end).max(offset + length)).is_some()
    }

    fn judge(&mut self) {
        let (way, other) = (self.way, self.way.other());
        let is_trial = way != self.kept || self.known[other as usize].is_none();
        if self.bytes < if is_trial { PROBE } else { PERIOD } {
            return;
        }
        self.known[way as usize] = Some(self.spent.as_secs_f64() / self.bytes as f64);
        (self.bytes, self.spent) = (0, Duration::ZERO);
        self.way = match (self.known[way as usize], self.known[other as usize]) {
            // The end of a trial: the one that is kept from now on.
            (Some(tried), Some(before)) if way != self.kept => {
                self.kept = if tried <= before * SHARE { way } else { other };
                self.kept
            }
            _ => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a MiB at a time; gives the bytes that went each way.
    fn read(pace: &Pace, total_mib: u64, past_us: u64, through_us: u64) -> [u64; 2] {
        let mut bytes = [0; 2];
        for _ in 0..total_mib {
            let way = pace.way();
            bytes[way as usize] += 1;
            let spent = if way == Way::Past { past_us } else { through_us };
            pace.note(way, 1 << 20, Duration::from_micros(spent));
        }
        bytes
    }

    #[test]
    fn the_faster_way_gets_nearly_all_reads() {
        for (past, through, faster) in [(1000, 600, Way::Through), (600, 1000, Way::Past), (1000, 950, Way::Past)] {
            let bytes = read(&Pace::default(), 4096, past, through);
            assert!(bytes[faster as usize] > 3900, "{past} and {through} us: {bytes:?}");
            assert!(bytes[faster.other() as usize] >= 16, "the other one is tried");
        }
    }

    #[test]
    fn a_medium_that_changes_is_followed() {
        let pace = Pace::default();
        read(&pace, 2048, 1000, 600);
        assert_eq!(pace.way(), Way::Through);
        let bytes = read(&pace, 4096, 600, 1000);
        assert!(bytes[Way::Past as usize] > 3000, "{bytes:?}");
    }

    #[test]
    fn what_was_read_ahead_is_known_by_where_it_lies() {
        let pace = Pace::default();
        assert!(!pace.follows(0, 1 << 20));
        pace.went_through(100 << 20, 1 << 20);
        assert!(!pace.follows(99 << 20, 1 << 20) && !pace.follows(200 << 20, 1));
        assert!(pace.follows(101 << 20, 1 << 20) && pace.follows(116 << 20, 1 << 20));
        for other in 0..ENDS_MAX as u64 {
            pace.went_through(other << 30, 1 << 20);
        }
        assert!(!pace.follows(118 << 20, 1), "the oldest was forgotten");
    }

    #[test]
    fn reads_of_the_way_before_do_not_count() {
        let pace = Pace::default();
        read(&pace, 16, 1000, 600);
        assert_eq!(pace.way(), Way::Through);
        (0..100).for_each(|_| pace.note(Way::Past, 1 << 20, Duration::from_micros(1)));
        assert_eq!(pace.way(), Way::Through);
    }
}
