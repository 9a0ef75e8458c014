//! What is said between the benchmark and its workers: one line of JSON each way.

use super::super::kinds::{Level, Memory, StoreKind};
use super::super::measured::Measured;
use super::super::workload::WorkloadRun;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Asked of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Command {
    /// Opens a store below a folder, made when it is missing; answered with the time it took.
    Open {
        /// Which.
        kind: StoreKind,
        /// Where.
        folder: PathBuf,
        /// With how much memory.
        memory: Memory,
    },
    /// Works for a time or until something is done.
    Run(Phase),
    /// Does a workload of YCSB.
    Ycsb(WorkloadRun),
    /// Places everything and counts.
    Settle,
    /// Closes the store and counts.
    Close,
}

/// In which order keys come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// As they sort.
    Ascending,
    /// Shuffled.
    Random,
}

/// What is done with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Puts all items in commits of many, then makes them durable.
    Load(Order),
    /// Reads random items; pinned: all from one state, else each from the newest.
    Read {
        /// From one state.
        pinned: bool,
    },
    /// Walks over all items.
    Scan,
    /// Puts random items again, one a commit.
    Overwrite,
    /// Puts new items between those that were loaded, one a commit.
    Insert,
    /// Reads and overwrites in turn.
    Mixed,
}

impl Kind {
    /// Whether it changes the store.
    pub fn writes(self) -> bool {
        !matches!(self, Kind::Read { .. } | Kind::Scan)
    }
}

/// One stretch of work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// What is done.
    pub kind: Kind,
    /// What commits survive.
    pub level: Level,
    /// Threads that work.
    pub threads: usize,
    /// Commits that are asked for before the first is waited for. A store that cannot do this gets as many threads.
    pub in_flight: usize,
    /// Items that were or are loaded.
    pub items: u64,
    /// Length of a value in bytes.
    pub value_len: usize,
    /// For how long; a load goes on until it is done.
    pub seconds: f64,
    /// Or, instead, how many operations in all.
    pub operations: Option<u64>,
}

/// What the system says of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Bytes that the process had written to the disk, since its start.
    pub written_len: Option<u64>,
    /// Most anonymous and shared memory, since the store was opened.
    pub own_memory_len: Option<u64>,
    /// Bytes that hold something, by the store's own count.
    pub used_len: Option<u64>,
}

/// A worker's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Answer {
    /// To `Open` and `Run`.
    Measured(Measured),
    /// To `Settle` and `Close`.
    Closed(Closed),
    /// It could not.
    Failed(String),
}

/// A field of /proc/PID/io.
pub fn io_field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}
