//! Where the outcome of a request comes, and who waits for it there.
//!
//! Invariant: an outcome is given once and taken once.

use std::cell::Cell;
use std::sync::Arc;

use koine_engine::{Error, Result};
use koine_env::patience;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::wire::frame::Frame;

/// What came of a request: its answer, or why there is none.
pub type Outcome = Result<Frame>;
type Callback = Box<dyn FnOnce(Outcome) + Send>;

thread_local! {
    /// This thread must not wait: it runs a callback, and may be the one to read answers; or it lets go of something.
    pub static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// What is asked for here is not waited for, and is asked though who called waits no longer: for what lets go of something.
pub fn letting_go<T>(ask: impl FnOnce() -> T) -> T {
    let before = TELLING.replace(true);
    let asked = ask();
    TELLING.set(before);
    asked
}

/// How far a request is.
pub enum State {
    /// There is no outcome yet.
    Waiting,
    /// Nobody reads any more: who waits for this one is to.
    Lead,
    /// Who is called with it.
    Called(Callback),
    /// It is there.
    Done(Outcome),
    /// It was there.
    Taken,
}

/// Where the outcome of one request comes.
pub struct Slot {
    /// The request's number.
    pub id: u64,
    pub state: Mutex<State>,
    /// Woken when the outcome is there, and when its waiter is to read.
    pub changed: Condvar,
}

impl Slot {
    /// Of a request.
    pub fn new(id: u64) -> Arc<Slot> {
        Arc::new(Slot { id, state: Mutex::new(State::Waiting), changed: Condvar::new() })
    }

    /// Gives the outcome; whether a callback had it.
    pub fn give(&self, outcome: Outcome) -> bool {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Waiting | State::Lead => {
                *state = State::Done(outcome);
                self.changed.notify_one();
                false
            }
            State::Called(callback) => {
                drop(state);
                letting_go(|| callback(outcome));
                true
            }
            other => {
                *state = other;
                false
            }
        }
    }

    /// The outcome, if it is there.
    pub fn take(&self) -> Option<Outcome> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(outcome) => Some(outcome),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Whether it is there.
    pub fn is_done(&self) -> bool {
        matches!(*self.state.lock(), State::Done(_))
    }

    /// Waits until the outcome is there, or until this thread is to read: whether it is. `Interrupted` when who called waits
    /// no longer.
    pub fn rest(&self) -> Result<bool> {
        let mut state = self.state.lock();
        loop {
            match *state {
                State::Waiting => {
                    if self.changed.wait_for(&mut state, patience::next_look()).timed_out() {
                        // Its caller may be asked, who may have to wait for something itself.
                        let is_over = MutexGuard::unlocked(&mut state, patience::is_over);
                        if is_over && matches!(*state, State::Waiting) {
                            return Err(Error::interrupted());
                        }
                    }
                }
                State::Lead => {
                    *state = State::Waiting;
                    return Ok(true);
                }
                _ => return Ok(false),
            }
        }
    }
}
