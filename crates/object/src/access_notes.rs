//! When objects were read, as this process knows it and has not written down.
//!
//! Invariant: what is lost with the process are times alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use koine_env::Timestamp;
use koine_kv::SpaceId;

use crate::ids::ObjectId;

/// So many noted objects are written down.
const NOTED_MAX: usize = 1_000;

/// What was noted longer ago than this is written down when something else is noted.
const NOTED_FOR_MAX: u64 = 5_000_000_000;

/// How old a time gets before a read renews it.
const DAY: u64 = 24 * 60 * 60 * 1_000_000_000;

/// Times that are known to stand need not be looked at again: so many a part are remembered.
const KNOWN_MAX: usize = 4_096;

/// Readers of different objects do not wait for each other.
const PARTS: usize = 16;

/// An object of any bucket.
pub(crate) type ObjectPlace = (SpaceId, ObjectId);

/// A read that is not written down.
#[derive(Clone, Copy)]
pub(crate) struct Noted {
    pub at: Timestamp,
    /// The last change of the object that was read.
    pub changed: Timestamp,
}

#[derive(Default)]
pub(crate) struct Part {
    pub noted: HashMap<ObjectPlace, Noted>,
    pub known: HashMap<ObjectPlace, Timestamp>,
}

/// The reads of a store by this process.
#[derive(Default)]
pub(crate) struct Reads {
    parts: [Mutex<Part>; PARTS],
    pub noted: AtomicUsize,
    /// When the first of those was noted.
    pub since: AtomicU64,
    /// Whether there is enough to be written down.
    pub due: AtomicBool,
    /// Whether a thread is writing.
    pub writing: AtomicBool,
    /// Held by who writes.
    pub writer: Mutex<()>,
}

/// Whether a read at `now` is to be written over what stands.
pub(crate) fn is_due(stands: Option<Timestamp>, changed: Timestamp, now: Timestamp) -> bool {
    stands.is_none_or(|stands| stands < changed || stands > now || now.0.saturating_sub(stands.0) >= DAY)
}

/// What a lock holds, whoever failed with it.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reads {
    /// Where what is known of an object is.
    pub fn part(&self, place: ObjectPlace) -> Option<MutexGuard<'_, Part>> {
        let part = self.parts.get((place.1.0 % PARTS as u64) as usize)?;
        Some(held(part))
    }

    /// Notes a read.
    pub fn note(&self, place: ObjectPlace, changed: Timestamp, now: Timestamp) {
        let Some(mut part) = self.part(place) else { return };
        if part.known.get(&place).is_some_and(|known| !is_due(Some(*known), changed, now)) {
            return;
        }
        let is_first = part.noted.insert(place, Noted { at: now, changed }).is_none();
        drop(part);
        let before =
            if is_first { self.noted.fetch_add(1, Ordering::Relaxed) } else { self.noted.load(Ordering::Relaxed) };
        if before == 0 {
            self.since.store(now.0, Ordering::Relaxed);
        }
        if before >= NOTED_MAX || now.0.saturating_sub(self.since.load(Ordering::Relaxed)) > NOTED_FOR_MAX {
            self.due.store(true, Ordering::Relaxed);
        }
    }

    /// All that is to be written down.
    pub fn take(&self) -> Vec<(ObjectPlace, Noted)> {
        self.noted.store(0, Ordering::Relaxed);
        self.parts.iter().flat_map(|part| std::mem::take(&mut held(part).noted)).collect()
    }

    /// A time was written down.
    pub fn know(&self, place: ObjectPlace, stands: Timestamp) {
        if let Some(mut part) = self.part(place) {
            if part.known.len() >= KNOWN_MAX {
                part.known.clear();
            }
            part.known.insert(place, stands);
        }
    }

    /// Another time was set by a caller.
    pub fn forget(&self, space: SpaceId, id: ObjectId) {
        if let Some(mut part) = self.part((space, id)) {
            part.known.remove(&(space, id));
            part.noted.remove(&(space, id));
        }
    }
}
