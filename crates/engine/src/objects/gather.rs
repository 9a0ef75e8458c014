//! Creations and deletions for which memory is enough, gathered into one commit.
//!
//! One commit for hundreds of them writes each node of the index once, where a commit for each would copy it every time.
//!
//! Invariants:
//! - What is gathered is submitted before whatever is submitted after it, so that the order of calls is the order of commits.
//! - Whoever waits for one of them submits them all. Nothing is gathered for longer than [`DELAY`] where there are threads.
//! - One commit only creates or only deletes: a full store refuses the one and takes the other.
//! - A commit that is refused takes its objects out of the count again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::layout::Setting;
use super::pending::Pending;
use crate::batch::{Batch, Durability, Operation};
use crate::engine::{Background, Engine};
use crate::error::{Error, Result};
use crate::ticket::Ticket;

/// How many are gathered at most.
const MANY_MAX: usize = 512;
/// How long the first of them waits at most.
const DELAY: Duration = Duration::from_millis(10);

/// What is gathered at the moment.
#[derive(Default)]
struct Open {
    operations: Vec<Operation>,
    /// Whether they create; else they delete.
    creates: bool,
    pending: Option<Arc<Pending>>,
    /// Raised by every submit of what was gathered.
    turn: u64,
    stopped: bool,
}

/// Gathers for one store.
pub struct Gather {
    engine: Arc<Engine>,
    count: AtomicU64,
    open: Mutex<Open>,
    work: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Gather {
    /// For an engine with so many objects.
    pub fn new(engine: Arc<Engine>, count: u64) -> Arc<Gather> {
        Arc::new(Gather {
            engine,
            count: AtomicU64::new(count),
            open: Mutex::default(),
            work: Condvar::new(),
            thread: Mutex::new(None),
        })
    }

    /// Starts the thread that submits what nobody else does.
    pub fn start(self: &Arc<Gather>) -> Result<()> {
        if self.engine.shared().background == Background::Manual {
            return Ok(());
        }
        let gather = Arc::clone(self);
        let thread = std::thread::Builder::new().name("koine-objects".into()).spawn(move || gather.run());
        *self.thread.lock() = Some(thread.map_err(|e| Error::device("cannot start a thread", e))?);
        Ok(())
    }

    /// How many objects there are, with what is gathered.
    pub fn count(&self) -> &AtomicU64 {
        &self.count
    }

    /// Adds the creation (or deletion) of one object.
    pub fn add(self: &Arc<Gather>, operation: Operation, creates: bool) -> Result<Arc<Pending>> {
        self.engine.shared().check_takes_writes()?;
        let mut open = self.open.lock();
        if open.creates != creates {
            self.submit_open(&mut open);
            open.creates = creates;
        }
        open.operations.push(operation);
        let pending = Arc::clone(open.pending.get_or_insert_with(|| Arc::new(Pending::gathered(self))));
        match open.operations.len() {
            MANY_MAX => self.submit_open(&mut open),
            1 => drop(self.work.notify_one()),
            _ => {}
        }
        Ok(pending)
    }

    /// Submits what was gathered, then this batch. What is wrong with the batch at once is an error here, all else
    /// comes with the outcome; where the durability is above `Memory` the caller waits for that.
    pub fn submit(&self, batch: Batch, durability: Durability) -> Result<Arc<Pending>> {
        let pending = Pending::new(self.submit_ticket(batch, durability));
        match pending.peek() {
            Some(Err(error)) => Err(error),
            _ => Ok(Arc::new(pending)),
        }
    }

    /// Submits what was gathered, then this batch, and waits for the outcome.
    pub fn commit(&self, batch: Batch, durability: Durability) -> Result<()> {
        self.flush();
        self.engine.commit(batch, durability).map(|_| ())
    }

    fn submit_ticket(&self, batch: Batch, durability: Durability) -> Ticket {
        self.flush();
        match durability {
            Durability::Memory => self.engine.submit(batch, durability),
            _ => self.engine.shared().submit_led(batch, durability),
        }
    }

    /// Submits what was gathered.
    pub fn flush(&self) {
        self.submit_open(&mut self.open.lock());
    }

    /// Submits what was gathered if this is still part of it.
    pub fn flush_with(&self, pending: &Pending) {
        let mut open = self.open.lock();
        if open.pending.as_ref().is_some_and(|of| std::ptr::eq(Arc::as_ptr(of), pending)) {
            self.submit_open(&mut open);
        }
    }

    /// Submits what was gathered; nothing is gathered in the background any more.
    pub fn stop(&self) {
        {
            let mut open = self.open.lock();
            self.submit_open(&mut open);
            open.stopped = true;
        }
        self.work.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ended = thread.join();
        }
    }

    fn submit_open(&self, open: &mut MutexGuard<'_, Open>) {
        let Some(pending) = open.pending.take() else { return };
        open.turn += 1;
        let mut batch = Batch::new();
        batch.operations = std::mem::take(&mut open.operations);
        let many = batch.operations.len() as u64;
        let delta = if open.creates { many as i64 } else { -(many as i64) };
        batch.operations.push(Operation::AddCounter { at: Setting::Count.place(), delta });
        let ticket = self.engine.submit(batch, Durability::Memory);
        if let Some(Err(_)) = ticket.peek() {
            // Told by the next call on each of these objects.
            match open.creates {
                true => self.count.fetch_sub(many, Ordering::SeqCst),
                false => self.count.fetch_add(many, Ordering::SeqCst),
            };
        }
        pending.submitted(ticket);
    }

    fn run(&self) {
        let mut open = self.open.lock();
        while !open.stopped {
            if open.pending.is_none() {
                self.work.wait(&mut open);
                continue;
            }
            let turn = open.turn;
            let late = self.work.wait_for(&mut open, DELAY).timed_out();
            if late && open.turn == turn {
                self.submit_open(&mut open);
            }
        }
    }
}
