//! How long the calls of a thread may take, and who may end them: a caller's timeout, a key pressed.
//!
//! Whoever waits, or works for long, asks [`is_over`] now and then: at the latest after [`TICK`]. It asks only where it can
//! stop and leave nothing half-way; else it goes on to its end. Who is asked may be a program that makes calls of its own:
//! nothing is locked then that those could want.
//!
//! Invariants:
//! - A thread has one patience at a time, and none unless it was given one.
//! - One that is over stays over until the call has ended.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Who waits looks so often whether it is to go on.
pub const TICK: Duration = Duration::from_millis(50);

/// So often, at most, a caller is asked.
const ASKED_AFTER: Duration = Duration::from_millis(20);

/// How long calls may take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    /// The moment at which they end.
    pub until: Option<Instant>,
    /// Asked on the calling thread: whether they are to end.
    pub ask: Option<fn() -> bool>,
}

#[derive(Clone, Copy)]
struct Given {
    patience: Patience,
    asked: Instant,
    is_over: bool,
}

thread_local! {
    static GIVEN: Cell<Option<Given>> = const { Cell::new(None) };
}

/// Puts back what was before, also where the call panics.
struct Before(Option<Given>);

impl Drop for Before {
    fn drop(&mut self) {
        GIVEN.set(self.0);
    }
}

impl Patience {
    /// Calls something that is not to take longer. Nothing is asked in the first milliseconds.
    pub fn lasting<T>(self, call: impl FnOnce() -> T) -> T {
        let given = Given { patience: self, asked: Instant::now(), is_over: false };
        let _before = Before(GIVEN.replace(Some(given)));
        call()
    }
}

/// Whether this thread's call is to end.
pub fn is_over() -> bool {
    let Some(mut given) = GIVEN.get() else { return false };
    if given.is_over {
        return true;
    }
    let now = Instant::now();
    given.is_over = given.patience.until.is_some_and(|until| now >= until);
    if !given.is_over && now.duration_since(given.asked) >= ASKED_AFTER {
        given.asked = now;
        given.is_over = given.patience.ask.is_some_and(|ask| ask());
    }
    GIVEN.set(Some(given));
    given.is_over
}

/// Whether it is known that this thread's call is to end: without asking, for who holds what others may want.
pub fn is_known_over() -> bool {
    GIVEN.get().is_some_and(|given| given.is_over || given.patience.until.is_some_and(|until| Instant::now() >= until))
}

/// Whether this thread's call may end at all.
pub fn is_given() -> bool {
    GIVEN.get().is_some()
}

/// How long to wait before [`is_over`] is asked again.
pub fn next_look() -> Duration {
    let until = GIVEN.get().and_then(|given| given.patience.until);
    until.map_or(TICK, |until| until.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), TICK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_ends_when_its_time_is_over_or_its_caller_says_so() {
        assert!(!is_over());
        let over = Patience { until: Some(Instant::now()), ask: None };
        assert!(over.lasting(is_over));
        assert!(next_look() == TICK && !is_over());
        let asked = Patience { until: None, ask: Some(|| true) };
        asked.lasting(|| {
            assert!(!is_known_over());
            while !is_over() {
                std::thread::sleep(next_look());
            }
            // Within it another may have more.
            assert!(!Patience::default().lasting(is_over));
            assert!(is_over() && is_known_over());
        });
        assert!(!is_over() && over.lasting(is_known_over));
    }
}
