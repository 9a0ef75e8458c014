//! Which keys changed lately: for `RangeUnchanged`, and for watchers.
//!
//! Invariants:
//! - A change newer than the floor is never missed; about older ones the answer is "perhaps changed".
//! - A watcher gets changes in commit order and only once they are visible; its queue is bounded, and a
//!   full queue loses events ("lost since"), it never holds up a writer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::batch::{KeyRange, SpaceId, Version};
use crate::error::{Error, ErrorKind, Result};

/// How many changes are remembered.
const CHANGES_KEPT: usize = 65_536;
/// How many bytes of keys are remembered.
const CHANGES_LEN_MAX: usize = 16 << 20;
/// How many events wait for one watcher.
const QUEUE_LEN_MAX: usize = 8_192;

/// A key or a range that a commit changed.
#[derive(Clone, Debug)]
struct Changed {
    version: Version,
    space: SpaceId,
    keys: KeyRange,
}

impl Changed {
    fn len(&self) -> usize {
        self.keys.start.len() + self.keys.end.as_ref().map_or(0, Bytes::len) + 64
    }

    /// The key, when it is one.
    fn single(&self) -> Option<&Bytes> {
        let end = self.keys.end.as_ref()?;
        let (last, head) = end.split_last()?;
        (*last == 0 && head == self.keys.start.as_ref()).then_some(&self.keys.start)
    }
}

fn overlap(a: &KeyRange, b: &KeyRange) -> bool {
    let before = |x: &KeyRange, y: &KeyRange| x.end.as_ref().is_some_and(|end| *end <= y.start);
    !before(a, b) && !before(b, a)
}

/// The changes of the newest commits, by order and by key.
pub struct Changes {
    log: VecDeque<Changed>,
    len: usize,
    /// Changes up to here may be forgotten.
    floor: Version,
    latest: BTreeMap<(SpaceId, Bytes), Version>,
    ranges: VecDeque<Changed>,
}

impl Changes {
    /// Nothing is known of commits up to `floor`.
    pub fn since(floor: Version) -> Changes {
        Changes { log: VecDeque::new(), len: 0, floor, latest: BTreeMap::new(), ranges: VecDeque::new() }
    }

    /// A commit changed these.
    pub fn push(&mut self, version: Version, changes: &[(SpaceId, KeyRange)]) {
        for (space, keys) in changes {
            let changed = Changed { version, space: *space, keys: keys.clone() };
            self.len += changed.len();
            match changed.single() {
                Some(key) => drop(self.latest.insert((*space, key.clone()), version)),
                None => self.ranges.push_back(changed.clone()),
            }
            self.log.push_back(changed);
        }
        while self.log.len() > CHANGES_KEPT || self.len > CHANGES_LEN_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.log.pop_front() else { return };
        self.len -= oldest.len();
        self.floor = self.floor.max(oldest.version);
        match oldest.single() {
            Some(key) => {
                let key = (oldest.space, key.clone());
                if self.latest.get(&key) == Some(&oldest.version) {
                    self.latest.remove(&key);
                }
            }
            None => drop(self.ranges.pop_front()),
        }
    }

    /// Whether no key of a range changed after `since`; false when that is not known.
    pub fn unchanged(&self, space: SpaceId, range: &KeyRange, since: Version) -> bool {
        if range.is_empty() {
            return true;
        }
        if since < self.floor {
            return false;
        }
        let from = (space, range.start.clone());
        let keys = self.latest.range(from..).take_while(|((s, key), _)| *s == space && range.contains(key));
        let mut ranges = self.ranges.iter().filter(|changed| changed.space == space && overlap(&changed.keys, range));
        keys.into_iter().all(|(_, version)| *version <= since) && ranges.all(|changed| changed.version <= since)
    }

    /// The changes of a range after `from` and up to `to`; `None` when some may be forgotten.
    fn between(&self, space: SpaceId, range: &KeyRange, from: Version, to: Version) -> Option<Vec<Event>> {
        if from < self.floor {
            return None;
        }
        let wanted = self.log.iter().filter(|changed| changed.space == space && overlap(&changed.keys, range));
        let new = wanted.filter(|changed| changed.version > from && changed.version <= to);
        Some(new.map(|changed| Event::Changed { version: changed.version, keys: changed.keys.clone() }).collect())
    }
}

/// What a watcher is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Keys were changed or deleted.
    Changed {
        /// By this commit.
        version: Version,
        /// The key, or the range that was deleted.
        keys: KeyRange,
    },
    /// Changes after this version are not known: rescan.
    LostSince(Version),
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// The last version that the watcher was told everything of.
    told: Version,
    lost: bool,
    closed: bool,
}

