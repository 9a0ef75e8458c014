//! Calls that are answered at once, or not at all: for callers that hold what others wait for, as the lock of an interpreter.
//!
//! Invariants:
//! - Such a call never waits for the device or for another process, and copies no more of a value than a look-up that may not wait does.
//! - It changes nothing, and what it answers is what the same call would answer that may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koine_kv::{
    Batch, Cursor, Direction, Durability, Error as KvError, ErrorKind as KvErrorKind, KeyRange, Kv, LOOKUP_COPY_MAX,
    Lookup, Profile, Result as KvResult, SpaceEntry, SpaceId, Stage, StageHint, Ticket, Usage, Version, View, Wait,
    Watch,
};

use crate::error::Result;
use crate::local::Local;

impl Local {
    /// Makes calls that read, where they need not wait for the device; `None` where they would, or where they would change
    /// something: nothing was done then.
    pub fn at_once<T>(&self, call: impl FnOnce(Local) -> Result<T>) -> Result<Option<T>> {
        if !self.kv().profile().reads_at_once {
            return Ok(None);
        }
        let has_to_wait = Arc::new(AtomicBool::new(false));
        let kv = Unwaiting { below: Arc::clone(self.kv()), has_to_wait: Arc::clone(&has_to_wait) };
        let pinned = self.pinned_view().map(|view| kv.of_view(Arc::clone(view)));
        let outcome = call(self.unwaiting(Arc::new(kv), pinned));
        // What was read is noted; it is written down from here, where the store below takes changes.
        self.write_due_access_times();
        if has_to_wait.load(Ordering::Relaxed) { Ok(None) } else { outcome.map(Some) }
    }
}

/// A store, or a view of one, that does not wait.
struct Unwaiting<K: ?Sized> {
    below: Arc<K>,
    /// Something would have waited: no outcome counts.
    has_to_wait: Arc<AtomicBool>,
}

impl<K: ?Sized> Unwaiting<K> {
    fn of_view(&self, view: Arc<dyn View>) -> Arc<dyn View> {
        Arc::new(Unwaiting { below: view, has_to_wait: Arc::clone(&self.has_to_wait) })
    }

    fn would_wait<T>(&self) -> KvResult<T> {
        self.has_to_wait.store(true, Ordering::Relaxed);
        Err(KvError::new(KvErrorKind::Busy, "the call would have to wait"))
    }
}

impl View for Unwaiting<dyn View> {
    fn version(&self) -> Version {
        self.below.version()
    }

    fn keep(&self) -> KvResult<()> {
        self.would_wait()
    }

    fn spaces(&self, _from: SpaceId, _most: usize) -> KvResult<Vec<SpaceEntry>> {
        self.would_wait()
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> KvResult<Lookup> {
        match (self.below.lookup(space, key, offset, length, Wait::Never)?, wait) {
            (Lookup::WouldWait, Wait::Allowed) => self.would_wait(),
            (found, _) => Ok(found),
        }
    }

    fn read_into(
        &self,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> KvResult<Option<usize>> {
        if wait == Wait::Allowed && buffer.len() > LOOKUP_COPY_MAX {
            return self.would_wait();
        }
        match (self.below.read_into(space, key, offset, buffer, Wait::Never)?, wait) {
            (None, Wait::Allowed) => self.would_wait(),
            (read, _) => Ok(read),
        }
    }

    fn cursor(&self, _space: SpaceId, _range: KeyRange, _direction: Direction) -> KvResult<Box<dyn Cursor>> {
        self.would_wait()
    }
}

impl Kv for Unwaiting<dyn Kv> {
    fn profile(&self) -> &Profile {
        self.below.profile()
    }

    fn view(&self) -> KvResult<Arc<dyn View>> {
        Ok(self.of_view(self.below.view()?))
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> KvResult<Lookup> {
        match (self.below.lookup(space, key, offset, length, Wait::Never)?, wait) {
            (Lookup::WouldWait, Wait::Allowed) => self.would_wait(),
            (found, _) => Ok(found),
        }
    }

    fn stage(&self, _hint: StageHint) -> KvResult<Box<dyn Stage>> {
        self.would_wait()
    }

    fn submit(&self, _batch: Batch, _durability: Durability, _wait: Wait) -> Ticket {
        let (ticket, completer) = Ticket::new();
        completer.complete(self.would_wait());
        ticket
    }

    fn watch(&self, _space: SpaceId, _range: KeyRange, _from: Version) -> KvResult<Box<dyn Watch>> {
        self.would_wait()
    }

    fn usage(&self) -> KvResult<Usage> {
        self.would_wait()
    }

    fn sync(&self) -> KvResult<()> {
        self.would_wait()
    }

    fn close(&self) -> KvResult<()> {
        self.would_wait()
    }
}
