//! One store over another: the order of batches, what readers see of them, and when a flush is shared.
//!
//! Invariants:
//! - Batches are planned and applied one after the other, each against all before it. The store below never syncs by
//!   itself: it is synced by one thread, for all batches that wait at that moment.
//! - While a batch waits for its sync, readers are shown the version before it; outcomes of any level that come later
//!   are told, and shown, with or after it.
//! - After a sync that failed nothing more is taken.
//! - Outcomes of requests are remembered below. Here only those of batches that took stages are, because a stage that
//!   was taken is looked at before the store below is asked.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use koine_engine::device::Process;
use koine_engine::{
    Batch, Commit, Completer, Condition, Durability, Error, ErrorKind, KeyRange, Operation, Place, Refusal, RequestId,
    Result, SpaceId, StageHint, StageToken, Ticket, Version,
};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::SOLE;
use super::token::{Owner, Staged, stages, taken};
use super::watch::HeldWatch;
use crate::check::check_batch;
use crate::seam::{Kv, Lookup, Profile, Stage, Usage, View, Wait, Watch};

/// How many outcomes of batches with stages are remembered here.
const OUTCOMES_MAX: usize = 65_536;

/// What a wrapper makes of batches, views and stages.
pub trait Emulation: Send + Sync + Sized + 'static {
    /// What a token holds.
    type Staged: Send + Sync + 'static;

    /// What it declares.
    fn profile(&self) -> &Profile;

    /// A key of the store below that is never there.
    fn never(&self) -> Bytes;

    /// A view over one of the store below.
    fn show(&self, below: Arc<dyn View>) -> Arc<dyn View>;

    /// A condition for the store below; `below` is the state that it will be decided against.
    fn condition(&self, below: &Arc<dyn View>, condition: &Condition) -> Result<Condition>;

    /// The operations for the store below that do what these do.
    fn operations(&self, below: &Arc<dyn View>, operations: &[Operation]) -> Result<Vec<Operation>>;

    /// A new stage.
    fn stage(&self, core: &Arc<Core<Self>>, hint: StageHint) -> Result<Box<dyn Stage>>;

    /// A commit took a stage.
    fn taken(&self, staged: &Self::Staged);

    /// The range of keys below that a range here is.
    fn range(&self, space: SpaceId, range: &KeyRange) -> Result<KeyRange>;

    /// What of a changed range below is of this space.
    fn told(&self, space: SpaceId, range: &KeyRange) -> KeyRange;
}

/// A store over another.
pub struct Emulated<E: Emulation> {
    core: Arc<Core<E>>,
}

/// What stages and watches share with their store.
pub struct Core<E> {
    /// A forked copy has neither the thread that syncs nor the store below, and its locks may be held by those who are
    /// not in it.
    process: Process,
    pub(super) emulation: E,
    pub(super) below: Arc<dyn Kv>,
    owner: Arc<Owner>,
    turn: Mutex<Turn>,
    /// Woken when what readers see moves on, and at the end.
    shown: Condvar,
    /// Wakes the thread that syncs.
    work: Condvar,
}

struct Turn {
    closed: bool,
    /// Why nothing is taken any more.
    failed: Option<Error>,
    waiting: Vec<Waiting>,
    /// Whether outcomes wait for a sync that is under way.
    in_flight: bool,
    /// What readers see while outcomes wait.
    shows: Option<Arc<dyn View>>,
    outcomes: HashMap<RequestId, Result<Commit>>,
    outcomes_order: VecDeque<RequestId>,
    syncer: Option<JoinHandle<()>>,
}

/// An outcome that is not told yet.
struct Waiting {
    completer: Completer,
    outcome: Result<Commit>,
    wants_sync: bool,
}

impl Turn {
    fn check_open(&self) -> Result<()> {
        if self.closed {
            return Err(Error::new(ErrorKind::Stopped, "the store was closed"));
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && !self.in_flight
    }

    fn remember(&mut self, request: RequestId, outcome: Result<Commit>) {
        let repeat = outcome.map(|commit| Commit { repeated: true, ..commit });
        if self.outcomes.insert(request, repeat).is_none() {
            self.outcomes_order.push_back(request);
        }
        if self.outcomes_order.len() > OUTCOMES_MAX
            && let Some(oldest) = self.outcomes_order.pop_front()
        {
            self.outcomes.remove(&oldest);
        }
    }
}

impl<E: Emulation> Core<E> {
    pub(super) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    pub(super) fn check_open(&self) -> Result<()> {
        self.open().map(drop)
    }

    fn open(&self) -> Result<MutexGuard<'_, Turn>> {
        self.process.check()?;
        let turn = self.turn.lock();
        turn.check_open()?;
        Ok(turn)
    }

