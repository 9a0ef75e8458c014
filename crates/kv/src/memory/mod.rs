//! The back end in memory: the whole seam, plainly, and the model that others are compared with.
//!
//! Invariants:
//! - One lock orders all commits; what a batch changes is changed in place and rolled back whole when
//!   any part of it fails.
//! - Views share a version's trees; a commit copies a tree that a view still shares.
//! - Nothing survives the process: every durability means `Memory`.

mod apply;
pub(crate) mod history;
mod key;
mod stage;
mod state;
mod view;
pub(crate) mod watch;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};

use koine_engine::batch::{BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX, KEY_LEN_MAX};
use koine_engine::device::Process;
use koine_engine::{
    Batch, Commit, Durability, Error, ErrorKind, KeyRange, Operation, Payload, Refusal, Result, SpaceId, StageHint,
    StageToken, Ticket, Version,
};

use self::history::History;
use self::stage::{MemoryStage, Meter, Staged};
use self::state::{PendingBatch, State};
use self::view::MemoryView;
use self::watch::{HistoryWatch, Remembers};
use crate::check::check_batch;
use crate::seam::{Kv, Lookup, Profile, Stage, Usage, View, Wait, Watch};

/// How a store in memory is made.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// The most bytes of keys, values and stages; `None` is no limit.
    pub capacity: Option<u64>,
    /// How many changes are remembered for watchers and `RangeUnchanged`.
    pub changes_max: usize,
    /// How many outcomes of requests are remembered.
    pub outcomes_max: usize,
    /// The longest key, in bytes.
    pub key_len_max: usize,
    /// The most operations of a batch, and apart the most conditions.
    pub batch_operations_max: usize,
    /// The most inline bytes of a batch.
    pub batch_bytes_max: usize,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        MemoryOptions {
            capacity: None,
            changes_max: 65_536,
            outcomes_max: 65_536,
            key_len_max: KEY_LEN_MAX,
            batch_operations_max: BATCH_OPERATIONS_MAX,
            batch_bytes_max: BATCH_BYTES_MAX,
        }
    }
}

/// A store in memory.
pub struct MemoryKv {
    shared: Arc<MemoryShared>,
}

/// What views, stages and watches share with their store.
struct MemoryShared {
    /// A forked copy has a copy, which is no store.
    process: Process,
    profile: Profile,
    capacity: Option<u64>,
    meter: Arc<Meter>,
    inner: Mutex<MemoryInner>,
    /// Woken at every commit and at the end.
    happened: Condvar,
}

struct MemoryInner {
    state: Arc<State>,
    history: History,
    closed: bool,
}

impl MemoryInner {
    fn check_open(&self) -> Result<()> {
        if self.closed {
            return Err(Error::new(ErrorKind::Stopped, "the store in memory was closed"));
        }
        Ok(())
    }
}

impl MemoryShared {
    /// The inner state, unless the store was closed.
    fn open(&self) -> Result<MutexGuard<'_, MemoryInner>> {
        self.process.check()?;
        let inner = self.inner.lock();
        inner.check_open()?;
        Ok(inner)
    }

    /// Fails when `added` bytes beside `kept` in spaces and those in stages are more than the capacity.
    fn check_room(&self, kept: u64, added: u64) -> Result<()> {
        let used = kept.saturating_add(self.meter.staged());
        match self.capacity {
            Some(capacity) if used.saturating_add(added) > capacity => {
                let message =
                    format!("the store in memory is full: {used} of {capacity} bytes are in use; delete something");
                Err(Error::new(ErrorKind::Full, message))
            }
            _ => Ok(()),
        }
    }
}

impl Remembers for MemoryShared {
    fn look<R>(
        &self,
        deadline: Option<Instant>,
        look: &mut dyn FnMut(&History, Version) -> Option<R>,
    ) -> Result<Option<R>> {
        let mut inner = self.open()?;
        loop {
            if let Some(found) = look(&inner.history, inner.state.version) {
                return Ok(Some(found));
            }
            match deadline {
                Some(deadline) => {
                    if self.happened.wait_until(&mut inner, deadline).timed_out() {
                        return Ok(look(&inner.history, inner.state.version));
                    }
                }
                None => self.happened.wait(&mut inner),
            }
            inner.check_open()?;
        }
    }
}

impl MemoryKv {
    /// An empty store.
    pub fn new(options: MemoryOptions) -> Self {
        let profile = Profile {
            name: "memory",
            key_len_max: options.key_len_max,
            batch_operations_max: options.batch_operations_max,
            batch_bytes_max: options.batch_bytes_max,
            inline_len_best: options.batch_bytes_max.min(64 << 10),
            durable: false,
            reads_at_once: true,
        };
        let history = History::new(options.changes_max, options.outcomes_max);
        let shared = MemoryShared {
            profile,
            capacity: options.capacity,
            meter: Arc::default(),
            process: Process::here(),
            inner: Mutex::new(MemoryInner { state: Arc::default(), history, closed: false }),
            happened: Condvar::new(),
        };
        MemoryKv { shared: Arc::new(shared) }
    }

