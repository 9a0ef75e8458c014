//! Requests that were sent and whose answers are fetched later: many in flight, from one thread.
//!
//! Invariant: one that is dropped has happened or not, like any other; only its answer is not looked at.

use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Commit, Place, Result};

use super::line::{Line, is_loss};
use super::link::SentRequest;
use super::slot::Outcome;
use super::{newest, part_of};
use crate::seam::Lookup;
use crate::wire::reply::take_commit;

/// A request under way.
#[must_use = "a request that is dropped tells nobody what came of it"]
pub struct Pending<T> {
    asked: SentRequest,
    finish: Finish<T>,
}

/// What an outcome is made into.
enum Finish<T> {
    Told(fn(Outcome) -> Result<T>),
    /// With what was asked for, of which there may be more to ask, or all of it again.
    Of(fn(&Got, Outcome) -> Result<T>, Got),
}

/// A value that was asked for.
struct Got {
    line: Arc<Line>,
    at: Place,
}

impl Pending<Option<Bytes>> {
    pub(super) fn get(line: Arc<Line>, at: Place, asked: SentRequest) -> Self {
        let finish = |got: &Got, outcome: Outcome| match outcome {
            Err(error) if is_loss(&error) => newest(&got.line, &got.at, 0, usize::MAX).map(value),
            outcome => part_of(&got.line, &got.at, (0, usize::MAX), outcome).map(value),
        };
        Pending { asked, finish: Finish::Of(finish, Got { line, at }) }
    }
}

fn value(found: Lookup) -> Option<Bytes> {
    match found {
        Lookup::Found(_, value) => Some(value),
        Lookup::Absent | Lookup::WouldWait => None,
    }
}

impl Pending<Commit> {
    pub(super) fn commit(asked: SentRequest) -> Self {
        Pending { asked, finish: Finish::Told(|outcome| take_commit(outcome?.message)) }
    }
}

impl<T> Pending<T> {
    /// Waits for the answer.
    pub fn wait(self) -> Result<T> {
        let outcome = self.asked.wait();
        match self.finish {
            Finish::Told(finish) => finish(outcome),
            Finish::Of(finish, got) => finish(&got, outcome),
        }
    }

    /// Whether the answer is there: waiting would not wait. Only who waits for an answer is sure to hear of it.
    pub fn is_ready(&self) -> bool {
        self.asked.is_done()
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_ready() { "Pending(ready)" } else { "Pending" })
    }
}
