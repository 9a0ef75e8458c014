//! A full back end over any ordered map of bytes.
//!
//! A map needs [`Ordered`]: snapshots, one atomic write, a sync. [`OrderedKv`] makes a store of one space and short
//! values of it; [`full`] puts the wrappers of [`emulate`](crate::emulate) on that, and is what a back end gives out.
//!
//! Keys of the map: see [`mod@format`].
//!
//! Invariants:
//! - One lock orders all batches; each is one write of the map. Whoever has the map open is its only writer.
//! - A version is never given twice, also not after a crash that dropped commits somebody had seen: the map holds a
//!   synced reserve that versions stay below.
//! - The last outcomes of requests are in the map, written with what they tell of.
//! - Changes are remembered in memory: after an open nothing is known of those before it.

mod format;
mod outcome;
mod plan;
mod view;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use koine_engine::batch::KEY_LEN_MAX;
use koine_engine::device::Process;
use koine_engine::{
    Batch, Commit, Condition, Durability, Error, ErrorKind, KeyRange, Refusal, Result, SpaceId, StageHint, Ticket,
    Version,
};
use parking_lot::{Condvar, Mutex, MutexGuard};

use self::plan::Planned;
use self::view::{OrderedView, record_of};
use crate::check::check_batch;
use crate::emulate::plan::one_space;
use crate::emulate::{SOLE, Spaces, Split, SplitOptions};
use crate::memory::history::History;
use crate::memory::watch::{HistoryWatch, Remembers};
use crate::seam::{Direction, Kv, Lookup, Profile, Stage, Usage, View, Wait, Watch};

/// How many outcomes of requests are remembered.
const OUTCOMES_MAX: u64 = 65_536;
/// How many changes are remembered for watchers and `RangeUnchanged`.
const CHANGES_MAX: usize = 65_536;
/// So many versions are reserved at once: each reserve costs a sync.
const RESERVE: u64 = 65_536;
/// What keys may be longer by than the seam's: what wrappers put before them.
const KEY_ROOM: usize = 64;
/// How long a value may be.
const VALUE_LEN_MAX: usize = 1 << 20;
const BATCH_OPERATIONS_MAX: usize = 1 << 20;
const BATCH_BYTES_MAX: usize = 256 << 20;

/// One change of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a value.
    Put(Bytes, Bytes),
    /// Removes a key, which may be absent.
    Delete(Bytes),
    /// Removes the keys from the first (included) to the second (excluded).
    DeleteRange(Bytes, Bytes),
}

/// Whether changes set more keys of the store than they remove: what a full store refuses.
#[cfg(feature = "rocksdb")]
pub(crate) fn adds(changes: &[Write]) -> bool {
    let of_store = |key: &Bytes| key.starts_with(format::KEYS);
    let sets = changes.iter().filter(|change| matches!(change, Write::Put(key, _) if of_store(key))).count();
    let removes = changes.iter().filter(|change| match change {
        Write::Put(..) => false,
        Write::Delete(key) | Write::DeleteRange(key, _) => of_store(key),
    });
    sets > removes.count()
}

/// An ordered map of bytes that a process has for itself.
pub trait Ordered: Send + Sync + 'static {
    /// A snapshot of it.
    type Snapshot: Snapshot;

    /// Everything written so far.
    fn snapshot(&self) -> Result<Self::Snapshot>;

    /// Makes all changes, in order, or none. The next snapshot shows them; they survive the end of the process.
    fn write(&self, changes: Vec<Write>) -> Result<()>;

    /// Makes everything written so far survive power loss.
    fn sync(&self) -> Result<()>;

    /// How full it is.
    fn usage(&self) -> Result<Usage>;

    /// Gives it back. Snapshots may go on or fail with `Stopped`.
    fn close(&self) -> Result<()>;
}

/// One state of a map.
pub trait Snapshot: Send + Sync + 'static {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// The first entries of a range in a direction, at most so many; fewer only at the range's end.
    fn scan(&self, range: &KeyRange, direction: Direction, most: usize) -> Result<Vec<(Bytes, Bytes)>>;
}

/// Opens a map as a full back end; `name` is for people. A map that is empty is made a store.
pub fn full<O: Ordered>(map: O, name: &'static str, options: SplitOptions) -> Result<Spaces> {
    let base = OrderedKv::open(map, name, vec![Split::unwatched()])?;
    Spaces::open(Arc::new(Split::open(Arc::new(base), options)?))
}

/// Whether a map may be opened: it is empty, or a store of a format that is known.
pub fn check_format(snapshot: &impl Snapshot) -> Result<()> {
    format::read(snapshot).map(|_| ())
}

/// A store of one space with short values.
pub struct OrderedKv<O: Ordered> {
    shared: Arc<OrderedShared<O>>,
}

