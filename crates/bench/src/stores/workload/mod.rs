//! YCSB's workloads over an open store: what they are, how records are chosen, and their threads.
//!
//! Invariants:
//! - Every value that is read is verified, and a record that is there is found.

mod distribution;
mod drive;
mod histogram;

pub use distribution::{Chooser, Distribution};
pub use drive::{Records, drive, finish};

use super::kinds::Level;
use serde::{Deserialize, Serialize};

/// What is done: YCSB's core workloads and what stands between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// All records are inserted, one an operation, in no order.
    Load,
    /// Half reads, half updates.
    A,
    /// 95 reads, 5 updates of a hundred.
    B,
    /// Reads alone.
    C,
    /// Half reads, half reads followed by an update of the same record.
    F,
    /// 95 reads of young records, 5 inserts of a hundred.
    D,
    /// All records are deleted, one an operation.
    Delete,
    /// As `Load`, into the emptied store.
    LoadAgain,
    /// 95 scans of 1 to 100 records, 5 inserts of a hundred.
    E,
}

/// How many of a hundred operations are what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mix {
    pub updates: u64,
    pub inserts: u64,
    pub scans: u64,
    pub modifies: u64,
}

impl Workload {
    /// In the order that YCSB's authors recommend: what grows the store comes last, before it is emptied and loaded anew.
    pub const ALL: [Workload; 9] = [
        Workload::Load,
        Workload::A,
        Workload::B,
        Workload::C,
        Workload::F,
        Workload::D,
        Workload::Delete,
        Workload::LoadAgain,
        Workload::E,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Load => "load",
            Workload::A => "A 50/50 read update",
            Workload::B => "B 95/5 read update",
            Workload::C => "C read",
            Workload::F => "F 50/50 read modify",
            Workload::D => "D 95/5 read latest insert",
            Workload::Delete => "delete",
            Workload::LoadAgain => "load again",
            Workload::E => "E 95/5 scan insert",
        }
    }

    /// What its operations are; the others read. `None` where all are the same.
    pub fn mix(self) -> Option<Mix> {
        let none = Mix::default();
        match self {
            Workload::A => Some(Mix { updates: 50, ..none }),
            Workload::B => Some(Mix { updates: 5, ..none }),
            Workload::C => Some(none),
            Workload::F => Some(Mix { modifies: 50, ..none }),
            Workload::D => Some(Mix { inserts: 5, ..none }),
            Workload::E => Some(Mix { scans: 95, inserts: 5, ..none }),
            Workload::Load | Workload::Delete | Workload::LoadAgain => None,
        }
    }

    /// It inserts all records.
    pub fn is_load(self) -> bool {
        matches!(self, Workload::Load | Workload::LoadAgain)
    }
}

/// One workload over one set of records, as a worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WorkloadRun {
    /// What is done.
    pub workload: Workload,
    /// How records are chosen.
    pub distribution: Distribution,
    /// What commits survive.
    pub level: Level,
    /// Threads that work.
    pub threads: usize,
    /// How many records a load makes.
    pub records: u64,
    /// Length of a value in bytes.
    pub value_len: usize,
    /// For how long; an unsynced load goes on until it is done.
    pub seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_those_of_ycsb() {
        let reads = |workload: Workload| {
            let mix = workload.mix().unwrap();
            100 - mix.updates - mix.inserts - mix.scans - mix.modifies
        };
        let all = [Workload::A, Workload::B, Workload::C, Workload::D, Workload::E, Workload::F];
        assert_eq!(all.map(reads), [50, 95, 100, 95, 0, 50]);
    }
}
