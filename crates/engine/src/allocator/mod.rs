//! Space on the device: which blocks are free, who may take them, when they come back.
//!
//! - `runs`: a set of blocks as runs, the structure behind both maps of free space.
//! - `block_allocator`: what a writer can get now, in groups with locks of their own.
//! - `group`: the free runs of one of those, found by their length or by the boundaries in them.
//! - `free_list`: free space as a checkpoint stores it.
//! - `lease`: blocks that changes in memory still read.
//! - `reuse`: blocks that commits have freed, until nothing can need them any more.

pub mod block_allocator;
pub mod free_list;
mod group;
pub mod lease;
pub mod reuse;
pub mod runs;

pub use block_allocator::{Allocator, Class, PlacementHint};
pub use lease::{Lease, Leases};
pub use reuse::ReuseQueue;
pub use runs::Runs;

#[cfg(test)]
mod block_size_tests;
