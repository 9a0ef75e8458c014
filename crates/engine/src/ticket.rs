//! The promise of an outcome: to wait on, or to be called back by.
//!
//! Invariants:
//! - An outcome is given exactly once; a completer dropped without one gives `Stopped`.
//! - A callback runs on the thread that completes; it must not block.
//! - Who waits may be asked to lead: to do a piece of the work first, as it does before it begins to wait. Only one who
//!   waits is asked: nobody else's outcome hangs on a ticket that is just kept.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use koine_env::patience;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::atomic::{AtomicBool, Ordering};
use crate::batch::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::together;

thread_local! {
    /// Whether this thread is completing outcomes: a callback may submit again, and must not wait for the writer then.
    static COMPLETING: Cell<bool> = const { Cell::new(false) };
    /// Whether what this thread submits is going to be waited for.
    static AWAITED: Cell<bool> = const { Cell::new(false) };
}

/// What `submit` submits, to any store, its thread is going to wait for: no other thread is woken for it, and whoever
/// waits writes it where nobody else does. Until somebody waits for such a ticket, has itself called by it, or drops it,
/// it may not be written. A hint: stores are free to overlook it.
pub fn awaited<R>(submit: impl FnOnce() -> R) -> R {
    let before = AWAITED.replace(true);
    let submitted = submit();
    AWAITED.set(before);
    submitted
}

/// Whether what this thread submits now is going to be waited for.
pub(crate) fn is_awaited() -> bool {
    AWAITED.get()
}

/// Runs callbacks of tickets on the writer's thread.
pub(crate) fn completing<R>(tell: impl FnOnce() -> R) -> R {
    let before = COMPLETING.replace(true);
    let told = tell();
    COMPLETING.set(before);
    told
}

/// Whether this thread is completing outcomes, and so must not wait for any.
pub(crate) fn is_completing() -> bool {
    COMPLETING.get()
}

type Callback = Box<dyn FnOnce(Result<Commit>) + Send>;
/// Does a piece of the work that the ticket waits for; called until the outcome is there.
type Driver = Arc<dyn Fn() + Send + Sync>;

enum State {
    Waiting,
    /// Whoever waits is to lead once more.
    Asked,
    Called(Callback),
    Done(Result<Commit>),
    Taken,
}

struct Shared {
    state: Mutex<State>,
    done: Condvar,
    /// Somebody is waiting.
    is_waited_for: AtomicBool,
}

/// An outcome that may not be there yet.
#[must_use = "a ticket that is dropped tells nobody whether the batch was applied"]
pub struct Ticket {
    shared: Arc<Shared>,
    driver: Option<Driver>,
    lead: Option<Driver>,
    leave: Option<Driver>,
    is_elsewhere: bool,
}

/// Gives a ticket its outcome.
pub struct Completer {
    shared: Arc<Shared>,
    is_led: bool,
}

impl Ticket {
    /// A ticket and what completes it.
    pub fn new() -> (Ticket, Completer) {
        let shared =
            Shared { state: Mutex::new(State::Waiting), done: Condvar::new(), is_waited_for: AtomicBool::new(false) };
        let shared = Arc::new(shared);
        let ticket = Ticket { shared: Arc::clone(&shared), driver: None, lead: None, leave: None, is_elsewhere: false };
        (ticket, Completer { shared, is_led: false })
    }

    /// A ticket whose outcome is there.
    pub fn ready(outcome: Result<Commit>) -> Ticket {
        let (ticket, completer) = Ticket::new();
        completer.complete(outcome);
        ticket
    }

    /// Where no thread works in the background, waiting does the work itself.
    pub fn with_driver(mut self, driver: Driver) -> Ticket {
        self.driver = Some(driver);
        self
    }

    /// What the one who waits does first: its share of the work.
    pub(crate) fn with_lead(mut self, lead: Driver) -> Ticket {
        self.lead = Some(lead);
        self
    }

    /// Who does that where nobody waits for it: it is told so when somebody is to be called by the ticket, or when that is
    /// dropped. Without it, whoever drops the ticket does it.
    pub(crate) fn with_leave(mut self, leave: Driver) -> Ticket {
        self.leave = Some(leave);
        self
    }

    /// Another process has the outcome, which may take long to tell it: who waits gives up when its
    /// [`patience`](koine_env::patience) is over, with `Interrupted`, and does not know what came of it then.
    pub fn elsewhere(mut self) -> Ticket {
        self.is_elsewhere = true;
        self
    }

    /// Blocks until the outcome is there.
    pub fn wait(self) -> Result<Commit> {
        together::release();
        if let Some(outcome) = self.take_done() {
            return outcome;
        }
        self.shared.is_waited_for.store(true, Ordering::Release);
        if let Some(lead) = &self.lead {
            lead();
        }
        loop {
            if let Some(outcome) = self.take_or_wait() {
                return outcome;
            }
            if let Some(work) = self.driver.as_ref().or(self.lead.as_ref()) {
                work();
            }
        }
    }

