//! The stores that are compared, each in a process of its own: this program again, as a worker.
//!
//! Invariants:
//! - A worker that is not asked for anything is stopped, so that its background work falls into its own time.

mod cgroup;
pub mod child;
pub mod data;
pub mod flushes;
pub mod kinds;
pub mod measured;
pub mod worker;
pub mod workload;

pub use cgroup::MemoryGroup;
