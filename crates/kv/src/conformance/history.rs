//! Random histories: the back end under test and the store in memory do the same, step by step.
//!
//! Invariants:
//! - A history follows from its seed alone; every failure names it.
//! - The versions of the two stores differ; each commit is known by its pair.

use std::collections::BTreeMap;

use bytes::Bytes;
use koine_engine::{
    Batch, Commit, Condition, Durability, Error, KeyRange, Operation, Payload, Place, Refusal, RequestId, Result,
    Sources, SpaceId, Version,
};
use koine_env::{Random, SeededRandom};

use super::Suite;
use super::fixture::{A, B, C, Dump, Fixture, SPACES, dump, fit, pattern, stage};
use crate::memory::MemoryKv;
use crate::seam::{Direction, Kv, View};

pub(super) fn random_histories_match_the_model(suite: &Suite) {
    for seed in 0..40 {
        History::new(suite, seed, Scale { value_len_max: 3000, large_len_max: 60_000 }).run(60, Reopens::No);
    }
}

pub(super) fn random_histories_of_large_values_match_the_model(suite: &Suite) {
    for seed in 100..104 {
        History::new(suite, seed, Scale { value_len_max: 300_000, large_len_max: 3 << 20 }).run(40, Reopens::No);
    }
}

pub(super) fn random_histories_with_reopens_match_the_model(suite: &Suite) {
    if (suite.open)().reopen.is_none() {
        return;
    }
    for seed in 200..212 {
        History::new(suite, seed, Scale { value_len_max: 5000, large_len_max: 150_000 }).run(60, Reopens::Yes);
    }
}

#[derive(Clone, Copy)]
struct Scale {
    /// Most values are shorter than this…
    value_len_max: u64,
    /// …and one in ten is up to this long.
    large_len_max: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reopens {
    Yes,
    No,
}

/// What both stores are asked: payloads inline (to be staged where said so), conditions for each.
struct Plan {
    conditions: Vec<(Condition, Condition)>,
    operations: Vec<(Operation, bool)>,
    request: Option<RequestId>,
}

struct History {
    seed: u64,
    scale: Scale,
    random: SeededRandom,
    subject: Fixture,
    model: MemoryKv,
    /// The model's version of each commit of the subject.
    versions: BTreeMap<Version, Version>,
    requests: Vec<RequestId>,
    pinned: Vec<(std::sync::Arc<dyn View>, Dump)>,
}

impl History {
    fn new(suite: &Suite, seed: u64, scale: Scale) -> Self {
        let subject = Fixture::new(suite);
        let model = MemoryKv::default();
        let create = Batch::new().then(Operation::CreateSpace { space: A });
        let commit = model.commit(create, Durability::Memory).expect("the first space");
        let versions = BTreeMap::from([(subject.view().version(), commit.version)]);
        let random = SeededRandom::new(seed);
        History { seed, scale, random, subject, model, versions, requests: Vec::new(), pinned: Vec::new() }
    }

    fn run(mut self, steps: u32, reopens: Reopens) {
        for step in 0..steps {
            let context = format!("seed {}, step {step}", self.seed);
            if self.below(12) == 0 {
                self.repeat(&context);
            } else {
                let plan = self.plan(step);
                self.step(&plan, &context);
            }
            self.compare(&context);
            self.walk(&context);
            if reopens == Reopens::Yes && self.below(10) == 0 {
                self.pinned.clear();
                assert!(self.subject.reopen());
                self.compare(&format!("{context}, reopened"));
            } else {
                self.pin(&context);
            }
        }
    }

