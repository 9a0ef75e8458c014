//! Which keys are there, in memory: a look-up of an absent key whose leaf is not in memory reads nothing (capability M4).
//!
//! A space that is made has a filter from the start, kept up with every commit. One that was there when the store was
//! opened gets one once look-ups have missed there for a while: its keys are read through once, in the background.
//! Filters are asked only where the device would have to be read.
//!
//! Invariants:
//! - A complete filter holds every key that the newest sequenced state holds. It may answer for any state from the last
//!   removal on: what such a state holds was not taken away since.
//! - All together take no more than a share of the memory budget; a space for which that is not enough has none.
//! - Nothing of it is stored, and nothing that is stored depends on it.

mod build;
mod cuckoo;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::RwLock;

pub(crate) use self::build::Build;
use self::cuckoo::Cuckoo;
use crate::batch::{SpaceId, Version};
use crate::content::{is_record_key, with_record_key};
use crate::error::{ErrorKind, Result};
use crate::node_cache::NodeCache;
use crate::tree::NodeSource;

/// Filters take one byte of so many of the memory budget.
const MEMORY_SHARE: u64 = 16;
/// So many look-ups in vain are worth reading a space through.
const MISSES_WANTED: u32 = 256;
/// So many changes are remembered while a space is read through.
const EVENTS_MAX: usize = 1 << 18;

/// How a commit changed which keys are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// A key is there that was not.
    Born(SpaceId, u64),
    /// A key is there no more.
    Gone(SpaceId, u64),
    /// A space was made, without keys.
    Made(SpaceId),
    /// Nothing is known of a space any more.
    Unknown(SpaceId),
}

enum Knowledge {
    /// All keys; and the last commit that took one away, or that made the space.
    Complete(Cuckoo, Version),
    /// What has changed since it was begun to be read through.
    Building { number: u64, events: Vec<(Version, Membership)> },
    /// There are too many keys.
    TooMany,
}

/// The filters of a store.
pub(crate) struct Filters {
    limit_len: usize,
    hasher: RandomState,
    spaces: RwLock<Spaces>,
    /// Look-ups in vain since the last reading.
    misses: AtomicU32,
}

#[derive(Default)]
struct Spaces {
    known: BTreeMap<SpaceId, Knowledge>,
    memory_len: usize,
    /// A space to be read through.
    wanted: Option<SpaceId>,
    builds: u64,
}

impl Filters {
    /// For a store with so much memory; `None`: there are none.
    pub fn new(memory_len: Option<u64>) -> Filters {
        let limit_len = memory_len.map_or(0, |length| usize::try_from(length / MEMORY_SHARE).unwrap_or(usize::MAX));
        Filters { limit_len, hasher: RandomState::new(), spaces: RwLock::default(), misses: AtomicU32::new(0) }
    }

    /// The hash of a tree's key, where it is one that filters know.
    pub fn hash(&self, space: SpaceId, key: &[u8]) -> Option<u64> {
        (self.limit_len > 0 && space >= SpaceId::FIRST && is_record_key(key)).then(|| self.hasher.hash_one(key))
    }

    /// Whether a tree's key may be there in the state of a version; never wrongly no.
    fn may_hold(&self, space: SpaceId, key: &[u8], at: Version) -> bool {
        let Some(hash) = self.hash(space, key) else { return true };
        match self.spaces.read().known.get(&space) {
            Some(Knowledge::Complete(keys, since)) => *since > at || keys.may_hold(hash),
            _ => true,
        }
    }

    /// Looks a key up in the state of a version: first in memory alone, and where that is not enough, and the filter does not
    /// tell that the key is absent, on the device. `look` is called again when it failed with `Busy`.
    pub fn look<R>(
        &self,
        nodes: &NodeCache,
        space: SpaceId,
        key: &[u8],
        at: Version,
        mut look: impl FnMut(&dyn NodeSource) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        if self.limit_len == 0 {
            return look(nodes);
        }
        match look(&nodes.now()) {
            Err(error) if error.kind() == ErrorKind::Busy => {}
            done => return done,
        }
        if !with_record_key(key, |key| self.may_hold(space, key, at)) {
            return Ok(None);
        }
        let found = look(nodes)?;
        if found.is_none() {
            self.missed(space);
        }
        Ok(found)
    }

    /// The device was read for a key that is absent.
    fn missed(&self, space: SpaceId) {
        if self.limit_len == 0 || space < SpaceId::FIRST {
            return;
        }
        if self.misses.fetch_add(1, Ordering::Relaxed) + 1 >= MISSES_WANTED {
            self.misses.store(0, Ordering::Relaxed);
            let mut spaces = self.spaces.write();
            if !spaces.known.contains_key(&space) {
                spaces.wanted = Some(space);
            }
        }
    }

    /// What the commit of a version has changed; in the order of commits.
    pub fn apply(&self, version: Version, changes: &[Membership]) {
        if changes.is_empty() || self.limit_len == 0 {
            return;
        }
        let mut spaces = self.spaces.write();
        changes.iter().for_each(|change| spaces.change(self.limit_len, version, *change));
    }
}

impl Spaces {
    fn change(&mut self, limit_len: usize, version: Version, change: Membership) {
        let space = match change {
            Membership::Made(space) => {
                self.forget(space);
                self.known.insert(space, Knowledge::Complete(Cuckoo::default(), version));
                return;
            }
            Membership::Unknown(space) => return self.forget(space),
            Membership::Born(space, _) | Membership::Gone(space, _) => space,
        };
        let before = self.memory_len;
        let mut is_over = false;
        match self.known.get_mut(&space) {
            Some(Knowledge::Complete(keys, since)) => {
                let own = keys.memory_len();
                match change {
                    Membership::Gone(_, hash) => {
                        keys.take(hash);
                        *since = version;
                    }
                    Membership::Born(_, hash) if before - own + keys.memory_len_next() <= limit_len => keys.add(hash),
                    _ => is_over = true,
                }
                self.memory_len = before - own + keys.memory_len();
            }
            Some(Knowledge::Building { events, .. }) if events.len() < EVENTS_MAX => events.push((version, change)),
            // Who reads it through finds that it was forgotten.
            Some(Knowledge::Building { .. }) => self.forget(space),
            Some(Knowledge::TooMany) | None => {}
        }
        if is_over {
            self.forget(space);
            self.known.insert(space, Knowledge::TooMany);
        }
    }

    fn forget(&mut self, space: SpaceId) {
        if let Some(Knowledge::Complete(keys, _)) = self.known.remove(&space) {
            self.memory_len -= keys.memory_len();
        }
    }
}

#[cfg(test)]
mod tests;
