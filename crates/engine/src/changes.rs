//! Which keys changed lately: for `RangeUnchanged`, and for watchers.
//!
//! Invariants:
//! - A change newer than the floor is never missed; about older ones the answer is "perhaps changed".
//! - What a commit changed is kept once, by whoever remembers it and whoever tells it, and is put in order only when
//!   somebody asks for a range: most commits are forgotten before that.
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
/// How many bytes they may take, whatever the budget of memory.
const CHANGES_LEN_MAX: usize = 16 << 20;
/// Of that budget they may take one byte of so many, …
const BUDGET_SHARE: u64 = 32;
/// … and at least so much.
const CHANGES_LEN_MIN: usize = 64 << 10;
/// What a change takes beside its key, by order and by key.
const CHANGE_LEN: usize = 256;
/// So many changes may be out of order when somebody asks for a range: they are looked through one by one.
const UNORDERED_MAX: usize = 64;
/// How many events wait for one watcher.
const QUEUE_LEN_MAX: usize = 8_192;

/// A key or a range that a commit changed.
#[derive(Clone, Debug)]
pub(crate) enum Changed {
    /// One key.
    Key(Bytes),
    /// All keys of a range.
    Range(KeyRange),
}

impl Changed {
    fn len(&self) -> usize {
        let keys_len = match self {
            Changed::Key(key) => key.len(),
            Changed::Range(range) => range.start.len() + range.end.as_ref().map_or(0, Bytes::len),
        };
        CHANGE_LEN + keys_len
    }

    fn overlaps(&self, range: &KeyRange) -> bool {
        match self {
            Changed::Key(key) => range.contains(key),
            Changed::Range(changed) => overlap(changed, range),
        }
    }

    fn to_range(&self) -> KeyRange {
        match self {
            Changed::Key(key) => KeyRange::single(key.clone()),
            Changed::Range(range) => range.clone(),
        }
    }
}

/// What one commit changed.
pub(crate) type ChangeSet = Arc<Vec<(SpaceId, Changed)>>;

fn overlap(a: &KeyRange, b: &KeyRange) -> bool {
    let before = |x: &KeyRange, y: &KeyRange| x.end.as_ref().is_some_and(|end| *end <= y.start);
    !before(a, b) && !before(b, a)
}

/// The changes of the newest commits, by order and by key.
pub struct Changes {
    log: VecDeque<(Version, ChangeSet)>,
    count: usize,
    len: usize,
    len_max: usize,
    /// Changes up to here may be forgotten.
    floor: Version,
    /// So many commits from the oldest on are in the two below, …
    ordered: usize,
    /// … and so many changes are not.
    unordered: usize,
    latest: BTreeMap<(SpaceId, Bytes), Version>,
    ranges: VecDeque<(Version, SpaceId, KeyRange)>,
}

impl Changes {
    /// Nothing is known of commits up to `floor`.
    pub fn since(floor: Version) -> Changes {
        Changes {
            log: VecDeque::new(),
            count: 0,
            len: 0,
            len_max: CHANGES_LEN_MAX,
            floor,
            ordered: 0,
            unordered: 0,
            latest: BTreeMap::new(),
            ranges: VecDeque::new(),
        }
    }

    /// As much of it as a store with this budget of memory remembers.
    pub fn within(self, memory_len: u64) -> Changes {
        let share = usize::try_from(memory_len / BUDGET_SHARE).unwrap_or(usize::MAX);
        Changes { len_max: share.clamp(CHANGES_LEN_MIN, CHANGES_LEN_MAX), ..self }
    }

