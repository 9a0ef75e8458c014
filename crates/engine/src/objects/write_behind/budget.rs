//! How much a store keeps of writes that are not submitted, and when it submits them.
//!
//! Invariants:
//! - What is kept, with what is being submitted, takes no more memory than the budget and one write of each thread.
//! - Only what the device surely has room for is kept: twice as much was free when that was looked at.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::ranges::{Ranges, SLAB_LEN};
use crate::device::{AlignedBuffer, HUGE_LEN};
use crate::lock::Mutex;

/// The most ranges that one commit names.
const RUNS_MAX: usize = 24_000;
/// More than a range takes in the log.
const RUN_COST: usize = 160;
/// The log names the extents of one byte in so many: an extent for every block, at worst.
const BYTES_TO_LOG: usize = 64;
/// From so much on long ranges are submitted while more is written.
const STREAM_LEN: usize = 16 << 20;
/// Ranges that are so long on the average gain nothing by waiting.
const LONG_RUN_LEN: usize = 48 << 10;
const _: () = assert!(SLAB_LEN == HUGE_LEN / 2);
/// The most that is kept whatever the budget.
const KEPT_LEN_MAX: u64 = 256 << 20;
/// A write is kept when it is no longer than one part of so many of the budget, …
const WRITE_SHARE: usize = 8;
/// … and than this.
const WRITE_LEN_MAX: usize = 4 << 20;

/// What follows from a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may wait.
    Wait,
    /// What was written should be submitted meanwhile.
    Begin,
    /// It has to be submitted now.
    Flush,
}

/// What a store keeps of writes.
pub struct Budget {
    /// The most that is kept, in bytes.
    most: usize,
    /// The most that a commit's log record takes.
    log_len_max: usize,
    open_len: AtomicUsize,
    open_runs: AtomicUsize,
    flying_len: AtomicUsize,
    /// There is room for so many bytes.
    assured: AtomicU64,
    /// Slabs to be used again.
    idle: Mutex<Vec<AlignedBuffer>>,
}

impl Budget {
    /// For a store with a budget of memory, whose log takes records of a length.
    pub fn new(memory_len: u64, log_len_max: usize) -> Budget {
        Budget {
            most: usize::try_from(memory_len.saturating_mul(2).min(KEPT_LEN_MAX)).unwrap_or(usize::MAX),
            log_len_max,
            open_len: AtomicUsize::new(0),
            open_runs: AtomicUsize::new(0),
            flying_len: AtomicUsize::new(0),
            assured: AtomicU64::new(0),
            idle: Mutex::default(),
        }
    }

    /// Whether a write of this length may be kept; `room` tells how many bytes the device has room for.
    pub fn takes(&self, length: usize, room: impl FnOnce() -> u64) -> bool {
        if length > WRITE_LEN_MAX.min(self.most / WRITE_SHARE) {
            return false;
        }
        let needed = (self.kept() + length) as u64;
        if needed > self.assured.load(Ordering::Relaxed) {
            self.assured.store(room() / 2, Ordering::Relaxed);
        }
        needed <= self.assured.load(Ordering::Relaxed)
    }

    /// How much is kept, or being submitted, in bytes.
    pub fn kept(&self) -> usize {
        self.open_len.load(Ordering::Relaxed) + self.flying_len.load(Ordering::Relaxed)
    }

    /// Memory of this length, with anything in it.
    pub fn slab(&self, length: usize) -> AlignedBuffer {
        if length != SLAB_LEN {
            return AlignedBuffer::zeroed(length);
        }
        let mut idle = self.idle.lock();
        idle.pop().unwrap_or_else(|| {
            // In a huge page: it costs one fault instead of hundreds, and a device takes it in one piece.
            let [slab, other] = AlignedBuffer::pair();
            idle.push(other);
            slab
        })
    }

    /// A write took so much more memory, and changed the number of ranges of its object.
    pub fn note(&self, memory_len: usize, runs_before: usize, runs: usize) {
        self.open_len.fetch_add(memory_len, Ordering::Relaxed);
        if runs > runs_before {
            self.open_runs.fetch_add(runs - runs_before, Ordering::Relaxed);
        } else if runs < runs_before {
            self.open_runs.fetch_sub(runs_before - runs, Ordering::Relaxed);
        }
    }

