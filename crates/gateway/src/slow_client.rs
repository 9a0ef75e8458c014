//! How long a client is waited for, in either direction.
//!
//! Invariants:
//! - Only time spent waiting for the client counts; a store that is busy is not the client's fault.
//! - Nothing for `idle_time_max`, or fewer bytes per second of waiting than `rate_min`: the client is too slow.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits::Limits;

/// The client moved too few bytes for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSlow;

/// Watches one direction of one client.
#[derive(Debug)]
pub struct SlowClientTimer {
    idle_time_max: Duration,
    rate_min: u64,
    /// Bytes since the last check of the rate.
    bytes: u64,
    /// Time spent waiting since then.
    waited: Duration,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl SlowClientTimer {
    /// A client of which nothing is known yet.
    pub fn new(limits: &Limits) -> Self {
        SlowClientTimer {
            idle_time_max: limits.idle_time_max,
            rate_min: limits.body_rate_min,
            bytes: 0,
            waited: Duration::ZERO,
            waiting_since: None,
            timer: None,
        }
    }

    /// Nothing moves now: wakes the task when it has been so for too long.
    pub fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<TooSlow> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let deadline = since + self.idle_time_max;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx).map(|()| TooSlow)
    }

    /// So many bytes moved.
    pub fn moved(&mut self, bytes: usize) -> Result<(), TooSlow> {
        let waited = self.waiting_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.note(bytes, waited)
    }

    fn note(&mut self, bytes: usize, waited: Duration) -> Result<(), TooSlow> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.waited += waited;
        if self.waited < self.idle_time_max {
            return Ok(());
        }
        let fewest = u128::from(self.rate_min) * self.waited.as_millis() / 1000;
        if u128::from(self.bytes) < fewest {
            return Err(TooSlow);
        }
        self.bytes = 0;
        self.waited = Duration::ZERO;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> SlowClientTimer {
        SlowClientTimer::new(&Limits {
            idle_time_max: Duration::from_secs(10),
            body_rate_min: 1000,
            ..Limits::default()
        })
    }

    #[test]
    fn a_client_that_trickles_is_too_slow() {
        let mut pace = pace();
        for _ in 0..9 {
            pace.note(10, Duration::from_secs(1)).unwrap();
        }
        assert_eq!(pace.note(10, Duration::from_secs(1)), Err(TooSlow));
    }

    #[test]
    fn waiting_for_the_store_is_not_the_clients_fault() {
        let mut pace = pace();
        for _ in 0..100 {
            pace.note(1, Duration::ZERO).unwrap();
        }
        for _ in 0..20 {
            pace.note(1000, Duration::from_secs(1)).unwrap();
        }
    }
}
