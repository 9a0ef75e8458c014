//! Watches over the history of a store in memory.
//!
//! Invariants:
//! - A watch owns no queue: it is a place in the store's bounded history, so writers never wait for it.
//! - All changes of its range up to `known` were told, unless `LostSince` was.

use std::sync::Arc;
use std::time::{Duration, Instant};

use koine_engine::{KeyRange, Result, SpaceId, Version};

use super::{Inner, Shared};
use crate::seam::{Change, Watch, WatchEvent};

/// A place in the history.
pub(super) struct MemoryWatch {
    shared: Arc<Shared>,
    space: SpaceId,
    range: KeyRange,
    /// The number of the next change to look at; `None` when it was forgotten before it was seen.
    next: Option<u64>,
    from: Version,
    known: Version,
}

impl MemoryWatch {
    pub(super) fn new(shared: Arc<Shared>, space: SpaceId, range: KeyRange, from: Version) -> Result<Self> {
        let next = shared.open()?.history.first_after(from);
        Ok(MemoryWatch { shared, space, range, next, from, known: from })
    }
}

/// The next event that is there, and where to go on.
fn advance(watch: &mut MemoryWatch, inner: &Inner) -> Option<WatchEvent> {
    loop {
        let history = &inner.history;
        let Some(number) = watch.next else {
            let lost = WatchEvent::LostSince(watch.known);
            watch.next = Some(history.end());
            watch.known = inner.state.version.max(watch.from);
            return Some(lost);
        };
        if number == history.end() {
            watch.known = inner.state.version.max(watch.from);
            return None;
        }
        let Some(change) = history.change(number) else {
            watch.next = None;
            continue;
        };
        watch.next = Some(number + 1);
        // The rest of its commit may yet be lost.
        watch.known = Version(change.version.0.saturating_sub(1)).max(watch.from);
        if change.version > watch.from && change.space == watch.space && change.keys.overlaps(&watch.range) {
            return Some(WatchEvent::Changed(Change { version: change.version, keys: change.keys.clone() }));
        }
    }
}

impl Watch for MemoryWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<WatchEvent>> {
        let deadline = Instant::now().checked_add(timeout);
        let shared = Arc::clone(&self.shared);
        let mut inner = shared.open()?;
        loop {
            if let Some(event) = advance(self, &inner) {
                return Ok(Some(event));
            }
            match deadline {
                Some(deadline) => {
                    if shared.happened.wait_until(&mut inner, deadline).timed_out() {
                        return Ok(advance(self, &inner));
                    }
                }
                None => shared.happened.wait(&mut inner),
            }
            inner.check_open()?;
        }
    }
}