    /// What follows from what is kept now.
    pub fn verdict(&self) -> Verdict {
        let (open_len, runs) = (self.open_len.load(Ordering::Relaxed), self.open_runs.load(Ordering::Relaxed));
        let log_len = runs * RUN_COST + open_len / BYTES_TO_LOG;
        if self.kept() >= self.most || runs >= RUNS_MAX || log_len >= self.log_len_max {
            return Verdict::Flush;
        }
        if open_len >= STREAM_LEN.min(self.most / 4) && open_len / LONG_RUN_LEN >= runs {
            return Verdict::Begin;
        }
        Verdict::Wait
    }

    /// What was written is taken to be submitted.
    pub fn take(&self) {
        let open_len = self.open_len.swap(0, Ordering::Relaxed);
        self.open_runs.store(0, Ordering::Relaxed);
        self.flying_len.fetch_add(open_len, Ordering::Relaxed);
        self.assured.store(0, Ordering::Relaxed);
    }

    /// What was written to an object is not wanted any more.
    pub fn forget(&self, ranges: Ranges) {
        self.open_len.fetch_sub(ranges.memory_len(), Ordering::Relaxed);
        self.open_runs.fetch_sub(ranges.run_count(), Ordering::Relaxed);
        self.keep_slabs(ranges);
    }

    /// What was taken is visible, or lost.
    pub fn land(&self, ranges: Ranges) {
        self.flying_len.fetch_sub(ranges.memory_len(), Ordering::Relaxed);
        self.keep_slabs(ranges);
    }

    fn keep_slabs(&self, ranges: Ranges) {
        let slabs = ranges.into_slabs().filter(|slab| slab.len() == SLAB_LEN);
        let most = self.most / SLAB_LEN;
        let mut idle = self.idle.lock();
        let room = most.saturating_sub(idle.len());
        idle.extend(slabs.take(room));
    }

    /// Gives memory back that nobody has used for a while.
    pub fn give_back(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ranges_wait_and_long_ones_go() {
        let budget = Budget::new(64 << 20, 8 << 20);
        assert!(budget.takes(1 << 20, || 64 << 20));
        assert!(!budget.takes(5 << 20, || u64::MAX), "too long");
        let full = Budget::new(64 << 20, 8 << 20);
        assert!(!full.takes(4096, || 4096), "no room");
        assert!(full.takes(4096, || 8192));
        budget.note(20 << 20, 0, 1000);
        assert_eq!(budget.verdict(), Verdict::Wait);
        budget.note(0, 1000, 2);
        assert_eq!(budget.verdict(), Verdict::Begin);
        budget.take();
        assert_eq!((budget.verdict(), budget.kept()), (Verdict::Wait, 20 << 20));
        budget.note(0, 0, RUNS_MAX);
        assert_eq!(budget.verdict(), Verdict::Flush);
        budget.note(0, RUNS_MAX, 1);
        budget.note(108 << 20, 1, 5000);
        assert_eq!(budget.verdict(), Verdict::Flush, "as much as may be kept");
        let small = Budget::new(64 << 20, 10_000);
        small.note(4096, 0, 63);
        assert_eq!(small.verdict(), Verdict::Flush, "as much as the log takes");
    }

    #[test]
    fn memory_is_used_again() {
        let budget = Budget::new(64 << 20, 8 << 20);
        let mut ranges = Ranges::default();
        ranges.write(0, &vec![1; 3 << 20], |length| budget.slab(length));
        budget.note(ranges.memory_len(), 0, 1);
        budget.take();
        budget.land(ranges);
        // Three, and the other half of a huge page.
        assert_eq!((budget.kept(), budget.idle.lock().len()), (0, 4));
        let slab = budget.slab(SLAB_LEN);
        assert!(slab.len() == SLAB_LEN && budget.idle.lock().len() == 3);
        budget.give_back();
        assert!(budget.idle.lock().is_empty());
    }
}
