//! Counts what is asked of a store: calls, bytes, errors by kind, and how long each took.
//!
//! Invariants:
//! - A call is counted once it has its outcome, a batch that was submitted when its ticket is told.
//! - Counting is a few additions to counters of the thread's own, and two looks at the clock; of the steps of a cursor,
//!   which are shorter than those, one in 16 is timed.

mod gauges;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use koine_engine::{Batch, Commit, Durability, KeyRange, Result, SpaceId, StageHint, StageToken, Ticket, Version};
use koine_env::{Clock, SystemClock};

use self::gauges::Gauges;
pub use self::gauges::{Latency, Metered, Snapshot};
use super::around::{Around, AroundView, Carried, Walk, inline_len};
use super::calls::Call;
use crate::seam::{Cursor, Entry, Glance, Kv, ReadNow, Stage, Usage, View, Watch, WatchEvent};

/// One step of a cursor in so many is timed.
const STEPS_EACH: u32 = 16;

/// A store that counts.
pub struct Meter {
    inner: Arc<dyn Kv>,
    shared: Arc<Shared>,
}

struct Shared {
    gauges: Gauges,
    clock: Arc<dyn Clock>,
}

impl Shared {
    /// Counts and times a call; `carried` is what it took in, beside what it gives.
    fn meter<T: Carried>(&self, call: Call, carried: u64, go: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = self.clock.monotonic();
        let outcome = go();
        self.gauges.time(call, self.clock.monotonic().saturating_sub(begun));
        self.gauges.count(call, outcome.as_ref().map(|done| done.carried() + carried));
        outcome
    }
}

impl Meter {
    /// Over a store, by the system's clock.
    pub fn new(inner: Arc<dyn Kv>) -> Meter {
        Meter::with(inner, Arc::new(SystemClock::new()))
    }

    /// By this clock.
    pub fn with(inner: Arc<dyn Kv>, clock: Arc<dyn Clock>) -> Meter {
        Meter { inner, shared: Arc::new(Shared { gauges: Gauges::new(), clock }) }
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.gauges.snapshot()
    }
}

impl Around for Shared {
    fn around<T: Carried>(&self, call: Call, body: impl FnMut() -> Result<T>) -> Result<T> {
        self.meter(call, 0, body)
    }

    fn read_now(&self, body: impl FnMut() -> Result<ReadNow>) -> Result<ReadNow> {
        self.meter(Call::ReadNow, 0, body)
    }

    fn cursor(self: &Arc<Self>, view: &Arc<dyn View>, asked: Walk) -> Result<Box<dyn Cursor>> {
        let inner = self.meter(Call::Cursor, 0, || asked.open(&**view))?;
        Ok(Box::new(MeterCursor { inner, shared: Arc::clone(self), steps: 0 }))
    }
}

impl Kv for Meter {
    crate::pass_on!(Kv, inner: profile);

    fn view(&self) -> Result<Arc<dyn View>> {
        let inner = self.shared.meter(Call::View, 0, || self.inner.view())?;
        Ok(Arc::new(AroundView::new(inner, Arc::clone(&self.shared))))
    }

    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.shared.meter(Call::Get, 0, || self.inner.get(space, key))
    }

    /// What it does about a read may take a while: it is done about the calls of a view.
    fn glance(&self, _space: SpaceId, _key: &[u8], _offset: u64, _length: usize) -> Result<Glance> {
        Ok(Glance::Unknown)
    }

    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        let inner = self.shared.meter(Call::Stage, 0, || self.inner.stage(hint))?;
        Ok(Box::new(MeterStage { inner, shared: Arc::clone(&self.shared) }))
    }

    fn submit(&self, batch: Batch, durability: Durability) -> Ticket {
        let (shared, carried) = (Arc::clone(&self.shared), inline_len(&batch));
        let begun = shared.clock.monotonic();
        let (ticket, completer) = Ticket::new();
        self.inner.submit(batch, durability).on_done(move |outcome| {
            shared.gauges.time(Call::Submit, shared.clock.monotonic().saturating_sub(begun));
            shared.gauges.count(Call::Submit, outcome.as_ref().map(|_| carried));
            completer.complete(outcome);
        });
        ticket
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<Commit> {
        let carried = inline_len(&batch);
        self.shared.meter(Call::Commit, carried, || self.inner.commit(batch, durability))
    }

    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
        let inner = self.shared.meter(Call::Watch, 0, || self.inner.watch(space, range, from))?;
        Ok(Box::new(MeterWatch { inner, shared: Arc::clone(&self.shared) }))
    }

    fn usage(&self) -> Result<Usage> {
        self.shared.meter(Call::Usage, 0, || self.inner.usage())
    }

    fn sync(&self) -> Result<()> {
        self.shared.meter(Call::Sync, 0, || self.inner.sync())
    }

    fn close(&self) -> Result<()> {
        self.shared.meter(Call::Close, 0, || self.inner.close())
    }
}

struct MeterCursor {
    inner: Box<dyn Cursor>,
    shared: Arc<Shared>,
    steps: u32,
}

impl Cursor for MeterCursor {
    fn next(&mut self) -> Result<Option<Entry>> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps % STEPS_EACH == 1 {
            return self.shared.meter(Call::Next, 0, || self.inner.next());
        }
        let entry = self.inner.next();
        self.shared.gauges.count(Call::Next, entry.as_ref().map(Carried::carried));
        entry
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.shared.meter(Call::Seek, 0, || self.inner.seek(key))
    }
}

struct MeterStage {
    inner: Box<dyn Stage>,
    shared: Arc<Shared>,
}

impl Stage for MeterStage {
    crate::pass_on!(Stage, inner: length);

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.shared.meter(Call::Write, piece.len() as u64, || self.inner.write(piece))
    }

    fn finish(self: Box<Self>) -> Result<StageToken> {
        let MeterStage { inner, shared } = *self;
        shared.meter(Call::Finish, 0, || inner.finish())
    }
}

struct MeterWatch {
    inner: Box<dyn Watch>,
    shared: Arc<Shared>,
}

impl Watch for MeterWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<WatchEvent>> {
        self.shared.meter(Call::Event, 0, || self.inner.next(timeout))
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").finish_non_exhaustive()
    }
}
