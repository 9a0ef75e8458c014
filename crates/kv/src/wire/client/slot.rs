//! Where the outcome of a request comes, and who waits for it there.
//!
//! Invariant: an outcome is given once and taken once.

use std::cell::Cell;
use std::sync::Arc;

use koine_engine::Result;
use parking_lot::{Condvar, Mutex};

use crate::wire::frame::Frame;

/// What came of a request: its answer, or why there is none.
pub type Outcome = Result<Frame>;
type Callback = Box<dyn FnOnce(Outcome) + Send>;

thread_local! {
    /// This thread runs a callback: it must not wait for answers, which it may be the one to read.
    pub static TELLING: Cell<bool> = const { Cell::new(false) };
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
                let before = TELLING.replace(true);
                callback(outcome);
                TELLING.set(before);
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

    /// Waits until the outcome is there, or until this thread is to read: whether it is.
    pub fn rest(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            match *state {
                State::Waiting => self.changed.wait(&mut state),
                State::Lead => {
                    *state = State::Waiting;
                    return true;
                }
                _ => return false,
            }
        }
    }
}
