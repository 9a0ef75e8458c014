//! Whether long reads in order go past the page cache or through it: whichever this medium gives more by.
//!
//! Some disks answer large direct reads fastest, others serve the kernel's own reading ahead half as fast again; which it is
//! depends on what lies below the block layer and changes with it. So both are tried, a little now and then.
//!
//! Invariants:
//! - Only time is judged: what is read is the same either way. Where several read at once, that is the time in which any of
//!   them does: what counts is what the medium gives to all.
//! - What the kernel has read ahead for a read through the page cache counts for that way, and what others have in the
//!   page cache for none.
//! - Of what was read through the page cache at most [`KEPT`] bytes stay there for each place from which somebody reads on.
//! - One way is kept for [`PERIOD`] bytes; then the other gets [`PROBE`] bytes, and the reads again if it was faster by a
//!   tenth at least.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Advice, fadvise};

use super::BLOCK_LEN;
use super::positional::read_full;

/// Bytes by which a way is judged.
const PROBE: u64 = 8 << 20;
/// Bytes that say nothing after a change of the way: the kernel reads ahead little at first.
const WARM: u64 = 4 << 20;
/// Bytes between two trials.
const PERIOD: u64 = 1 << 30;
/// The other way must take at most so much of the time.
const SHARE: f64 = 0.9;

/// So many long reads later nothing that the kernel read ahead for a run is left.
const TURNS_MAX: u64 = 64;

/// So far behind a read through the page cache the kernel may have read ahead.
const AHEAD: u64 = 16 << 20;
/// Runs of reads through the page cache that are remembered.
const RUNS_MAX: usize = 8;
/// So much of a run is taken out of the page cache at once, in whole [`UNIT`]s: to take out part of what the kernel keeps as
/// one costs it more than the read.
const KEPT: u64 = 8 << 20;
/// The most that the kernel keeps as one.
const UNIT: u64 = 2 << 20;

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
    /// Bytes still to be read before any count.
    warm: u64,
    /// How many reads are under way in each way, and since when their time was not counted.
    active: [usize; 2],
    since: [Instant; 2],
    /// Seconds a byte of `Past` and of `Through`, when last judged.
    known: [Option<f64>; 2],
    /// Reads through the page cache, and which run is replaced next.
    runs: [Run; RUNS_MAX],
    oldest: usize,
    /// Long reads so far, any way.
    turn: u64,
    /// What is to be taken out of the page cache.
    left: Vec<Range<u64>>,
}

/// Reads through the page cache, one behind the other.
#[derive(Clone, Copy)]
struct Run {
    /// Of what may be in the page cache for it.
    start: u64,
    end: u64,
    /// The last one's number.
    turn: u64,
}

impl Run {
    const NONE: Run = Run { start: u64::MAX, end: u64::MAX, turn: 0 };

    /// What is to be taken out now.
    fn leave(&mut self) -> Option<Range<u64>> {
        let whole = self.end / UNIT * UNIT;
        if self.end - self.start < KEPT || whole <= self.start {
            return None;
        }
        Some(std::mem::replace(&mut self.start, whole)..whole)
    }
}

impl Default for Pace {
    fn default() -> Pace {
        let state = State {
            way: Way::Past,
            kept: Way::Past,
            bytes: 0,
            spent: Duration::ZERO,
            warm: WARM,
            active: [0; 2],
            since: [Instant::now(); 2],
            known: [None; 2],
            runs: [Run::NONE; RUNS_MAX],
            oldest: 0,
            turn: 0,
            left: Vec::new(),
        };
        Pace(Mutex::new(state))
    }
}

impl Pace {
    /// The way to take now.
    pub fn way(&self) -> Way {
        self.0.lock().way
    }

    /// Takes a way, whatever is known.
    #[cfg(test)]
    pub fn take(&self, way: Way) {
        let mut state = self.0.lock();
        (state.way, state.kept, state.bytes, state.known) = (way, way, 0, [Some(1.0); 2]);
    }

