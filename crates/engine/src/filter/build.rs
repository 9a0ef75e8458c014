//! A filter for a space that had none, while its keys are read.
//!
//! Invariant: changes are remembered from before a view is taken until its keys are in: those after the view are then applied
//! in their order, so that the filter is that of the newest state.

use super::cuckoo::Cuckoo;
use super::{Filters, Knowledge, Spaces};
use crate::batch::{SpaceId, Version};

/// A space that is being read through.
pub(crate) struct Build {
    /// The space.
    pub space: SpaceId,
    number: u64,
    /// The commits up to here are not remembered.
    pub begun: Version,
    limit_len: usize,
    keys: Cuckoo,
}

impl Build {
    /// Adds a key by its hash; false when there are too many.
    #[must_use]
    pub fn add(&mut self, hash: u64) -> bool {
        if self.keys.memory_len_next() > self.limit_len {
            return false;
        }
        self.keys.add(hash);
        true
    }
}

impl Filters {
    /// Begins with the space that is wanted, if there is one. Changes after commit `newest` are remembered from now on.
    pub(crate) fn begin(&self, newest: Version) -> Option<Build> {
        let mut spaces = self.spaces.write();
        let space = spaces.wanted.take()?;
        if spaces.known.contains_key(&space) {
            return None;
        }
        spaces.builds += 1;
        let number = spaces.builds;
        spaces.known.insert(space, Knowledge::Building { number, events: Vec::new() });
        Some(Build { space, number, begun: newest, limit_len: self.limit_len, keys: Cuckoo::default() })
    }

    /// All keys of a version were added.
    pub(crate) fn finish(&self, build: Build, version: Version) {
        self.spaces.write().finish(build, version, self.limit_len);
    }

    /// There are too many keys: the space gets no filter.
    pub(crate) fn refuse(&self, build: &Build) {
        self.spaces.write().give_up(build, Some(Knowledge::TooMany));
    }

    /// The keys could not be read; `again` wants the space once more.
    pub(crate) fn give_up(&self, build: &Build, again: bool) {
        let mut spaces = self.spaces.write();
        spaces.give_up(build, None);
        if again {
            spaces.wanted = Some(build.space);
        }
    }
}

impl Spaces {
    fn is_building(&self, build: &Build) -> bool {
        matches!(self.known.get(&build.space), Some(Knowledge::Building { number, .. }) if *number == build.number)
    }

    fn give_up(&mut self, build: &Build, instead: Option<Knowledge>) {
        if self.is_building(build) {
            self.known.remove(&build.space);
            self.known.extend(instead.map(|knowledge| (build.space, knowledge)));
        }
    }

    fn finish(&mut self, build: Build, version: Version, limit_len: usize) {
        if !self.is_building(&build) {
            return;
        }
        let Some(Knowledge::Building { events, .. }) = self.known.remove(&build.space) else { return };
        if self.memory_len + build.keys.memory_len() > limit_len {
            self.known.insert(build.space, Knowledge::TooMany);
            return;
        }
        self.memory_len += build.keys.memory_len();
        self.known.insert(build.space, Knowledge::Complete(build.keys, version));
        for (at, change) in events.into_iter().filter(|(at, _)| *at > version) {
            self.change(limit_len, at, change);
        }
    }
}