    /// A commit changed these.
    pub(crate) fn push(&mut self, version: Version, changes: &ChangeSet) {
        if changes.is_empty() {
            return;
        }
        self.count += changes.len();
        self.unordered += changes.len();
        self.len += changes.iter().map(|(_, changed)| changed.len()).sum::<usize>();
        self.log.push_back((version, Arc::clone(changes)));
        while self.count > CHANGES_KEPT || self.len > self.len_max {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((version, oldest)) = self.log.pop_front() else { return };
        self.count -= oldest.len();
        self.len -= oldest.iter().map(|(_, changed)| changed.len()).sum::<usize>();
        self.floor = self.floor.max(version);
        let Some(ordered) = self.ordered.checked_sub(1) else {
            self.unordered -= oldest.len();
            return;
        };
        self.ordered = ordered;
        for (space, changed) in oldest.iter() {
            match changed {
                Changed::Key(key) => {
                    let key = (*space, key.clone());
                    if self.latest.get(&key) == Some(&version) {
                        self.latest.remove(&key);
                    }
                }
                Changed::Range(_) => drop(self.ranges.pop_front()),
            }
        }
    }

    /// Puts changes in order so that [`Changes::unchanged`] has few to look through. It is right without.
    pub(crate) fn put_in_order(&mut self) {
        if self.unordered <= UNORDERED_MAX {
            return;
        }
        for (version, changes) in self.log.iter().skip(self.ordered) {
            for (space, changed) in changes.iter() {
                match changed {
                    Changed::Key(key) => drop(self.latest.insert((*space, key.clone()), *version)),
                    Changed::Range(range) => self.ranges.push_back((*version, *space, range.clone())),
                }
            }
        }
        (self.ordered, self.unordered) = (self.log.len(), 0);
    }

    /// Whether no key of a range changed after `since`; false when that is not known.
    pub fn unchanged(&self, space: SpaceId, range: &KeyRange, since: Version) -> bool {
        if range.is_empty() {
            return true;
        }
        if since < self.floor {
            return false;
        }
        let newer = self.log.iter().skip(self.ordered).rev().take_while(|(version, _)| *version > since);
        let mut newer = newer.flat_map(|(_, changes)| changes.iter());
        if newer.any(|(changed_space, changed)| *changed_space == space && changed.overlaps(range)) {
            return false;
        }
        let from = (space, range.start.clone());
        let mut keys = self.latest.range(from..).take_while(|((s, key), _)| *s == space && range.contains(key));
        let mut ranges = self.ranges.iter().filter(|(_, s, changed)| *s == space && overlap(changed, range));
        keys.all(|(_, version)| *version <= since) && ranges.all(|(version, ..)| *version <= since)
    }

    /// The changes of a range after `from` and up to `to`; `None` when some may be forgotten.
    fn between(&self, space: SpaceId, range: &KeyRange, from: Version, to: Version) -> Option<Vec<Event>> {
        if from < self.floor {
            return None;
        }
        let commits = self.log.iter().filter(|(version, _)| *version > from && *version <= to);
        let changes = commits.flat_map(|(version, changes)| changes.iter().map(move |changed| (*version, changed)));
        let wanted = changes.filter(|(_, (s, changed))| *s == space && changed.overlaps(range));
        Some(wanted.map(|(version, (_, changed))| Event::Changed { version, keys: changed.to_range() }).collect())
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
    fn offer(&self, version: Version, changes: &[(SpaceId, Changed)]) {
        let mut queue = self.queue.lock();
        if queue.lost || version <= self.from {
            return;
        }
        for (_, keys) in changes.iter().filter(|(space, keys)| *space == self.space && keys.overlaps(&self.range)) {
            if queue.events.len() >= QUEUE_LEN_MAX {
                queue.lost = true;
                self.arrived.notify_all();
                return;
            }
            queue.events.push_back(Event::Changed { version, keys: keys.to_range() });
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
    pub(crate) fn tell(&self, version: Version, changes: &[(SpaceId, Changed)]) {
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

    fn key(key: &'static str) -> Changed {
        Changed::Key(Bytes::from_static(key.as_bytes()))
    }

    fn set(changed: Changed) -> ChangeSet {
        Arc::new(vec![(SPACE, changed)])
    }

    #[test]
    fn changes_after_a_version_are_noticed() {
        let mut changes = Changes::since(Version(10));
        changes.push(Version(11), &set(key("b")));
        changes.push(Version(12), &set(Changed::Range(KeyRange::new(&b"m"[..], &b"p"[..]))));
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
            assert_eq!(event, Some(Event::Changed { version: Version(version), keys: KeyRange::single("k") }));
        }
        assert!(matches!(watch.next(Duration::ZERO).unwrap(), Some(Event::LostSince(_))));
        assert_eq!(watch.next(Duration::ZERO).unwrap(), None);
    }

    /// Whether a range changed, by looking through all that is remembered.
    fn looked_through(all: &[(u64, SpaceId, KeyRange)], space: SpaceId, range: &KeyRange, since: u64) -> bool {
        let mut newer = all.iter().filter(|(version, s, _)| *version > since && *s == space);
        newer.all(|(.., keys)| !keys.overlaps(range))
    }

    #[test]
    fn the_answer_is_the_same_in_order_and_out_of_order() {
        let number = |number: u64| Bytes::copy_from_slice(&number.to_be_bytes());
        let (mut asked, mut unasked) = (Changes::since(Version(0)), Changes::since(Version(0)));
        let mut all = Vec::new();
        let mut dice = 1u64;
        for version in 1..=400u64 {
            let mut changes = Vec::new();
            for _ in 0..version % 7 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (key, space) = ((dice >> 33) % 300, SpaceId(20 + (dice >> 60) % 2));
                let changed = match (dice >> 40) % 9 {
                    0 => Changed::Range(KeyRange::new(number(key), number(key + 4))),
                    _ => Changed::Key(number(key)),
                };
                all.push((version, space, changed.to_range()));
                changes.push((space, changed));
            }
            let changes = Arc::new(changes);
            asked.push(Version(version), &changes);
            unasked.push(Version(version), &changes);
            if version % 90 == 0 {
                asked.put_in_order();
            }
            let range = KeyRange::new(number(version % 290), number(version % 290 + 9));
            for since in [version, version - 1, version.saturating_sub(5), version / 2] {
                let expected = looked_through(&all, SPACE, &range, since);
                assert_eq!(asked.unchanged(SPACE, &range, Version(since)), expected);
                assert_eq!(unasked.unchanged(SPACE, &range, Version(since)), expected);
            }
        }
        assert!(asked.ordered > 300 && unasked.ordered == 0);
    }

    #[test]
    fn a_small_budget_remembers_less() {
        let remembered = |memory_len: u64| {
            let mut changes = Changes::since(Version(0)).within(memory_len);
            (1..=70_000).for_each(|version| changes.push(Version(version), &set(key("0123456789"))));
            assert!(changes.len as u64 <= (memory_len / BUDGET_SHARE).max(CHANGES_LEN_MIN as u64));
            changes.count
        };
        let (small, large) = (remembered(8 << 20), remembered(64 << 20));
        assert!(small > 900 && large > 7 * small && large < CHANGES_KEPT, "{small} and {large}");
        assert!(remembered(0) > 200);
    }

    #[test]
    fn what_is_forgotten_is_perhaps_changed() {
        let mut changes = Changes { len_max: usize::MAX, ..Changes::since(Version(0)) };
        let many: ChangeSet =
            Arc::new((0..1000u32).map(|n| (SPACE, Changed::Key(Bytes::from(format!("{n}"))))).collect());
        for version in 1..=100 {
            changes.push(Version(version), &many);
            if version == 50 {
                changes.put_in_order();
            }
        }
        assert!(changes.count <= CHANGES_KEPT && changes.floor == Version(35));
        assert!(changes.unchanged(SPACE, &KeyRange::prefix("x"), Version(35)));
        assert!(!changes.unchanged(SPACE, &KeyRange::prefix("x"), Version(34)));
        changes.put_in_order();
        assert!(changes.unordered == 0 && changes.ordered == changes.log.len());
        assert!(!changes.unchanged(SPACE, &KeyRange::single("7"), Version(99)));
        assert!(changes.unchanged(SPACE, &KeyRange::single("7"), Version(100)));
        // Larger commits push all of it out.
        for version in 101..=200 {
            changes.push(Version(version), &many);
        }
        assert_eq!((changes.ordered, changes.latest.len(), changes.ranges.len()), (0, 0, 0));
    }
}
