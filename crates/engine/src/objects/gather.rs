//! Creations and deletions for which memory is enough, gathered and submitted by a thread of their own.
//!
//! One commit for thousands of them, sorted, writes each node of the index once, where a commit for each would copy it
//! every time; and whoever creates or deletes has not to wait for it.
//!
//! Locks, in the order in which they may be taken together: a node's, `turn`, a shard of the table, `open`.
//!
//! Invariants:
//! - Who holds `turn` has taken out of `open` everything older than what it submits, and submits it in the order of
//!   calls; so whoever has had the turn once may submit what follows. No commit holds a part of a later one.
//! - Who gathers holds the lock of the object's shard, where the table notes it: the table is right with every operation
//!   that was gathered, and no operation is settled before it was noted.
//! - Whoever waits for one of them submits them all. Nothing is gathered for longer than [`DELAY`] while the
//!   thread keeps up; when it does not, those who gather do its work from [`QUEUE_MAX`] operations on.
//! - Where there is no room for a commit, what it deletes is deleted, and what it creates as far as it goes; what
//!   was not created is out of the count again, and from then on creations ask one by one until one succeeds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::{Condvar, Mutex};

use super::layout::{SPACE, Setting};
use super::pending::Pending;
use super::table::Table;
use crate::batch::{BATCH_OPERATIONS_MAX, Batch, Durability, Operation, Payload, Place};
use crate::engine::{Background, Engine};
use crate::error::{Error, ErrorKind, Result};
use crate::ticket::Ticket;

/// How many operations wait at most.
const QUEUE_MAX: usize = 64 << 10;
/// With so many the thread is woken.
const WAKE_AT: usize = 2048;
/// How long the first of them waits otherwise.
const DELAY: Duration = Duration::from_millis(10);
/// How many one commit takes at most: with what counts them, no more than a batch may hold.
const COMMIT_MAX: usize = 24_576;
const _: () = assert!(COMMIT_MAX < BATCH_OPERATIONS_MAX);
/// A commit that finds no room is tried again in parts of so many.
const RETRY: usize = 64;
/// More than one of them takes in the log.
const OPERATION_LEN: usize = 64;
/// A commit needs at most one free block of so many.
const ROOM_SHARE: u64 = 2;
/// With so many free blocks a store that was full has room again.
const ROOM: u64 = 512;

/// A creation or a deletion.
#[derive(Clone, Copy, Debug)]
pub struct Gathered {
    /// Of this object.
    pub number: u64,
    /// Whether it creates; else it deletes.
    pub creates: bool,
}

/// What is gathered at the moment.
#[derive(Default)]
struct Open {
    operations: Vec<Gathered>,
    pending: Option<Arc<Pending>>,
    /// What was taken to be submitted last.
    last: Option<Arc<Pending>>,
    /// The thread waits for the first operation.
    idle: bool,
    stopped: bool,
}

/// What whoever submits needs.
#[derive(Default)]
struct Turn {
    /// Memory for what is gathered next.
    spare: Vec<Gathered>,
    /// What was submitted and is not known to be visible, oldest first.
    unseen: VecDeque<(Arc<Pending>, Vec<Gathered>)>,
}

/// What is to be done once no lock is held.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Nothing,
    /// Wake the thread.
    Wake,
    /// Submit what is gathered.
    Flush,
}

/// What became of what was gathered.
#[derive(Default)]
struct Submitted {
    last: Option<Ticket>,
    refused: Vec<u64>,
    why: Option<Error>,
}

