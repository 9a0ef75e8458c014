//! What happened lately: changes of keys, for watchers and `RangeUnchanged`, and outcomes of requests.
//!
//! Invariants:
//! - Changes are in commit order; the oldest are forgotten first, and `forgotten` is the version of
//!   the newest that was, so that nothing after it is missing.
//! - An outcome is remembered until as many newer ones came as the limit says.

use std::collections::{HashMap, VecDeque};

use koine_engine::{Commit, Error, KeyRange, RequestId, Result, SpaceId, Version};

/// One change of keys.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) version: Version,
    pub(crate) space: SpaceId,
    pub(crate) keys: KeyRange,
}

/// The last changes and outcomes.
#[derive(Debug)]
pub(crate) struct History {
    changes: VecDeque<Happened>,
    changes_max: usize,
    /// How many changes were forgotten: the number of the first that is remembered.
    first: u64,
    forgotten: Version,
    outcomes: HashMap<RequestId, Result<Version>>,
    outcomes_order: VecDeque<RequestId>,
    outcomes_max: usize,
}

impl History {
    pub(crate) fn new(changes_max: usize, outcomes_max: usize) -> Self {
        History {
            changes: VecDeque::new(),
            changes_max,
            first: 0,
            forgotten: Version(0),
            outcomes: HashMap::new(),
            outcomes_order: VecDeque::new(),
            outcomes_max,
        }
    }

    /// Nothing is known of what happened up to this version.
    pub(crate) fn forget_until(&mut self, version: Version) {
        self.forgotten = self.forgotten.max(version);
    }

    /// Adds the changes of a commit.
    pub(crate) fn add(&mut self, version: Version, changes: Vec<(SpaceId, KeyRange)>) {
        for (space, keys) in changes {
            self.changes.push_back(Happened { version, space, keys });
        }
        while self.changes.len() > self.changes_max {
            if let Some(oldest) = self.changes.pop_front() {
                self.forgotten = oldest.version;
                self.first += 1;
            }
        }
    }

    /// Whether surely no key of a range changed after `since`.
    pub(crate) fn unchanged(&self, space: SpaceId, range: &KeyRange, since: Version) -> bool {
        if since < self.forgotten {
            return false;
        }
        let newer = self.changes.partition_point(|change| change.version <= since);
        !self.changes.range(newer..).any(|change| change.space == space && change.keys.overlaps(range))
    }

    /// The number of the first change after `version`; `None` when some of those are forgotten.
    pub(crate) fn first_after(&self, version: Version) -> Option<u64> {
        if version < self.forgotten {
            return None;
        }
        Some(self.first + self.changes.partition_point(|change| change.version <= version) as u64)
    }

    /// The number of the next change to come.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    /// A change by its number; `None` when it is forgotten or yet to come.
    pub(crate) fn change(&self, number: u64) -> Option<&Happened> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.changes.get(index)
    }

    /// The first outcome of a request, if it is remembered.
    pub(crate) fn outcome(&self, request: RequestId) -> Option<Result<Commit>> {
        let outcome = self.outcomes.get(&request)?.clone();
        Some(outcome.map(|version| Commit { version, repeated: true }))
    }

    /// Remembers the outcome of a request.
    pub(crate) fn remember(&mut self, request: RequestId, outcome: Result<Version, Error>) {
        self.outcomes.insert(request, outcome);
        self.outcomes_order.push_back(request);
        while self.outcomes_order.len() > self.outcomes_max {
            if let Some(oldest) = self.outcomes_order.pop_front() {
                self.outcomes.remove(&oldest);
            }
        }
    }
}
