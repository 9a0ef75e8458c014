//! Wall-clock and monotonic time.
//!
//! Invariants:
//! - A [`Timestamp`] is nanoseconds since 1970-01-01T00:00:00Z, never negative.
//! - `monotonic` never goes backwards within a process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch (UTC, leap seconds ignored).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Whole seconds since the Unix epoch.
    pub fn seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// The same moment as a `SystemTime`.
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.0)
    }
}

/// Where time comes from.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The wall clock.
    fn now(&self) -> Timestamp;
    /// Time since an arbitrary start; for intervals only.
    fn monotonic(&self) -> Duration;
    /// Returns when so much time has passed.
    fn sleep(&self, pause: Duration);
}

/// The operating system's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts at zero now.
    pub fn new() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, pause: Duration) {
        std::thread::sleep(pause);
    }
}

/// A clock that moves only when told to, or by those who sleep: each passes its pause at once.
#[derive(Debug, Default)]
pub struct SimulatedClock {
    nanoseconds: AtomicU64,
}

impl SimulatedClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        SimulatedClock { nanoseconds: AtomicU64::new(start.0) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let step = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(step, Ordering::SeqCst);
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.nanoseconds.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::SeqCst))
    }

    fn sleep(&self, pause: Duration) {
        self.advance(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_time_moves_only_when_told() {
        let clock = SimulatedClock::new(Timestamp(5));
        assert_eq!(clock.now(), Timestamp(5));
        clock.advance(Duration::from_nanos(7));
        assert_eq!(clock.now(), Timestamp(12));
        clock.sleep(Duration::from_nanos(8));
        assert_eq!((clock.now(), clock.monotonic()), (Timestamp(20), Duration::from_nanos(20)));
    }
}
