//! When objects were last read: noted by readers, written down apart from their records, by a thread of its own.
//!
//! Invariants:
//! - A reader notes and goes on: it looks nothing up, writes nothing and waits for nothing but a moment of a lock.
//! - No record is changed. A time stands under a key of its own, is put only where the object's bytes are there in
//!   the same commit, and goes with them.
//! - As `relatime` of file systems: a time is written where it is older than the last change of the object, or older
//!   than a day. Many are one commit, which does not wait for the device; a crash may lose them.
//! - What is kept in memory is bounded, and nothing rests on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Batch, Condition, Durability, ErrorKind as KvErrorKind, SpaceId, View};

use crate::error::{Error, Result};
use crate::info::{AccessTimes, ObjectId};
use crate::keys;
use crate::local::Local;
use crate::lookup::read_value;
use crate::record::{BucketRecord, ObjectRecord};

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
/// Where others change the same objects again and again, times are given up.
const ATTEMPTS_MAX: usize = 3;

/// An object of any bucket.
type Whose = (SpaceId, ObjectId);

/// A read that is not written down.
#[derive(Clone, Copy)]
struct Noted {
    at: Timestamp,
    /// The last change of the object that was read.
    changed: Timestamp,
}

#[derive(Default)]
struct Part {
    noted: HashMap<Whose, Noted>,
    known: HashMap<Whose, Timestamp>,
}

/// The reads of a store by this process.
#[derive(Default)]
pub(crate) struct Reads {
    parts: [Mutex<Part>; PARTS],
    noted: AtomicUsize,
    /// When the first of those was noted.
    since: AtomicU64,
    /// Whether there is enough to be written down.
    due: AtomicBool,
    /// Whether a thread is writing.
    writing: AtomicBool,
    /// Held by who writes.
    writer: Mutex<()>,
}

/// Whether a read at `now` is to be written over what stands.
fn is_due(stands: Option<Timestamp>, changed: Timestamp, now: Timestamp) -> bool {
    stands.is_none_or(|stands| stands < changed || stands > now || now.0.saturating_sub(stands.0) >= DAY)
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reads {
    fn part(&self, whose: Whose) -> Option<MutexGuard<'_, Part>> {
        let part = self.parts.get((whose.1.0 % PARTS as u64) as usize)?;
        Some(held(part))
    }

    /// Notes a read.
    fn note(&self, whose: Whose, changed: Timestamp, now: Timestamp) {
        let Some(mut part) = self.part(whose) else { return };
        if part.known.get(&whose).is_some_and(|known| !is_due(Some(*known), changed, now)) {
            return;
        }
        let is_first = part.noted.insert(whose, Noted { at: now, changed }).is_none();
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

    fn take(&self) -> Vec<(Whose, Noted)> {
        self.noted.store(0, Ordering::Relaxed);
        self.parts.iter().flat_map(|part| std::mem::take(&mut held(part).noted)).collect()
    }

    fn know(&self, whose: Whose, stands: Timestamp) {
        if let Some(mut part) = self.part(whose) {
            if part.known.len() >= KNOWN_MAX {
                part.known.clear();
            }
            part.known.insert(whose, stands);
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

impl Local {
    pub fn write_access_times(&self) -> Result<()> {
        let _writer = held(&self.reads().writer);
        let mut noted = self.reads().take();
        if noted.is_empty() {
            // A store whose server is gone is not asked for nothing.
            return Ok(());
        }
        for _ in 0..ATTEMPTS_MAX {
            let due = due(self, &mut noted)?;
            if due.is_empty() {
                return Ok(());
            }
            let mut batch = Batch::new();
            for ((space, id), noted) in &due {
                let time = Bytes::copy_from_slice(&noted.at.0.to_le_bytes());
                batch = batch.when(Condition::Present { space: *space, key: keys::data(*id) });
                batch = batch.put(*space, keys::access_time(*id), time);
            }
            match self.kv().commit(batch, Durability::Memory) {
                Ok(_) => due.iter().for_each(|(whose, noted)| self.reads().know(*whose, noted.at)),
                // One of them is gone: the others are tried without it.
                Err(error) if error.kind() == KvErrorKind::Refused => continue,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// An object was read.
    pub(crate) fn was_read(&self, bucket: &BucketRecord, record: &ObjectRecord) {
        if bucket.access_times == AccessTimes::Off || bucket.is_snapshot {
            return;
        }
        let changed = record.changed.max(record.modified);
        self.reads().note((bucket.space, record.id), changed, self.now());
        if !self.is_unwaiting() {
            self.write_due_access_times();
        }
    }

    /// Has what was noted written down by a thread of its own, where that is enough.
    pub(crate) fn write_due_access_times(&self) {
        if self.reads().due.load(Ordering::Relaxed) && !self.reads().writing.swap(true, Ordering::AcqRel) {
            self.reads().due.store(false, Ordering::Relaxed);
            let objects = self.clone();
            let write = move || {
                // What cannot be written is lost, as in a crash; the next read notes it again.
                drop(objects.write_access_times());
                objects.reads().writing.store(false, Ordering::Release);
            };
            if thread::Builder::new().name("access-times".to_owned()).spawn(write).is_err() {
                self.reads().writing.store(false, Ordering::Release);
            }
        }
    }

    /// When an object was last read, where its bucket keeps that.
    pub(crate) fn last_read(
        &self,
        view: &Arc<dyn View>,
        bucket: &BucketRecord,
        record: &ObjectRecord,
    ) -> Result<Option<Timestamp>> {
        if bucket.access_times == AccessTimes::Off {
            return Ok(None);
        }
        let stands = read_time(view.as_ref(), (bucket.space, record.id))?;
        let noted = self.reads().part((bucket.space, record.id));
        let noted = noted.and_then(|part| part.noted.get(&(bucket.space, record.id)).copied());
        let noted = noted.filter(|noted| is_due(stands, noted.changed, noted.at)).map(|noted| noted.at);
        Ok(noted.or(stands).map(|time| time.min(self.now())))
    }
}

/// Those of what was noted that are to be written: of objects that are there, and not as good as what stands.
fn due(objects: &Local, noted: &mut Vec<(Whose, Noted)>) -> Result<Vec<(Whose, Noted)>> {
    let view = objects.kv().view()?;
    // Those that are left out are not looked at again.
    let all = std::mem::take(noted);
    for (whose, read) in all {
        let (space, id) = whose;
        if view.stat(space, &keys::data(id))?.is_none() {
            continue;
        }
        match read_time(view.as_ref(), whose)? {
            Some(stands) if !is_due(Some(stands), read.changed, read.at) => objects.reads().know(whose, stands),
            _ => noted.push((whose, read)),
        }
    }
    Ok(noted.clone())
}

fn read_time(view: &dyn View, (space, id): Whose) -> Result<Option<Timestamp>> {
    let key = keys::access_time(id);
    let Some((_, bytes)) = read_value(view, space, &key)? else {
        return Ok(None);
    };
    let time = bytes.as_ref().try_into().map(u64::from_le_bytes);
    let time = time.map_err(|_| Error::damaged(format!("the key {} holds no time", hex::encode(&key))))?;
    Ok(Some(Timestamp(time)))
}
