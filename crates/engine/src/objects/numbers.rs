//! Giving out object numbers.
//!
//! Invariants:
//! - A number is given out once, also over crashes: those up to a mark are reserved by a synced commit before
//!   the first of them is used, and opening the store goes on at the mark.
//! - Between two reservations giving out takes a lock for an addition and touches no device.

use std::ops::Range;

use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};

/// How many numbers are reserved at once. A crash skips so many at most.
const STEP: u64 = 1 << 20;

/// The numbers of a store.
pub struct Numbers {
    free: Mutex<Range<u64>>,
}

impl Numbers {
    /// From the first number that was never reserved.
    pub fn after(next: u64) -> Numbers {
        Numbers { free: Mutex::new(next..next) }
    }

    /// Gives out `count` numbers in a row; `reserve` makes a new mark durable when those at hand do not suffice.
    pub fn take(&self, count: u64, reserve: impl FnOnce(u64) -> Result<()>) -> Result<Range<u64>> {
        let mut free = self.free.lock();
        if free.end - free.start < count {
            let mark = free.end.checked_add(STEP.max(count)).ok_or_else(|| {
                Error::new(ErrorKind::Full, "all object numbers were used: no more objects can be made in this store")
            })?;
            reserve(mark)?;
            // What was left stays free when the new ones follow on it, as they do.
            free.end = mark;
        }
        let first = free.start;
        free.start += count;
        Ok(first..free.start)
    }

    /// The first number that was not given out.
    pub fn next(&self) -> u64 {
        self.free.lock().start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_on_each_other_and_are_reserved_first() {
        let numbers = Numbers::after(1);
        let mut marks = Vec::new();
        assert_eq!(
            numbers
                .take(1, |mark| {
                    marks.push(mark);
                    Ok(())
                })
                .unwrap(),
            1..2
        );
        assert_eq!(
            numbers
                .take(3, |mark| {
                    marks.push(mark);
                    Ok(())
                })
                .unwrap(),
            2..5
        );
        assert_eq!(
            numbers
                .take(STEP, |mark| {
                    marks.push(mark);
                    Ok(())
                })
                .unwrap(),
            5..5 + STEP
        );
        assert_eq!(marks, [1 + STEP, 1 + 2 * STEP]);
        assert_eq!(numbers.next(), 5 + STEP);
    }

    #[test]
    fn nothing_is_given_out_that_was_not_reserved() {
        let numbers = Numbers::after(u64::MAX - 1);
        assert_eq!(numbers.take(1, |_| Ok(())).unwrap_err().kind(), ErrorKind::Full);
        let numbers = Numbers::after(9);
        assert!(numbers.take(1, |_| Err(Error::invalid("no"))).is_err());
        assert_eq!(numbers.next(), 9);
    }
}
