//! The longest writes of the log through the page cache: what a commit that nobody syncs may have to wait for.
//!
//! Invariant: each write is noted once, beside a checkpoint or without one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest writes of the log through the page cache since they were asked for last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestWrites {
    /// While a checkpoint was under way.
    pub beside_checkpoint: Duration,
    /// While there was none.
    pub alone: Duration,
}

/// Where they are noted, in nanoseconds.
#[derive(Debug, Default)]
pub struct Longest {
    beside_checkpoint: AtomicU64,
    alone: AtomicU64,
}

impl Longest {
    /// A write took so long.
    pub fn note(&self, is_beside: bool, time: Duration) {
        let longest = if is_beside { &self.beside_checkpoint } else { &self.alone };
        longest.fetch_max(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What was noted; it begins anew.
    pub fn take(&self) -> LongestWrites {
        let take = |longest: &AtomicU64| Duration::from_nanos(longest.swap(0, Ordering::Relaxed));
        LongestWrites { beside_checkpoint: take(&self.beside_checkpoint), alone: take(&self.alone) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_each_kind_is_told_once() {
        let longest = Longest::default();
        for (is_beside, micros) in [(true, 5), (false, 90), (true, 7), (true, 6)] {
            longest.note(is_beside, Duration::from_micros(micros));
        }
        let told = longest.take();
        assert_eq!((told.beside_checkpoint.as_micros(), told.alone.as_micros()), (7, 90));
        assert_eq!(longest.take(), LongestWrites::default());
    }
}
