//! Bounds what one user of a store may ask of it.
//!
//! Invariants:
//! - What is beyond a bound waits, for a bounded time, and then fails with `Busy` (`Full` beyond the quota) and did nothing.
//! - What gives something back never waits for a place: dropping, closing, the steps of a watch.
//! - Places are left before an outcome is told: who hears it may ask again.

mod gate;

use std::sync::Arc;
use std::time::Duration;

use koine_engine::{Batch, Durability, KeyRange, Result, SpaceId, StageHint, Ticket, Version};
use koine_env::{Clock, SystemClock};

use self::gate::{Permit, Quota, RateLimiter, Semaphore};
use super::calls::Call;
use super::intercept::{CursorArguments, InterceptedView, Interceptor, PayloadLen, inline_len};
use crate::check::check_batch;
use crate::seam::{Cursor, Entry, Kv, Lookup, Profile, Stage, Usage, View, Wait, Watch};

/// So much in a second, and so much at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How much a second.
    pub per_second: u64,
    /// How much at once; what is larger passes alone.
    pub burst: u64,
}

/// The bounds. Those that are not set bound nothing.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests under way at once: batches until their outcome, reads, pieces of stages.
    pub requests_max: Option<u64>,
    /// Bytes of batches and pieces under way at once. The longest batch is no longer than this.
    pub bytes_max: Option<u64>,
    /// Views held at once; a cursor holds its view's place.
    pub views_max: Option<u64>,
    /// Stages held at once, until they are finished or dropped.
    pub stages_max: Option<u64>,
    /// Watches held at once.
    pub watches_max: Option<u64>,
    /// Requests a second. The steps of cursors and watches are none.
    pub requests_rate: Option<Rate>,
    /// Bytes written and read a second. Reads are paid for afterwards, by those that follow.
    pub bytes_rate: Option<Rate>,
    /// Bytes in use: beyond them nothing can be added. The store is looked at now and then, so that what lies beside values
    /// and what others add is noticed late, by up to a sixteenth of what was left.
    pub usage_max: Option<u64>,
    /// So long a request waits for its turn.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            requests_max: None,
            bytes_max: None,
            views_max: None,
            stages_max: None,
            watches_max: None,
            requests_rate: None,
            bytes_rate: None,
            usage_max: None,
            wait: Duration::from_secs(5),
        }
    }
}

/// A store of which only so much may be asked.
///
/// A submit waits for its turn in the calling thread. Who submits from a callback of a ticket, which must not wait, sets
/// [`Limits::wait`] to nothing.
pub struct Limit {
    inner: Arc<dyn Kv>,
    shared: Arc<Bounds>,
}

struct Bounds {
    profile: Profile,
    wait: Duration,
    requests: Option<Arc<Semaphore>>,
    bytes: Option<Arc<Semaphore>>,
    views: Option<Arc<Semaphore>>,
    stages: Option<Arc<Semaphore>>,
    watches: Option<Arc<Semaphore>>,
    requests_rate: Option<RateLimiter>,
    bytes_rate: Option<RateLimiter>,
    quota: Option<Quota>,
}

/// The places of a request; nothing where nothing is bounded.
type Places = [Option<Permit>; 2];

impl Bounds {
    /// A place of a gate, where there is one.
    fn place(&self, gate: Option<&Arc<Semaphore>>, count: u64) -> Result<Option<Permit>> {
        gate.map(|gate| gate.enter(count, self.wait)).transpose()
    }

    /// The turn of a request that brings so many bytes.
    fn enter(&self, bytes: u64, wait: Duration) -> Result<Places> {
        if let Some(rate) = &self.requests_rate {
            rate.take(1, wait)?;
        }
        if let Some(rate) = &self.bytes_rate {
            rate.take(bytes, wait)?;
        }
        let enter =
            |gate: &Option<Arc<Semaphore>>, count: u64| gate.as_ref().map(|gate| gate.enter(count, wait)).transpose();
        Ok([enter(&self.requests, 1)?, enter(&self.bytes, bytes)?])
    }

    fn pay<T: PayloadLen>(&self, outcome: &Result<T>) {
        if let (Some(rate), Ok(done)) = (&self.bytes_rate, outcome) {
            rate.pay(done.payload_len());
        }
    }

    /// A request that reads and may not wait; `None` where its turn is not now.
    fn at_once<T: PayloadLen>(&self, mut go: impl FnMut() -> Result<T>) -> Result<Option<T>> {
        let Ok(_places) = self.enter(0, Duration::ZERO) else {
            return Ok(None);
        };
        let outcome = go();
        self.pay(&outcome);
        outcome.map(Some)
    }

    /// A request that reads.
    fn read<T: PayloadLen>(&self, mut go: impl FnMut() -> Result<T>) -> Result<T> {
        let _places = self.enter(0, self.wait)?;
        let outcome = go();
        self.pay(&outcome);
        outcome
    }
}

impl Limit {
    /// Over a store, by the system's clock.
    pub fn new(inner: Arc<dyn Kv>, limits: &Limits) -> Limit {
        Limit::with(inner, limits, Arc::new(SystemClock::new()))
    }

