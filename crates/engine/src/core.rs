//! What all parts of an open store share.
//!
//! Locks, in the order in which they may be taken together: `turn`, `checkpointed`, `head`, `pins`, `reuse`. The allocator's
//! groups, `visible` and the queues of watchers are leaves: nothing is taken while they are held.
//!
//! Invariants:
//! - `head` is the sequenced state: what the next commit builds on. `visible` is what views see; it follows.
//! - After a failed write or sync the store is stopped: nothing more is written, everything waiting fails.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, RwLock};

use crate::address::BlockRange;
use crate::allocator::{Allocator, Class, PlacementHint};
use crate::apply::{Applied, WriteTransaction};
use crate::batch::{Durability, Version};
use crate::buffers::Buffers;
use crate::changes::Watchers;
use crate::checkpoint_state::CheckpointState;
use crate::commit_state::{CommitState, DeferredDrop, Delta, Reuse};
use crate::data_cache::DataCache;
use crate::device::{AlignedBuffer, Device, Process, Writing};
use crate::error::{Error, ErrorKind, Result};
use crate::extent::Extent;
use crate::filter::Filters;
use crate::io_pool::IoPool;
use crate::limits::Limits;
use crate::lock::Mutex;
use crate::log::longest::Longest;
use crate::log::record::Step;
use crate::log::ring::Ring;
use crate::node_cache::NodeCache;
use crate::options::Background;
use crate::pins::Pins;
use crate::read_ahead::{Readers, Supply};
use crate::reservations::Reservations;
use crate::staged::StageOwner;
use crate::state::State;
use crate::ticket::{Completer, Ticket};
use crate::tree::{DirtySize, StoreId};

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
    pub(crate) io_pool: IoPool,
    /// What streams write from and read into.
    pub(crate) buffers: Arc<Buffers>,
    /// Data that was written or read lately.
    pub(crate) data: DataCache,
    /// The readers that hold buffers for reading ahead.
    pub(crate) readers: Readers,
    pub(crate) read_only: bool,
    pub(crate) reuse_at_once: bool,
    /// Whether freed blocks are given back to the medium before they are used again.
    pub(crate) discards: AtomicBool,
    pub(crate) checkpointed: Mutex<CheckpointState>,
    pub(crate) head: Mutex<CommitState>,
    /// Threads that wait for unsynced commits take turns with this lock; it guards no data.
    pub(crate) turn: Mutex<()>,
    pub(crate) longest: Longest,
    /// The writer has something to do.
    pub(crate) work: Condvar,
    /// The checkpointer has something to do.
    pub(crate) checkpoint_work: Condvar,
    /// Something was dropped.
    pub(crate) reclaim_work: Condvar,
    /// Room has come free, or the store has stopped.
    pub(crate) room: Condvar,
    pub(crate) visible: RwLock<State>,
    pub(crate) pins: Mutex<Pins>,
    /// What commits have left, to be taken down; it may hold leases.
    pub(crate) past: Mutex<Vec<DeferredDrop>>,
    pub(crate) reuse: Mutex<Reuse>,
    pub(crate) watchers: Watchers,
    pub(crate) reservations: Reservations,
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

impl Core {
    /// The number of a new stage.
    pub(crate) fn next_stage(&self) -> u64 {
        self.stages.fetch_add(1, Ordering::Relaxed)
    }

    /// Leaves states that nobody sees any more to the next submitter, which drops them: memory goes back to the thread that
    /// took it, and an allocator that keeps memory by thread need not make two threads wait for each other.
    pub(crate) fn defer_drop(&self, mut past: Vec<DeferredDrop>) {
        let mut waiting = self.past.lock();
        if waiting.len() + past.len() <= self.limits.deferred_max {
            waiting.append(&mut past);
        }
        drop(waiting);
        drop(past);
    }

    /// Drops the states that were left.
    pub(crate) fn run_deferred_drops(&self) {
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
        self.reclaim_work.notify_all();
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
    pub(crate) fn allocate(
        self: &Arc<Core>,
        want: u32,
        class: Class,
        placement_hint: PlacementHint,
    ) -> Result<BlockRange> {
        self.check_running()?;
        self.grow_for_units(want)?;
        loop {
            if let Some(range) = self.allocator.allocate(want, class, placement_hint) {
                return Ok(range);
            }
            let made = self.make_room(u64::from(want));
            if class == Class::Reserved
                && let Some(range) = self.allocator.allocate(want, class, placement_hint)
            {
                // There is room for nobody else.
                return Ok(range);
            }
            made?;
        }
    }

    /// As the owner of stages.
    pub(crate) fn as_stage_owner(self: &Arc<Core>) -> Weak<dyn StageOwner> {
        let core: Weak<Core> = Arc::downgrade(self);
        core
    }

    /// Submits a step of the engine's own.
    pub(crate) fn submit_step(self: &Arc<Core>, step: Step, durability: Durability) -> Ticket {
        let (ticket, completer) = self.new_ticket();
        self.sequence(&[], vec![step], None, durability, completer);
        ticket
    }

    /// What streams read ahead with.
    pub(crate) fn read_supply(&self) -> Supply<'_> {
        Supply { readers: &self.readers, buffers: &self.buffers, io_pool: &self.io_pool }
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
    pub(crate) fn write_transaction(&self, head: &CommitState, version: Version) -> WriteTransaction<'_> {
        let (nodes, device, filters) = (&self.nodes, self.device.as_ref(), &self.filters);
        WriteTransaction::new(&head.state, version, head.counters, &self.limits, nodes, device, filters)
    }

    /// Makes an applied commit the newest state.
    pub(crate) fn install(&self, head: &mut CommitState, applied: Applied) {
        let version = applied.state.version;
        for range in applied.allocated {
            head.deltas.push((version, Delta::Use(range)));
        }
        let mut freed = applied.freed;
        let values = DirtySize {
            memory_len: applied.bytes_in_memory,
            device_len: applied.bytes_in_memory,
            ..DirtySize::default()
        };
        head.dirty = (head.dirty + applied.gained + values).without(applied.lost);
        self.keep_for_dirty_budget(head);
        for replaced in &applied.replaced {
            match replaced.release(version) {
                Some(at) => freed.push(at.range()),
                None => head.forget(replaced.dirty_size()),
            }
        }
        freed.extend(applied.retired.iter().filter_map(|p| p.placement.replace(version)).map(|extent| extent.blocks()));
        self.free(head, version, freed);
        head.changes.push(version, &applied.changes);
        self.filters.apply(version, &applied.membership);
        if applied.has_dropped {
            self.reclaim_work.notify_one();
        }
        head.counters = applied.counters;
        head.state = applied.state;
    }

    /// Commit `by` needs these blocks no more.
    pub(crate) fn free(&self, head: &mut CommitState, by: Version, freed: Vec<BlockRange>) {
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
        self.run_deferred_drops();
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

impl StageOwner for Core {
    fn abandon(self: Arc<Self>, id: u64, spilled: u64, extents: &[Extent]) {
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
}
