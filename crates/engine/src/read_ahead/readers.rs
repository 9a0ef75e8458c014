//! The readers of a store that have windows, and how many each of them may have.
//!
//! Invariant: no reader's lock is waited for under this one's; one that is at work is passed over.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use super::{ReadAhead, STALE};
use crate::buffers::Buffers;
use crate::lock::Mutex;

/// All of a store that have windows, or had some a short while ago.
#[derive(Default)]
pub struct Readers {
    all: Mutex<Vec<Weak<ReadAhead>>>,
    count: AtomicUsize,
}

impl Readers {
    /// Takes windows back that nobody has used for a while.
    pub fn reclaim(&self) {
        self.retain(&mut self.all.lock());
    }

    /// Takes one in.
    pub(super) fn add(&self, reader: &Arc<ReadAhead>) {
        let mut all = self.all.lock();
        all.push(Arc::downgrade(reader));
        self.retain(&mut all);
    }

    fn retain(&self, all: &mut Vec<Weak<ReadAhead>>) {
        all.retain(|reader| {
            let Some(reader) = reader.upgrade() else { return false };
            let Some(mut state) = reader.state.try_lock() else { return true };
            let stale = state.used.is_none_or(|used| used.elapsed() > STALE);
            if stale {
                state.windows.clear();
                state.used = None;
            }
            !stale
        });
        self.count.store(all.len(), Ordering::Relaxed);
    }

    /// How many windows each of them may have, so that all have some: who comes late finds buffers as well.
    pub(super) fn share(&self, buffers: &Buffers) -> usize {
        (buffers.spare_max() / self.count.load(Ordering::Relaxed).max(1)).max(1)
    }
}