    /// Rates by this clock.
    pub fn with(inner: Arc<dyn Kv>, limits: &Limits, clock: Arc<dyn Clock>) -> Limit {
        let mut profile = inner.profile().clone();
        let longest = limits.bytes_max.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        profile.batch_bytes_max = profile.batch_bytes_max.min(longest);
        profile.inline_len_best = profile.inline_len_best.min(profile.batch_bytes_max);
        let gate = |what, most: Option<u64>| most.map(|most| Semaphore::new(what, most));
        let flow = |what, rate: Option<Rate>| rate.map(|rate| RateLimiter::new(what, rate, Arc::clone(&clock)));
        let shared = Bounds {
            profile,
            wait: limits.wait,
            requests: gate("requests under way", limits.requests_max),
            bytes: gate("bytes under way", limits.bytes_max),
            views: gate("views", limits.views_max),
            stages: gate("stages", limits.stages_max),
            watches: gate("watches", limits.watches_max),
            requests_rate: flow("requests", limits.requests_rate),
            bytes_rate: flow("bytes", limits.bytes_rate),
            quota: limits.usage_max.map(Quota::new),
        };
        Limit { inner, shared: Arc::new(shared) }
    }

    /// The turn of a batch.
    fn enter(&self, batch: &Batch) -> Result<Places> {
        check_batch(&self.shared.profile, batch)?;
        let bytes = inline_len(batch);
        if let Some(quota) = &self.shared.quota {
            quota.take(&*self.inner, bytes)?;
        }
        self.shared.enter(bytes, self.shared.wait)
    }
}

/// What a view's calls go through; the place is left with the last of the view and its cursors.
struct LimitedView {
    shared: Arc<Bounds>,
    _place: Option<Permit>,
}

impl Interceptor for LimitedView {
    fn intercept<T: PayloadLen>(&self, _call: Call, body: impl FnMut() -> Result<T>) -> Result<T> {
        self.shared.read(body)
    }

    fn at_once<T: PayloadLen>(&self, _call: Call, body: impl FnMut() -> Result<T>) -> Result<Option<T>> {
        self.shared.at_once(body)
    }

    fn cursor(self: &Arc<Self>, view: &Arc<dyn View>, asked: CursorArguments) -> Result<Box<dyn Cursor>> {
        let inner = self.shared.read(|| asked.open(&**view))?;
        Ok(Box::new(LimitCursor { inner, pinned: Arc::clone(self) }))
    }
}

impl Kv for Limit {
    crate::pass_on!(Kv, inner: sync, close);

    fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    fn view(&self) -> Result<Arc<dyn View>> {
        let place = self.shared.place(self.shared.views.as_ref(), 1)?;
        let view = self.shared.read(|| self.inner.view())?;
        let pinned = LimitedView { shared: Arc::clone(&self.shared), _place: place };
        Ok(Arc::new(InterceptedView::new(view, Arc::new(pinned))))
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        let look = || self.inner.lookup(space, key, offset, length, wait);
        match wait {
            Wait::Allowed => self.shared.read(look),
            Wait::Never => Ok(self.shared.at_once(look)?.unwrap_or(Lookup::WouldWait)),
        }
    }

    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        let place = self.shared.place(self.shared.stages.as_ref(), 1)?;
        let inner = self.shared.read(|| self.inner.stage(hint))?;
        let (kv, shared) = (Arc::clone(&self.inner), Arc::clone(&self.shared));
        Ok(Box::new(LimitStage { inner, kv, shared, _place: place }))
    }

    fn submit(&self, batch: Batch, durability: Durability, wait: Wait) -> Ticket {
        match self.enter(&batch) {
            Ok([None, None]) => self.inner.submit(batch, durability, wait),
            Ok(places) => {
                let (ticket, completer) = Ticket::new();
                self.inner.submit(batch, durability, wait).on_done(move |outcome| {
                    drop(places);
                    completer.complete(outcome);
                });
                ticket
            }
            Err(error) => Ticket::ready(Err(error)),
        }
    }

    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
        let place = self.shared.place(self.shared.watches.as_ref(), 1)?;
        let inner = self.shared.read(|| self.inner.watch(space, range.clone(), from))?;
        Ok(Box::new(LimitWatch { inner, _place: place }))
    }

    fn usage(&self) -> Result<Usage> {
        let usage = self.inner.usage()?;
        let Some(most) = self.shared.quota.as_ref().map(Quota::most) else {
            return Ok(usage);
        };
        // Who has more than may be used has no more than all of it.
        Ok(Usage {
            total: usage.total.min(most).max(usage.used),
            used: usage.used,
            free: usage.free.min(most.saturating_sub(usage.used)),
            limit: Some(usage.limit.unwrap_or(most).min(most).max(usage.used)),
        })
    }
}

struct LimitCursor {
    inner: Box<dyn Cursor>,
    pinned: Arc<LimitedView>,
}

impl Cursor for LimitCursor {
    crate::pass_on!(Cursor, inner: seek);

    fn next(&mut self) -> Result<Option<Entry>> {
        let shared = &self.pinned.shared;
        if let Some(rate) = &shared.bytes_rate {
            rate.take(0, shared.wait)?;
        }
        let entry = self.inner.next();
        shared.pay(&entry);
        entry
    }
}

struct LimitStage {
    inner: Box<dyn Stage>,
    kv: Arc<dyn Kv>,
    shared: Arc<Bounds>,
    _place: Option<Permit>,
}

impl Stage for LimitStage {
    crate::pass_on!(Stage, inner: length, finish);

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        let bytes = piece.len() as u64;
        if let Some(quota) = &self.shared.quota {
            quota.take(&*self.kv, bytes)?;
        }
        let _places = self.shared.enter(bytes, self.shared.wait)?;
        self.inner.write(piece)
    }
}

struct LimitWatch {
    inner: Box<dyn Watch>,
    _place: Option<Permit>,
}

impl Watch for LimitWatch {
    crate::pass_on!(Watch, inner: next);
}

impl std::fmt::Debug for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limit").field("profile", &self.shared.profile).finish_non_exhaustive()
    }
}
