//! Requests that were sent and whose answers are fetched later: many in flight, from one thread.
//!
//! Invariant: one that is dropped has happened or not, like any other; only its answer is not looked at.

use koine_engine::Result;

use super::link::Asked;
use super::slot::Outcome;

type Finish<T> = Box<dyn FnOnce(Outcome) -> Result<T> + Send>;

/// A request under way.
#[must_use = "a request that is dropped tells nobody what came of it"]
pub struct Pending<T> {
    asked: Asked,
    finish: Finish<T>,
}

impl<T> Pending<T> {
    pub(super) fn new(asked: Asked, finish: impl FnOnce(Outcome) -> Result<T> + Send + 'static) -> Pending<T> {
        Pending { asked, finish: Box::new(finish) }
    }

    /// Waits for the answer.
    pub fn wait(self) -> Result<T> {
        (self.finish)(self.asked.wait())
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
