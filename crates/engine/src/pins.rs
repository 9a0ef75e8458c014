//! The versions that views pin: blocks that they reach are not reused.
//!
//! Invariant: pins begin in the order of versions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::batch::Version;

/// A version that somebody reads.
pub(crate) struct Pin {
    version: Version,
    /// Never taken back.
    kept: bool,
    /// When it was pinned.
    pub began: Instant,
    expired: Arc<AtomicBool>,
}

/// All views that are open.
#[derive(Default)]
pub(crate) struct Pins {
    pins: BTreeMap<u64, Pin>,
    next: u64,
}

impl Pins {
    /// The oldest version that some view sees. Pins begin in the order of versions.
    pub fn oldest(&self) -> Option<Version> {
        self.pins.values().map(|pin| pin.version).min()
    }

    /// Pins a version, which is taken back when that is needed unless it is `kept`. The flag is raised then.
    pub fn add(&mut self, version: Version, kept: bool) -> (u64, Arc<AtomicBool>) {
        let number = self.next;
        self.next += 1;
        let expired = Arc::new(AtomicBool::new(false));
        self.pins.insert(number, Pin { version, kept, began: Instant::now(), expired: Arc::clone(&expired) });
        (number, expired)
    }

    /// Ends a pin.
    pub fn remove(&mut self, number: u64) {
        self.pins.remove(&number);
    }

    /// Takes back the oldest pin that may be and is old enough; false where there is none.
    pub fn expire_oldest(&mut self, old_enough: impl Fn(&Pin) -> bool) -> bool {
        let oldest = self.pins.iter().find(|(_, pin)| !pin.kept).filter(|(_, pin)| old_enough(pin)).map(|(id, _)| *id);
        let Some(pin) = oldest.and_then(|id| self.pins.remove(&id)) else { return false };
        pin.expired.store(true, Ordering::SeqCst);
        true
    }
}