struct OrderedShared<O: Ordered> {
    /// A forked copy is no store.
    process: Process,
    map: O,
    profile: Profile,
    /// Ranges whose changes are not remembered.
    unwatched: Vec<KeyRange>,
    inner: Mutex<OrderedInner<O>>,
    /// Woken at every commit and at the end.
    happened: Condvar,
}

struct OrderedInner<O: Ordered> {
    version: Version,
    /// Versions above this one must not be given yet.
    reserved: u64,
    history: History,
    /// The number of the next outcome.
    next_outcome: u64,
    newest: Arc<OrderedView<O::Snapshot>>,
    closed: bool,
    /// A write failed: what the map holds is not known.
    failed: bool,
}

impl<O: Ordered> OrderedInner<O> {
    fn check_open(&self) -> Result<()> {
        match (self.closed, self.failed) {
            (true, _) => Err(Error::new(ErrorKind::Stopped, "the store was closed")),
            (_, true) => Err(Error::new(ErrorKind::Stopped, "a write failed; open the store again")),
            _ => Ok(()),
        }
    }
}

impl<O: Ordered> OrderedShared<O> {
    fn open(&self) -> Result<MutexGuard<'_, OrderedInner<O>>> {
        self.process.check()?;
        let inner = self.inner.lock();
        inner.check_open()?;
        Ok(inner)
    }

    fn is_unwatched(&self, range: &KeyRange) -> bool {
        self.unwatched.iter().any(|unwatched| {
            let ends_inside = match (&unwatched.end, &range.end) {
                (None, _) => true,
                (Some(last), Some(end)) => end <= last,
                (Some(_), None) => false,
            };
            unwatched.start <= range.start && ends_inside
        })
    }
}

impl<O: Ordered> Remembers for OrderedShared<O> {
    fn look<R>(
        &self,
        deadline: Option<Instant>,
        look: &mut dyn FnMut(&History, Version) -> Option<R>,
    ) -> Result<Option<R>> {
        let mut inner = self.open()?;
        loop {
            if let Some(found) = look(&inner.history, inner.version) {
                return Ok(Some(found));
            }
            match deadline {
                Some(deadline) => {
                    if self.happened.wait_until(&mut inner, deadline).timed_out() {
                        return Ok(look(&inner.history, inner.version));
                    }
                }
                None => self.happened.wait(&mut inner),
            }
            inner.check_open()?;
        }
    }
}

impl<O: Ordered> OrderedKv<O> {
    /// Opens a map; changes inside the `unwatched` ranges are not remembered, so watches of them tell nothing and
    /// `RangeUnchanged` never holds there. A map that is empty is made a store; one that holds something else is
    /// `Unknown`, and is not changed.
    pub fn open(map: O, name: &'static str, unwatched: Vec<KeyRange>) -> Result<OrderedKv<O>> {
        let snapshot = map.snapshot()?;
        let found = format::read(&snapshot)?;
        if found.is_new {
            map.write(format::first_writes())?;
            map.sync()?;
        }
        let version = Version(found.reserved);
        let mut history = History::new(CHANGES_MAX, OUTCOMES_MAX as usize);
        history.forget_until(version);
        let next_outcome = outcome::load(&snapshot, &mut history)?;
        let profile = Profile {
            name,
            key_len_max: KEY_LEN_MAX + KEY_ROOM,
            batch_operations_max: BATCH_OPERATIONS_MAX,
            batch_bytes_max: BATCH_BYTES_MAX,
            inline_len_best: VALUE_LEN_MAX,
            durable: true,
            reads_at_once: false,
        };
        let newest = Arc::new(OrderedView::new(map.snapshot()?, version));
        let inner = OrderedInner {
            version,
            reserved: found.reserved,
            history,
            next_outcome,
            newest,
            closed: false,
            failed: false,
        };
        let shared = OrderedShared {
            process: Process::here(),
            map,
            profile,
            unwatched,
            inner: Mutex::new(inner),
            happened: Condvar::new(),
        };
        Ok(OrderedKv { shared: Arc::new(shared) })
    }

