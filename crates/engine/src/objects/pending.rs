//! A change that has its place in the order of commits and may not be visible yet.
//!
//! Invariant: the outcome is taken from the ticket once and kept; any number of threads may wait for it.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::gather::Gather;
use crate::error::{Error, ErrorKind, Result};
use crate::ticket::Ticket;

/// A batch that was submitted, or that is still being gathered.
pub struct Pending {
    ticket: Mutex<Option<Ticket>>,
    outcome: OnceLock<Result<()>>,
    /// Who submits it, if nobody has yet.
    gather: Weak<Gather>,
}

impl Pending {
    /// Of a batch that was just submitted.
    pub fn new(ticket: Ticket) -> Pending {
        Pending { ticket: Mutex::new(Some(ticket)), outcome: OnceLock::new(), gather: Weak::new() }
    }

    /// Of a batch that is being gathered.
    pub fn gathered(gather: &Arc<Gather>) -> Pending {
        Pending { ticket: Mutex::new(None), outcome: OnceLock::new(), gather: Arc::downgrade(gather) }
    }

    /// What was gathered was submitted.
    pub fn submitted(&self, ticket: Ticket) {
        *self.ticket.lock() = Some(ticket);
    }

    /// Waits until the change is visible, or known not to happen.
    pub fn wait(&self) -> Result<()> {
        if let Some(outcome) = self.outcome.get() {
            return outcome.clone();
        }
        if let Some(gather) = self.gather.upgrade() {
            gather.flush_with(self);
        }
        // Whoever comes second waits at the lock.
        let mut ticket = self.ticket.lock();
        if let Some(ticket) = ticket.take() {
            let outcome = ticket.wait().map(|_| ());
            let _ = self.outcome.set(outcome);
        }
        let lost = || Err(Error::new(ErrorKind::Stopped, "the store of objects is gone: open it again and look"));
        self.outcome.get().cloned().unwrap_or_else(lost)
    }

    /// The outcome, if it is there.
    pub fn peek(&self) -> Option<Result<()>> {
        if let Some(outcome) = self.outcome.get() {
            return Some(outcome.clone());
        }
        // Locked by somebody who waits: not there yet.
        let ticket = self.ticket.try_lock()?;
        ticket.as_ref()?.peek().map(|outcome| outcome.map(|_| ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Commit, Version};

    #[test]
    fn many_wait_for_one_outcome() {
        let (ticket, completer) = Ticket::new();
        let pending = Pending::new(ticket);
        assert!(pending.peek().is_none());
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4).map(|_| scope.spawn(|| pending.wait())).collect();
            completer.complete(Ok(Commit { version: Version(3), repeated: false }));
            for waiter in waiters {
                waiter.join().unwrap().unwrap();
            }
        });
        assert!(pending.peek().unwrap().is_ok());
    }

    #[test]
    fn an_error_stays() {
        let pending = Pending::new(Ticket::ready(Err(Error::new(ErrorKind::Full, "full"))));
        assert_eq!(pending.peek().unwrap().unwrap_err().kind(), ErrorKind::Full);
        assert_eq!(pending.wait().unwrap_err().kind(), ErrorKind::Full);
        assert_eq!(pending.wait().unwrap_err().kind(), ErrorKind::Full);
    }
}
