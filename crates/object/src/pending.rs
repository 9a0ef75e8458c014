//! The promise of an outcome of this floor, over the tickets of the store below.
//!
//! Invariants:
//! - A refused batch is read again and submitted again by whoever waits: the waiting thread in
//!   [`Pending::wait`], the completing thread in [`Pending::on_done`]. No thread is held in between.
//! - A pending outcome that is dropped may or may not come about.

use std::fmt;

use koine_kv::wire::Answer;
use koine_kv::{Bytes, Commit, Ticket};

use crate::error::Result;

/// What is to be done with the outcome of a batch.
pub(crate) type Then<T> = Box<dyn FnOnce(koine_kv::Result<Commit>) -> Step<T> + Send>;

/// What is to be done with the answer of a store elsewhere.
pub(crate) type ThenTold<T> = Box<dyn FnOnce(koine_kv::Result<(Bytes, Bytes)>) -> Step<T> + Send>;

/// Where a pending outcome stands.
pub(crate) enum Step<T> {
    /// The outcome is there.
    Done(Result<T>),
    /// A batch is on its way.
    Wait(Ticket, Then<T>),
    /// It was asked for elsewhere.
    Asked(Answer, ThenTold<T>),
}

/// An outcome that may not be there yet: wait for it, or be called back by it.
#[must_use = "an outcome that is dropped tells nobody whether the change was made"]
pub struct Pending<T> {
    step: Step<T>,
}

impl<T: Send + 'static> Pending<T> {
    pub(crate) fn new(step: Step<T>) -> Self {
        Pending { step }
    }

    pub(crate) fn ready(outcome: Result<T>) -> Self {
        Pending { step: Step::Done(outcome) }
    }

    /// Blocks until the outcome is there.
    pub fn wait(self) -> Result<T> {
        let mut step = self.step;
        loop {
            match step {
                Step::Done(outcome) => return outcome,
                Step::Wait(ticket, then) => step = then(ticket.wait()),
                Step::Asked(answer, then) => step = then(answer.wait()),
            }
        }
    }

    /// Calls `callback` with the outcome: at once if it is there, else on the thread that completes the commit.
    /// The callback must not block.
    pub fn on_done(self, callback: impl FnOnce(Result<T>) + Send + 'static) {
        drive(self.step, Box::new(callback));
    }

    /// The outcome turned into another by `change`.
    pub fn map<U: Send + 'static>(self, change: impl FnOnce(T) -> U + Send + 'static) -> Pending<U> {
        Pending { step: map_step(self.step, change) }
    }
}

fn drive<T: Send + 'static>(mut step: Step<T>, callback: Box<dyn FnOnce(Result<T>) + Send>) {
    loop {
        match step {
            Step::Done(outcome) => return callback(outcome),
            // An outcome that is there is taken in this loop, so that retries do not deepen the stack.
            Step::Wait(ticket, then) => match ticket.peek() {
                Some(outcome) => step = then(outcome),
                None => return ticket.on_done(move |outcome| drive(then(outcome), callback)),
            },
            Step::Asked(answer, then) => return answer.then(move |answer| drive(then(answer), callback)),
        }
    }
}

fn map_step<T: Send + 'static, U: Send + 'static>(
    step: Step<T>,
    change: impl FnOnce(T) -> U + Send + 'static,
) -> Step<U> {
    match step {
        Step::Done(outcome) => Step::Done(outcome.map(change)),
        Step::Wait(ticket, then) => {
            Step::Wait(ticket, Box::new(move |outcome| map_boxed(then(outcome), Box::new(change))))
        }
        Step::Asked(answer, then) => Step::Asked(answer, Box::new(move |told| map_boxed(then(told), Box::new(change)))),
    }
}

/// As `map_step`, with the type of the closure erased so that the recursion ends.
fn map_boxed<T: Send + 'static, U: Send + 'static>(step: Step<T>, change: Box<dyn FnOnce(T) -> U + Send>) -> Step<U> {
    match step {
        Step::Done(outcome) => Step::Done(outcome.map(change)),
        Step::Wait(ticket, then) => Step::Wait(ticket, Box::new(move |outcome| map_boxed(then(outcome), change))),
        Step::Asked(answer, then) => Step::Asked(answer, Box::new(move |told| map_boxed(then(told), change))),
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.step {
            Step::Done(_) => "Pending(done)",
            Step::Wait(..) | Step::Asked(..) => "Pending(waiting)",
        })
    }
}
