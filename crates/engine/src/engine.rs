//! The engine's face: format, open, view, stage, submit, watch, check, close.
//!
//! Invariants:
//! - One process owns a store; the device's lock says who.
//! - In [`Background::Manual`] nothing happens but in calls: the same calls make the same writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, RwLock};

use crate::allocator::{Allocator, ReuseQueue};
use crate::apply::Counters;
use crate::batch::{Batch, Commit, Durability, KeyRange, SpaceId, Version};
use crate::buffers::Buffers;
use crate::changes::{Changes, Watch, Watchers};
use crate::check::{self, Progress, Report};
use crate::checkpoint_state::CheckpointState;
use crate::commit_state::{CheckpointPosition, CommitState, Reuse};
use crate::core::Core;
use crate::data_cache::DataCache;
use crate::device::{BLOCK_LEN, Device, Process, ReadMode};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::Filters;
use crate::io_pool::IoPool;
use crate::limits::Limits;
use crate::lock::Mutex;
use crate::log::longest::Longest;
use crate::log::ring::{Position, Ring};
use crate::node_cache::NodeCache;
use crate::options::{Background, Options};
use crate::read_ahead::Readers;
use crate::recovery::{self, Recovered};
use crate::requests::Requests;
use crate::reservations::Reservations;
use crate::stage::{StageHint, StageToken};
use crate::staging::{self, Stage};
use crate::state::State;
use crate::superblock::{SECOND_SLOT_BLOCK, Slot, Superblock, read_newest};
use crate::ticket::Ticket;
use crate::tree::{DirtySize, StoreId};
use crate::view::View;

pub use crate::format::FormatOptions;

/// Streams may use one byte of so many of the memory budget.
const BUFFERS_SHARE: u64 = 8;

/// What there is to know about an open store.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Drawn at format.
    pub store_id: u64,
    /// The format's version.
    pub format: u32,
    /// The store's block size in bytes: the unit in which space for values is given out.
    pub block_len: u64,
    /// The ring's length in bytes.
    pub ring_len: u64,
    /// What opening it found.
    pub recovered: Recovered,
    /// The newest visible commit.
    pub version: Version,
}

/// An open store.
pub struct Engine {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    recovered: Recovered,
}

impl Engine {
    /// Opens a store, recovering what a crash left.
    pub fn open(device: Arc<dyn Device>, options: Options) -> Result<Engine> {
        if !options.read_only {
            device.sync().map_err(|e| Error::device("cannot make what is on the device durable", e))?;
        }
        let (slot, superblock) = read_newest(device.as_ref())?;
        superblock.check_format()?;
        superblock.check_features(!options.read_only)?;
        let checkpointed = |device: &dyn Device, _: &NodeCache| first_book(device, slot, &superblock);
        let core = Arc::new(new_core(device, &superblock, options, checkpointed)?);
        let (recovered, free) = core.replay(&superblock)?;
        for (start, count) in free.iter() {
            core.allocator.release(start, count)?;
        }
        if options.read_only {
            *core.visible.write() = core.head.lock().state.clone();
        } else {
            core.finish_recovery(superblock.reserve)?;
        }
        let threads = Mutex::new(Vec::new());
        let engine = Engine { core, threads, recovered };
        if options.background == Background::Threads && !options.read_only {
            engine.start_threads()?;
        }
        engine.core.load_reservations()?;
        if !options.read_only {
            engine.core.drop_passing()?;
        }
        Ok(engine)
    }

