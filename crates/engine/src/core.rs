//! What all parts of an open store share.
//!
//! Locks, in the order in which they may be taken together: `turn`, `book`, `head`, `pins`, `reuse`. The allocator's
//! groups, `visible` and the queues of watchers are leaves: nothing is taken while they are held.
//!
//! Invariants:
//! - `head` is the sequenced state: what the next commit builds on. `visible` is what views see; it follows.
//! - After a failed write or sync the store is stopped: nothing more is written, everything waiting fails.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, RwLock};

use crate::address::BlockRange;
use crate::apply::{Applied, Counters, Edition, State};
use crate::batch::{Commit, Durability, Place, Version};
use crate::buffers::Buffers;
use crate::changes::{ChangeSet, Changes, Watchers};
use crate::checkpoint::Book;
use crate::crew::Crew;
use crate::data_cache::DataCache;
use crate::device::{AlignedBuffer, Device, Process, Writing};
use crate::engine::Background;
use crate::error::{Error, ErrorKind, Result};
use crate::extent::Extent;
use crate::filter::Filters;
use crate::limits::Limits;
use crate::lock::Mutex;
use crate::log::longest::Longest;
use crate::log::record::Step;
use crate::log::ring::{Position, Ring};
use crate::node_cache::NodeCache;
use crate::promise::Promises;
use crate::read_ahead::Readers;
use crate::requests::Requests;
use crate::space::{Allocator, Class, ReuseQueue, Spot};
use crate::staging::Staged;
use crate::ticket::{Completer, Ticket};
use crate::tree::{StoreId, Weight};
use crate::view::Pins;

/// A change of the set of blocks that the state needs, in the order of commits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delta {
    /// The state names these blocks from now on.
    Use(BlockRange),
    /// The state needs these blocks no more.
    Free(BlockRange),
}

/// A submit on its way to the ring.
pub(crate) struct Item {
    /// The record; none where only an outcome waits for what stands before it.
    pub record: Option<Vec<u8>>,
    pub state: State,
    pub durability: Durability,
    pub outcome: Result<Commit>,
    /// None once the outcome was told.
    pub completer: Option<Completer>,
    pub changes: ChangeSet,
}

/// What is left of a commit that was told: nobody reads it, but taking it down takes time.
pub(crate) struct Past {
    _record: Option<Vec<u8>>,
    _state: State,
    _changes: ChangeSet,
}

impl Past {
    /// A state that nobody sees any more.
    pub fn of(state: State) -> Past {
        Past { _record: None, _state: state, _changes: ChangeSet::default() }
    }
}

/// Where the log stands after a group, and the state there: a checkpoint may cut here.
#[derive(Clone)]
pub(crate) struct Cut {
    pub state: State,
    pub position: Position,
    pub chain: u64,
    pub counters: Counters,
    /// What of the state that this cut covers has no place yet.
    pub dirty: Weight,
}

/// A group of one block to which records may be added: it is written anew, in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenGroup {
    pub position: Position,
    pub first: Version,
    pub records: u32,
    pub payload_len: usize,
    /// The checksum of the group before.
    pub previous: u64,
}

/// The newest sequenced state and what waits to be written.
pub(crate) struct Head {
    pub state: State,
    pub counters: Counters,
    pub requests: Requests,
    pub changes: Changes,
    pub queue: VecDeque<Item>,
    pub queue_len: usize,
    /// Items queued or in flight whose outcome was not told: what they wait for is not visible yet.
    pub untold: usize,
    /// Somebody writes a group; who wants to write the next waits until it is done.
    pub in_flight: bool,
    /// A place whose new data is written beside the group that names it, of which the record is the first, and that data:
    /// until it is there, neither a checkpoint nor a commit may need it.
    pub unwritten: Option<(Place, Arc<Staged>)>,
    /// The last group, while more may be added to it (see `writer`).
    pub open: Option<OpenGroup>,
    /// Memory for groups; the last group's bytes while that is open. Away while a group is written.
    pub group_buffer: Option<AlignedBuffer>,
    /// The writer looks again soon, whether it is woken or not.
    pub writer_armed: bool,
    pub deltas: Vec<(Version, Delta)>,
    /// Those of commits that are not the newest: what a checkpoint under way has written and they had replaced before.
    pub late_deltas: Vec<(Version, Delta)>,
    /// What has to stay in memory until a checkpoint has placed it.
    pub dirty: Weight,
    /// A checkpoint begins above this.
    pub table: Weight,
    /// The cut of the checkpoint under way; zero when there is none.
    pub frozen: Version,
    /// Where the log stands after the last group that was built.
    pub sealed: Cut,
    /// The ring is needed from here on (by the older superblock).
    pub tail: Position,
    /// The cut of the newest superblock.
    pub cut_at: Position,
    /// The highest log number known durable.
    pub flushed: Version,
    /// Log numbers up to here may be given out.
    pub reserve: Version,
    /// Bytes written since the last sync.
    pub unflushed_len: u64,
    /// Somebody waits for a checkpoint.
    pub checkpoint_wanted: bool,
    /// Checkpoints finished since the store was opened.
    pub checkpoints: u64,
    /// The last checkpoint found no room.
    pub checkpoint_full: bool,
    pub closing: bool,
}

