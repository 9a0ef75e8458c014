//! Who is measured: one face for the wire, the store called directly, and Redis.
//!
//! Invariant: requests are answered in the order in which they were begun, and `finish` checks what came.

use bytes::Bytes;
use std::time::Duration;

/// What a contestant could not do.
pub type Outcome<T> = Result<T, String>;

/// Names what was being done when something failed.
pub fn failed<E: std::fmt::Display>(doing: &'static str) -> impl FnOnce(E) -> String {
    move |error| format!("cannot {doing}: {error}")
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireOperation {
    Put,
    Get,
}

impl WireOperation {
    /// In the names of cells.
    pub fn name(self) -> &'static str {
        match self {
            WireOperation::Put => "put",
            WireOperation::Get => "get",
        }
    }
}

/// By which way a store is reached, or that it is Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    Unix,
    Tcp,
    Direct,
    RedisUnix,
    RedisTcp,
}

impl Transport {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Unix => "koine, socket",
            Transport::Tcp => "koine, TCP",
            Transport::Direct => "direct",
            Transport::RedisUnix => "redis, socket",
            Transport::RedisTcp => "redis, TCP",
        }
    }
}

/// What holds when a put is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing outlives the process.
    Memory,
    /// It survives the end of the process.
    Written,
    /// It survives power loss.
    Sync,
}

/// A store of ours, and how Redis has to be set to promise the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreSetup {
    /// In a file, or in memory.
    pub is_file: bool,
    /// Of puts.
    pub durability: Durability,
}

impl StoreSetup {
    /// What is compared.
    pub const ALL: [StoreSetup; 3] = [
        StoreSetup { is_file: false, durability: Durability::Memory },
        StoreSetup { is_file: true, durability: Durability::Written },
        StoreSetup { is_file: true, durability: Durability::Sync },
    ];

    /// In the names of cells.
    pub fn name(self) -> &'static str {
        match self.durability {
            Durability::Memory => "memory",
            Durability::Written => "engine unsynced",
            Durability::Sync => "engine synced",
        }
    }

    /// As a heading.
    pub fn section(self) -> &'static str {
        match self.durability {
            Durability::Memory => "memory: (Redis without persistence)",
            Durability::Written => "Engine, unsynced (Redis: appendfsync no)",
            Durability::Sync => "Engine, synced (Redis: appendfsync always)",
        }
    }
}

/// One that is measured.
pub trait Contestant {
    /// By which way.
    fn way(&self) -> Transport;
    /// Puts the value under each key, or gets each: all are begun before this returns.
    fn begin(&mut self, work: WireOperation, keys: &[&Bytes], value: &Bytes) -> Outcome<()>;
    /// Waits for the oldest, and compares what was got with `value`.
    fn finish(&mut self, value: &Bytes) -> Outcome<()>;
    /// Whether the oldest is there.
    fn is_ready(&mut self) -> Outcome<bool>;
    /// CPU time of its server so far; `None` where there is none.
    fn server_cpu(&self) -> Option<Duration>;
    /// Between cells: gives back what was written in vain.
    fn tidy(&mut self) -> Outcome<()> {
        Ok(())
    }
}

/// Whether a value that was got is the one that was put: its length and both its ends.
pub fn is_same(got: &[u8], value: &[u8]) -> bool {
    got.len() == value.len()
        && got.first_chunk::<16>() == value.first_chunk::<16>()
        && got.last_chunk::<16>() == value.last_chunk::<16>()
}
