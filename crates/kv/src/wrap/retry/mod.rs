//! Repeats what failed for a reason that passes.
//!
//! Invariants:
//! - Only [`Error::retryable`](crate::Error::retryable) decides whether a call is repeated, and never more often than was allowed.
//! - A batch is repeated under one request id, its own or one that is given to it: it takes effect once, also where the
//!   answer to an attempt was lost.
//! - A view stays the version that was pinned: its reads are repeated on it, and where it is gone the caller hears so.
//! - Batches of one thread keep their order: one of a thread is under way at a time, the others wait for its outcome.
//! - What must not wait does not: a read that may not wait says that it would, and the pauses of `submit` pass on threads of their own.

mod queues;
mod readers;

use std::sync::Arc;
use std::time::Duration;

use koine_engine::{
    Batch, Commit, Durability, Error, KeyRange, RequestId, Result, SpaceId, StageHint, Ticket, Version,
};
use koine_env::{Clock, OsRandom, Random, SystemClock};

use self::queues::ThreadQueues;
use self::readers::{RetryCursor, RetryStage, RetryWatch};
use super::calls::Call;
use super::intercept::{CursorArguments, InterceptedView, Interceptor, PayloadLen};
use crate::seam::{Cursor, Kv, Lookup, Profile, Stage, Usage, View, Wait, Watch};

/// How often and after which pauses.
#[derive(Clone, Debug)]
pub struct RetryOptions {
    /// How often a call is tried in all; at least once.
    pub attempts_max: u32,
    /// The first pause; each is up to twice as long as the one before.
    pub pause_min: Duration,
    /// No pause is longer.
    pub pause_max: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        RetryOptions { attempts_max: 8, pause_min: Duration::from_millis(2), pause_max: Duration::from_secs(1) }
    }
}

/// A store that tries again.
///
/// The ids that it gives count among the outcomes that the store below remembers (65,536 of them).
///
/// What cannot be repeated without harm is told as it is: the end of a stage, and a piece of which the stage's length
/// does not tell whether it was taken.
pub struct Retry {
    queues: Arc<ThreadQueues>,
}

/// When to try again.
struct Policy {
    options: RetryOptions,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl Policy {
    /// Whether to try once more after this error of this attempt, counted from 1, and after which pause.
    fn again(&self, error: &Error, attempt: u32) -> Option<Duration> {
        if !error.retryable() || attempt >= self.options.attempts_max {
            return None;
        }
        let doubled = self.options.pause_min.saturating_mul(1 << (attempt - 1).min(20));
        let longest = u64::try_from(doubled.min(self.options.pause_max).as_nanos()).unwrap_or(u64::MAX);
        // From a half to the whole of it: those who failed together do not come back together.
        let half = longest / 2;
        Some(Duration::from_nanos(half + self.random.next_u64() % (longest - half + 1)))
    }

    /// Calls until it succeeds, fails for good, or was tried often enough.
    fn repeat<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        let mut attempt = 1;
        loop {
            match call() {
                Ok(done) => return Ok(done),
                Err(error) => match self.again(&error, attempt) {
                    Some(pause) => self.clock.sleep(pause),
                    None => return Err(told(error, attempt)),
                },
            }
            attempt += 1;
        }
    }
}

/// The last error, with how often it was tried where that did not help.
fn told(error: Error, attempts: u32) -> Error {
    if attempts == 1 || !error.retryable() {
        return error;
    }
    Error::new(error.kind(), format!("tried {attempts} times: {error}"))
}

impl Interceptor for Policy {
    fn intercept<T: PayloadLen>(&self, _call: Call, body: impl FnMut() -> Result<T>) -> Result<T> {
        self.repeat(body)
    }

    fn at_once<T: PayloadLen>(&self, _call: Call, mut body: impl FnMut() -> Result<T>) -> Result<Option<T>> {
        match body() {
            Err(error) if error.retryable() => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    fn cursor(self: &Arc<Self>, view: &Arc<dyn View>, retried: CursorArguments) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(RetryCursor::open(Arc::clone(self), Arc::clone(view), retried)?))
    }
}

