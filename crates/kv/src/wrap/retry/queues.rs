//! Batches that were submitted and may have to be repeated, in a queue for each thread.
//!
//! Invariants:
//! - A queue is there while a batch of its thread is under way or waits; one of them is under way at a time.
//! - A queue goes on from the thread that told an outcome, by a loop: however many wait, the stack stays flat.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::{self, ThreadId};

use koine_engine::{Commit, Completer, Result, Ticket};
use parking_lot::{Condvar, Mutex};

use super::{Policy, RetriedBatch, told};
use crate::seam::{Kv, Wait};

/// A batch and who waits for it.
struct QueuedBatch {
    retried: RetriedBatch,
    completer: Completer,
}

pub(super) struct ThreadQueues {
    pub inner: Arc<dyn Kv>,
    pub policy: Arc<Policy>,
    waiting: Mutex<HashMap<ThreadId, VecDeque<QueuedBatch>>>,
    /// Woken when the last queue ends.
    idle: Condvar,
}

impl ThreadQueues {
    pub fn new(inner: Arc<dyn Kv>, policy: Policy) -> ThreadQueues {
        ThreadQueues { inner, policy: Arc::new(policy), waiting: Mutex::default(), idle: Condvar::new() }
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
    pub fn submit(this: &Arc<ThreadQueues>, retried: RetriedBatch) -> Ticket {
        let (ticket, completer) = Ticket::new();
        let job = QueuedBatch { retried, completer };
        let queue = thread::current().id();
        {
            let mut waiting = this.waiting.lock();
            if let Some(queue) = waiting.get_mut(&queue) {
                queue.push_back(job);
                return ticket;
            }
            waiting.insert(queue, VecDeque::new());
        }
        ThreadQueues::run(this, queue, job);
        ticket
    }

    /// Works on a queue until a batch's outcome is not there at once.
    fn run(this: &Arc<ThreadQueues>, queue: ThreadId, mut job: QueuedBatch) {
        loop {
            let outcome = match this.attempt(&mut job.retried) {
                Err(error) => Err(error),
                Ok(ticket) => match ticket.peek() {
                    Some(outcome) => outcome,
                    None => {
                        let this = Arc::clone(this);
                        ticket.on_done(move |outcome| {
                            if let Some(next) = ThreadQueues::settle(&this, queue, job, outcome) {
                                ThreadQueues::run(&this, queue, next);
                            }
                        });
                        return;
                    }
                },
            };
            match ThreadQueues::settle(this, queue, job, outcome) {
                Some(next) => job = next,
                None => return,
            }
        }
    }

    fn attempt(&self, retried: &mut RetriedBatch) -> Result<Ticket> {
        let durability = retried.durability;
        let batch = retried.next_attempt(&*self.inner)?;
        Ok(self.inner.submit(batch, durability, Wait::Never))
    }

    /// Tells an outcome, or lets the batch be tried again after a pause; gives the next of the queue.
    fn settle(
        this: &Arc<ThreadQueues>,
        queue: ThreadId,
        job: QueuedBatch,
        outcome: Result<Commit>,
    ) -> Option<QueuedBatch> {
        let outcome = match outcome {
            Ok(commit) => Ok(job.retried.seen(commit)),
            Err(error) => match this.policy.again(&error, job.retried.attempt) {
                Some(pause) => {
                    let queues = Arc::clone(this);
                    let again = move || {
                        queues.policy.clock.sleep(pause);
                        ThreadQueues::run(&queues, queue, job);
                    };
                    let begun = thread::Builder::new().name("koine-retry".into()).spawn(again);
                    // Without a thread the completer went with the closure: its waiter hears that the store stopped.
                    return if begun.is_ok() { None } else { this.next(queue) };
                }
                None => Err(told(error, job.retried.attempt)),
            },
        };
        job.completer.complete(outcome);
        this.next(queue)
    }

    fn next(&self, queue: ThreadId) -> Option<QueuedBatch> {
        let mut waiting = self.waiting.lock();
        let next = waiting.get_mut(&queue).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(&queue);
            if waiting.is_empty() {
                self.idle.notify_all();
            }
        }
        next
    }
}