struct Watcher {
    space: SpaceId,
    range: KeyRange,
    /// Commits up to this one are not told; it may be one to come.
    from: Version,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

impl Watcher {
    fn offer(&self, version: Version, changes: &[(SpaceId, KeyRange)]) {
        let mut queue = self.queue.lock();
        if queue.lost || version <= self.from {
            return;
        }
        for (_, keys) in changes.iter().filter(|(space, keys)| *space == self.space && overlap(keys, &self.range)) {
            if queue.events.len() >= QUEUE_LEN_MAX {
                queue.lost = true;
                self.arrived.notify_all();
                return;
            }
            queue.events.push_back(Event::Changed { version, keys: keys.clone() });
            self.arrived.notify_all();
        }
        queue.told = queue.told.max(version);
    }
}

/// All watchers of a store.
#[derive(Default)]
pub struct Watchers {
    watchers: Mutex<Vec<Weak<Watcher>>>,
}

impl Watchers {
    /// Tells everyone of a commit that is visible now.
    pub fn tell(&self, version: Version, changes: &[(SpaceId, KeyRange)]) {
        if changes.is_empty() {
            return;
        }
        let mut watchers = self.watchers.lock();
        watchers.retain(|watcher| match watcher.upgrade() {
            Some(watcher) => {
                watcher.offer(version, changes);
                true
            }
            None => false,
        });
    }

    /// Watches a range from version `from` on; `visible` is the newest visible commit. The caller keeps
    /// publication out while it calls this, so that nothing falls between.
    pub fn add(&self, changes: &Changes, space: SpaceId, range: KeyRange, from: Version, visible: Version) -> Watch {
        let mut queue = Queue { told: from, ..Queue::default() };
        match changes.between(space, &range, from, visible) {
            Some(events) if events.len() <= QUEUE_LEN_MAX => {
                queue.events = events.into();
                queue.told = visible.max(from);
            }
            _ => queue.lost = true,
        }
        let watcher = Arc::new(Watcher { space, range, from, queue: Mutex::new(queue), arrived: Condvar::new() });
        self.watchers.lock().push(Arc::downgrade(&watcher));
        Watch { watcher }
    }

    /// No more events will come.
    pub fn close(&self) {
        for watcher in self.watchers.lock().drain(..).filter_map(|watcher| watcher.upgrade()) {
            watcher.queue.lock().closed = true;
            watcher.arrived.notify_all();
        }
    }
}

/// A queue of changes of a range.
pub struct Watch {
    watcher: Arc<Watcher>,
}

impl Watch {
    /// Waits up to `timeout` for the next event; `None` when none came.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>> {
        let deadline = Instant::now() + timeout;
        let mut queue = self.watcher.queue.lock();
        loop {
            if let Some(event) = queue.events.pop_front() {
                if let Event::Changed { version, .. } = &event
                    && queue.lost
                {
                    queue.told = Version(version.0.saturating_sub(1));
                }
                return Ok(Some(event));
            }
            if queue.lost {
                queue.lost = false;
                return Ok(Some(Event::LostSince(queue.told)));
            }
            if queue.closed {
                return Err(Error::new(ErrorKind::Stopped, "the store was closed"));
            }
            if self.watcher.arrived.wait_until(&mut queue, deadline).timed_out()
                && queue.events.is_empty()
                && !queue.lost
            {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId(20);

    fn key(key: &'static str) -> KeyRange {
        KeyRange::new(key.as_bytes(), format!("{key}\0").into_bytes())
    }

    #[test]
    fn changes_after_a_version_are_noticed() {
        let mut changes = Changes::since(Version(10));
        changes.push(Version(11), &[(SPACE, key("b"))]);
        changes.push(Version(12), &[(SPACE, KeyRange::new(&b"m"[..], &b"p"[..]))]);
        let check = |range: KeyRange, since, expected| {
            assert_eq!(changes.unchanged(SPACE, &range, Version(since)), expected, "{range:?} since {since}");
        };
        check(KeyRange::all(), 12, true);
        check(KeyRange::all(), 11, false);
        check(KeyRange::new(&b"a"[..], &b"c"[..]), 11, true);
        check(KeyRange::new(&b"a"[..], &b"c"[..]), 10, false);
        check(KeyRange::new(&b"o"[..], &b"z"[..]), 11, false);
        check(KeyRange::new(&b"x"[..], &b"z"[..]), 10, true);
        check(KeyRange::new(&b"x"[..], &b"z"[..]), 9, false);
    }

    #[test]
    fn a_slow_watcher_loses_and_learns_of_it() {
        let watchers = Watchers::default();
        let mut watch = watchers.add(&Changes::since(Version(0)), SPACE, KeyRange::all(), Version(0), Version(0));
        for version in 1..=QUEUE_LEN_MAX as u64 + 5 {
            watchers.tell(Version(version), &[(SPACE, key("k"))]);
        }
        for version in 1..=QUEUE_LEN_MAX as u64 {
            let event = watch.next(Duration::ZERO).unwrap();
            assert_eq!(event, Some(Event::Changed { version: Version(version), keys: key("k") }));
        }
        assert!(matches!(watch.next(Duration::ZERO).unwrap(), Some(Event::LostSince(_))));
        assert_eq!(watch.next(Duration::ZERO).unwrap(), None);
    }
}
