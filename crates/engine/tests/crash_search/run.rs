//! One life of a store: a workload run against an engine and, beside it, the model.
//!
//! Everything happens on one thread, background work included, so that a seed always gives the same life.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::device::{Device, MemoryDevice, RecordingDevice};
use koine_engine::{
    Batch, Commit, DefragOptions, DefragPosition, Durability, Error, ErrorKind, Operation, Payload, Refusal, Result,
    StageHint, Version,
};
use parking_lot::Mutex;

use crate::coverage::Coverage;
use crate::model::Content;
use crate::store::{self, Engine, View};
use crate::workload::{Action, Generator};

/// Why a run ends before its time.
#[derive(Debug)]
pub enum Stop {
    /// The engine did what it must not.
    Wrong(String),
    /// The engine said that the device failed, or that it stopped for that reason.
    Failed(Error),
    /// The engine said that something on the device is damaged.
    Damaged(Error),
}

/// What a check or a piece of a run comes to.
pub type Verdict<T = ()> = std::result::Result<T, Stop>;

impl From<String> for Stop {
    fn from(message: String) -> Stop {
        Stop::Wrong(message)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Wrong(message) => f.write_str(message),
            Stop::Failed(error) | Stop::Damaged(error) => write!(f, "without any fault: {error:?}"),
        }
    }
}

/// Tells an error of the device from one that has no place here.
pub fn stop(what: &str) -> impl FnOnce(Error) -> Stop + '_ {
    move |error| match error.kind() {
        ErrorKind::Device | ErrorKind::Stopped => Stop::Failed(error),
        ErrorKind::Damaged => Stop::Damaged(error),
        _ => Stop::Wrong(format!("{what}: {error:?}")),
    }
}

fn wrong<T>(message: impl Into<String>) -> Verdict<T> {
    Err(Stop::Wrong(message.into()))
}

/// The outcome of a submit and where in the recording it was told.
type Told = Arc<Mutex<Option<(Result<Commit>, usize)>>>;

/// A batch whose outcome the model does not have yet.
struct Waiting {
    /// With all bytes inline, for the model.
    batch: Batch,
    durability: Durability,
    told: Told,
}

/// The state after a commit.
#[derive(Clone)]
pub struct State {
    pub content: Content,
    pub version: u64,
    /// The batch that led to it, when it may be submitted again.
    pub repeatable: Option<Batch>,
}

/// When a commit was acknowledged.
#[derive(Clone, Copy)]
pub struct Answered {
    pub position: usize,
    /// Index into the states.
    pub state: usize,
    pub durability: Durability,
}

/// A device whose events have positions.
pub trait Positioned: Device + 'static {
    fn position(&self) -> usize;
}

impl Positioned for RecordingDevice<MemoryDevice> {
    fn position(&self) -> usize {
        RecordingDevice::position(self)
    }
}

/// A store in use.
pub struct Run<D: Positioned> {
    pub device: Arc<D>,
    pub engine: Engine,
    /// Starts with the state before the first commit.
    pub states: Vec<State>,
    pub told: Vec<Answered>,
    pub coverage: Coverage,
    /// Whether views are kept open.
    pub holds_views: bool,
    waiting: VecDeque<Waiting>,
    held: Vec<(View, usize)>,
}

impl<D: Positioned> Run<D> {
    pub fn new(device: Arc<D>, engine: Engine) -> Verdict<Self> {
        let content = store::read_all(&engine).map_err(stop("cannot read a new store"))?;
        let states = vec![State { content, version: 0, repeatable: None }];
        Ok(Run {
            device,
            engine,
            states,
            told: Vec::new(),
            coverage: Coverage::default(),
            holds_views: true,
            waiting: VecDeque::new(),
            held: Vec::new(),
        })
    }

    /// What the store holds now, as far as outcomes are known.
    pub fn content(&self) -> &Content {
        &self.states[self.states.len() - 1].content
    }

    /// Runs a whole workload.
    pub fn live(&mut self, generator: &mut Generator) -> Verdict {
        let create = Batch::new().then(Operation::CreateSpace { space: koine_engine::SpaceId::FIRST });
        self.submit(create, Durability::Sync)?;
        self.settle()?;
        for _ in 0..generator.shape.actions {
            let newest = self.waiting.is_empty().then(|| Version(self.states[self.states.len() - 1].version));
            let action = generator.next(self.content(), newest);
            self.act(action)?;
            self.take_outcomes()?;
        }
        self.settle()?;
        self.check_views(true)
    }

