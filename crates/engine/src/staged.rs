//! Values that are placed and that no commit has named yet: the content of a [`StageToken`](crate::StageToken).
//!
//! Invariants:
//! - Space of a stage is given back exactly once: when its last token is dropped without a commit, or by
//!   opening the store after a crash (nothing durable names it).
//! - A stage that is dropped before its bytes were written gives its blocks back: nobody is writing to them then.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::buffers::Lent;
use crate::extent::Extent;

/// The store in which stages take space.
pub(crate) trait StageOwner: Send + Sync {
    /// Gives back the space of a stage: the first `spilled` bytes, which slabs in the log name, and these extents.
    fn abandon(self: Arc<Self>, id: u64, spilled: u64, extents: &[Extent]);
}

/// Where bytes of a buffer belong.
pub struct Target {
    /// Of the buffer: whole blocks.
    pub bytes: Range<usize>,
    /// The first block on the device.
    pub block: u64,
    /// The extent, where the bytes are one run that may be read soon.
    pub extent: Option<Extent>,
}

/// Bytes that have a place and are not there yet.
pub struct Unwritten {
    /// The bytes.
    pub buffer: Lent,
    /// Where they belong.
    pub targets: Vec<Target>,
    /// Counts the finished stages that keep their bytes.
    pub _kept: Option<Arc<()>>,
}

/// The content of a token: where the bytes lie.
pub struct Staged {
    id: u64,
    spilled: u64,
    extents: Vec<Extent>,
    taken: AtomicBool,
    unwritten: Mutex<Option<Unwritten>>,
    owner: Option<Weak<dyn StageOwner>>,
}

impl Staged {
    /// As a record of the log names it: it belongs to that commit.
    pub fn logged(id: u64, spilled: u64, extents: Vec<Extent>) -> Staged {
        Staged::new(id, spilled, extents, None)
    }

    /// Without anything yet.
    pub(crate) fn begun(id: u64, owner: Weak<dyn StageOwner>) -> Staged {
        Staged::new(id, 0, Vec::new(), Some(owner))
    }

    fn new(id: u64, spilled: u64, extents: Vec<Extent>, owner: Option<Weak<dyn StageOwner>>) -> Staged {
        Staged { id, spilled, extents, taken: AtomicBool::new(false), unwritten: Mutex::default(), owner }
    }

    /// The stage's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How many bytes, from the front, are named by slabs in the log.
    pub fn spilled(&self) -> u64 {
        self.spilled
    }

    /// So many more are.
    pub(crate) fn add_spilled(&mut self, bytes: u64) {
        self.spilled += bytes;
    }

    /// The extents after those.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The extents after those, to be changed by who places them.
    pub(crate) fn extents_mut(&mut self) -> &mut Vec<Extent> {
        &mut self.extents
    }

    /// Whether it belongs to this store.
    pub(crate) fn is_of<S>(&self, store: &Arc<S>) -> bool {
        self.owner.as_ref().is_some_and(|owner| std::ptr::addr_eq(owner.as_ptr(), Arc::as_ptr(store)))
    }

    /// Whether it belongs to this store and no commit has taken it.
    pub(crate) fn is_fresh_of<S>(&self, store: &Arc<S>) -> bool {
        self.is_of(store) && !self.is_taken()
    }

    /// Takes it for a commit; false when one has it already.
    pub fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::AcqRel)
    }

    /// Whether a commit has it.
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// The commit did not happen.
    pub fn untake(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// What is not written yet; who holds it writes.
    pub(crate) fn unwritten(&self) -> MutexGuard<'_, Option<Unwritten>> {
        self.unwritten.lock()
    }

    /// Whether something is not written yet.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.unwritten.lock().is_some()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !*self.taken.get_mut()
            && let Some(owner) = self.owner.as_ref().and_then(Weak::upgrade)
        {
            owner.abandon(self.id, self.spilled, &self.extents);
        }
    }
}
