//! Creations, deletions and writes for which memory is enough, gathered and submitted by a thread of their own.
//!
//! One commit for thousands of them, sorted, writes each node of the index once, where a commit for each would copy it
//! every time; writes of one object become long ones; and who creates, deletes or writes has not to wait for it.
//!
//! Locks, in the order in which they may be taken together: a node's, `turn`, `gate`, a shard of the table, an object's
//! writes, `open`.
//!
//! Invariants:
//! - Who holds `turn` has taken out of `open` everything older than what it submits, and submits it in the order of
//!   calls; so whoever has had the turn once may submit what follows. No commit holds a part of a later one.
//! - What is gathered with writes is one commit from the first write on, whatever the order in it: nobody finds a later
//!   call done and an earlier one not, also after a crash.
//! - Who gathers a creation or deletion holds the lock of the object's shard, where the table notes it: the table is right
//!   with every operation that was gathered, and no operation is settled before it was noted.
//! - Whoever waits for one of them submits them all. Nothing is gathered for longer than [`DELAY`] while the thread keeps
//!   up ([`WRITE_DELAY`] with writes); when it does not, those who gather do its work, from [`QUEUE_MAX`] operations
//!   on and where writes take their budget.
//! - Where there is no room for a commit, what it deletes is deleted, and what it creates as far as it goes; what
//!   was not created is out of the count again, and from then on creations ask one by one until one succeeds. Writes are
//!   gathered only where there is room; where that is gone meanwhile they are lost, and the object's next call, the
//!   store's next sync and its closing tell.

mod submit;
mod writes;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

use super::node::Node;
use super::pending::Pending;
use super::table::Table;
use super::write_behind::{Budget, Verdict};
use crate::batch::{Batch, Durability};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::Background;
use crate::ticket::Ticket;
use crate::usage::Usage;
use submit::{COMMIT_MAX, Set, WITH_WRITES_MAX};

/// How many operations wait at most.
const QUEUE_MAX: usize = 64 << 10;
/// With so many the thread is woken.
const WAKE_AT: usize = 2048;
/// How long the first of them waits otherwise.
const DELAY: Duration = Duration::from_millis(10);
/// How long the first write waits: others may come to its neighbourhood.
const WRITE_DELAY: Duration = Duration::from_millis(500);
/// Memory for writes that nobody used for so long is given back: getting it anew costs more than filling it.
const MEMORY_DELAY: Duration = Duration::from_secs(10);
/// Of a store's length one part of so many is left to checkpoints when writes are gathered, …
const SLACK_SHARE: u64 = 8;
/// … and at most so much.
const SLACK_LEN_MAX: u64 = 64 << 20;
/// With so many free blocks a store that was full has room again.
const ROOM: u64 = 512;

/// A creation or a deletion.
#[derive(Clone, Copy, Debug)]
pub struct Buffered {
    /// Of this object.
    pub number: u64,
    /// Whether it creates; else it deletes.
    pub creates: bool,
}

/// What is gathered at the moment.
#[derive(Default)]
struct Open {
    operations: Vec<Buffered>,
    /// Objects with writes.
    nodes: Vec<Arc<Node>>,
    /// How many operations there were at the first write.
    before_writes: usize,
    pending: Option<Arc<Pending>>,
    /// When the first came.
    since: Option<Instant>,
    /// It is to be submitted at once.
    urgent: bool,
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
    spare: Vec<Buffered>,
    /// What was submitted and is not known to be visible, oldest first.
    unseen: VecDeque<(Arc<Pending>, Vec<Buffered>)>,
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
    /// Submit what is gathered, unless somebody did.
    FlushWrites,
}

/// Gathers for one store.
pub struct WriteBuffer {
    me: Weak<WriteBuffer>,
    engine: Arc<Engine>,
    table: Arc<Table>,
    /// Where the store's file is, if it has one of its own.
    path: Option<PathBuf>,
    count: AtomicU64,
    /// The last creations found no room.
    full: AtomicBool,
    budget: Budget,
    turn: Mutex<Turn>,
    /// Writers share it; who takes what was written has it alone.
    gate: RwLock<()>,
    open: Mutex<Open>,
    work: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Why writes were lost, until somebody was told who asked for all.
    lost: Mutex<Option<Error>>,
}

impl WriteBuffer {
    /// For an engine without objects.
    pub fn new(engine: Arc<Engine>, table: Arc<Table>, path: Option<PathBuf>) -> Arc<WriteBuffer> {
        let limits = *engine.limits();
        Arc::new_cyclic(|me| WriteBuffer {
            me: Weak::clone(me),
            engine,
            table,
            path,
            count: AtomicU64::new(0),
            full: AtomicBool::new(false),
            budget: Budget::new(limits.memory_len, limits.group_len_max / 2),
            turn: Mutex::default(),
            gate: RwLock::new(()),
            open: Mutex::default(),
            work: Condvar::new(),
            thread: Mutex::new(None),
            lost: Mutex::new(None),
        })
    }