/// Gathers for one store.
pub struct Gather {
    me: Weak<Gather>,
    engine: Arc<Engine>,
    table: Arc<Table>,
    count: AtomicU64,
    /// The last creations found no room.
    full: AtomicBool,
    turn: Mutex<Turn>,
    open: Mutex<Open>,
    work: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Gather {
    /// For an engine without objects.
    pub fn new(engine: Arc<Engine>, table: Arc<Table>) -> Arc<Gather> {
        Arc::new_cyclic(|me| Gather {
            me: Weak::clone(me),
            engine,
            table,
            count: AtomicU64::new(0),
            full: AtomicBool::new(false),
            turn: Mutex::default(),
            open: Mutex::default(),
            work: Condvar::new(),
            thread: Mutex::new(None),
        })
    }

    /// Starts the thread that submits.
    pub fn start(self: &Arc<Gather>) -> Result<()> {
        if self.is_manual() {
            return Ok(());
        }
        let gather = Arc::clone(self);
        let thread = std::thread::Builder::new().name("koine-objects".into()).spawn(move || gather.run());
        *self.thread.lock() = Some(thread.map_err(|e| Error::device("cannot start a thread", e))?);
        Ok(())
    }

    fn is_manual(&self) -> bool {
        self.engine.shared().background == Background::Manual
    }

    /// How many objects there are, with what is gathered.
    pub fn count(&self) -> &AtomicU64 {
        &self.count
    }

    /// Whether creations are to be submitted one by one, so that who creates learns whether there was room.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// There was room for a creation that was submitted alone.
    pub fn note_room(&self) {
        if self.is_full() && self.engine.shared().allocator.free_blocks() >= ROOM {
            self.full.store(false, Ordering::Relaxed);
        }
    }

    /// Fails when nothing may be gathered.
    pub fn check(&self) -> Result<()> {
        self.engine.shared().check_takes_writes()
    }

    /// Adds the creation (or deletion) of one object, whose shard of the table the caller has locked.
    pub fn push(&self, number: u64, creates: bool) -> (Arc<Pending>, Next) {
        let mut open = self.open.lock();
        open.operations.push(Gathered { number, creates });
        let next = match open.operations.len() {
            QUEUE_MAX.. => Next::Flush,
            COMMIT_MAX.. if self.is_manual() => Next::Flush,
            WAKE_AT => Next::Wake,
            _ if open.idle => {
                open.idle = false;
                Next::Wake
            }
            _ => Next::Nothing,
        };
        (Arc::clone(open.pending.get_or_insert_with(|| Arc::new(Pending::gathered(&self.me)))), next)
    }

    /// Does what `push` asked for.
    pub fn after(&self, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Wake => drop(self.work.notify_one()),
            Next::Flush => self.flush(),
        }
    }

    /// What was gathered last.
    pub fn latest(&self) -> Option<Arc<Pending>> {
        let open = self.open.lock();
        open.pending.as_ref().or(open.last.as_ref()).cloned()
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
        self.submit_open(&mut self.turn.lock());
    }

    /// Submits this, if it is still gathered; returns once it was submitted.
    pub fn flush_with(&self, pending: &Pending) {
        let mut turn = self.turn.lock();
        let is_open = self.open.lock().pending.as_ref().is_some_and(|of| std::ptr::eq(Arc::as_ptr(of), pending));
        if is_open {
            self.submit_open(&mut turn);
        }
    }

