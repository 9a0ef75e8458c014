//! How often payload is copied and hashed on its way, for tests: the copies of a value are counted, not guessed.
//!
//! Invariants:
//! - Counted are bytes that processors move or hash: by this program, and by the kernel when it takes them in or gives
//!   them out. What a device or a network card moves by itself is not.
//! - Without debug assertions nothing is counted, and counting costs nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was counted in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Bytes of payload that were copied in memory.
    pub copied: u64,
    /// Bytes of payload that were copied into or out of the kernel.
    pub crossed: u64,
    /// Bytes of payload whose checksum was computed.
    pub hashed: u64,
}

static COPIED: AtomicU64 = AtomicU64::new(0);
static CROSSED: AtomicU64 = AtomicU64::new(0);
static HASHED: AtomicU64 = AtomicU64::new(0);

/// What was counted so far; all zeros without debug assertions.
pub fn so_far() -> Copies {
    Copies {
        copied: COPIED.load(Ordering::Relaxed),
        crossed: CROSSED.load(Ordering::Relaxed),
        hashed: HASHED.load(Ordering::Relaxed),
    }
}

impl Copies {
    /// What was counted since an earlier moment.
    pub fn since(self, earlier: Copies) -> Copies {
        Copies {
            copied: self.copied - earlier.copied,
            crossed: self.crossed - earlier.crossed,
            hashed: self.hashed - earlier.hashed,
        }
    }
}

fn count(counter: &AtomicU64, length: usize) {
    if cfg!(debug_assertions) {
        counter.fetch_add(length as u64, Ordering::Relaxed);
    }
}

/// So many bytes were copied.
pub(crate) fn copied(length: usize) {
    count(&COPIED, length);
}

/// So many bytes went into the kernel or came out of it.
pub(crate) fn crossed(length: usize) {
    count(&CROSSED, length);
}

/// So many bytes were hashed.
pub(crate) fn hashed(length: usize) {
    count(&HASHED, length);
}