    fn commit_now(&self, batch: &Batch, durability: Durability) -> Result<Commit> {
        check_batch(&self.shared.profile, batch)?;
        let mut inner = self.shared.open()?;
        if let Some(request) = batch.request
            && let Some(outcome) = inner.history.outcome(request)
        {
            return outcome;
        }
        let outcome = self.decide(&inner, batch);
        let version = Version(inner.version.0 + 1);
        let (outcome, mut writes, changes) = match outcome {
            Ok(planned) => (Ok(version), planned.writes(version), planned.changes),
            Err(error) if error.refusal().is_some() => (Err(error), Vec::new(), Vec::new()),
            Err(error) => return Err(error),
        };
        if let Some(request) = batch.request {
            writes.extend(outcome::writes(inner.next_outcome, request, &outcome));
        }
        let reserve = outcome.is_ok() && version.0 > inner.reserved;
        if reserve {
            writes.push(format::reserve(version.0 + RESERVE));
        }
        if !writes.is_empty() {
            self.write(&mut inner, writes, reserve || durability == Durability::Sync)?;
        }
        if reserve {
            inner.reserved = version.0 + RESERVE;
        }
        if let Some(request) = batch.request {
            inner.next_outcome += 1;
            inner.history.remember(request, outcome.clone());
        }
        if outcome.is_ok() {
            inner.version = version;
            let watched = changes.into_iter().filter(|keys| !self.shared.is_unwatched(keys));
            inner.history.add(version, watched.map(|keys| (SOLE, keys)).collect());
            let snapshot = self.shared.map.snapshot().inspect_err(|_| inner.failed = true)?;
            inner.newest = Arc::new(OrderedView::new(snapshot, version));
            self.shared.happened.notify_all();
        }
        outcome.map(|version| Commit { version, repeated: false })
    }

    /// Writes, and syncs where that is wanted. After a failure that is not for want of room nothing more is taken.
    fn write(&self, inner: &mut OrderedInner<O>, writes: Vec<Write>, sync: bool) -> Result<()> {
        let written = self.shared.map.write(writes);
        if let Err(error) = &written
            && matches!(error.kind(), ErrorKind::Full | ErrorKind::Busy | ErrorKind::Invalid)
        {
            return written;
        }
        let synced = written.and_then(|()| if sync { self.shared.map.sync() } else { Ok(()) });
        synced.inspect_err(|_| inner.failed = true)
    }

    /// Checks the conditions and works out what a batch does.
    fn decide(&self, inner: &OrderedInner<O>, batch: &Batch) -> Result<Planned> {
        for (index, condition) in (0u32..).zip(&batch.conditions) {
            if !self.holds(inner, condition)? {
                let message = format!("condition {index} does not hold: {condition:?}");
                return Err(Error::refused(Refusal::Condition(index), message));
            }
        }
        let is_watched = |range: &KeyRange| !self.shared.is_unwatched(range);
        plan::plan(&inner.newest, &self.shared.profile, &batch.operations, is_watched)
    }

    fn holds(&self, inner: &OrderedInner<O>, condition: &Condition) -> Result<bool> {
        let version = |space: &SpaceId, key: &Bytes| -> Result<Option<Version>> {
            if *space != SOLE {
                return Ok(None);
            }
            Ok(record_of(inner.newest.snapshot(), key)?.map(|(version, _)| version))
        };
        Ok(match condition {
            Condition::Absent { space, key } => version(space, key)?.is_none(),
            Condition::Present { space, key } => version(space, key)?.is_some(),
            Condition::VersionIs { space, key, version: wanted } => version(space, key)? == Some(*wanted),
            Condition::RangeEmpty { space, range } => {
                inner.newest.cursor(*space, range.clone(), Direction::Forward)?.next()?.is_none()
            }
            Condition::RangeUnchanged { space, range, since } => {
                let is_known = !self.shared.unwatched.iter().any(|unwatched| unwatched.overlaps(range));
                is_known && inner.history.unchanged(*space, range, *since)
            }
        })
    }
}

impl<O: Ordered> std::fmt::Debug for OrderedKv<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OrderedKv").field("profile", &self.shared.profile).finish_non_exhaustive()
    }
}

impl<O: Ordered> Kv for OrderedKv<O> {
    fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    fn view(&self) -> Result<Arc<dyn View>> {
        Ok(Arc::clone(&self.shared.open()?.newest) as Arc<dyn View>)
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        self.view()?.lookup(space, key, offset, length, wait)
    }

    fn stage(&self, _hint: StageHint) -> Result<Box<dyn Stage>> {
        let message = "this store takes short values only, with their batch; put `Split` over it to have stages";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    fn submit(&self, batch: Batch, durability: Durability, _wait: Wait) -> Ticket {
        Ticket::ready(self.commit_now(&batch, durability))
    }

    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
        if space != SOLE {
            return Err(one_space());
        }
        Ok(Box::new(HistoryWatch::new(Arc::clone(&self.shared), space, range, from)?))
    }

    fn usage(&self) -> Result<Usage> {
        drop(self.shared.open()?);
        self.shared.map.usage()
    }

    fn sync(&self) -> Result<()> {
        // Not under the lock: batches go on meanwhile.
        drop(self.shared.open()?);
        self.shared.map.sync().inspect_err(|_| self.shared.inner.lock().failed = true)
    }

    fn close(&self) -> Result<()> {
        if !self.shared.process.is_here() {
            return Ok(());
        }
        let was_closed = std::mem::replace(&mut self.shared.inner.lock().closed, true);
        self.shared.happened.notify_all();
        if was_closed { Ok(()) } else { self.shared.map.close() }
    }
}
