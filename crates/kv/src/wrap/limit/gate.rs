//! What is counted against a bound: places that are taken and left, rates, and what is stored.
//!
//! Invariants:
//! - Of a gate's places no more than its bound are taken. A request for more than all of them is let through alone.
//! - A rate is kept over any time but for its burst: what was let through is paid for by those that follow.
//! - Who is not let through by one of them has taken nothing of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use koine_engine::{Error, ErrorKind, Result};
use koine_env::Clock;
use parking_lot::{Condvar, Mutex};

use super::Rate;
use crate::seam::Kv;

/// Places, of which each holder takes some.
pub(super) struct Semaphore {
    /// For messages: what the places are for.
    what: &'static str,
    most: u64,
    taken: Mutex<u64>,
    fewer: Condvar,
}

/// Places that are taken until it goes.
pub(super) struct Permit {
    gate: Arc<Semaphore>,
    count: u64,
}

impl Semaphore {
    pub fn new(what: &'static str, most: u64) -> Arc<Semaphore> {
        Arc::new(Semaphore { what, most, taken: Mutex::new(0), fewer: Condvar::new() })
    }

    /// Takes places, when they are free within `wait`.
    pub fn enter(self: &Arc<Self>, count: u64, wait: Duration) -> Result<Permit> {
        let count = count.min(self.most.max(1));
        let deadline = Instant::now().checked_add(wait);
        let mut taken = self.taken.lock();
        while *taken > self.most.saturating_sub(count) {
            let is_late = match deadline {
                _ if wait.is_zero() => true,
                Some(deadline) => self.fewer.wait_until(&mut taken, deadline).timed_out(),
                None => {
                    self.fewer.wait(&mut taken);
                    false
                }
            };
            if is_late && *taken > self.most.saturating_sub(count) {
                let message = format!(
                    "{} of {} {} are taken, and {count} more were wanted; try again later",
                    *taken, self.most, self.what
                );
                return Err(Error::new(ErrorKind::Busy, message));
            }
        }
        *taken += count;
        Ok(Permit { gate: Arc::clone(self), count })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.gate.taken.lock() -= self.count;
        self.gate.fewer.notify_all();
    }
}

/// How much may pass in a time.
pub(super) struct RateLimiter {
    what: &'static str,
    rate: Rate,
    /// When, in nanoseconds of the clock, all that was let through is paid for.
    paid_at: Mutex<u128>,
    clock: Arc<dyn Clock>,
}

impl RateLimiter {
    pub fn new(what: &'static str, rate: Rate, clock: Arc<dyn Clock>) -> RateLimiter {
        RateLimiter { what, rate, paid_at: Mutex::new(0), clock }
    }

    fn nanoseconds(&self, count: u64) -> u128 {
        u128::from(count) * 1_000_000_000 / u128::from(self.rate.per_second.max(1))
    }

    /// Takes so much, after a pause of at most `wait`.
    pub fn take(&self, count: u64, wait: Duration) -> Result<()> {
        let pause = {
            let mut paid_at = self.paid_at.lock();
            let now = self.clock.monotonic().as_nanos();
            let (ahead, cost) = (paid_at.saturating_sub(now), self.nanoseconds(count));
            // What is more than the whole burst passes alone.
            let pause = (ahead + cost).saturating_sub(self.nanoseconds(self.rate.burst)).min(ahead);
            let pause = Duration::from_nanos(u64::try_from(pause).unwrap_or(u64::MAX));
            if pause > wait {
                let (rate, what) = (self.rate.per_second, self.what);
                let message = format!("more than {rate} {what} a second were wanted; try again in {pause:?}");
                return Err(Error::new(ErrorKind::Busy, message));
            }
            *paid_at = now + ahead + cost;
            pause
        };
        if !pause.is_zero() {
            self.clock.sleep(pause);
        }
        Ok(())
    }

    /// Counts what passed already.
    pub fn pay(&self, count: u64) {
        let mut paid_at = self.paid_at.lock();
        let now = self.clock.monotonic().as_nanos();
        *paid_at = (*paid_at).max(now) + self.nanoseconds(count);
    }
}

/// How much may be stored.
pub(super) struct Quota {
    most: u64,
    /// So much may be added before the store is asked again how much is in use.
    trusted: Mutex<u64>,
}

/// Up to so much is added between two looks where room for it is left, however little that is of the whole.
const TRUSTED_LEN_MIN: u64 = 1 << 20;

impl Quota {
    pub fn new(most: u64) -> Quota {
        Quota { most, trusted: Mutex::new(0) }
    }

    pub fn most(&self) -> u64 {
        self.most
    }

    /// Lets so many bytes be added. Nothing passes always: deleting must work in a full store.
    pub fn take(&self, kv: &dyn Kv, added: u64) -> Result<()> {
        if added == 0 {
            return Ok(());
        }
        let mut trusted = self.trusted.lock();
        if *trusted < added {
            let used = kv.usage()?.used;
            let left = self.most.saturating_sub(used);
            if added > left {
                let most = self.most;
                let message = format!(
                    "{used} of {most} bytes that may be used here are in use, and {added} more were wanted; delete something"
                );
                return Err(Error::new(ErrorKind::Full, message));
            }
            *trusted = (left / 16).max(left.min(TRUSTED_LEN_MIN)).max(added);
        }
        *trusted -= added;
        Ok(())
    }
}