    /// Remembers a read through the page cache.
    pub fn went_through(&self, offset: u64, length: u64) {
        let mut state = self.0.lock();
        if !state.follow(offset, length) {
            let (oldest, turn) = (state.oldest, state.turn);
            let run = Run { start: offset, end: offset + length, turn };
            let before = std::mem::replace(&mut state.runs[oldest], run);
            state.left.push(before.start..before.end);
            state.oldest = (oldest + 1) % RUNS_MAX;
        }
    }

    /// Whether what the page cache has here may be there because of such a read.
    pub fn follows(&self, offset: u64, length: u64) -> bool {
        self.0.lock().follow(offset, length)
    }

    /// Reads through the page cache, what `went_through` or `follows` has noted, and leaves little there.
    pub fn read_through(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.timed(Way::Through, buffer.len(), || read_full(file, buffer, offset))?;
        for range in self.0.lock().take_left() {
            // Pages at the ends may hold what others read.
            let start = range.start.next_multiple_of(BLOCK_LEN as u64);
            let end = range.end / BLOCK_LEN as u64 * BLOCK_LEN as u64;
            if let Some(length) = NonZeroU64::new(end.saturating_sub(start)) {
                // Only a hint.
                let _ = fadvise(file, start, Some(length), Advice::DontNeed);
            }
        }
        Ok(())
    }

    /// Reads so many bytes one way, and judges by how long that takes.
    pub fn timed(&self, way: Way, bytes: usize, read: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.0.lock().begin(way, Instant::now());
        let done = read();
        self.0.lock().end(way, if done.is_ok() { bytes as u64 } else { 0 }, Instant::now());
        done
    }
}

impl State {
    fn follow(&mut self, offset: u64, length: u64) -> bool {
        self.turn += 1;
        let turn = self.turn;
        let near =
            |run: &&mut Run| turn - run.turn <= TURNS_MAX && offset.checked_sub(run.end).is_some_and(|gap| gap < AHEAD);
        let Some(run) = self.runs.iter_mut().find(near) else { return false };
        if offset != run.end {
            // What is between may be others'.
            self.left.push(run.start..run.end);
            run.start = offset;
        }
        (run.end, run.turn) = (offset + length, turn);
        true
    }

    /// What is to be taken out of the page cache now.
    fn take_left(&mut self) -> Vec<Range<u64>> {
        self.left.extend(self.runs.iter_mut().filter_map(Run::leave));
        self.left.retain(|range| range.start < range.end);
        std::mem::take(&mut self.left)
    }

    fn begin(&mut self, way: Way, now: Instant) {
        self.turn += 1;
        if self.active[way as usize] == 0 {
            self.since[way as usize] = now;
        }
        self.active[way as usize] += 1;
    }

    fn end(&mut self, way: Way, bytes: u64, now: Instant) {
        let spent = now.saturating_duration_since(self.since[way as usize]);
        self.since[way as usize] = now;
        self.active[way as usize] -= 1;
        // Those that were under way when the way changed say nothing of the new one.
        if self.way != way {
            return;
        }
        if self.warm > 0 {
            self.warm = self.warm.saturating_sub(bytes);
            return;
        }
        self.bytes += bytes;
        self.spent += spent;
        self.judge();
    }

