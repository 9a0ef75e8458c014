//! Reading a space through, so that it has a filter.
//!
//! Invariants:
//! - Changes are remembered from before a view is taken until its keys are in: those after the view are then applied in
//!   their order, so that the filter is that of the newest state.
//! - Only what the view shows is read; commits go on meanwhile.

use std::sync::Arc;

use super::cuckoo::Cuckoo;
use super::{Knowledge, Spaces};
use crate::batch::{KeyRange, SpaceId, Version};
use crate::content::record_range;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::view::View;

/// Between two looks whether the store is closed: some leaves.
const LOOK_AFTER: usize = 512;

/// A space that is being read through.
struct Build {
    space: SpaceId,
    number: u64,
    /// The commits up to here are not remembered.
    begun: Version,
}

impl Core {
    /// Reads a space through for which it is wanted; false when there is none.
    pub(crate) fn build_filter(self: &Arc<Core>) -> Result<bool> {
        let Some(build) = self.begin_filter() else { return Ok(false) };
        let built = self.read_keys(&build);
        let mut spaces = self.filters.spaces.write();
        match built {
            Ok(Some((keys, version))) => spaces.finish(&build, keys, version, self.filters.limit_len),
            Ok(None) => spaces.give_up(&build, Some(Knowledge::TooMany)),
            Err(error) if error.kind() == ErrorKind::Busy => {
                spaces.give_up(&build, None);
                spaces.wanted = Some(build.space);
                return Ok(false);
            }
            Err(error) => {
                // Tried again when it is wanted again.
                spaces.give_up(&build, None);
                if error.kind() == ErrorKind::Stopped {
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    fn begin_filter(&self) -> Option<Build> {
        // From here on no commit goes unnoticed; those before are in every view taken later.
        let head = self.head.lock();
        let mut spaces = self.filters.spaces.write();
        let space = spaces.wanted.take()?;
        if spaces.known.contains_key(&space) || head.closing {
            return None;
        }
        spaces.builds += 1;
        let number = spaces.builds;
        spaces.known.insert(space, Knowledge::Building { number, events: Vec::new() });
        Some(Build { space, number, begun: head.state.version })
    }

    /// The keys of a space in some version; `None` when they are too many.
    fn read_keys(self: &Arc<Core>, build: &Build) -> Result<Option<(Cuckoo, Version)>> {
        let view = View::new(self);
        if view.version() < build.begun {
            return Err(Error::new(ErrorKind::Busy, "a commit that nobody remembers is not visible yet"));
        }
        let mut keys = Cuckoo::default();
        let Some(root) = view.state().space(&self.nodes, build.space)? else { return Ok(Some((keys, view.version()))) };
        let mut cursor = root.tree.cursor(record_range(&KeyRange::all()));
        let mut count = 0;
        while let Some((key, _)) = cursor.next(&self.nodes)? {
            if let Some(hash) = self.filters.hash(build.space, &key) {
                if keys.memory_len_next() > self.filters.limit_len {
                    return Ok(None);
                }
                keys.add(hash);
            }
            count += 1;
            if count % LOOK_AFTER == 0 {
                self.check_running()?;
                if self.head.lock().closing {
                    return Err(Error::new(ErrorKind::Stopped, "the store is being closed"));
                }
                view.checked(Ok(()))?;
            }
        }
        view.checked(Ok(Some((keys, view.version()))))
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

    fn finish(&mut self, build: &Build, keys: Cuckoo, version: Version, limit_len: usize) {
        if !self.is_building(build) {
            return;
        }
        let Some(Knowledge::Building { events, .. }) = self.known.remove(&build.space) else { return };
        if self.memory_len + keys.memory_len() > limit_len {
            self.known.insert(build.space, Knowledge::TooMany);
            return;
        }
        self.memory_len += keys.memory_len();
        self.known.insert(build.space, Knowledge::Complete(keys, version));
        for (at, change) in events.into_iter().filter(|(at, _)| *at > version) {
            self.change(limit_len, at, change);
        }
    }
}