    pub fn act(&mut self, action: Action) -> Verdict {
        match action {
            Action::Submit { batch, durability } => self.submit(batch, durability),
            Action::Repeat => self.repeat(),
            Action::Step(count) => {
                for _ in 0..count {
                    self.step()?;
                }
                if count == 3 { self.defrag() } else { Ok(()) }
            }
            Action::Settle => self.settle(),
            Action::HoldView => self.hold_view(),
            Action::CheckViews => self.check_views(false),
            Action::LoseStage { data, finish } => self.lose_stage(&data, finish),
        }
    }

    fn step(&mut self) -> Verdict<bool> {
        self.engine.step().map_err(stop("a step of background work failed"))
    }

    /// Writes a value anew that lies in many pieces, if there is one.
    fn defrag(&mut self) -> Verdict {
        let options = DefragOptions { step_len: 1, ..DefragOptions::default() };
        let clock = Arc::new(koine_env::SystemClock::new());
        let begun = self.engine.defrag(options, clock, DefragPosition::default());
        match begun.and_then(|mut defrag| defrag.step()) {
            Ok(step) => self.coverage.add("window defragmented", step.windows),
            Err(error) if matches!(error.kind(), ErrorKind::Full | ErrorKind::Expired | ErrorKind::Busy) => {}
            Err(error) => return Err(stop("defragmenting failed")(error)),
        }
        self.take_outcomes()
    }

    pub fn submit(&mut self, batch: Batch, durability: Durability) -> Verdict {
        let before = self.waiting.is_empty().then(|| self.engine.view().version());
        let staged = stage_large(&self.engine, &batch, &mut self.coverage);
        self.count_logged_stage(before);
        let staged = match staged {
            Ok(staged) => staged,
            Err(error) if error.kind() == ErrorKind::Full => {
                self.coverage.count("full");
                return Ok(());
            }
            Err(error) => return Err(stop("staging failed")(error)),
        };
        let told = Told::default();
        let (slot, device) = (Arc::clone(&told), Arc::clone(&self.device));
        let ticket = self.engine.submit(staged, durability);
        ticket.on_done(move |outcome| *slot.lock() = Some((outcome, device.position())));
        self.waiting.push_back(Waiting { batch, durability, told });
        self.take_outcomes()
    }

    /// A stage that grew long was logged before its commit, which takes log numbers of its own.
    fn count_logged_stage(&mut self, before: Option<Version>) {
        if before.is_some_and(|before| self.engine.view().version() > before) {
            self.coverage.count("stage logged before its commit");
        }
    }

    /// Waits for everything that was submitted, doing the background work meanwhile.
    pub fn settle(&mut self) -> Verdict {
        let mut idle = 0;
        while !self.waiting.is_empty() {
            idle = if self.step()? { 0 } else { idle + 1 };
            self.take_outcomes()?;
            if idle > 1_000 {
                return wrong(format!("{} submits get no outcome, and there is no work left", self.waiting.len()));
            }
        }
        let found = store::read_all(&self.engine).map_err(stop("cannot read"))?;
        match self.content().difference(&found) {
            None => Ok(()),
            Some(difference) => wrong(format!("wrong content in a running store: {difference}")),
        }
    }

    /// Gives the model the outcomes that are there, in the order of the submits.
    fn take_outcomes(&mut self) -> Verdict {
        while let Some(front) = self.waiting.front() {
            let Some((outcome, position)) = front.told.lock().clone() else { return Ok(()) };
            if let Err(error) = &outcome
                && matches!(error.kind(), ErrorKind::Device | ErrorKind::Stopped)
            {
                // It stays in the queue: `in_doubt` looks at it again.
                return Err(Stop::Failed(error.clone()));
            }
            let Some(waiting) = self.waiting.pop_front() else { return Ok(()) };
            self.learn(waiting, outcome, position)?;
        }
        Ok(())
    }