    /// The outcome, if it is there.
    fn take_done(&self) -> Option<Result<Commit>> {
        let mut state = self.shared.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(outcome) => Some(outcome),
            other => {
                *state = other;
                None
            }
        }
    }

    /// The outcome; `None` when there is work to do first.
    fn take_or_wait(&self) -> Option<Result<Commit>> {
        let mut state = self.shared.state.lock();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done(outcome) => return Some(outcome),
                State::Waiting if self.is_elsewhere && patience::is_given() => {
                    *state = State::Waiting;
                    self.shared.done.wait_for(&mut state, patience::next_look());
                    if MutexGuard::unlocked(&mut state, patience::is_over) && matches!(*state, State::Waiting) {
                        return Some(Err(Error::interrupted()));
                    }
                }
                State::Waiting if self.driver.is_none() => {
                    *state = State::Waiting;
                    self.shared.done.wait(&mut state);
                }
                _ => {
                    *state = State::Waiting;
                    return None;
                }
            }
        }
    }

    /// The outcome, if it is there.
    pub fn peek(&self) -> Option<Result<Commit>> {
        match &*self.shared.state.lock() {
            State::Done(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }

    /// Calls `callback` with the outcome: at once if it is there, else on the completing thread.
    pub fn on_done(self, callback: impl FnOnce(Result<Commit>) + Send + 'static) {
        let mut state = self.shared.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(outcome) => {
                drop(state);
                callback(outcome);
            }
            _ => {
                *state = State::Called(Box::new(callback));
                drop(state);
                if let Some(leave) = &self.leave {
                    leave();
                }
            }
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({:?})", self.peek())
    }
}

impl Completer {
    /// Says that whoever waits for it will write its group where nobody else does.
    pub(crate) fn led(mut self) -> Completer {
        self.is_led = true;
        self
    }

    /// Whether the one who waits writes.
    pub(crate) fn is_led(&self) -> bool {
        self.is_led
    }

    /// Whoever waits for it already and will write: to be asked to lead.
    pub(crate) fn leader(&self) -> Option<Waiter> {
        let leads = self.is_led && self.shared.is_waited_for.load(Ordering::Acquire);
        leads.then(|| Waiter(Arc::clone(&self.shared)))
    }

    /// Gives the outcome.
    pub fn complete(self, outcome: Result<Commit>) {
        self.give(outcome);
    }

    fn give(&self, outcome: Result<Commit>) {
        let mut state = self.shared.state.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Waiting | State::Asked => {
                *state = State::Done(outcome);
                self.shared.done.notify_all();
            }
            State::Called(callback) => {
                drop(state);
                callback(outcome);
            }
            other => *state = other,
        }
    }
}

/// Whoever waits for an outcome.
pub(crate) struct Waiter(Arc<Shared>);

impl Waiter {
    /// Asks it to lead, unless it has its outcome.
    pub(crate) fn ask(self) {
        let mut state = self.0.state.lock();
        if matches!(*state, State::Waiting) {
            *state = State::Asked;
            self.0.done.notify_all();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(lead) = self.lead.take() else { return };
        let is_waited_for = matches!(*self.shared.state.lock(), State::Waiting | State::Asked);
        if is_waited_for {
            // It may have been asked, and others wait for that.
            self.leave.take().unwrap_or(lead)();
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        let message = "the store stopped before the outcome was known; reopen it and look";
        self.give(Err(Error::new(ErrorKind::Stopped, message)));
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Version;

    const DONE: Commit = Commit { version: Version(7), repeated: false };

    #[test]
    fn waits_and_calls_back_in_either_order() {
        let (ticket, completer) = Ticket::new();
        completer.complete(Ok(DONE));
        assert_eq!(ticket.wait().unwrap(), DONE);

        let (ticket, completer) = Ticket::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        ticket.on_done(move |outcome| sender.send(outcome).unwrap());
        completer.complete(Ok(DONE));
        assert_eq!(receiver.recv().unwrap().unwrap(), DONE);
    }

    #[test]
    fn who_waits_leads_before_and_whenever_asked() {
        let (ticket, completer) = Ticket::new();
        let completer = completer.led();
        let (tell, told) = std::sync::mpsc::channel();
        let ticket = ticket.with_lead(Arc::new(move || tell.send(()).unwrap()));
        assert!(completer.leader().is_none(), "nobody waits yet");
        let waiter = std::thread::spawn(move || ticket.wait());
        told.recv().unwrap();
        for _ in 0..3 {
            completer.leader().unwrap().ask();
            told.recv().unwrap();
        }
        completer.complete(Ok(DONE));
        assert_eq!(waiter.join().unwrap().unwrap(), DONE);
    }

    #[test]
    fn who_does_not_wait_leaves_it_to_others() {
        let leaving = || {
            let (ticket, completer) = Ticket::new();
            let (tell, told) = std::sync::mpsc::channel();
            let (lead, leave) = (tell.clone(), tell);
            let ticket = ticket.with_lead(Arc::new(move || lead.send("led").unwrap()));
            (ticket.with_leave(Arc::new(move || leave.send("left").unwrap())), completer.led(), told)
        };
        let (ticket, completer, told) = leaving();
        drop(ticket);
        assert_eq!(told.iter().collect::<Vec<_>>(), ["left"]);
        assert!(completer.leader().is_none());

        let (ticket, completer, told) = leaving();
        let (sender, receiver) = std::sync::mpsc::channel();
        ticket.on_done(move |outcome| sender.send(outcome).unwrap());
        assert_eq!(told.iter().collect::<Vec<_>>(), ["left"]);
        completer.complete(Ok(DONE));
        assert_eq!(receiver.recv().unwrap().unwrap(), DONE);

        let (ticket, completer, told) = leaving();
        completer.complete(Ok(DONE));
        drop(ticket);
        assert_eq!(told.iter().count(), 0, "nothing is left to do");
    }

    #[test]
    fn a_dropped_completer_stops_the_waiter() {
        let (ticket, completer) = Ticket::new();
        drop(completer);
        assert_eq!(ticket.wait().unwrap_err().kind(), ErrorKind::Stopped);
    }
}