impl Head {
    /// Takes the changes up to a commit; they are in order once sorted by it.
    pub fn take_deltas(&mut self, up_to: Version) -> Vec<(Version, Delta)> {
        let rest = self.deltas.split_off(self.deltas.partition_point(|(of, _)| *of <= up_to));
        let mut taken = std::mem::replace(&mut self.deltas, rest);
        taken.extend(self.late_deltas.extract_if(.., |(of, _)| *of <= up_to));
        taken
    }

    /// A node has left the newest state before it was written.
    fn forget(&mut self, (weight, born): (Weight, Version)) {
        // What a checkpoint under way writes stays until it has ended.
        if born <= self.frozen {
            return;
        }
        self.dirty = self.dirty.without(weight);
        if born <= self.sealed.state.version {
            self.sealed.dirty = self.sealed.dirty.without(weight);
        }
    }
}

pub(crate) struct Reuse {
    pub queue: ReuseQueue,
    /// Both superblocks hold the commits up to here.
    pub safe: Version,
    /// Blocks that only views hold back, as of the last look.
    pub held: u64,
}

impl Reuse {
    /// Blocks that checkpoints would make reusable.
    pub fn waits_for_checkpoint(&self) -> u64 {
        self.queue.blocks().saturating_sub(self.held)
    }
}

/// An open store.
pub struct Core {
    /// Whose it is; a forked copy does nothing.
    pub(crate) process: Process,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) allocator: Allocator,
    pub(crate) limits: Limits,
    pub(crate) nodes: NodeCache,
    pub(crate) store: StoreId,
    pub(crate) epoch: u64,
    pub(crate) ring: Ring,
    pub(crate) background: Background,
    /// Who writes and reads for streams.
    pub(crate) crew: Crew,
    /// What streams write from and read into.
    pub(crate) buffers: Arc<Buffers>,
    /// Data that was written or read lately.
    pub(crate) data: DataCache,
    /// Who has some of them to read ahead.
    pub(crate) readers: Readers,
    pub(crate) read_only: bool,
    pub(crate) reuse_at_once: bool,
    /// Whether freed blocks are given back to the medium before they are used again.
    pub(crate) discards: AtomicBool,
    pub(crate) book: Mutex<Book>,
    pub(crate) head: Mutex<Head>,
    /// Whose turn it is to have a commit written that nobody syncs; nothing of it is guarded.
    pub(crate) turn: Mutex<()>,
    pub(crate) longest: Longest,
    /// The writer has something to do.
    pub(crate) work: Condvar,
    /// The checkpointer has something to do.
    pub(crate) checkpoint_work: Condvar,
    /// Something was dropped.
    pub(crate) reap_work: Condvar,
    /// Room has come free, or the store has stopped.
    pub(crate) room: Condvar,
    pub(crate) visible: RwLock<State>,
    pub(crate) pins: Mutex<Pins>,
    /// What commits have left, to be taken down; it may hold leases.
    pub(crate) past: Mutex<Vec<Past>>,
    pub(crate) reuse: Mutex<Reuse>,
    pub(crate) watchers: Watchers,
    pub(crate) promises: Promises,
    /// Which keys are there.
    pub(crate) filters: Filters,
    pub(crate) stages: AtomicU64,
    /// Cloned by each finished stage that keeps its bytes until it is committed: so they are counted.
    pub(crate) kept: Arc<()>,
    /// The store may grow to find room that is aligned (see `grow`).
    pub(crate) grows_for_units: AtomicBool,
    /// Whether it was closed: what is still pinned cannot be read any more.
    pub(crate) closed: AtomicBool,
    /// Whether there is a `failure`.
    pub(crate) failed: AtomicBool,
    pub(crate) failure: Mutex<Option<Error>>,
}

impl Item {
    /// Tells its own outcome, if it was not told yet. What is left of it may be dropped anywhere.
    pub fn told(self) -> Past {
        if let Some(completer) = self.completer {
            completer.complete(self.outcome);
        }
        Past { _record: self.record, _state: self.state, _changes: self.changes }
    }