    /// Submits what was gathered; nothing is gathered any more.
    pub fn stop(&self) {
        self.flush();
        self.open.lock().stopped = true;
        self.work.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ended = thread.join();
        }
    }

    fn submit_open(&self, turn: &mut Turn) {
        let taken = {
            let mut open = self.open.lock();
            open.pending.take().map(|pending| {
                open.last = Some(Arc::clone(&pending));
                (pending, std::mem::replace(&mut open.operations, std::mem::take(&mut turn.spare)))
            })
        };
        if let Some((pending, operations)) = taken {
            self.submit_all(&operations, &pending);
            turn.unseen.push_back((pending, operations));
        }
        self.settle(turn);
    }

    /// The table may forget what is visible, or has failed.
    fn settle(&self, turn: &mut Turn) {
        while let Some((pending, _)) = turn.unseen.front()
            && pending.is_settled()
            && let Some((pending, mut operations)) = turn.unseen.pop_front()
        {
            self.table.settle_gathered(&operations, &pending);
            operations.clear();
            if operations.capacity() > turn.spare.capacity() {
                turn.spare = operations;
            }
        }
    }

    fn submit_all(&self, operations: &[Gathered], pending: &Pending) {
        let (mut done, mut rest) = (Submitted::default(), operations);
        while !rest.is_empty() {
            let (part, after) = rest.split_at(self.commit_len(rest));
            self.submit_part(part, &mut done);
            rest = after;
        }
        done.refused.sort_unstable();
        pending.submitted(done.last, done.why.map(|why| (done.refused, why)));
    }

    /// How many of these one commit takes: as the log allows, and no more creations than there surely is room for, so
    /// that no store grows, and none is refused, for many together.
    fn commit_len(&self, operations: &[Gathered]) -> usize {
        let core = self.engine.shared();
        let most = operations.len().min(COMMIT_MAX).min(core.limits.group_len_max / OPERATION_LEN).max(1);
        let room = usize::try_from(core.allocator.free_blocks() / ROOM_SHARE).unwrap_or(COMMIT_MAX).max(RETRY);
        let mut creations = operations.iter().take(most).enumerate().filter(|(_, gathered)| gathered.creates);
        creations.nth(room).map_or(most, |(at, _)| at)
    }

    fn submit_part(&self, part: &[Gathered], done: &mut Submitted) {
        let of = |creates| {
            let wanted = part.iter().filter(|gathered| gathered.creates == creates);
            let mut numbers: Vec<u64> = wanted.map(|gathered| gathered.number).collect();
            numbers.sort_unstable();
            numbers
        };
        let (mut created, mut deleted) = (of(true), of(false));
        if !created.is_empty() && !deleted.is_empty() {
            // What is gone already was never there for anybody else.
            let both: Vec<u64> =
                deleted.iter().filter(|number| created.binary_search(number).is_ok()).copied().collect();
            created.retain(|number| both.binary_search(number).is_err());
            deleted.retain(|number| both.binary_search(number).is_err());
        }
        match self.try_submit(&created, &deleted, done) {
            Some(error) if error.kind() == ErrorKind::Full && !created.is_empty() => {
                if let Some(error) = self.try_submit(&[], &deleted, done) {
                    self.fail(&[], &deleted, error, done);
                }
                let mut full = None;
                for some in created.chunks(RETRY) {
                    full = full.or_else(|| self.try_submit(some, &[], done));
                    if let Some(error) = &full {
                        self.fail(some, &[], error.clone(), done);
                    }
                }
                self.full.store(full.is_some(), Ordering::Relaxed);
            }
            Some(error) => self.fail(&created, &deleted, error, done),
            None => {}
        }
    }

    /// Submits one commit; gives what is wrong with it at once.
    fn try_submit(&self, created: &[u64], deleted: &[u64], done: &mut Submitted) -> Option<Error> {
        if created.is_empty() && deleted.is_empty() {
            return None;
        }
        let ticket = self.engine.submit(batch_of(created, deleted), Durability::Memory);
        match ticket.peek() {
            Some(Err(error)) => Some(error),
            _ => {
                // After a failure of the store there is no later success to hide it.
                if !done.last.as_ref().is_some_and(|last| matches!(last.peek(), Some(Err(_)))) {
                    done.last = Some(ticket);
                }
                None
            }
        }
    }

    /// These were not created, and these not deleted. Told by the next call on each of the objects.
    fn fail(&self, created: &[u64], deleted: &[u64], error: Error, done: &mut Submitted) {
        self.count.fetch_sub(created.len() as u64, Ordering::SeqCst);
        self.count.fetch_add(deleted.len() as u64, Ordering::SeqCst);
        if !deleted.is_empty() {
            // Nothing keeps a store from deleting but the end of it.
            done.last = Some(Ticket::ready(Err(error.clone())));
        }
        done.refused.extend_from_slice(created);
        done.why.get_or_insert(error);
    }

    fn run(&self) {
        let mut open = self.open.lock();
        while !open.stopped {
            if open.pending.is_none() {
                open.idle = true;
                self.work.wait(&mut open);
                continue;
            }
            open.idle = false;
            // Woken when there are enough; somebody else may have submitted them meanwhile.
            if open.operations.len() < WAKE_AT && !self.work.wait_for(&mut open, DELAY).timed_out() {
                continue;
            }
            drop(open);
            self.flush();
            open = self.open.lock();
        }
    }
}

/// One commit that creates these objects, without a byte, and deletes those.
fn batch_of(created: &[u64], deleted: &[u64]) -> Batch {
    let mut keys = BytesMut::with_capacity((created.len() + deleted.len()) * 8);
    created.iter().chain(deleted).for_each(|number| keys.extend_from_slice(&number.to_be_bytes()));
    let keys = keys.freeze();
    let place = |index: usize| Place { space: SPACE, key: keys.slice(index * 8..(index + 1) * 8) };
    let mut batch = Batch::new();
    batch.operations.reserve_exact(created.len() + deleted.len() + 1);
    let puts = (0..created.len()).map(|index| Operation::Put { at: place(index), value: Payload::Bytes(Bytes::new()) });
    batch.operations.extend(puts);
    let deletes = (created.len()..created.len() + deleted.len()).map(|index| Operation::Delete { at: place(index) });
    batch.operations.extend(deletes);
    let delta = created.len() as i64 - deleted.len() as i64;
    batch.operations.push(Operation::AddCounter { at: Setting::Count.place(), delta });
    batch
}