    fn learn(&mut self, waiting: Waiting, outcome: Result<Commit>, position: usize) -> Verdict {
        let version = outcome.as_ref().ok().map(|commit| commit.version.0);
        let expected = self.content().after(&waiting.batch, version);
        match (outcome, expected) {
            (Ok(commit), Ok(content)) => {
                let before = self.states[self.states.len() - 1].version;
                if commit.version.0 <= before || commit.repeated {
                    return wrong(format!("{commit:?} after version {before}"));
                }
                let repeatable = waiting.batch.request.is_some().then(|| waiting.batch.clone());
                self.states.push(State { content, version: commit.version.0, repeatable });
                let (state, durability) = (self.states.len() - 1, waiting.durability);
                self.told.push(Answered { position, state, durability });
                count_commit(&waiting, &mut self.coverage);
                Ok(())
            }
            (Err(error), _) if error.kind() == ErrorKind::Full => {
                self.coverage.count("full");
                Ok(())
            }
            (Err(error), expected) if error.kind() == ErrorKind::Refused => {
                self.coverage.count("refused");
                if waiting.batch.request.is_some() {
                    self.coverage.count("refusal logged for its request");
                }
                match (expected, error.refusal()) {
                    (Err(_), _) => Ok(()),
                    // This condition may be refused falsely.
                    (Ok(_), Some(Refusal::Condition(_))) if is_unchanged_condition(&waiting.batch) => Ok(()),
                    (Ok(_), _) => {
                        wrong(format!("a batch that can be applied was refused: {error}: {:?}", waiting.batch))
                    }
                }
            }
            (Err(error), _) if error.kind() == ErrorKind::Damaged => Err(Stop::Damaged(error)),
            (Err(error), _) => wrong(format!("a submit failed: {error:?}: {:?}", waiting.batch)),
            (Ok(_), Err(no)) => wrong(format!("a batch was applied that must be refused, {no:?}: {:?}", waiting.batch)),
        }
    }

    /// After a failure: the states that the store may be in, first those that are certain to have been
    /// reached, from the last synced one on; then what the submits without a clear outcome may have made of it.
    pub fn in_doubt(&mut self) -> Verdict<Vec<State>> {
        for _ in 0..200 {
            if self.waiting.iter().all(|waiting| waiting.told.lock().is_some()) || self.engine.step().is_err() {
                break;
            }
        }
        let synced = self.told.iter().filter(|told| told.durability == Durability::Sync);
        let first = synced.map(|told| told.state).max().unwrap_or_default();
        let mut certain = self.states.split_off(first);
        let mut ends = vec![State { repeatable: None, ..certain[certain.len() - 1].clone() }];
        for waiting in std::mem::take(&mut self.waiting) {
            let outcome = waiting.told.lock().take().map(|(outcome, _)| outcome);
            let version = outcome.as_ref().and_then(|outcome| Some(outcome.as_ref().ok()?.version.0));
            let applied = ends.iter().filter_map(|end| {
                let content = end.content.after(&waiting.batch, version).ok()?;
                Some(State { content, version: version.unwrap_or_default(), repeatable: None })
            });
            let applied: Vec<State> = applied.take(64).collect();
            match outcome {
                Some(Ok(commit)) if applied.is_empty() => {
                    return wrong(format!("{commit:?} for a batch that must be refused: {:?}", waiting.batch));
                }
                Some(Ok(_)) if waiting.durability == Durability::Sync => {
                    certain.clear();
                    ends = applied;
                }
                Some(Ok(_)) => {
                    certain.append(&mut ends);
                    ends = applied;
                }
                Some(Err(error)) if matches!(error.kind(), ErrorKind::Refused | ErrorKind::Full) => {}
                // It alone failed, or so it says: those after it go on from either.
                Some(Err(error)) if error.kind() == ErrorKind::Device => ends.extend(applied),
                // The store stopped: what was on its way survives up to some commit.
                _ if applied.is_empty() => {}
                _ => {
                    certain.append(&mut ends);
                    ends = applied;
                }
            }
        }
        certain.append(&mut ends);
        Ok(certain)
    }

    /// Submits a batch again that was committed: it must get its first outcome and change nothing.
    fn repeat(&mut self) -> Verdict {
        self.settle()?;
        let Some(state) = self.states.iter().rev().find(|state| state.repeatable.is_some()) else { return Ok(()) };
        let Some(batch) = state.repeatable.clone() else { return Ok(()) };
        let version = state.version;
        self.coverage.count("request repeated");
        expect_repeated(&self.engine, &batch, version)
    }

    fn hold_view(&mut self) -> Verdict {
        if self.holds_views && self.held.len() < 3 {
            self.settle()?;
            self.held.push((self.engine.view(), self.states.len() - 1));
        }
        Ok(())
    }

