//! Where the outcome of a request comes, and who waits for it there.
//!
//! Invariant: an outcome is given once and taken once.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use koine_engine::Result;
use parking_lot::{Condvar, Mutex};

use crate::wire::frame::Frame;

/// What came of a request: its answer, or why there is none.
pub type Outcome = Result<Frame>;
type Told = Box<dyn FnOnce(Outcome) + Send>;

thread_local! {
    /// This thread runs a callback: it must not wait for answers, which it may be the one to read.
    pub static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// How far a request is.
pub enum SlotState {
    /// There is no outcome yet.
    Waiting,
    /// Nobody reads any more: who waits for this one is to.
    Lead,
    /// Who is called with it, and until when it is waited for.
    Called(Told, Option<Instant>),
    /// It is there.
    Done(Outcome),
    /// It was there.
    Taken,
}

/// Why a thread that rested goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// It is to read.
    Leads,
    /// The outcome is there, or it was waited for long enough.
    Looks,
}

/// Who is to be called with an outcome.
pub struct Callback(Told);

impl Callback {
    /// Calls.
    pub fn tell(self, outcome: Outcome) {
        let before = TELLING.replace(true);
        (self.0)(outcome);
        TELLING.set(before);
    }
}

/// Where the outcome of one request comes.
pub struct Slot {
    /// The request's number.
    pub id: u64,
    pub state: Mutex<SlotState>,
    /// Woken when the outcome is there, and when its waiter is to read.
    pub changed: Condvar,
}

impl Slot {
    /// Of a request.
    pub fn new(id: u64) -> Arc<Slot> {
        Arc::new(Slot { id, state: Mutex::new(SlotState::Waiting), changed: Condvar::new() })
    }

    /// Gives the outcome; whether a callback had it.
    pub fn give(&self, outcome: Outcome) -> bool {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Waiting | SlotState::Lead => {
                *state = SlotState::Done(outcome);
                self.changed.notify_one();
                false
            }
            SlotState::Called(callback, _) => {
                drop(state);
                Callback(callback).tell(outcome);
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
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Done(outcome) => Some(outcome),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Whether it is there.
    pub fn is_done(&self) -> bool {
        matches!(*self.state.lock(), SlotState::Done(_))
    }

    /// Who is called with it, where that has been waited for long enough: nobody is any more.
    pub fn take_late_callback(&self) -> Option<Callback> {
        let mut state = self.state.lock();
        if !matches!(*state, SlotState::Called(_, Some(until)) if Instant::now() >= until) {
            return None;
        }
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Called(callback, _) => Some(Callback(callback)),
            _ => None,
        }
    }

    /// Waits until the outcome is there, this thread is to read, or a moment comes.
    pub fn rest(&self, until: Option<Instant>) -> Woken {
        let mut state = self.state.lock();
        loop {
            match (&*state, until) {
                (SlotState::Lead, _) => {
                    *state = SlotState::Waiting;
                    return Woken::Leads;
                }
                (SlotState::Waiting, None) => self.changed.wait(&mut state),
                (SlotState::Waiting, Some(until)) if Instant::now() < until => {
                    let _woken = self.changed.wait_until(&mut state, until);
                }
                _ => return Woken::Looks,
            }
        }
    }
}