    fn judge(&mut self) {
        let (way, other) = (self.way, self.way.other());
        let is_trial = way != self.kept || self.known[other as usize].is_none();
        if self.bytes < if is_trial { PROBE } else { PERIOD } {
            return;
        }
        self.known[way as usize] = Some(self.spent.as_secs_f64() / self.bytes as f64);
        (self.bytes, self.spent, self.warm) = (0, Duration::ZERO, WARM);
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

    /// A pace, and what its clock says.
    struct Clocked(Pace, Instant);

    impl Clocked {
        fn new() -> Clocked {
            Clocked(Pace::default(), Instant::now())
        }

        fn way(&self) -> Way {
            self.0.way()
        }

        /// Reads a MiB in so much time, `count` of them at once.
        fn note(&mut self, way: Way, count: usize, spent_us: u64) {
            let mut state = self.0.0.lock();
            (0..count).for_each(|_| state.begin(way, self.1));
            self.1 += Duration::from_micros(spent_us);
            (0..count).for_each(|_| state.end(way, 1 << 20, self.1));
        }

        /// Reads a MiB at a time; gives the bytes that went each way.
        fn read(&mut self, total_mib: u64, past_us: u64, through_us: u64) -> [u64; 2] {
            let mut bytes = [0; 2];
            for _ in 0..total_mib {
                let way = self.way();
                bytes[way as usize] += 1;
                self.note(way, 1, if way == Way::Past { past_us } else { through_us });
            }
            bytes
        }
    }

    #[test]
    fn the_faster_way_gets_nearly_all_reads() {
        for (past, through, faster) in [(1000, 600, Way::Through), (600, 1000, Way::Past), (1000, 950, Way::Past)] {
            let bytes = Clocked::new().read(4096, past, through);
            assert!(bytes[faster as usize] > 3900, "{past} and {through} us: {bytes:?}");
            assert!(bytes[faster.other() as usize] >= 16, "the other one is tried");
        }
    }

    #[test]
    fn a_medium_that_changes_is_followed() {
        let mut pace = Clocked::new();
        pace.read(2048, 1000, 600);
        assert_eq!(pace.way(), Way::Through);
        let bytes = pace.read(8192, 600, 1000);
        assert!(bytes[Way::Past as usize] > 6000, "{bytes:?}");
    }

    #[test]
    fn what_was_read_ahead_is_known_by_where_it_lies() {
        let pace = Pace::default();
        assert!(!pace.follows(0, 1 << 20));
        pace.went_through(100 << 20, 1 << 20);
        assert!(!pace.follows(99 << 20, 1 << 20) && !pace.follows(200 << 20, 1));
        assert!(pace.follows(101 << 20, 1 << 20) && pace.follows(116 << 20, 1 << 20));
        for other in 0..RUNS_MAX as u64 {
            pace.went_through(other << 30, 1 << 20);
        }
        assert!(!pace.follows(118 << 20, 1), "the oldest was forgotten");
    }

    #[test]
    fn what_was_read_leaves_the_page_cache_in_large_pieces() {
        let pace = Pace::default();
        let read = |offset: u64, length: u64| {
            pace.went_through(offset, length);
            pace.0.lock().take_left()
        };
        let mut left = Vec::new();
        for at in 0..20 {
            left.extend(read((100 << 20) + 4096 + (at << 20), 1 << 20));
        }
        assert_eq!(left, [(100 << 20) + 4096..108 << 20, 108 << 20..116 << 20]);
        // Who skips some leaves what is behind, and not what is between.
        assert_eq!(read(130 << 20, 1 << 20), std::slice::from_ref(&(116 << 20..(120 << 20) + 4096)));
        let ends: Vec<_> = (1..=RUNS_MAX as u64).flat_map(|other| read(other << 40, 1 << 20)).collect();
        assert_eq!(ends, std::slice::from_ref(&(130 << 20..131 << 20)));
    }

    #[test]
    fn reads_of_the_way_before_do_not_count() {
        let mut pace = Clocked::new();
        pace.read(16, 1000, 600);
        assert_eq!(pace.way(), Way::Through);
        (0..2000).for_each(|_| pace.note(Way::Past, 1, 1));
        assert_eq!(pace.way(), Way::Through);
    }

    #[test]
    fn of_reads_at_once_the_time_of_all_counts() {
        let mut pace = Clocked::new();
        for _ in 0..256 {
            // Four at once take twice as long as one, and so bring twice as much.
            match pace.way() {
                Way::Past => pace.note(Way::Past, 4, 2000),
                Way::Through => pace.note(Way::Through, 1, 800),
            }
        }
        assert_eq!(pace.way(), Way::Past);
        assert_eq!(pace.0.0.lock().active, [0, 0]);
    }
}