    fn start_threads(&self) -> Result<()> {
        let mut threads = self.threads.lock();
        type Run = fn(Arc<Core>);
        let runs: [(&str, Run); 3] = [
            ("koine-writer", Core::run_writer),
            ("koine-checkpoint", Core::run_checkpointer),
            ("koine-reclaimer", Core::run_reclaimer),
        ];
        for (name, run) in runs {
            let core = Arc::clone(&self.core);
            let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
                // A panic in a worker stops the store as a failed sync does.
                let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(Arc::clone(&core))));
                if worked.is_err() {
                    core.fail(&Error::new(ErrorKind::Stopped, "a worker of the store panicked"));
                }
            });
            threads.push(thread.map_err(|e| Error::device("cannot start a thread", e))?);
        }
        Ok(())
    }

    /// A store that somebody else has opened, without workers.
    pub(crate) fn of(core: Core, recovered: Recovered) -> Engine {
        Engine { core: Arc::new(core), threads: Mutex::new(Vec::new()), recovered }
    }

    /// What this store's parts share.
    pub(crate) fn shared(&self) -> &Arc<Core> {
        &self.core
    }

    /// Pins the newest visible version.
    pub fn view(&self) -> View {
        View::new(&self.core)
    }

    /// Begins a large value.
    pub fn stage(&self, hint: StageHint) -> Result<Stage> {
        self.check_writable()?;
        Ok(Stage::new(Arc::clone(&self.core), hint))
    }

    /// Gives a value its place, to be written with the commit that names it; `None` where it is to be staged.
    pub(crate) fn place(&self, data: &[u8], hint: StageHint) -> Result<Option<StageToken>> {
        self.check_writable()?;
        staging::unwritten::place(&self.core, data, hint)
    }

    fn check_writable(&self) -> Result<()> {
        if self.core.read_only {
            return Err(Error::invalid("the store was opened to read only"));
        }
        self.core.process.check()?;
        if self.core.head.lock().closing {
            return Err(Error::new(ErrorKind::Stopped, "the store was closed"));
        }
        self.core.check_running()
    }

    /// Asks for a batch.
    pub fn submit(&self, batch: Batch, durability: Durability) -> Ticket {
        self.core.submit(batch, durability)
    }

    /// Asks for a batch and waits for the outcome. The calling thread writes the log itself where nobody else
    /// does, so that one commit after the other costs no change of threads.
    pub fn commit(&self, batch: Batch, durability: Durability) -> Result<Commit> {
        self.core.commit(batch, durability)
    }

    /// Changes of a range after version `from`.
    pub fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Watch> {
        self.core.check_running()?;
        let head = self.core.head.lock();
        let visible = self.core.visible.read().version;
        Ok(self.core.watchers.add(&head.changes, space, range, from, visible))
    }

    /// Fails in a forked copy, whose store is its parent's.
    pub fn check_process(&self) -> Result<()> {
        self.core.process.check()
    }

    /// Makes everything so far survive power loss.
    pub fn sync(&self) -> Result<()> {
        self.core.sync()
    }

    /// What there is to know about the store.
    pub fn info(&self) -> Info {
        Info {
            store_id: self.core.store.0,
            format: crate::superblock::FORMAT,
            block_len: self.core.allocator.unit_blocks() * BLOCK_LEN as u64,
            ring_len: self.core.ring.length(),
            recovered: self.recovered,
            version: self.core.visible.read().version,
        }
    }

    /// The limits of this store.
    pub fn limits(&self) -> &Limits {
        &self.core.limits
    }

    /// Does what waits to be done in the background; false when nothing did. For [`Background::Manual`].
    pub fn step(&self) -> Result<bool> {
        if self.core.write_group()? {
            return Ok(true);
        }
        let due = {
            let head = self.core.head.lock();
            self.core.wants_checkpoint(&head)
        };
        if due {
            self.core.checkpoint()?;
            return Ok(true);
        }
        Ok(self.core.reclaim()? || self.core.build_filter()?)
    }

    /// Makes a checkpoint now.
    pub fn checkpoint(&self) -> Result<()> {
        self.core.write_queued()?;
        self.core.checkpoint()
    }

    /// Checkpoints made since the store was opened.
    pub fn checkpoints(&self) -> u64 {
        self.core.head.lock().checkpoints
    }

    /// Reads and verifies everything; nothing else may use the store meanwhile.
    pub fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
        // Data may wait with its commit.
        self.core.write_queued()?;
        check::check(&self.core, progress)
    }

    /// Finishes what is under way and leaves the store as one that needs no recovery.
    ///
    /// In a forked copy it does nothing: the threads are not there, and the store is the parent's.
    pub fn close(&self) -> Result<()> {
        if !self.core.process.is_here() {
            return Ok(());
        }
        {
            let mut head = self.core.head.lock();
            if head.closing {
                return Ok(());
            }
            head.closing = true;
        }
        self.core.work.notify_all();
        self.core.checkpoint_work.notify_all();
        self.core.reclaim_work.notify_all();
        self.core.room.notify_all();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
        self.core.io_pool.close();
        self.core.watchers.close();
        let done = if self.core.read_only { Ok(()) } else { self.finish() };
        self.core.fail(&Error::new(ErrorKind::Stopped, "the store was closed"));
        self.core.closed.store(true, Ordering::Release);
        let closed = self.core.device.close().map_err(|e| Error::device("cannot close the device", e));
        done.and(closed)
    }

    fn finish(&self) -> Result<()> {
        while self.core.write_group()? {}
        let mut checkpointed = self.core.checkpointed.lock();
        let cut = self.core.head.lock().sealed.clone();
        match self.core.store(&mut checkpointed, cut, true) {
            // No room for a last checkpoint: the log has everything.
            Err(error) if error.kind() == ErrorKind::Full => self.core.sync_device(),
            done => done,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Its locks may be held, and its threads waited for, by those who are not in a forked copy.
        self.core.process.leave(|| (Arc::clone(&self.core), std::mem::take(&mut *self.threads.lock())));
        // Whoever wants to know of a failure calls `close`.
        let _ = self.close();
    }
}