    fn below(&self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn one_in(&self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn space(&self) -> SpaceId {
        match self.below(8) {
            0 => C,
            1 | 2 => B,
            _ => A,
        }
    }

    fn key(&self) -> Bytes {
        let number = self.below(8);
        Bytes::from(if self.one_in(3) { format!("p/{number}") } else { format!("k{number}") })
    }

    fn place(&self) -> Place {
        Place::new(self.space(), self.key())
    }

    /// A key of the model, mostly, so that sources are there mostly.
    fn source(&self) -> Place {
        let view = self.model.view().expect("a view");
        let places: Vec<_> = dump(&*view).into_keys().collect();
        if places.is_empty() || self.one_in(10) {
            return self.place();
        }
        let (space, key) = places[self.below(places.len() as u64) as usize].clone();
        Place { space, key }
    }

    fn length(&self) -> u64 {
        let limit = if self.one_in(10) { self.scale.large_len_max } else { self.scale.value_len_max };
        // Small ones and even ones more often than chance would have it.
        match self.below(6) {
            0 => self.below(4),
            1 => self.below(limit / 4096 + 1) * 4096,
            _ => self.below(limit),
        }
    }

    fn data(&self) -> Payload {
        Payload::Bytes(pattern(self.random.next_u64(), self.length() as usize))
    }

    fn range(&self) -> KeyRange {
        match self.below(4) {
            0 => KeyRange::prefix(&b"p/"[..]),
            1 => KeyRange::single(self.key()),
            _ => KeyRange::new(self.key(), self.key()),
        }
    }

    fn operation(&self) -> Operation {
        match self.below(22) {
            0..=3 => Operation::Put { at: self.place(), value: self.data() },
            4..=6 => Operation::WriteAt { at: self.source(), offset: self.length(), data: self.data() },
            7 | 8 => Operation::Append { at: self.source(), data: self.data() },
            9 | 10 => Operation::Truncate { at: self.source(), length: self.length() },
            11 => Operation::Delete { at: self.source() },
            12 => Operation::DeleteRange { space: self.space(), range: self.range() },
            13 | 14 => Operation::Rename { from: self.source(), to: self.place() },
            15 | 16 => self.clone_range(),
            17 | 18 => self.concatenate(),
            19 => {
                let delta = self.random.next_u64() as i64 >> self.below(60);
                Operation::AddCounter { at: Place::new(self.space(), format!("n{}", self.below(3))), delta }
            }
            20 => {
                let prefixes: [&[u8]; 4] = [b"p/", b"k", b"p/1", b"q"];
                let pick = || Bytes::from_static(prefixes[self.below(4) as usize]);
                Operation::RenamePrefix { space: self.space(), from: pick(), to: pick() }
            }
            _ => self.space_operation(),
        }
    }

    fn clone_range(&self) -> Operation {
        let from = self.source();
        let to = if self.one_in(4) { from.clone() } else { self.place() };
        let stat = self.model.view().and_then(|view| view.stat(from.space, &from.key)).expect("stat");
        let size = stat.map_or(10, |stat| stat.size);
        let from_offset = self.below(size + 2);
        let length = if self.one_in(4) { u64::MAX } else { self.below(size.saturating_sub(from_offset) + 2) };
        Operation::CloneRange { from, from_offset, length, to, to_offset: self.length() }
    }

    fn concatenate(&self) -> Operation {
        let target = self.place();
        let fate = if self.one_in(2) { Sources::Keep } else { Sources::Delete };
        let mut sources: Vec<Place> = Vec::new();
        for _ in 0..self.below(5) {
            let source = self.source();
            if source != target && (fate == Sources::Keep || !sources.contains(&source)) {
                sources.push(source);
            }
        }
        Operation::Concatenate { sources, target, fate }
    }

    fn space_operation(&self) -> Operation {
        let (space, other) = (SPACES[1 + self.below(2) as usize], self.space());
        match self.below(6) {
            0 => Operation::CloneSpace { from: other, to: space },
            1 => Operation::SnapshotSpace { from: other, to: space },
            2 => Operation::DropSpace { space },
            _ => Operation::CreateSpace { space },
        }
    }

    /// A condition for the model and the same for the subject.
    fn condition(&self) -> (Condition, Condition) {
        let Place { space, key } = self.source();
        let both = |condition: Condition| (condition.clone(), condition);
        match self.below(6) {
            0 => both(Condition::Absent { space, key: self.key() }),
            1 => both(Condition::Present { space, key }),
            2 => both(Condition::RangeEmpty { space, range: KeyRange::new(self.key(), self.key()) }),
            3 | 4 => {
                // The newest, mostly; else that of some commit.
                let view = self.subject.view();
                let stat = view.stat(space, &key).expect("stat").filter(|_| !self.one_in(4));
                let (subject, model) =
                    stat.map_or_else(|| self.pair(), |stat| (stat.version, self.versions[&stat.version]));
                let condition = |version| Condition::VersionIs { space, key: key.clone(), version };
                (condition(model), condition(subject))
            }
            _ => {
                let (subject, model) = self.pair();
                let range = self.range();
                let condition = |since| Condition::RangeUnchanged { space, range: range.clone(), since };
                (condition(model), condition(subject))
            }
        }
    }

    /// The versions of a commit, of the subject and of the model; late ones more often.
    fn pair(&self) -> (Version, Version) {
        let back = self.below(self.versions.len() as u64).min(self.below(8)) as usize;
        let (subject, model) = self.versions.iter().rev().nth(back).expect("there is one for every commit");
        (*subject, *model)
    }

    fn plan(&mut self, step: u32) -> Plan {
        let count = if self.one_in(4) { 1 + self.below(12) } else { 1 + self.below(3) };
        let conditions = if self.one_in(3) { 1 + self.below(3) } else { 0 };
        let mut plan = Plan { conditions: Vec::new(), operations: Vec::new(), request: None };
        plan.conditions.extend((0..conditions).map(|_| self.condition()));
        plan.operations.extend((0..count).map(|_| (self.operation(), self.one_in(4))));
        if self.one_in(3) {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&step.to_be_bytes());
            plan.request = Some(RequestId(id));
        }
        plan
    }

    fn step(&mut self, plan: &Plan, context: &str) {
        let durability = [Durability::Memory, Durability::Written, Durability::Sync][self.below(3) as usize];
        let subject = batch(plan, self.subject.kv(), |(_, subject)| subject);
        let outcome = self.subject.kv().commit(subject, durability);
        if self.is_false_refusal(plan, &outcome) {
            return;
        }
        let model = batch(plan, &self.model, |(model, _)| model);
        let expected = self.model.commit(model, Durability::Memory);
        let context = format!("{context}: {:?} {:?}", plan.conditions, plan.operations);
        self.same_outcome(&outcome, &expected, &context);
        self.requests.extend(plan.request);
    }

    fn same_outcome(&mut self, outcome: &Result<Commit>, expected: &Result<Commit>, context: &str) {
        match (outcome, expected) {
            (Ok(outcome), Ok(expected)) => {
                assert_eq!(outcome.repeated, expected.repeated, "{context}");
                if outcome.repeated {
                    assert_eq!(self.versions.get(&outcome.version), Some(&expected.version), "{context}");
                } else {
                    let newest = self.versions.last_key_value().expect("there is one for every commit");
                    assert!(outcome.version > *newest.0, "versions must grow; {context}");
                    self.versions.insert(outcome.version, expected.version);
                }
            }
            (Err(error), Err(expected)) => {
                let parts = |error: &Error| (error.kind(), error.refusal());
                assert_eq!(parts(error), parts(expected), "{error:?} instead of {expected:?}; {context}");
            }
            _ => panic!("{outcome:?} instead of {expected:?}; {context}"),
        }
    }

    /// Whether the subject refused an unchanged range that the model holds unchanged, as it may.
    fn is_false_refusal(&self, plan: &Plan, outcome: &Result<Commit>) -> bool {
        let Err(error) = outcome else { return false };
        let Some(Refusal::Condition(index)) = error.refusal() else { return false };
        let conditions = plan.conditions.get(..=index as usize).expect("a condition of the batch");
        if !matches!(conditions.last(), Some((Condition::RangeUnchanged { .. }, _))) {
            return false;
        }
        // Asks the model without changing it: the operation is always refused.
        let never = Operation::DropSpace { space: SpaceId(999) };
        let probe = conditions.iter().fold(Batch::new().then(never), |batch, (model, _)| batch.when(model.clone()));
        let answer = self.model.commit(probe, Durability::Memory).expect_err("the probe is refused");
        answer.refusal() == Some(Refusal::Operation(0))
    }

    /// Repeats a request that had an outcome, with other content.
    fn repeat(&mut self, context: &str) {
        if self.requests.is_empty() {
            return;
        }
        let request = self.requests[self.below(self.requests.len() as u64) as usize];
        let batch = Batch::new().put(A, "k0", "never to be seen").with_request(request);
        let outcome = self.subject.kv().commit(batch.clone(), Durability::Memory);
        let expected = self.model.commit(batch, Durability::Memory);
        self.same_outcome(&outcome, &expected, &format!("{context}, repeat of {request:?}"));
    }

    /// Both stores must show the same.
    fn compare(&self, context: &str) {
        let (view, model_view) = (self.subject.view(), self.model.view().expect("a view"));
        for space in SPACES {
            let has = view.has_space(space).expect("has_space");
            assert_eq!(has, model_view.has_space(space).expect("has_space"), "{context}, {space:?}");
        }
        let (found, expected) = (dump(&*view), dump(&*model_view));
        let keys = |dump: &Dump| dump.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&found), keys(&expected), "{context}");
        for ((place, (version, size, bytes)), (model_version, model_size, model_bytes)) in
            found.iter().zip(expected.values())
        {
            assert_eq!(size, model_size, "{context}, {place:?}");
            let first = bytes.iter().zip(model_bytes).position(|(a, b)| a != b);
            assert_eq!(first, None, "{context}, {place:?}: a byte differs");
            assert_eq!(self.versions.get(version), Some(model_version), "{context}, {place:?}");
        }
    }