    fn commit_now(&self, batch: &Batch) -> Result<Commit> {
        check_batch(&self.shared.profile, batch)?;
        let stages = stages(batch)?;
        if stages.iter().any(|staged| !staged.belongs_to(&self.shared.meter)) {
            return Err(foreign_stage());
        }
        let mut inner = self.shared.open()?;
        if let Some(request) = batch.request
            && let Some(outcome) = inner.history.outcome(request)
        {
            return outcome;
        }
        if stages.iter().any(|staged| staged.is_taken()) {
            return Err(Error::invalid("a stage was taken by an earlier commit; stage the bytes again"));
        }
        let outcome = self.decide(&mut inner, batch, &stages);
        if let Some(request) = batch.request {
            match &outcome {
                Ok(version) => inner.history.remember(request, Ok(*version)),
                Err(error) if error.kind() == ErrorKind::Refused => {
                    inner.history.remember(request, Err(error.clone()));
                }
                Err(_) => {}
            }
        }
        outcome.map(|version| Commit { version, repeated: false })
    }

    /// Checks and applies a batch whose form is right.
    fn decide(&self, inner: &mut MemoryInner, batch: &Batch, stages: &[Arc<Staged>]) -> Result<Version> {
        for (index, condition) in (0u32..).zip(&batch.conditions) {
            if !apply::holds(condition, &inner.state, &inner.history) {
                let message = format!("condition {index} does not hold: {condition:?}");
                return Err(Error::refused(Refusal::Condition(index), message));
            }
        }
        let before = inner.state.bytes();
        let version = Version(inner.state.version.0 + 1);
        let mut pending = PendingBatch::new(Arc::make_mut(&mut inner.state), version, self.shared.profile.key_len_max);
        let applied = (0u32..).zip(&batch.operations).try_for_each(|(index, operation)| {
            pending.begin(index);
            apply::apply(&mut pending, operation)
        });
        let applied = applied.and_then(|()| {
            let after = pending.state().bytes();
            let taken: u64 = stages.iter().map(|staged| staged.value().length()).sum();
            // A batch that takes no more than it gives back is let through however full the store is.
            if after <= before { Ok(()) } else { self.shared.check_room(after.saturating_sub(taken), 0) }
        });
        if let Err(error) = applied {
            pending.roll_back();
            return Err(error);
        }
        let changes = pending.keep();
        inner.history.add(version, changes);
        stages.iter().for_each(|staged| staged.take());
        self.shared.happened.notify_all();
        Ok(version)
    }
}

impl Default for MemoryKv {
    fn default() -> Self {
        Self::new(MemoryOptions::default())
    }
}

impl std::fmt::Debug for MemoryKv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = self.shared.inner.lock();
        f.debug_struct("MemoryKv").field("version", &inner.state.version).finish_non_exhaustive()
    }
}

fn foreign_stage() -> Error {
    Error::invalid("a stage of another store; stage the bytes in the store that the batch is for")
}

/// What the stages of a batch hold; each may be named once.
fn stages(batch: &Batch) -> Result<Vec<Arc<Staged>>> {
    let tokens = batch.operations.iter().filter_map(stage_of);
    let mut seen = HashSet::new();
    let mut stages = Vec::new();
    for token in tokens {
        let staged = token.content::<Staged>().ok_or_else(foreign_stage)?;
        if !seen.insert(Arc::as_ptr(&staged)) {
            return Err(Error::invalid("a batch names one stage twice; clone the range of the first instead"));
        }
        stages.push(staged);
    }
    Ok(stages)
}

fn stage_of(operation: &Operation) -> Option<&StageToken> {
    match operation {
        Operation::Put { value: Payload::Stage(token), .. }
        | Operation::WriteAt { data: Payload::Stage(token), .. }
        | Operation::Append { data: Payload::Stage(token), .. } => Some(token),
        _ => None,
    }
}

impl Kv for MemoryKv {
    fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    fn view(&self) -> Result<Arc<dyn View>> {
        Ok(Arc::new(MemoryView::new(Arc::clone(&self.shared.open()?.state))))
    }

    /// Without a view: a commit meanwhile need not copy what one would share.
    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        let slot = self.shared.open()?.state.slot(space, key).cloned();
        Ok(slot.map_or(Lookup::Absent, |slot| slot.lookup(offset, length, wait)))
    }

    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        drop(self.shared.open()?);
        Ok(Box::new(MemoryStage::new(Arc::clone(&self.shared), hint)))
    }

    fn submit(&self, batch: Batch, _durability: Durability, _wait: Wait) -> Ticket {
        Ticket::ready(self.commit_now(&batch))
    }

    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
        Ok(Box::new(HistoryWatch::new(Arc::clone(&self.shared), space, range, from)?))
    }

    fn usage(&self) -> Result<Usage> {
        let kept = self.shared.open()?.state.bytes();
        let used = kept.saturating_add(self.shared.meter.staged());
        // Without a limit the total is the longest that a signed length can say.
        let total = self.shared.capacity.unwrap_or(i64::MAX as u64);
        Ok(Usage { total, used, free: total.saturating_sub(used), limit: self.shared.capacity })
    }

    fn sync(&self) -> Result<()> {
        drop(self.shared.open()?);
        Ok(())
    }

    fn close(&self) -> Result<()> {
        if self.shared.process.check().is_err() {
            return Ok(());
        }
        self.shared.inner.lock().closed = true;
        self.shared.happened.notify_all();
        Ok(())
    }
}