/// What is stored, as the superblock says.
pub(crate) fn first_book(device: &dyn Device, slot: Slot, superblock: &Superblock) -> Result<CheckpointState> {
    let mut checkpointed = recovery::stored_book(device, slot, superblock)?;
    if superblock.free.is_none() {
        // A store that was never written to: everything but the slots and the ring.
        checkpointed.free = crate::allocator::Runs::new();
        let (ring, behind) = (superblock.ring, SECOND_SLOT_BLOCK + 1);
        let parts = [(1, SECOND_SLOT_BLOCK), (behind, ring.start), (ring.end(), superblock.blocks)];
        for (start, end) in parts.into_iter().filter(|(start, end)| start < end) {
            checkpointed.free.add(start, end - start)?;
        }
    }
    Ok(checkpointed)
}

/// A store at its newest superblock, with the free space that `checkpointed` tells.
pub(crate) fn new_core(
    device: Arc<dyn Device>,
    superblock: &Superblock,
    options: Options,
    checkpointed: impl FnOnce(&dyn Device, &NodeCache) -> Result<CheckpointState>,
) -> Result<Core> {
    let ring = Ring::new(superblock.ring);
    let store = StoreId(superblock.store_id);
    let memory_len = options.memory_len.max(1 << 20);
    let mode = if options.read_only { ReadMode::Direct } else { ReadMode::Cached };
    let limits = Limits { frozen_above: options.frozen_above, ..Limits::new(ring.length(), memory_len) };
    let nodes = NodeCache::new(Arc::clone(&device), store, Limits::node_cache_len(memory_len), mode);
    let checkpointed = checkpointed(device.as_ref(), &nodes)?;
    let state = recovery::stored_state(superblock);
    let requests = Requests::load(&state, &nodes)?;
    let head = new_head(superblock, state.clone(), requests, &limits);
    let buffers = Buffers::new(memory_len / BUFFERS_SHARE);
    Ok(Core {
        process: Process::here(),
        allocator: Allocator::new(superblock.features.unit_blocks()),
        limits,
        nodes,
        store,
        epoch: superblock.epoch + 1,
        ring,
        background: options.background,
        io_pool: IoPool::new(options.background == Background::Threads),
        data: DataCache::new(options.cache_len, &buffers),
        buffers,
        readers: Readers::default(),
        read_only: options.read_only,
        reuse_at_once: options.reuse_at_once,
        discards: AtomicBool::new(options.discard && !options.read_only),
        checkpointed: Mutex::new(checkpointed),
        head: Mutex::new(head),
        turn: Mutex::new(()),
        longest: Longest::default(),
        work: Condvar::new(),
        checkpoint_work: Condvar::new(),
        reclaim_work: Condvar::new(),
        room: Condvar::new(),
        visible: RwLock::new(state),
        pins: Mutex::default(),
        past: Mutex::default(),
        reuse: Mutex::new(Reuse { queue: ReuseQueue::new(), safe: superblock.cut, held: 0 }),
        watchers: Watchers::default(),
        reservations: Reservations::default(),
        filters: Filters::new((options.filters && !options.read_only).then_some(memory_len)),
        stages: AtomicU64::new(superblock.reserve.0),
        kept: Arc::default(),
        grows_for_units: AtomicBool::new(superblock.features.unit_blocks() > 1 && !device.is_fixed()),
        closed: AtomicBool::new(false),
        failed: AtomicBool::new(false),
        failure: Mutex::new(None),
        device,
    })
}

fn new_head(superblock: &Superblock, state: State, requests: Requests, limits: &Limits) -> CommitState {
    let position = Position(superblock.position);
    let counters = Counters { next_blob: superblock.next_blob, generation: superblock.generation };
    let sealed = CheckpointPosition {
        state: state.clone(),
        position,
        chain: superblock.chain,
        counters,
        dirty: DirtySize::default(),
    };
    CommitState {
        state,
        counters,
        requests,
        changes: Changes::since(superblock.reserve).within(limits.memory_len),
        queue: Default::default(),
        queue_len: 0,
        in_flight: false,
        unwritten: None,
        open: None,
        group_buffer: None,
        uncompleted: 0,
        writer_armed: false,
        deltas: Vec::new(),
        late_deltas: Vec::new(),
        dirty: DirtySize::default(),
        dirty_budget: limits.dirty_budget(superblock.blocks * BLOCK_LEN as u64),
        checkpoint_cut: Version(0),
        sealed,
        tail: position,
        cut_at: position,
        flushed: superblock.reserve,
        reserve: superblock.reserve,
        unflushed_len: 0,
        checkpoint_wanted: false,
        checkpoints: 0,
        checkpoint_full: false,
        closing: false,
    }
}
