//! A status that is read without a lock.
//!
//! Invariants:
//! - Who fills it in or clears it holds the lock of the object's node.
//! - `epoch` is one above the epoch of the three values, or zero while there are none. What was read between two equal
//!   looks at it was not written meanwhile, because an epoch is filled in once. (Every order: `fuzz/models`.)
//! - Who has seen a change of the object sees no status from before: it is cleared before the change is submitted.

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::batch::Version;

/// The part of a status that depends on the object's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownStatus {
    /// Its size in bytes.
    pub size: u64,
    /// Bytes of the device that its data takes.
    pub allocated: u64,
    /// The commit that last changed it.
    pub version: Version,
}

/// A status that is read without a lock; who writes holds one.
pub struct StatusCell {
    epoch: AtomicU64,
    size: AtomicU64,
    allocated: AtomicU64,
    version: AtomicU64,
    /// The epoch that was filled in last, one above.
    filled: AtomicU64,
}

impl StatusCell {
    /// Without a status.
    pub fn new() -> StatusCell {
        let [epoch, size, allocated, version, filled] = std::array::from_fn(|_| AtomicU64::new(0));
        StatusCell { epoch, size, allocated, version, filled }
    }

    /// The status, if there is one.
    pub fn load(&self) -> Option<KnownStatus> {
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == 0 {
            return None;
        }
        let size = self.size.load(Ordering::Relaxed);
        let allocated = self.allocated.load(Ordering::Relaxed);
        let version = Version(self.version.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.epoch.load(Ordering::Relaxed) == epoch).then_some(KnownStatus { size, allocated, version })
    }

    /// Fills it in for an epoch, once.
    pub fn store(&self, epoch: u64, status: KnownStatus) {
        let Some(epoch) = epoch.checked_add(1) else { return };
        if self.filled.load(Ordering::Relaxed) >= epoch {
            return;
        }
        self.filled.store(epoch, Ordering::Relaxed);
        self.epoch.store(0, Ordering::Relaxed);
        // Whoever sees one of the three sees that there are none.
        fence(Ordering::Release);
        self.size.store(status.size, Ordering::Relaxed);
        self.allocated.store(status.allocated, Ordering::Relaxed);
        self.version.store(status.version.0, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Lets go of it: the object is about to change.
    pub fn clear(&self) {
        self.epoch.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(of: u64) -> KnownStatus {
        KnownStatus { size: of, allocated: of * 2, version: Version(of * 3) }
    }

    #[test]
    fn nobody_reads_half_a_status() {
        let cell = StatusCell::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for epoch in 0..100_000 {
                    cell.store(epoch, status(epoch));
                    if epoch % 3 == 0 {
                        cell.clear();
                    }
                }
            });
            let mut newest = 0;
            for _ in 0..100_000 {
                if let Some(read) = cell.load() {
                    assert_eq!(read, status(read.size));
                    assert!(read.size >= newest);
                    newest = read.size;
                }
            }
        });
    }
}
