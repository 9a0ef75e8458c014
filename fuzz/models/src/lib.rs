//! The engine's own sources of what threads meet at, compiled against the locks that loom drives.
#![allow(dead_code, reason = "only what the models reach of the engine's files is used here")]

/// The atomics that loom drives.
pub mod atomic {
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}

/// What those sources name of the engine's batches.
pub mod batch {
    /// A commit's log number.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Version(pub u64);

    /// What a batch did.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Commit {
        pub version: Version,
        pub repeated: bool,
    }
}

/// What a thread holds back of what it submits: nothing here.
pub mod together {
    pub fn release() {}
}

/// A ticket whose waiter is asked to lead, and what completes it.
pub fn led(lead: impl Fn() + Send + Sync + 'static) -> (ticket::Ticket, ticket::Completer) {
    let (ticket, completer) = ticket::Ticket::new();
    (ticket.with_lead(std::sync::Arc::new(lead)), completer.led())
}

/// Asks whoever waits already to lead, if anybody does.
pub fn ask_leader(completer: &ticket::Completer) -> Option<impl FnOnce() + use<>> {
    completer.leader().map(|leader| move || leader.ask())
}

#[path = "../../../crates/engine/src/error.rs"]
pub mod error;
#[path = "../../../crates/engine/src/tree/placement.rs"]
pub mod placement;
#[path = "../../../crates/engine/src/objects/status_cell.rs"]
pub mod status_cell;
#[path = "../../../crates/engine/src/ticket.rs"]
pub mod ticket;
