//! The store's own locks, and how long they were waited for.
//!
//! Invariant: a lock that is free costs nothing but itself; only one that has to be waited for is timed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

static WAITS: AtomicU64 = AtomicU64::new(0);
static NANOSECONDS: AtomicU64 = AtomicU64::new(0);

/// How often and how long threads of this process have waited for locks of its stores. Waits for a change of state
/// (a commit's outcome, room in the log) are not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockWaits {
    /// Times that a lock was not free.
    pub count: u64,
    /// Time until it was, over all threads.
    pub time: Duration,
}

impl LockWaits {
    /// All since the process began.
    pub fn now() -> LockWaits {
        LockWaits {
            count: WAITS.load(Ordering::Relaxed),
            time: Duration::from_nanos(NANOSECONDS.load(Ordering::Relaxed)),
        }
    }

    /// Those after an earlier `now`.
    pub fn since(self, earlier: LockWaits) -> LockWaits {
        LockWaits { count: self.count.saturating_sub(earlier.count), time: self.time.saturating_sub(earlier.time) }
    }
}

/// A mutex that notes when it has to be waited for.
#[derive(Debug, Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// A free one.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(parking_lot::Mutex::new(value))
    }

    /// Takes it, when it is free.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        let begun = Instant::now();
        let guard = self.0.lock();
        WAITS.fetch_add(1, Ordering::Relaxed);
        NANOSECONDS.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        guard
    }

    /// Takes it if it is free now.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_are_counted() {
        let (lock, before) = (Mutex::new(0), LockWaits::now());
        let mut rounds = 0;
        // Until one has come too late to find it free.
        while LockWaits::now().since(before).count == 0 {
            rounds += 1;
            std::thread::scope(|scope| {
                let guard = lock.lock();
                assert!(lock.try_lock().is_none());
                scope.spawn(|| *lock.lock() += 1);
                std::thread::sleep(Duration::from_millis(1));
                drop(guard);
            });
        }
        assert_eq!(*lock.lock(), rounds);
        assert!(LockWaits::now().since(before).time > Duration::ZERO);
    }
}
