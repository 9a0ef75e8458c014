//! Batches that were submitted and may have to be repeated, in a lane for each thread.
//!
//! Invariants:
//! - A lane is there while a batch of its thread is under way or waits; one of them is under way at a time.
//! - A lane goes on from the thread that told an outcome, by a loop: however many wait, the stack stays flat.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::{self, ThreadId};

use koine_engine::{Commit, Completer, Result, Ticket};
use parking_lot::{Condvar, Mutex};

use super::{Asked, Policy, told};
use crate::seam::Kv;

/// A batch and who waits for it.
struct Job {
    asked: Asked,
    completer: Completer,
}

pub(super) struct Lanes {
    pub inner: Arc<dyn Kv>,
    pub policy: Arc<Policy>,
    waiting: Mutex<HashMap<ThreadId, VecDeque<Job>>>,
    /// Woken when the last lane ends.
    idle: Condvar,
}

impl Lanes {
    pub fn new(inner: Arc<dyn Kv>, policy: Policy) -> Lanes {
        Lanes { inner, policy: Arc::new(policy), waiting: Mutex::default(), idle: Condvar::new() }
    }

    /// Whether a batch of this thread has no outcome yet.
    pub fn is_busy(&self) -> bool {
        self.waiting.lock().contains_key(&thread::current().id())
    }

    /// Waits until every batch has its outcome.
    pub fn wait_idle(&self) {
        let mut waiting = self.waiting.lock();
        while !waiting.is_empty() {
            self.idle.wait(&mut waiting);
        }
    }

    /// Begins a batch, or lets it wait for those of this thread that were before it.
    pub fn submit(this: &Arc<Lanes>, asked: Asked) -> Ticket {
        let (ticket, completer) = Ticket::new();
        let job = Job { asked, completer };
        let lane = thread::current().id();
        {
            let mut waiting = this.waiting.lock();
            if let Some(queue) = waiting.get_mut(&lane) {
                queue.push_back(job);
                return ticket;
            }
            waiting.insert(lane, VecDeque::new());
        }
        Lanes::run(this, lane, job);
        ticket
    }

    /// Works on a lane until a batch's outcome is not there at once.
    fn run(this: &Arc<Lanes>, lane: ThreadId, mut job: Job) {
        loop {
            let outcome = match this.attempt(&mut job.asked) {
                Err(error) => Err(error),
                Ok(ticket) => match ticket.peek() {
                    Some(outcome) => outcome,
                    None => {
                        let this = Arc::clone(this);
                        ticket.on_done(move |outcome| {
                            if let Some(next) = Lanes::settle(&this, lane, job, outcome) {
                                Lanes::run(&this, lane, next);
                            }
                        });
                        return;
                    }
                },
            };
            match Lanes::settle(this, lane, job, outcome) {
                Some(next) => job = next,
                None => return,
            }
        }
    }

    fn attempt(&self, asked: &mut Asked) -> Result<Ticket> {
        let durability = asked.durability;
        let batch = asked.next_attempt(&*self.inner)?;
        Ok(self.inner.submit(batch, durability))
    }

    /// Tells an outcome, or lets the batch be tried again after a pause; gives the next of the lane.
    fn settle(this: &Arc<Lanes>, lane: ThreadId, job: Job, outcome: Result<Commit>) -> Option<Job> {
        let outcome = match outcome {
            Ok(commit) => Ok(job.asked.seen(commit)),
            Err(error) => match this.policy.again(&error, job.asked.attempt) {
                Some(pause) => {
                    let lanes = Arc::clone(this);
                    let again = move || {
                        lanes.policy.clock.sleep(pause);
                        Lanes::run(&lanes, lane, job);
                    };
                    let begun = thread::Builder::new().name("koine-retry".into()).spawn(again);
                    // Without a thread the completer went with the closure: its waiter hears that the store stopped.
                    return if begun.is_ok() { None } else { this.next(lane) };
                }
                None => Err(told(error, job.asked.attempt)),
            },
        };
        job.completer.complete(outcome);
        this.next(lane)
    }

    fn next(&self, lane: ThreadId) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        let next = waiting.get_mut(&lane).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(&lane);
            if waiting.is_empty() {
                self.idle.notify_all();
            }
        }
        next
    }
}
