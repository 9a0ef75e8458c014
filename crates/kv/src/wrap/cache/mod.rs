//! Keeps small values of a store that were read, in bounded memory.
//!
//! Invariants:
//! - A `get` sees every commit that was acknowledged before it, whoever made it; a view shows its version and no other.
//! - Where others may write ([`Writers::Any`]) a value is kept for the one version that it was read at: the seam tells
//!   neither which keys changed between two versions (a watch tells it later), nor whether a key that has the same version
//!   has the same value (a space may have been dropped and cloned from another). Who reads the same version again finds it.
//! - Where all changes go through this cache ([`Writers::ThisAlone`]) a value is kept until a change touches its key, or may.

mod guard;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use koine_engine::{Batch, Commit, Durability, Error, ErrorKind, Place, Result, SpaceId, Ticket, Version};
use quick_cache::sync::Cache as Slots;
use quick_cache::{Equivalent, Weighter};

use self::guard::{Guard, Standing, Touched};
use crate::seam::{Glance, Kv, ReadNow, Stat, View};

/// What an entry takes beside its key and value.
const ENTRY_LEN: u64 = 128;

/// Who changes the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writers {
    /// Anybody, through this cache or past it. Each `get` asks the store for its version.
    #[default]
    Any,
    /// Only users of this cache (of this very one, not of another over the same store). Who says so and writes past
    /// it reads what was. A `get` of what is kept asks nobody.
    ThisAlone,
}

/// How a cache is made.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Memory for keys and values, in bytes.
    pub bytes_max: u64,
    /// Longer values are not kept.
    pub value_len_max: u64,
    /// Who changes the store.
    pub writers: Writers,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions { bytes_max: 64 << 20, value_len_max: 64 << 10, writers: Writers::Any }
    }
}

/// What a cache has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Reads that were answered by the cache.
    pub hits: u64,
    /// Reads of small values or absent keys that were not.
    pub misses: u64,
    /// Bytes in use.
    pub bytes: u64,
}

/// A store whose small values are kept once they were read.
pub struct Cache {
    inner: Arc<dyn Kv>,
    shared: Arc<Shared>,
}

/// What was read of a key.
#[derive(Clone)]
struct Kept {
    /// The version that was read.
    version: Version,
    /// Nothing where the key was absent.
    found: Option<(Stat, Bytes)>,
}

struct Shared {
    slots: Slots<Place, Kept, Weights>,
    value_len_max: u64,
    /// Where all changes are seen here.
    guard: Option<Guard>,
    closed: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Clone)]
struct Weights;

impl Weighter<Place, Kept> for Weights {
    fn weight(&self, place: &Place, kept: &Kept) -> u64 {
        ENTRY_LEN + place.key.len() as u64 + kept.found.as_ref().map_or(0, |(_, bytes)| bytes.len() as u64)
    }
}

/// A place whose key is borrowed.
#[derive(PartialEq, Eq, Hash)]
struct At<'a> {
    space: SpaceId,
    key: &'a [u8],
}

impl Equivalent<Place> for At<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.space == place.space && self.key == place.key
    }
}

impl Shared {
    /// What is kept of a key and holds in a version; without one, in the newest.
    fn find(&self, space: SpaceId, key: &[u8], version: Option<Version>) -> Option<Kept> {
        let kept = self.slots.get(&At { space, key })?;
        let holds = match (&self.guard, version) {
            // Version 0 is also told where a version is not known.
            (_, Some(Version(0))) => false,
            (_, Some(version)) if kept.version == version => true,
            (Some(guard), Some(version)) => kept.version <= version && !guard.is_in_doubt(space, key),
            (Some(guard), None) => !guard.is_in_doubt(space, key),
            (None, _) => false,
        };
        if !holds {
            return None;
        }
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(kept)
    }

    /// How a key stands before it is read; `None` when what is read must not be kept.
    fn standing(&self, space: SpaceId, key: &[u8]) -> Option<Option<Standing>> {
        match &self.guard {
            None => Some(None),
            Some(guard) => guard.standing(space, key).map(Some),
        }
    }

