//! Requests that were sent and whose answers are fetched later: many in flight, from one thread.
//!
//! Invariant: one that is dropped has happened or not, like any other; only its answer is not looked at.

use std::sync::Arc;

use koine_engine::{Place, Result};

use super::connection::Connection;
use super::link::Asked;
use super::slot::Outcome;

/// A request under way.
#[must_use = "a request that is dropped tells nobody what came of it"]
pub struct Pending<T> {
    asked: Asked,
    finish: Finish<T>,
}

/// What an outcome is made into.
enum Finish<T> {
    Told(fn(Outcome) -> Result<T>),
    /// With what was asked for, of which there may be more to ask.
    Of(fn(&Arc<Connection>, &Place, Outcome) -> Result<T>, Arc<Connection>, Place),
}

impl<T> Pending<T> {
    pub(super) fn told(asked: Asked, finish: fn(Outcome) -> Result<T>) -> Pending<T> {
        Pending { asked, finish: Finish::Told(finish) }
    }

    pub(super) fn of(
        (connection, at): (Arc<Connection>, Place),
        asked: Asked,
        finish: fn(&Arc<Connection>, &Place, Outcome) -> Result<T>,
    ) -> Pending<T> {
        Pending { asked, finish: Finish::Of(finish, connection, at) }
    }

    /// Waits for the answer.
    pub fn wait(self) -> Result<T> {
        let outcome = self.asked.wait();
        match self.finish {
            Finish::Told(finish) => finish(outcome),
            Finish::Of(finish, connection, at) => finish(&connection, &at, outcome),
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
