//! What users and groups hold, as it was found last.
//!
//! Invariant: a sum that is older than [`AGE_MAX`] lets nothing in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use koine_kv::SpaceId;

/// How old a sum may be that lets something in.
const AGE_MAX: Duration = Duration::from_secs(1);

/// So many sums are kept; then all are forgotten, and found again.
const SUMS_MAX: usize = 10_000;

/// Who has a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Holder {
    /// A user, for the buckets that it owns.
    User(u64),
    /// A group, for its buckets.
    Group(u64),
}

/// What buckets hold together, in the order of the kinds of counts; and their spaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    pub counts: [i64; 5],
    pub spaces: Vec<SpaceId>,
}

/// The sums that were found last.
#[derive(Default)]
pub(crate) struct Sums(Mutex<HashMap<Holder, (Duration, Arc<Sum>)>>);

impl Sums {
    /// One that was found lately.
    pub fn young(&self, holder: Holder, now: Duration) -> Option<Arc<Sum>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&holder).filter(|(at, _)| now.saturating_sub(*at) < AGE_MAX).map(|(_, sum)| Arc::clone(sum))
    }

    /// Keeps one that was found.
    pub fn keep(&self, holder: Holder, now: Duration, sum: Arc<Sum>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= SUMS_MAX {
            known.clear();
        }
        if known.get(&holder).is_none_or(|(at, _)| *at <= now) {
            known.insert(holder, (now, sum));
        }
    }
}