    /// What readers see; of the store below.
    fn visible(&self) -> Result<Arc<dyn View>> {
        let turn = self.open()?;
        match &turn.shows {
            Some(view) => Ok(Arc::clone(view)),
            None => self.below.view(),
        }
    }

    /// Waits until readers see a version, or the deadline is there; whether they do.
    pub(super) fn wait_shown(&self, version: Version, deadline: Option<std::time::Instant>) -> Result<bool> {
        let mut turn = self.open()?;
        loop {
            if turn.shows.as_ref().is_none_or(|view| view.version() >= version) {
                return Ok(true);
            }
            match deadline {
                Some(deadline) => {
                    if self.shown.wait_until(&mut turn, deadline).timed_out() {
                        return Ok(turn.shows.as_ref().is_none_or(|view| view.version() >= version));
                    }
                }
                None => self.shown.wait(&mut turn),
            }
            turn.check_open()?;
        }
    }

    fn sequence(self: &Arc<Self>, batch: &Batch, durability: Durability) -> Result<Ticket> {
        check_batch(self.emulation.profile(), batch)?;
        let stages = stages::<E::Staged>(batch, &self.owner)?;
        let mut turn = self.open()?;
        if let Some(error) = &turn.failed {
            return Err(error.clone());
        }
        let before = self.below.view()?;
        let outcome = if stages.iter().any(|staged| staged.is_taken()) {
            let known = batch.request.and_then(|request| turn.outcomes.get(&request).cloned());
            known.unwrap_or_else(|| Err(taken()))
        } else {
            let outcome = self.apply(&before, batch, durability);
            if outcome.as_ref().is_ok_and(|commit| !commit.repeated) {
                for staged in &stages {
                    staged.take();
                    self.emulation.taken(staged.content());
                }
            }
            if let Some(request) = batch.request
                && !stages.is_empty()
                && outcome.as_ref().map_or_else(|error| error.refusal().is_some(), |_| true)
            {
                turn.remember(request, outcome.clone());
            }
            outcome
        };
        let is_outcome = match &outcome {
            Ok(_) => true,
            Err(error) => error.refusal().is_some() && batch.request.is_some(),
        };
        Ok(self.deliver(turn, before, outcome, is_outcome && durability == Durability::Sync))
    }

    /// Tells an outcome now, or when all before it are told.
    fn deliver(
        self: &Arc<Self>,
        mut turn: MutexGuard<'_, Turn>,
        before: Arc<dyn View>,
        outcome: Result<Commit>,
        wants_sync: bool,
    ) -> Ticket {
        if turn.is_quiet() {
            if !wants_sync {
                drop(turn);
                return Ticket::ready(outcome);
            }
            turn.shows = Some(before);
        }
        let (ticket, completer) = Ticket::new();
        turn.waiting.push(Waiting { completer, outcome, wants_sync });
        if turn.syncer.is_none() {
            let core = Arc::clone(self);
            turn.syncer = Some(std::thread::spawn(move || core.sync_for_all()));
        }
        self.work.notify_one();
        ticket
    }