    /// Tells an outcome, once.
    pub fn tell(&mut self, outcome: Result<Commit>) {
        if let Some(completer) = self.completer.take() {
            completer.complete(outcome);
        }
    }
}

impl Core {
    /// The number of a new stage.
    pub(crate) fn next_stage(&self) -> u64 {
        self.stages.fetch_add(1, Ordering::Relaxed)
    }

    /// Leaves what is over to who submits next: memory goes back where it came from, and an allocator that keeps memory
    /// by thread need not make two threads wait for each other.
    pub(crate) fn leave_past(&self, mut past: Vec<Past>) {
        let mut waiting = self.past.lock();
        if waiting.len() + past.len() <= self.limits.past_max {
            waiting.append(&mut past);
        }
        drop(waiting);
        drop(past);
    }

    /// Takes down what is over.
    pub(crate) fn drop_past(&self) {
        let past = std::mem::take(&mut *self.past.lock());
        drop(past);
    }

    /// Fails when the store has stopped.
    pub(crate) fn check_running(&self) -> Result<()> {
        self.process.check()?;
        // Raised before anything that follows from the failure can be seen, and never lowered.
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    /// Fails when the store has stopped, or was opened to read only.
    pub(crate) fn check_takes_writes(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::invalid("the store was opened to read only"));
        }
        self.check_running()
    }

    /// A write or sync failed: nothing more is written until the store is opened again.
    pub(crate) fn fail(&self, cause: &Error) {
        if !self.process.is_here() {
            return;
        }
        let mut failure = self.failure.lock();
        if failure.is_none() && cause.kind() == ErrorKind::Stopped {
            *failure = Some(cause.clone());
        } else if failure.is_none() {
            let message = format!("the store takes no more writes since an earlier failure; open it again ({cause})");
            *failure = Some(Error::new(ErrorKind::Stopped, message));
        }
        self.failed.store(true, Ordering::Release);
        drop(failure);
        self.work.notify_all();
        self.checkpoint_work.notify_all();
        self.reap_work.notify_all();
        self.room.notify_all();
        self.watchers.close();
    }

    /// Writes to the device; a failure stops the store.
    pub(crate) fn write(&self, data: &[u8], offset: u64) -> Result<()> {
        self.check_running()?;
        self.device.write_at(data, offset).map_err(|e| self.failed_write(data.len(), offset, e))
    }

    /// Writes to the device, through its cache; a failure stops the store.
    pub(crate) fn write_cached(&self, data: &[u8], offset: u64) -> Result<()> {
        self.check_running()?;
        self.device.write_cached(data, offset).map_err(|e| self.failed_write(data.len(), offset, e))
    }

    /// Begins to write to the device; `end_write` tells what became of it.
    pub(crate) fn begin_write(&self, buffer: AlignedBuffer, offset: u64) -> Writing {
        self.device.begin_write(buffer, offset)
    }

    /// The same for nodes and values, which are read through the page cache.
    pub(crate) fn begin_data(&self, buffer: AlignedBuffer, offset: u64) -> Result<Writing> {
        self.check_running()?;
        Ok(self.device.begin_data(buffer, offset))
    }

    /// Waits for a write that was begun, and gives its memory back; a failure stops the store.
    pub(crate) fn end_write(&self, writing: Writing, offset: u64) -> Result<AlignedBuffer> {
        let (buffer, outcome) = writing.wait();
        match outcome {
            Ok(()) => Ok(buffer),
            Err(error) => Err(self.failed_write(buffer.len(), offset, error)),
        }
    }

    fn failed_write(&self, length: usize, offset: u64, cause: std::io::Error) -> Error {
        let error = Error::device(format!("cannot write {length} bytes at byte {offset} of the store"), cause);
        self.fail(&error);
        error
    }

    /// Syncs the device; a failure stops the store.
    pub(crate) fn sync_device(&self) -> Result<()> {
        self.check_running()?;
        self.device.sync().map_err(|e| {
            let error = Error::device("cannot make the store's writes durable", e);
            self.fail(&error);
            error
        })
    }

    /// Blocks for new data, waiting for freed ones or growing where that helps.
    pub(crate) fn allocate(self: &Arc<Core>, want: u32, class: Class, spot: Spot) -> Result<BlockRange> {
        self.check_running()?;
        self.grow_for_units(want)?;
        loop {
            if let Some(range) = self.allocator.allocate(want, class, spot) {
                return Ok(range);
            }
            let made = self.make_room(u64::from(want));
            if class == Class::Promised
                && let Some(range) = self.allocator.allocate(want, class, spot)
            {
                // There is room for nobody else.
                return Ok(range);
            }
            made?;
        }
    }

    /// Gives the blocks of a stage back that no commit named.
    pub(crate) fn abandon(self: &Arc<Core>, id: u64, spilled: u64, extents: &[Extent]) {
        if !self.process.is_here() {
            return;
        }
        for extent in extents {
            let range = extent.blocks();
            if let Err(error) = self.allocator.release(range.start, u64::from(range.count)) {
                self.fail(&error);
            }
        }
        if spilled > 0 {
            // Nobody waits for this: a crash before it is durable ends the stage just as well.
            drop(self.submit_step(Step::StageDrop { stage: id }, Durability::Written));
        }
    }

    /// Submits a step of the engine's own.
    pub(crate) fn submit_step(self: &Arc<Core>, step: Step, durability: Durability) -> Ticket {
        let (ticket, completer) = self.new_ticket();
        self.sequence(&[], vec![step], None, durability, completer);
        ticket
    }

    /// A ticket that does the work itself where nothing else does.
    pub(crate) fn new_ticket(self: &Arc<Core>) -> (Ticket, Completer) {
        let (ticket, completer) = Ticket::new();
        if self.background == Background::Threads {
            return (ticket, completer);
        }
        let core = Arc::clone(self);
        let ticket = ticket.with_driver(Arc::new(move || {
            // A failure completes every ticket, so that waiting ends.
            let _ = core.write_group();
        }));
        (ticket, completer)
    }

    /// A working copy of the newest state for a commit.
    pub(crate) fn edition(&self, head: &Head, version: Version) -> Edition<'_> {
        let (nodes, device, filters) = (&self.nodes, self.device.as_ref(), &self.filters);
        Edition::new(&head.state, version, head.counters, &self.limits, nodes, device, filters)
    }

    /// Makes an applied commit the newest state.
    pub(crate) fn install(&self, head: &mut Head, applied: Applied) {
        let version = applied.state.version;
        for range in applied.allocated {
            head.deltas.push((version, Delta::Use(range)));
        }
        let mut freed = applied.freed;
        let values =
            Weight { memory_len: applied.bytes_in_memory, device_len: applied.bytes_in_memory, ..Weight::default() };
        head.dirty = (head.dirty + applied.gained + values).without(applied.lost);
        self.keep_for_table(head);
        for replaced in &applied.replaced {
            match replaced.release(version) {
                Some(at) => freed.push(at.range()),
                None => head.forget(replaced.weight()),
            }
        }
        freed.extend(applied.retired.iter().filter_map(|p| p.fate.replace(version)).map(|extent| extent.blocks()));
        self.free(head, version, freed);
        head.changes.push(version, &applied.changes);
        self.filters.apply(version, &applied.membership);
        if applied.buried {
            self.reap_work.notify_one();
        }
        head.counters = applied.counters;
        head.state = applied.state;
    }

    /// Commit `by` needs these blocks no more.
    pub(crate) fn free(&self, head: &mut Head, by: Version, freed: Vec<BlockRange>) {
        if freed.is_empty() {
            return;
        }
        let is_late = head.deltas.last().is_some_and(|(version, _)| *version > by);
        let deltas = if is_late { &mut head.late_deltas } else { &mut head.deltas };
        deltas.extend(freed.iter().map(|range| (by, Delta::Free(*range))));
        if self.reuse_at_once {
            let release = |range: BlockRange| self.allocator.release(range.start, u64::from(range.count));
            return freed.into_iter().for_each(|range| drop(release(range)));
        }
        let mut reuse = self.reuse.lock();
        freed.into_iter().for_each(|range| reuse.queue.push(by, range));
    }

    /// Gives blocks back to the writers that nothing can need any more.
    pub(crate) fn release_reusable(&self) -> Result<()> {
        // It may hold leases.
        self.drop_past();
        let ranges = {
            // A view that begins after this sees what is visible now, or newer.
            let pins = self.pins.lock();
            let seen = pins.oldest().unwrap_or(self.visible.read().version);
            let mut reuse = self.reuse.lock();
            let safe = reuse.safe.min(seen);
            let ranges = reuse.queue.take(safe, self.nodes.leases());
            reuse.held = reuse.queue.blocks_up_to(reuse.safe);
            ranges
        };
        self.discard_freed(&ranges)?;
        for range in ranges {
            self.allocator.release(range.start, u64::from(range.count))?;
        }
        Ok(())
    }
}