    /// Keeps what was read at a version.
    fn keep(&self, standing: Option<Option<Standing>>, place: At<'_>, version: Version, found: Option<(Stat, Bytes)>) {
        self.misses.fetch_add(1, Ordering::Relaxed);
        let is_small = found.as_ref().is_none_or(|(_, bytes)| bytes.len() as u64 <= self.value_len_max);
        let Some(standing) = standing.filter(|_| is_small && version > Version(0)) else { return };
        let At { space, key } = place;
        let keep = || {
            // What is newer stays: an old view is the only one to ask for its version again.
            if self.slots.peek(&At { space, key }).is_some_and(|kept| kept.version > version) {
                return;
            }
            // A copy: what was read may be a part of something larger.
            let found = found.map(|(stat, bytes)| (stat, Bytes::copy_from_slice(&bytes)));
            self.slots.insert(Place::new(space, Bytes::copy_from_slice(key)), Kept { version, found });
        };
        match (&self.guard, standing) {
            (Some(guard), Some(standing)) => guard.keep_if(standing, &At { space, key }, version, keep),
            _ => keep(),
        }
    }

    /// A change is about to be asked for.
    fn begin(&self, batch: &Batch) -> Option<Touched> {
        let touched = self.guard.as_ref()?.begin(batch);
        if touched.is_whole {
            self.slots.clear();
        }
        for Place { space, key } in &touched.places {
            self.slots.remove(&At { space: *space, key });
        }
        Some(touched)
    }

    fn end(&self, touched: Option<&Touched>, outcome: &Result<Commit>) {
        if let (Some(guard), Some(touched)) = (&self.guard, touched) {
            guard.end(touched, outcome);
        }
    }
}

impl Cache {
    /// Over a store.
    pub fn new(inner: Arc<dyn Kv>, options: &CacheOptions) -> Cache {
        let entries = usize::try_from(options.bytes_max / (4 * ENTRY_LEN)).unwrap_or(usize::MAX).max(16);
        let shared = Shared {
            slots: Slots::with_weighter(entries, options.bytes_max, Weights),
            value_len_max: options.value_len_max,
            guard: (options.writers == Writers::ThisAlone).then(Guard::new),
            closed: AtomicBool::new(false),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        Cache { inner, shared: Arc::new(shared) }
    }

    /// What it has done so far.
    pub fn counts(&self) -> CacheCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shared = &self.shared;
        CacheCounts { hits: count(&shared.hits), misses: count(&shared.misses), bytes: shared.slots.weight() }
    }
}

impl Kv for Cache {
    crate::pass_on!(Kv, inner: profile, stage, watch, usage, sync);

    fn view(&self) -> Result<Arc<dyn View>> {
        Ok(Arc::new(CacheView { inner: self.inner.view()?, shared: Arc::clone(&self.shared) }))
    }

    fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let shared = &self.shared;
        let value = |kept: Kept| kept.found.map(|(_, bytes)| bytes);
        if shared.guard.is_some()
            && !shared.closed.load(Ordering::Acquire)
            && let Some(kept) = shared.find(space, key, None)
        {
            return Ok(value(kept));
        }
        let standing = shared.standing(space, key);
        let view = self.inner.view()?;
        let version = view.version();
        if let Some(kept) = shared.find(space, key, Some(version)) {
            return Ok(value(kept));
        }
        let found = match view.stat(space, key)? {
            None => None,
            Some(stat) => {
                let length = usize::try_from(stat.size).map_err(|_| Error::invalid("value too large to get whole"))?;
                Some((stat, view.bytes(space, key, 0, length)?))
            }
        };
        let value = found.as_ref().map(|(_, bytes)| bytes.clone());
        shared.keep(standing, At { space, key }, version, found);
        Ok(value)
    }

    fn glance(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Glance> {
        self.view()?.glance(space, key, offset, length)
    }

    fn submit(&self, batch: Batch, durability: Durability) -> Ticket {
        let Some(touched) = self.shared.begin(&batch) else {
            return self.inner.submit(batch, durability);
        };
        let (ticket, completer) = Ticket::new();
        let shared = Arc::clone(&self.shared);
        self.inner.submit(batch, durability).on_done(move |outcome| {
            shared.end(Some(&touched), &outcome);
            completer.complete(outcome);
        });
        ticket
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<Commit> {
        let touched = self.shared.begin(&batch);
        let outcome = self.inner.commit(batch, durability);
        self.shared.end(touched.as_ref(), &outcome);
        outcome
    }

    fn close(&self) -> Result<()> {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.slots.clear();
        self.inner.close()
    }
}

struct CacheView {
    inner: Arc<dyn View>,
    shared: Arc<Shared>,
}

impl CacheView {
    /// What is kept and holds in this version.
    fn find(&self, space: SpaceId, key: &[u8]) -> Option<Kept> {
        // The version is asked for only where there is something: over a wire it takes a round.
        self.shared.slots.peek(&At { space, key })?;
        self.shared.find(space, key, Some(self.inner.version()))
    }

    /// Keeps a value of which the first `read` bytes were read, where that was all.
    fn keep(&self, standing: Option<Option<Standing>>, space: SpaceId, key: &[u8], read: &[u8]) {
        // A value that cannot be told whole is read as it is: this is no reason to fail.
        if let Ok(Some(stat)) = self.inner.stat(space, key)
            && stat.size == read.len() as u64
        {
            let found = Some((stat, Bytes::copy_from_slice(read)));
            self.shared.keep(standing, At { space, key }, self.inner.version(), found);
        }
    }
}

fn of(kept: &Kept, offset: u64, length: usize) -> Result<Bytes> {
    let (_, bytes) = kept.found.as_ref().ok_or_else(|| Error::new(ErrorKind::NotFound, "the key is not there"))?;
    Ok(part(bytes, offset, length))
}

fn part(bytes: &Bytes, offset: u64, length: usize) -> Bytes {
    let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    let end = begin.saturating_add(length).min(bytes.len());
    bytes.slice(begin..end)
}

fn copy(kept: &Kept, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let bytes = of(kept, offset, buffer.len())?;
    if let Some(target) = buffer.get_mut(..bytes.len()) {
        target.copy_from_slice(&bytes);
    }
    Ok(bytes.len())
}

impl View for CacheView {
    crate::pass_on!(View, inner: version, keep, has_space, spaces, cursor);

    fn stat(&self, space: SpaceId, key: &[u8]) -> Result<Option<Stat>> {
        match self.find(space, key) {
            Some(kept) => Ok(kept.found.map(|(stat, _)| stat)),
            None => self.inner.stat(space, key),
        }
    }

    fn read(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if let Some(kept) = self.find(space, key) {
            return copy(&kept, offset, buffer);
        }
        let standing = self.shared.standing(space, key);
        let count = self.inner.read(space, key, offset, buffer)?;
        if let Some(read) = buffer.get(..count).filter(|_| offset == 0 && count as u64 <= self.shared.value_len_max) {
            self.keep(standing, space, key, read);
        }
        Ok(count)
    }

    fn read_now(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<ReadNow> {
        match self.find(space, key) {
            Some(kept) => copy(&kept, offset, buffer).map(ReadNow::Read),
            None => self.inner.read_now(space, key, offset, buffer),
        }
    }

    fn glance(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Glance> {
        match self.find(space, key) {
            Some(Kept { found: None, .. }) => Ok(Glance::Absent),
            Some(Kept { found: Some((stat, bytes)), .. }) => Ok(Glance::Part(stat, part(&bytes, offset, length))),
            None => self.inner.glance(space, key, offset, length),
        }
    }

    fn bytes(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Bytes> {
        if let Some(kept) = self.find(space, key) {
            return of(&kept, offset, length);
        }
        let standing = self.shared.standing(space, key);
        let bytes = self.inner.bytes(space, key, offset, length)?;
        if offset == 0 && bytes.len() as u64 <= self.shared.value_len_max {
            self.keep(standing, space, key, &bytes);
        }
        Ok(bytes)
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
