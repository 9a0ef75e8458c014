//! Errors, lost answers and delays where there were none: for tests of what lies above.
//!
//! Invariants:
//! - An injected error was told instead of the call: nothing happened. A lost answer was told after it: all of it did.
//! - What happens follows from the seed and the order of the calls alone.
//! - An event of a watch is never lost, since the seam says that an error takes none away: there, a lost answer is an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koine_engine::{
    Batch, Commit, Durability, Error, ErrorKind, KeyRange, Result, SpaceId, StageHint, StageToken, Ticket, Version,
};
use koine_env::{Clock, Random, SeededRandom};
use parking_lot::Mutex;

use super::calls::{Call, Calls};
use super::intercept::{CursorArguments, InterceptedView, Interceptor, PayloadLen};
use crate::seam::{Cursor, Entry, Kv, Lookup, Stage, Usage, View, Wait, Watch, WatchEvent};

/// What goes wrong, and how often. Of a call at most one thing does.
#[derive(Clone, Debug)]
pub struct Faults {
    /// What is drawn follows from it.
    pub seed: u64,
    /// The calls that may go wrong.
    pub calls: Calls,
    /// Of 1000 calls so many fail, and nothing happens.
    pub errors: u32,
    /// Of 1000 calls so many happen, and an error is told.
    pub lost: u32,
    /// Of 1000 calls so many begin late.
    pub delays: u32,
    /// By so much.
    pub delay: Duration,
    /// The kind of the errors.
    pub kind: ErrorKind,
    /// After so many errors and lost answers no more.
    pub most: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            seed: 0,
            calls: Calls::ALL,
            errors: 0,
            lost: 0,
            delays: 0,
            delay: Duration::from_millis(1),
            kind: ErrorKind::Busy,
            most: u64::MAX,
        }
    }
}

/// How much went wrong so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Errors instead of a call.
    pub errors: u64,
    /// Errors after a call.
    pub lost: u64,
    /// Calls that began late.
    pub delays: u64,
}

/// A store in which things go wrong.
pub struct Fault {
    inner: Arc<dyn Kv>,
    shared: Arc<FaultState>,
}

struct FaultState {
    plan: Mutex<(Faults, SeededRandom)>,
    clock: Arc<dyn Clock>,
    errors: AtomicU64,
    lost: AtomicU64,
    delays: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    Error(ErrorKind),
    Lost(ErrorKind),
}

impl Fault {
    /// Over a store; delays pass on the clock.
    pub fn new(inner: Arc<dyn Kv>, faults: Faults, clock: Arc<dyn Clock>) -> Fault {
        let random = SeededRandom::new(faults.seed);
        let (errors, lost, delays) = Default::default();
        let shared = FaultState { plan: Mutex::new((faults, random)), clock, errors, lost, delays };
        Fault { inner, shared: Arc::new(shared) }
    }

    /// Goes on with another plan, its seed included.
    pub fn set(&self, faults: Faults) {
        let random = SeededRandom::new(faults.seed);
        *self.shared.plan.lock() = (faults, random);
    }

    /// What went wrong so far.
    pub fn injected(&self) -> Injected {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shared = &self.shared;
        Injected { errors: count(&shared.errors), lost: count(&shared.lost), delays: count(&shared.delays) }
    }
}

impl FaultState {
    /// What goes wrong with a call that begins now, after its delay.
    fn draw(&self, call: Call) -> Trouble {
        let (trouble, delay) = {
            let mut plan = self.plan.lock();
            let (faults, random) = &mut *plan;
            if !faults.calls.has(call) {
                return Trouble::None;
            }
            let mut drawn = random.next_u64() % 1000;
            let mut falls = |of: u32| {
                let falls = drawn < u64::from(of);
                drawn = drawn.wrapping_sub(u64::from(of));
                falls
            };
            let trouble = if falls(faults.errors) {
                Trouble::Error(faults.kind)
            } else if falls(faults.lost) {
                if call == Call::Event { Trouble::Error(faults.kind) } else { Trouble::Lost(faults.kind) }
            } else {
                Trouble::None
            };
            let delay = (trouble == Trouble::None && falls(faults.delays)).then_some(faults.delay);
            match trouble {
                Trouble::None => (trouble, delay),
                _ if faults.most == 0 => (Trouble::None, delay),
                _ => {
                    faults.most -= 1;
                    (trouble, delay)
                }
            }
        };
        match trouble {
            Trouble::None => {}
            Trouble::Error(_) => _ = self.errors.fetch_add(1, Ordering::Relaxed),
            Trouble::Lost(_) => _ = self.lost.fetch_add(1, Ordering::Relaxed),
        }
        if let Some(delay) = delay {
            self.delays.fetch_add(1, Ordering::Relaxed);
            self.clock.sleep(delay);
        }
        trouble
    }

