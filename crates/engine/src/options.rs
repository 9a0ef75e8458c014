//! How a store is opened.
//!
//! Invariant: no option changes what is stored, or what a crash leaves of it.

use crate::limits::FROZEN_ABOVE;

/// Who does the work between calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// Threads that write groups, make checkpoints and take down what was dropped.
    #[default]
    Threads,
    /// Nobody: waiting for a ticket writes, [`Engine::step`](crate::Engine::step) does the rest. For searches that must repeat exactly.
    Manual,
}

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Who does the work between calls.
    pub background: Background,
    /// Memory for nodes and for what waits to be placed, in bytes. A store of numbered objects may keep twice as much beside
    /// it, at most 256 MiB, for writes that it has not submitted.
    pub memory_len: u64,
    /// Memory beside that for data of values that was written or read lately, in bytes; zero for none. What is in it was verified
    /// once, and is read without asking the device or the system.
    pub cache_len: u64,
    /// Which keys are there is kept in memory, in about two bytes a key and at most a sixteenth of `memory_len`, so that a
    /// look-up of an absent key reads nothing from the device. Not for a store that is opened to read only.
    pub filters: bool,
    /// Nothing is written, not even by recovery.
    pub read_only: bool,
    /// Freed space is given back to the medium once it may be used again: discards on a device, holes in a file. In a
    /// file the space may be somebody else's then when the store wants it again.
    pub discard: bool,
    /// Breaks the reuse rule, so that a test can show that the crash search notices. Never for real data.
    #[doc(hidden)]
    pub reuse_at_once: bool,
    /// What comes in more extents than this becomes a frozen blob. Tests make it small; it may differ each time a store is opened.
    #[doc(hidden)]
    pub frozen_above: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            background: Background::Threads,
            memory_len: 128 << 20,
            cache_len: 0,
            filters: true,
            read_only: false,
            discard: false,
            reuse_at_once: false,
            frozen_above: FROZEN_ABOVE,
        }
    }
}
