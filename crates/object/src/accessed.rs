//! When objects were last read: noted by readers, written down apart from their records, by a thread of its own.
//!
//! Invariants:
//! - A reader notes and goes on: it looks nothing up, writes nothing and waits for nothing but a moment of a lock.
//! - No record is changed. A time stands under a key of its own, is put only where the object's bytes are there in
//!   the same commit, and goes with them.
//! - As `relatime` of file systems: a time is written where it is older than the last change of the object, or older
//!   than a day. Many are one commit, which does not wait for the device; a crash may lose them.
//! - What is kept in memory is bounded, and nothing rests on it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Batch, Durability, ErrorKind as KvErrorKind, View};

use crate::access_notes::{Noted, ObjectPlace, held, is_due};
use crate::error::{Error, Result};
use crate::info::AccessTimes;
use crate::keys;
use crate::layout;
use crate::local::Local;
use crate::lookup::read_value;
use crate::record::{BucketRecord, ObjectRecord};

/// Where others change the same objects again and again, times are given up.
const ATTEMPTS_MAX: usize = 3;

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
                batch = batch.when(layout::present(*space, *id));
                batch = batch.put(*space, keys::access_time(*id), time);
            }
            match self.kv().commit(batch, Durability::Memory) {
                Ok(_) => due.iter().for_each(|(place, noted)| self.reads().know(*place, noted.at)),
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
            let local = self.clone();
            let write = move || {
                // What cannot be written is lost, as in a crash; the next read notes it again.
                drop(local.write_access_times());
                local.reads().writing.store(false, Ordering::Release);
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
fn due(local: &Local, noted: &mut Vec<(ObjectPlace, Noted)>) -> Result<Vec<(ObjectPlace, Noted)>> {
    let view = local.kv().view()?;
    // Those that are left out are not looked at again.
    let all = std::mem::take(noted);
    for (place, read) in all {
        let (space, id) = place;
        if !layout::is_present(view.as_ref(), space, id)? {
            continue;
        }
        match read_time(view.as_ref(), place)? {
            Some(stands) if !is_due(Some(stands), read.changed, read.at) => local.reads().know(place, stands),
            _ => noted.push((place, read)),
        }
    }
    Ok(noted.clone())
}

fn read_time(view: &dyn View, (space, id): ObjectPlace) -> Result<Option<Timestamp>> {
    let key = keys::access_time(id);
    let Some((_, bytes)) = read_value(view, space, &key)? else {
        return Ok(None);
    };
    let time = bytes.as_ref().try_into().map(u64::from_le_bytes);
    let time = time.map_err(|_| Error::damaged(format!("the key {} holds no time", hex::encode(&key))))?;
    Ok(Some(Timestamp(time)))
}