    /// Starts the thread that submits.
    pub fn start(self: &Arc<WriteBuffer>) -> Result<()> {
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

    /// How many bytes the device has room for, with what it can grow.
    pub fn room(&self) -> u64 {
        self.room_of(&self.engine.usage())
    }

    /// The same for writes that are to be gathered: without what checkpoints may take meanwhile, and, while one is under
    /// way, without growth, since nobody shall wait for it.
    fn room_for_writes(&self) -> u64 {
        match self.engine.usage_now() {
            Some(usage) => self.room_of(&usage).saturating_sub((usage.total / SLACK_SHARE).min(SLACK_LEN_MAX)),
            None => self.engine.free_len().saturating_sub(SLACK_LEN_MAX),
        }
    }

    fn room_of(&self, usage: &Usage) -> u64 {
        let growth = match usage.limit {
            Some(limit) => limit.saturating_sub(usage.total),
            None => self.path.as_deref().map_or(u64::MAX, room_beside),
        };
        usage.free.saturating_add(growth)
    }

    /// Memory for writes that are gathered, or being submitted, in bytes.
    #[cfg(test)]
    pub fn kept_len(&self) -> usize {
        self.budget.kept()
    }

    /// Fails when nothing may be gathered.
    pub fn check(&self) -> Result<()> {
        self.engine.shared().check_takes_writes()
    }

    /// Adds the creation (or deletion) of one object, whose shard of the table the caller has locked.
    pub fn push(&self, number: u64, creates: bool) -> (Arc<Pending>, Next) {
        let mut open = self.open.lock();
        open.operations.push(Buffered { number, creates });
        let with_writes = if open.nodes.is_empty() { 0 } else { open.operations.len() - open.before_writes };
        let (pending, first) = open.begin(&self.me);
        let next = match open.operations.len() {
            QUEUE_MAX.. => Next::Flush,
            COMMIT_MAX.. if self.is_manual() => Next::Flush,
            _ if with_writes >= WITH_WRITES_MAX => Next::Flush,
            WAKE_AT => open.hurry(),
            _ => first,
        };
        (pending, next)
    }

    /// Gathers the deletion of an object whose node the caller has locked.
    pub fn delete(&self, node: &Node) -> (Arc<Pending>, Next) {
        // What was written to it and the deletion would be in one commit.
        let _gate = self.gate.read();
        node.behind().clear(&self.budget);
        self.table.delete_in_use(node.number(), || self.push(node.number(), false))
    }

    /// Does what `push` asked for.
    pub fn after(&self, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Wake => drop(self.work.notify_one()),
            Next::Flush => self.flush(),
            Next::FlushWrites => {
                let mut turn = self.turn.lock();
                if self.budget.verdict() == Verdict::Flush {
                    self.submit_open(&mut turn);
                }
            }
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

    /// Makes everything so far survive power loss. Tells once when writes were lost.
    pub fn sync(&self) -> Result<()> {
        self.flush();
        self.engine.sync()?;
        self.lost.lock().take().map_or(Ok(()), Err)
    }

    /// Submits what was gathered; nothing is gathered any more. Tells once when writes were lost.
    pub fn stop(&self) -> Result<()> {
        self.flush();
        self.open.lock().stopped = true;
        self.work.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ended = thread.join();
        }
        self.lost.lock().take().map_or(Ok(()), Err)
    }

    fn submit_open(&self, turn: &mut Turn) {
        if let Some((mut set, pending)) = self.take_open(turn) {
            self.submit_set(&mut set, &pending);
            turn.unseen.push_back((pending, set.operations));
        }
        self.settle(turn);
    }

    /// Takes what was gathered up to now.
    fn take_open(&self, turn: &mut Turn) -> Option<(Set, Arc<Pending>)> {
        let _gate = self.gate.write();
        let mut open = self.open.lock();
        let pending = open.pending.take()?;
        open.last = Some(Arc::clone(&pending));
        (open.since, open.urgent) = (None, false);
        let operations = std::mem::replace(&mut open.operations, std::mem::take(&mut turn.spare));
        let nodes = std::mem::take(&mut open.nodes);
        let before_writes = if nodes.is_empty() { operations.len() } else { open.before_writes };
        drop(open);
        self.budget.take();
        let written = nodes.into_iter().filter_map(|node| node.behind().take().map(|taken| (node, taken)));
        Some((Set { operations, before_writes, written: written.collect() }, pending))
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

    fn run(&self) {
        let mut open = self.open.lock();
        while !open.stopped {
            if open.pending.is_none() {
                open.idle = true;
                if self.work.wait_for(&mut open, MEMORY_DELAY).timed_out() && open.pending.is_none() && !open.stopped {
                    self.budget.give_back();
                    self.work.wait(&mut open);
                }
                continue;
            }
            open.idle = false;
            let delay = if open.nodes.is_empty() { DELAY } else { WRITE_DELAY };
            let until = open.since.unwrap_or_else(Instant::now) + delay;
            // Woken when there are enough; somebody else may have submitted them meanwhile.
            if open.urgent || self.work.wait_until(&mut open, until).timed_out() {
                drop(open);
                self.flush();
                open = self.open.lock();
            }
        }
    }
}

impl Open {
    /// What is gathered, begun if nothing is.
    fn begin(&mut self, gather: &Weak<WriteBuffer>) -> (Arc<Pending>, Next) {
        if self.pending.is_none() {
            self.since = Some(Instant::now());
        }
        let pending = Arc::clone(self.pending.get_or_insert_with(|| Arc::new(Pending::gathered(gather))));
        let next = if std::mem::take(&mut self.idle) { Next::Wake } else { Next::Nothing };
        (pending, next)
    }

    /// What is gathered is to be submitted now.
    fn hurry(&mut self) -> Next {
        self.urgent = true;
        Next::Wake
    }
}

/// What the file system of a store's file has left.
fn room_beside(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(u64::MAX, |of| of.f_bavail.saturating_mul(of.f_frsize))
}