impl Retry {
    /// Over a store, with the system's clock and randomness.
    pub fn new(inner: Arc<dyn Kv>, options: RetryOptions) -> Retry {
        Retry::with(inner, options, Arc::new(SystemClock::new()), Arc::new(OsRandom))
    }

    /// Pauses pass on this clock; jitter and ids are drawn here. Ids that two stores draw alike are one to the store below.
    pub fn with(inner: Arc<dyn Kv>, options: RetryOptions, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Retry {
        Retry { queues: Arc::new(ThreadQueues::new(inner, Policy { options, clock, random })) }
    }

    fn inner(&self) -> &dyn Kv {
        &*self.queues.inner
    }

    fn policy(&self) -> &Arc<Policy> {
        &self.queues.policy
    }
}

/// A batch that is tried under one id.
struct RetriedBatch {
    batch: Batch,
    durability: Durability,
    /// The id was given here: nobody can have used it before.
    is_named_here: bool,
    attempt: u32,
    /// What was visible before the first attempt; of requests that somebody may have made before.
    before: Option<Arc<dyn View>>,
}

impl RetriedBatch {
    fn new(mut batch: Batch, durability: Durability, random: &dyn Random) -> RetriedBatch {
        let is_named_here = batch.request.is_none();
        if is_named_here {
            let mut id = [0; 16];
            random.fill(&mut id);
            batch.request = Some(RequestId(id));
        }
        RetriedBatch { batch, durability, is_named_here, attempt: 0, before: None }
    }

    /// What an attempt sends.
    fn next_attempt(&mut self, inner: &dyn Kv) -> Result<Batch> {
        self.attempt += 1;
        if !self.is_named_here && self.before.is_none() {
            self.before = Some(inner.view()?);
        }
        Ok(self.batch.clone())
    }

    /// The commit as the caller knows it: what only we repeated was not repeated by the caller.
    fn seen(&self, commit: Commit) -> Commit {
        let is_ours = self.is_named_here
            || self.attempt > 1 && self.before.as_ref().is_some_and(|before| commit.version > before.version());
        Commit { repeated: commit.repeated && !is_ours, ..commit }
    }
}

impl Kv for Retry {
    fn profile(&self) -> &Profile {
        self.inner().profile()
    }

    fn view(&self) -> Result<Arc<dyn View>> {
        let view = self.policy().repeat(|| self.inner().view())?;
        Ok(Arc::new(InterceptedView::new(view, Arc::clone(self.policy()))))
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        self.policy().lookup(wait, || self.inner().lookup(space, key, offset, length, wait))
    }

    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        // One whose answer was lost has no bytes, and goes.
        let stage = self.policy().repeat(|| self.inner().stage(hint))?;
        Ok(Box::new(RetryStage::new(stage, Arc::clone(self.policy()))))
    }

    fn submit(&self, batch: Batch, durability: Durability, wait: Wait) -> Ticket {
        let mut retried = RetriedBatch::new(batch, durability, &*self.policy().random);
        if wait == Wait::Never || self.queues.is_busy() {
            return ThreadQueues::submit(&self.queues, retried);
        }
        let commit = self.policy().repeat(|| {
            let batch = retried.next_attempt(self.inner())?;
            self.inner().commit(batch, durability)
        });
        Ticket::ready(commit.map(|commit| retried.seen(commit)))
    }

    fn watch(&self, space: SpaceId, range: KeyRange, from: Version) -> Result<Box<dyn Watch>> {
        let watch = self.policy().repeat(|| self.inner().watch(space, range.clone(), from))?;
        Ok(Box::new(RetryWatch::new(watch, Arc::clone(self.policy()))))
    }

    fn usage(&self) -> Result<Usage> {
        self.policy().repeat(|| self.inner().usage())
    }

    fn sync(&self) -> Result<()> {
        self.policy().repeat(|| self.inner().sync())
    }

    fn close(&self) -> Result<()> {
        self.queues.wait_idle();
        self.policy().repeat(|| self.inner().close())
    }
}

impl std::fmt::Debug for Retry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retry").field("options", &self.policy().options).finish_non_exhaustive()
    }
}
