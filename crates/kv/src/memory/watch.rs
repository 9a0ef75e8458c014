//! Watches over a history.
//!
//! Invariants:
//! - A watch owns no queue: it is a place in the store's bounded history, so writers never wait for it.
//! - All changes of its range up to `known` were told, unless `LostSince` was.

use std::sync::Arc;
use std::time::{Duration, Instant};

use koine_engine::{KeyRange, Result, SpaceId, Version};

use super::history::History;
use crate::seam::{Change, Watch, WatchEvent};

/// A store that has a history.
pub(crate) trait Remembers: Send + Sync + 'static {
    /// Looks at the history and the newest version now, and after each commit until something was found or the deadline
    /// is there; fails once the store is closed.
    fn look<R>(
        &self,
        deadline: Option<Instant>,
        look: &mut dyn FnMut(&History, Version) -> Option<R>,
    ) -> Result<Option<R>>;
}

/// A place in a history.
pub(crate) struct HistoryWatch<S> {
    shared: Arc<S>,
    at: At,
}

struct At {
    space: SpaceId,
    range: KeyRange,
    /// The number of the next change to look at; `None` when it was forgotten before it was seen.
    next: Option<u64>,
    from: Version,
    known: Version,
}

impl<S: Remembers> HistoryWatch<S> {
    pub(crate) fn new(shared: Arc<S>, space: SpaceId, range: KeyRange, from: Version) -> Result<Self> {
        let next = shared.look(None, &mut |history, _| Some(history.first_after(from)))?.flatten();
        Ok(HistoryWatch { shared, at: At { space, range, next, from, known: from } })
    }
}

impl At {
    /// The next event that is there, and where to go on.
    fn advance(&mut self, history: &History, newest: Version) -> Option<WatchEvent> {
        loop {
            let Some(number) = self.next else {
                let lost = WatchEvent::LostSince(self.known);
                self.next = Some(history.end());
                self.known = newest.max(self.from);
                return Some(lost);
            };
            if number == history.end() {
                self.known = newest.max(self.from);
                return None;
            }
            let Some(change) = history.change(number) else {
                self.next = None;
                continue;
            };
            self.next = Some(number + 1);
            // The rest of its commit may yet be lost.
            self.known = Version(change.version.0.saturating_sub(1)).max(self.from);
            if change.version > self.from && change.space == self.space && change.keys.overlaps(&self.range) {
                return Some(WatchEvent::Changed(Change { version: change.version, keys: change.keys.clone() }));
            }
        }
    }
}

impl<S: Remembers> Watch for HistoryWatch<S> {
    fn next(&mut self, timeout: Duration) -> Result<Option<WatchEvent>> {
        let deadline = Instant::now().checked_add(timeout);
        let at = &mut self.at;
        self.shared.look(deadline, &mut |history, newest| at.advance(history, newest))
    }
}