    fn stop<T>(&self, call: Call, go: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.draw(call) {
            Trouble::None => go(),
            Trouble::Error(kind) => Err(instead(call, kind)),
            Trouble::Lost(kind) => {
                // Whatever it was, nobody hears of it.
                let _outcome = go();
                Err(after(call, kind))
            }
        }
    }
}

fn instead(call: Call, kind: ErrorKind) -> Error {
    Error::new(kind, format!("injected: {call} was not done"))
}

fn after(call: Call, kind: ErrorKind) -> Error {
    Error::new(kind, format!("injected: {call} was done, and its answer lost"))
}

impl Interceptor for FaultState {
    fn intercept<T: PayloadLen>(&self, call: Call, body: impl FnMut() -> Result<T>) -> Result<T> {
        self.stop(call, body)
    }

    fn at_once<T: PayloadLen>(&self, call: Call, body: impl FnMut() -> Result<T>) -> Result<Option<T>> {
        self.stop(call, body).map(Some)
    }

    fn cursor(self: &Arc<Self>, view: &Arc<dyn View>, asked: CursorArguments) -> Result<Box<dyn Cursor>> {
        let inner = self.stop(Call::Cursor, || asked.open(&**view))?;
        Ok(Box::new(FaultCursor { inner, shared: Arc::clone(self) }))
    }
}

impl Kv for Fault {
    crate::pass_on!(Kv, inner: profile);

    fn view(&self) -> Result<Arc<dyn View>> {
        let inner = self.shared.stop(Call::View, || self.inner.view())?;
        Ok(Arc::new(InterceptedView::new(inner, Arc::clone(&self.shared))))
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        self.shared.lookup(wait, || self.inner.lookup(space, key, offset, length, wait))
    }

    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        let inner = self.shared.stop(Call::Stage, || self.inner.stage(hint))?;
        Ok(Box::new(FaultStage { inner, shared: Arc::clone(&self.shared) }))
    }

    fn submit(&self, batch: Batch, durability: Durability, wait: Wait) -> Ticket {
        match self.shared.draw(Call::Submit) {
            Trouble::None => self.inner.submit(batch, durability, wait),
            Trouble::Error(kind) => Ticket::ready(Err(instead(Call::Submit, kind))),
            Trouble::Lost(kind) => {
                let (ticket, completer) = Ticket::new();
                let lose = move |_outcome: Result<Commit>| completer.complete(Err(after(Call::Submit, kind)));
                self.inner.submit(batch, durability, wait).on_done(lose);
                ticket
            }
        }
    }

    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
        let inner = self.shared.stop(Call::Watch, || self.inner.watch(space, range, from))?;
        Ok(Box::new(FaultWatch { inner, shared: Arc::clone(&self.shared) }))
    }

    fn usage(&self) -> Result<Usage> {
        self.shared.stop(Call::Usage, || self.inner.usage())
    }

    fn sync(&self) -> Result<()> {
        self.shared.stop(Call::Sync, || self.inner.sync())
    }

    fn close(&self) -> Result<()> {
        self.shared.stop(Call::Close, || self.inner.close())
    }
}

struct FaultCursor {
    inner: Box<dyn Cursor>,
    shared: Arc<FaultState>,
}

impl Cursor for FaultCursor {
    fn next(&mut self) -> Result<Option<Entry>> {
        self.shared.stop(Call::Next, || self.inner.next())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.shared.stop(Call::Seek, || self.inner.seek(key))
    }
}

struct FaultStage {
    inner: Box<dyn Stage>,
    shared: Arc<FaultState>,
}

impl Stage for FaultStage {
    crate::pass_on!(Stage, inner: length);

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.shared.stop(Call::Write, || self.inner.write(piece))
    }

    fn finish(self: Box<Self>) -> Result<StageToken> {
        let FaultStage { inner, shared } = *self;
        shared.stop(Call::Finish, || inner.finish())
    }
}

struct FaultWatch {
    inner: Box<dyn Watch>,
    shared: Arc<FaultState>,
}

impl Watch for FaultWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<WatchEvent>> {
        self.shared.stop(Call::Event, || self.inner.next(timeout))
    }
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fault").field("injected", &self.injected()).finish_non_exhaustive()
    }
}