    /// A random walk of a cursor over both.
    fn walk(&self, context: &str) {
        let direction = if self.one_in(2) { Direction::Forward } else { Direction::Backward };
        let (space, range) = (self.space(), if self.one_in(2) { KeyRange::all() } else { self.range() });
        let cursor = |view: &dyn View| view.cursor(space, range.clone(), direction).expect("a cursor");
        let mut found = cursor(&*self.subject.view());
        let mut expected = cursor(&*self.model.view().expect("a view"));
        for _ in 0..10 {
            if self.one_in(4) {
                let key = self.key();
                found.seek(&key).expect("seek");
                expected.seek(&key).expect("seek");
            }
            let short = |entry: Option<crate::seam::Entry>| entry.map(|entry| (entry.key, entry.stat.size));
            let found = short(found.next().expect("the next entry"));
            assert_eq!(found, short(expected.next().expect("the next entry")), "{context}, {range:?} {direction:?}");
        }
    }

    /// Old views must show what they showed.
    fn pin(&mut self, context: &str) {
        if self.pinned.len() == 3 {
            let (view, before) = self.pinned.remove(self.below(3) as usize);
            assert!(dump(&*view) == before, "{context}: a pinned view changed");
        }
        if self.one_in(3) {
            let view = self.subject.view();
            let dump = dump(&*view);
            self.pinned.push((view, dump));
        }
    }
}

/// The batch of a plan for one store.
fn batch(plan: &Plan, kv: &dyn Kv, side: impl Fn((Condition, Condition)) -> Condition) -> Batch {
    let mut batch = Batch::new();
    batch.request = plan.request;
    batch.conditions = plan.conditions.iter().cloned().map(side).collect();
    for (operation, staged) in &plan.operations {
        let mut operation = operation.clone();
        if let Operation::Put { value: payload, .. }
        | Operation::WriteAt { data: payload, .. }
        | Operation::Append { data: payload, .. } = &mut operation
            && let Payload::Bytes(bytes) = payload
            && *staged
        {
            *payload = Payload::Stage(stage(kv, bytes, 50_001));
        }
        batch = batch.then(operation);
    }
    fit(kv, batch)
}
