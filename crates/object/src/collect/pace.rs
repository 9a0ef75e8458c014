//! How fast the collector reads.
//!
//! Invariant: a pause is not made up for by a burst: what was read late is not read faster after it.

use std::sync::Arc;
use std::time::Duration;

use koine_env::Clock;

/// Pauses are at least so long, so that the clock is not asked at every key.
const PAUSE_MIN: Duration = Duration::from_millis(10);

pub(super) struct Pace {
    clock: Arc<dyn Clock>,
    bytes_per_second: Option<u64>,
    /// Read since the last pause.
    bytes: u64,
    began: Duration,
}

impl Pace {
    pub fn new(clock: Arc<dyn Clock>, bytes_per_second: Option<u64>) -> Self {
        let began = clock.monotonic();
        Pace { clock, bytes_per_second, bytes: 0, began }
    }

    /// So many bytes were read: waits where that was too fast.
    pub fn read(&mut self, bytes: usize) {
        let Some(rate) = self.bytes_per_second else { return };
        self.bytes += bytes as u64;
        let nanoseconds = u128::from(self.bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let due = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        if due < PAUSE_MIN {
            return;
        }
        let spent = self.clock.monotonic().saturating_sub(self.began);
        self.clock.sleep(due.saturating_sub(spent));
        self.bytes = 0;
        self.began = self.clock.monotonic();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koine_env::{SimulatedClock, Timestamp};

    #[test]
    fn a_rate_is_kept_and_no_rate_never_waits() {
        let clock = Arc::new(SimulatedClock::new(Timestamp(0)));
        let mut free = Pace::new(clock.clone(), None);
        (0..1_000).for_each(|_| free.read(1_000_000));
        assert_eq!(clock.monotonic(), Duration::ZERO);
        let mut bounded = Pace::new(clock.clone(), Some(1_000));
        (0..100).for_each(|_| bounded.read(100));
        assert_eq!(clock.monotonic(), Duration::from_secs(10));
    }
}