    /// Plans a batch and gives it to the store below.
    fn apply(&self, before: &Arc<dyn View>, batch: &Batch, durability: Durability) -> Result<Commit> {
        let conditions = batch.conditions.iter().map(|condition| self.emulation.condition(before, condition));
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        let (operations, refused) = match self.emulation.operations(before, &batch.operations) {
            Ok(operations) => (operations, None),
            Err(error) => match error.refusal() {
                Some(Refusal::Operation(index)) => (self.refused_at(index), Some(error)),
                _ => return Err(error),
            },
        };
        let profile = self.below.profile();
        if operations.len() > profile.batch_operations_max {
            let message = format!(
                "the batch takes {} changes in the store `{}`, which takes at most {} at once: split it",
                operations.len(),
                profile.name,
                profile.batch_operations_max
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // Synced it is for all that wait, together.
        let level = if durability == Durability::Memory { Durability::Memory } else { Durability::Written };
        let outcome = self.below.commit(Batch { conditions, operations, request: batch.request }, level);
        outcome.map_err(|error| match refused {
            Some(refused) if error.refusal() == refused.refusal() => refused,
            _ => error,
        })
    }

    /// Operations of which the one at this index is refused, so that the outcome is remembered as it is told.
    fn refused_at(&self, index: u32) -> Vec<Operation> {
        let never = Place::new(SOLE, self.emulation.never());
        let mut operations = vec![Operation::Delete { at: never.clone() }; index as usize];
        operations.push(Operation::Rename { from: never.clone(), to: never });
        operations
    }

    /// Syncs whenever outcomes wait, and tells them; until the store is closed and none is left.
    fn sync_for_all(&self) {
        let mut turn = self.turn.lock();
        loop {
            let group = std::mem::take(&mut turn.waiting);
            if group.is_empty() {
                if turn.closed {
                    return;
                }
                self.work.wait(&mut turn);
                continue;
            }
            turn.in_flight = true;
            let newest = self.below.view();
            drop(turn);
            let synced = newest.and_then(|newest| {
                if group.iter().any(|waiting| waiting.wants_sync) {
                    self.below.sync()?;
                }
                Ok(newest)
            });
            turn = self.turn.lock();
            turn.in_flight = false;
            let failed = match synced {
                Ok(newest) => {
                    turn.shows = if turn.waiting.is_empty() { None } else { Some(newest) };
                    None
                }
                Err(error) => {
                    let message = "a sync failed: what was not acknowledged may be lost; open the store again";
                    turn.failed = Some(Error::new(ErrorKind::Stopped, message).with_source(error.clone()));
                    Some(error)
                }
            };
            self.shown.notify_all();
            drop(turn);
            for Waiting { completer, outcome, .. } in group {
                completer.complete(match &failed {
                    Some(error) => Err(error.clone()),
                    None => outcome,
                });
            }
            turn = self.turn.lock();
            if turn.is_quiet() {
                self.shown.notify_all();
            }
        }
    }

    /// Takes nothing more and waits for what is under way; `false` where that was done before.
    fn end(&self) -> bool {
        if !self.process.is_here() {
            // The thread that syncs holds this for ever: it is never dropped here.
            return false;
        }
        let mut turn = self.turn.lock();
        let was_closed = std::mem::replace(&mut turn.closed, true);
        let syncer = turn.syncer.take();
        drop(turn);
        self.work.notify_all();
        self.shown.notify_all();
        // A callback of a ticket may close the store: it runs on the thread that syncs.
        if let Some(syncer) = syncer
            && syncer.thread().id() != std::thread::current().id()
        {
            // It ends without a panic, or has told of it.
            let _ = syncer.join();
        }
        !was_closed
    }
}

impl<E: Emulation> Emulated<E> {
    pub(super) fn over(below: Arc<dyn Kv>, emulation: E) -> Self {
        let turn = Turn {
            closed: false,
            failed: None,
            waiting: Vec::new(),
            in_flight: false,
            shows: None,
            outcomes: HashMap::new(),
            outcomes_order: VecDeque::new(),
            syncer: None,
        };
        let core = Core {
            process: Process::here(),
            emulation,
            below,
            owner: Arc::default(),
            turn: Mutex::new(turn),
            shown: Condvar::new(),
            work: Condvar::new(),
        };
        Emulated { core: Arc::new(core) }
    }
}

impl<E: Emulation> Drop for Emulated<E> {
    fn drop(&mut self) {
        self.core.end();
    }
}

impl<E: Emulation> std::fmt::Debug for Emulated<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulated").field("profile", self.core.emulation.profile()).finish_non_exhaustive()
    }
}

impl<E: Emulation> Kv for Emulated<E> {
    fn profile(&self) -> &Profile {
        self.core.emulation.profile()
    }

    fn view(&self) -> Result<Arc<dyn View>> {
        Ok(self.core.emulation.show(self.core.visible()?))
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        self.view()?.lookup(space, key, offset, length, wait)
    }

    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        self.core.check_open()?;
        self.core.emulation.stage(&self.core, hint)
    }

    fn submit(&self, batch: Batch, durability: Durability, _wait: Wait) -> Ticket {
        self.core.sequence(&batch, durability).unwrap_or_else(|error| Ticket::ready(Err(error)))
    }

    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
        self.core.check_open()?;
        let below = self.core.below.watch(SOLE, self.core.emulation.range(space, &range)?, from)?;
        Ok(Box::new(HeldWatch::new(Arc::clone(&self.core), below, space)))
    }

    fn usage(&self) -> Result<Usage> {
        self.core.check_open()?;
        self.core.below.usage()
    }

    fn sync(&self) -> Result<()> {
        self.core.check_open()?;
        self.core.below.sync()
    }

    fn close(&self) -> Result<()> {
        let synced = if self.core.end() { self.core.below.sync() } else { Ok(()) };
        self.core.below.close()?;
        synced
    }
}

/// A token over content of the store's own.
pub(super) fn token<E: Emulation>(core: &Core<E>, length: u64, content: E::Staged) -> StageToken {
    Staged::token(core.owner(), length, content)
}