    fn check_views(&mut self, all: bool) -> Verdict {
        let keep = if all { 0 } else { self.held.len().saturating_sub(1) };
        for (view, state) in &self.held {
            self.coverage.count("view held");
            let found = match store::read_view(view) {
                // A checkpoint that found no other room took it back.
                Err(error) if error.kind() == ErrorKind::Expired => {
                    self.coverage.count("view taken back");
                    continue;
                }
                found => found.map_err(stop("cannot read a held view"))?,
            };
            if let Some(difference) = self.states[*state].content.difference(&found) {
                return wrong(format!("a held view changed: {difference}"));
            }
        }
        self.held.truncate(keep);
        Ok(())
    }

    fn lose_stage(&mut self, data: &Bytes, finish: bool) -> Verdict {
        let before = self.waiting.is_empty().then(|| self.engine.view().version());
        let staged = store::stage(&self.engine, data, hint(data), finish);
        match staged {
            Ok(token) => {
                self.count_logged_stage(before);
                drop(token);
                self.coverage.count(if finish {
                    "stage dropped after its end"
                } else {
                    "stage dropped before its end"
                });
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Full => Ok(()),
            Err(error) => Err(stop("staging failed")(error)),
        }
    }
}

/// Repeats a committed batch under its request id and looks at the answer.
pub fn expect_repeated(engine: &Engine, batch: &Batch, version: u64) -> Verdict {
    let staged = match stage_large(engine, batch, &mut Coverage::default()) {
        Ok(staged) => staged,
        Err(error) if error.kind() == ErrorKind::Full => return Ok(()),
        Err(error) => return Err(stop("staging failed")(error)),
    };
    match engine.submit(staged, Durability::Sync).wait() {
        Ok(commit) if commit.repeated && commit.version.0 == version => Ok(()),
        Ok(commit) => wrong(format!("a repeat of {:?} (version {version}) got {commit:?}", batch.request)),
        Err(error) => Err(stop("a repeat of a known request failed")(error)),
    }
}

/// The batch with its larger payloads staged.
pub fn stage_large(engine: &Engine, batch: &Batch, coverage: &mut Coverage) -> Result<Batch> {
    let mut staged = batch.clone();
    for operation in &mut staged.operations {
        let (Operation::Put { value: payload, .. }
        | Operation::WriteAt { data: payload, .. }
        | Operation::Append { data: payload, .. }) = operation
        else {
            continue;
        };
        // What fits into the batch goes either way.
        let large = payload.len() > 3_000 || (payload.len() > 1_024 && payload.len() % 3 == 0);
        if let Payload::Bytes(bytes) = payload
            && large
            && let Some(token) = store::stage(engine, bytes, hint(bytes), true)?
        {
            coverage.count("value staged");
            *payload = Payload::Stage(token);
        }
    }
    Ok(staged)
}

fn hint(bytes: &Bytes) -> StageHint {
    let access =
        if bytes.len().is_multiple_of(2) { koine_engine::Access::Random } else { koine_engine::Access::Sequential };
    StageHint { length: (!bytes.len().is_multiple_of(5)).then_some(bytes.len() as u64), access, ..StageHint::default() }
}

fn is_unchanged_condition(batch: &Batch) -> bool {
    batch.conditions.iter().any(|condition| matches!(condition, koine_engine::Condition::RangeUnchanged { .. }))
}

fn count_commit(waiting: &Waiting, coverage: &mut Coverage) {
    coverage.count(match waiting.durability {
        Durability::Memory => "commit in memory",
        Durability::Written => "commit written",
        Durability::Sync => "commit synced",
    });
    for operation in &waiting.batch.operations {
        coverage.count(match operation {
            Operation::Put { value, .. } => match value.len() {
                0..=1024 => "put small",
                1025..=32768 => "put medium",
                _ => "put large",
            },
            Operation::WriteAt { .. } => "write at",
            Operation::Append { .. } => "append",
            Operation::Truncate { .. } => "truncate",
            Operation::Delete { .. } => "delete",
            Operation::DeleteRange { .. } => "delete range",
            Operation::Rename { .. } => "rename",
            Operation::CloneRange { .. } => "clone range",
            Operation::Concatenate { fate: koine_engine::Sources::Keep, .. } => "concatenate and keep",
            Operation::Concatenate { .. } => "concatenate and delete",
            Operation::AddCounter { .. } => "add to a counter",
            Operation::CreateSpace { .. } => "create a space",
            Operation::DropSpace { .. } => "drop a space",
            Operation::RenamePrefix { .. } => "rename a prefix",
            Operation::CloneSpace { .. } => "clone a space",
            Operation::SnapshotSpace { .. } => "snapshot a space",
        });
    }
}
