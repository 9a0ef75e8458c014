//! The engine's own sources of what threads meet at, compiled against the locks that loom drives.
#![allow(dead_code, reason = "only what the models reach of the engine's files is used here")]

/// The atomics that loom drives.
pub mod atomic {
    pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
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

#[path = "../../../crates/engine/src/error.rs"]
pub mod error;
#[path = "../../../crates/engine/src/tree/fate.rs"]
pub mod fate;
#[path = "../../../crates/engine/src/objects/status_cell.rs"]
pub mod status_cell;
#[path = "../../../crates/engine/src/ticket.rs"]
pub mod ticket;
