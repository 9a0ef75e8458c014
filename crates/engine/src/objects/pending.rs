//! A change that has its place in the order of commits and may not be visible yet.
//!
//! Invariants:
//! - The outcome is taken from the ticket once and kept; any number of threads may wait for it.
//! - Of what was gathered some creations may be refused alone: those are named before there is an outcome.

use std::sync::{OnceLock, Weak};

use parking_lot::Mutex;

use super::write_buffer::WriteBuffer;
use crate::error::{Error, ErrorKind, Result};
use crate::ticket::Ticket;

/// A batch that was submitted, or that is still being gathered.
pub struct Pending {
    ticket: Mutex<Option<Ticket>>,
    outcome: OnceLock<Result<()>>,
    /// Who submits it, if nobody has yet.
    gather: Option<Weak<WriteBuffer>>,
    /// Objects, sorted, that were not created after all, and why.
    refused: OnceLock<(Vec<u64>, Error)>,
}

impl Pending {
    /// Of a batch that was just submitted.
    pub fn new(ticket: Ticket) -> Pending {
        let ticket = Mutex::new(Some(ticket));
        Pending { ticket, outcome: OnceLock::new(), gather: None, refused: OnceLock::new() }
    }

    /// Of what is being gathered.
    pub fn gathered(gather: &Weak<WriteBuffer>) -> Pending {
        let gather = Some(Weak::clone(gather));
        Pending { ticket: Mutex::new(None), outcome: OnceLock::new(), gather, refused: OnceLock::new() }
    }

    /// Whether it was gathered: then the table of objects knows what it did to whom.
    pub fn is_gathered(&self) -> bool {
        self.gather.is_some()
    }

    /// What was gathered was submitted, with the ticket of its last commit if it made any.
    pub fn submitted(&self, ticket: Option<Ticket>, refused: Option<(Vec<u64>, Error)>) {
        if let Some(refused) = refused {
            let _ = self.refused.set(refused);
        }
        match ticket.as_ref().map_or(Some(Ok(())), |ticket| ticket.peek().map(|outcome| outcome.map(|_| ()))) {
            Some(outcome) => drop(self.outcome.set(outcome)),
            None => *self.ticket.lock() = ticket,
        }
    }

    /// Waits until the change is visible, or known not to happen.
    pub fn wait(&self) -> Result<()> {
        if let Some(outcome) = self.outcome.get() {
            return outcome.clone();
        }
        // Whoever comes second waits at the lock.
        let mut ticket = self.ticket.lock();
        if ticket.is_none()
            && self.outcome.get().is_none()
            && let Some(gather) = self.gather.as_ref().and_then(Weak::upgrade)
        {
            drop(ticket);
            gather.flush_with(self);
            ticket = self.ticket.lock();
        }
        if let Some(ticket) = ticket.take() {
            let outcome = ticket.wait().map(|_| ());
            let _ = self.outcome.set(outcome);
        }
        let lost = || Err(Error::new(ErrorKind::Stopped, "the store of objects is gone: open it again and look"));
        self.outcome.get().cloned().unwrap_or_else(lost)
    }

    /// As `wait`, for what it did to one object.
    pub fn wait_for(&self, number: u64) -> Result<()> {
        self.wait()?;
        self.refusal_of(number).map_or(Ok(()), Err)
    }

    /// Whether the outcome is there.
    pub fn is_settled(&self) -> bool {
        self.peek().is_some()
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

    /// As `peek`, for what it did to one object.
    pub fn peek_for(&self, number: u64) -> Option<Result<()>> {
        Some(self.peek()?.and_then(|()| self.refusal_of(number).map_or(Ok(()), Err)))
    }

    fn refusal_of(&self, number: u64) -> Option<Error> {
        let (numbers, error) = self.refused.get()?;
        numbers.binary_search(&number).is_ok().then(|| error.clone())
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

    #[test]
    fn a_refusal_is_of_the_objects_it_names() {
        let pending = Pending::gathered(&Weak::new());
        assert!(!pending.is_settled());
        let done = Ticket::ready(Ok(Commit { version: Version(3), repeated: false }));
        pending.submitted(Some(done), Some((vec![3, 7], Error::new(ErrorKind::Full, "full"))));
        pending.wait().unwrap();
        for (number, is_refused) in [(2, false), (3, true), (5, false), (7, true)] {
            assert_eq!(pending.peek_for(number).unwrap().is_err(), is_refused);
            assert_eq!(pending.wait_for(number).is_err(), is_refused);
        }
    }
}
