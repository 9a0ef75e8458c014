//! The workloads, and the sets of records they are done on.

use super::{Arguments, Distribution};
use crate::engine::{KEY_LEN, Level, Memory};
use serde::{Deserialize, Serialize};

/// Bytes of keys and values where everything fits into memory.
const IN_MEMORY_LEN: u64 = 80 << 20;
/// Data larger than memory is so many times as large.
const TIMES_MEMORY: u64 = 4;
/// Memory of every store where everything fits.
const MEMORY: Memory = Memory { total_len: 1 << 30 };
const QUICK_RECORDS: u64 = 20_000;

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
pub struct Work {
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

/// Records of one length in stores of one kind, and how they are used.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// Length of a value in bytes.
    pub value_len: usize,
    /// What commits survive.
    pub level: Level,
    /// Threads that work.
    pub threads: usize,
    /// How records are chosen where the workload does not say.
    pub distribution: Distribution,
    /// How many.
    pub records: u64,
    /// The most memory of each worker, where data is to be larger than it.
    pub limit_len: Option<u64>,
    /// What each store may use of it.
    pub memory: Memory,
}

impl Set {
    /// How the names of its cases begin.
    pub fn name(&self) -> String {
        let size = crate::s3::show_size(self.value_len as u64);
        let place = if self.limit_len.is_some() { " over memory" } else { "" };
        let level = if self.level == Level::Sync { "synced" } else { "unsynced" };
        let uniform = if self.distribution == Distribution::Uniform { " uniform" } else { "" };
        format!("{size}{place} {level}{uniform}")
    }

    /// With the number of threads.
    pub fn full_name(&self) -> String {
        format!("{} x{}", self.name(), self.threads)
    }

    /// The table it stands in.
    pub fn section(&self) -> String {
        let data = (self.records * (KEY_LEN + self.value_len) as u64).next_multiple_of(1 << 20);
        let data = crate::s3::show_size(data);
        let memory = match self.limit_len {
            None => "all in memory".to_owned(),
            Some(limit) => format!("memory limited to {}", crate::s3::show_size(limit)),
        };
        format!("YCSB: {}: {} records ({data}), {memory}", self.name(), self.records)
    }

    /// Its workloads in order. Synced, one that only reads would be the same again.
    pub fn workloads(&self) -> impl Iterator<Item = Workload> {
        let left_out = |workload| {
            self.level == Level::Sync && workload == Workload::C
                || self.distribution == Distribution::Uniform
                    && !matches!(workload, Workload::Load | Workload::A | Workload::B | Workload::C | Workload::F)
        };
        Workload::ALL.into_iter().filter(move |workload| !left_out(*workload))
    }

    /// What is asked of a workload.
    pub fn goal(&self, workload: Workload) -> f64 {
        if self.level == Level::Sync && workload != Workload::C { 1.2 } else { 1.0 }
    }

    /// What a worker is told.
    pub fn work(&self, workload: Workload, seconds: f64) -> Work {
        let distribution = if workload == Workload::D { Distribution::Latest } else { self.distribution };
        Work {
            workload,
            distribution,
            level: self.level,
            threads: self.threads,
            records: self.records,
            value_len: self.value_len,
            seconds,
        }
    }
}

/// All sets that were asked for.
pub fn sets(arguments: &Arguments) -> Vec<Set> {
    let mut sets = Vec::new();
    let distributions: &[Distribution] =
        if arguments.uniform { &[Distribution::Zipfian, Distribution::Uniform] } else { &[Distribution::Zipfian] };
    for value_len in arguments.record_lens.iter().map(|length| *length as usize) {
        for limit_len in [None, Some(arguments.memory)] {
            let record_len = (KEY_LEN + value_len) as u64;
            let data_len = limit_len.map_or(IN_MEMORY_LEN, |limit| TIMES_MEMORY * limit);
            let quick = arguments.quick.then_some(QUICK_RECORDS);
            let records = arguments.records.or(quick).unwrap_or(data_len / record_len);
            let memory = limit_len
                .map_or(MEMORY, |limit| Memory { total_len: usize::try_from(limit / 2).unwrap_or(usize::MAX) });
            for level in [Level::Written, Level::Sync] {
                for distribution in distributions.iter().copied() {
                    for threads in arguments.threads.iter().copied() {
                        sets.push(Set { value_len, level, threads, distribution, records, limit_len, memory });
                    }
                }
            }
        }
    }
    if arguments.quick {
        sets.retain(|set| set.limit_len.is_none());
        sets.sort_by_key(|set| (set.threads, set.value_len));
        sets.truncate(1);
    }
    sets.retain(|set| arguments.only.as_ref().is_none_or(|text| set.full_name().contains(text.as_str())));
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_plan_has_all_that_is_asked_for_once() {
        let all = sets(&Arguments { uniform: true, ..Arguments::default() });
        let mut names: Vec<String> = all.iter().map(Set::full_name).collect();
        for name in ["1 KiB unsynced x1", "100 B over memory synced x8", "1 KiB synced uniform x4"] {
            assert!(names.contains(&name.to_owned()), "{name} of {names:?}");
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        let first = &all[0];
        assert_eq!(first.workloads().collect::<Vec<_>>(), Workload::ALL);
        for set in &all {
            // What was emptied is loaded before it is used again.
            let workloads: Vec<Workload> = set.workloads().collect();
            let emptied = workloads.iter().position(|workload| *workload == Workload::Delete);
            assert!(emptied.is_none_or(|at| workloads[at + 1] == Workload::LoadAgain), "{}", set.full_name());
        }
        let over = all.iter().find(|set| set.limit_len.is_some()).unwrap();
        assert!(over.records * (KEY_LEN + over.value_len) as u64 > 500 << 20);
    }

    #[test]
    fn goals_are_higher_where_writes_are_synced() {
        let all = sets(&Arguments::default());
        let synced = all.iter().find(|set| set.level == Level::Sync).unwrap();
        assert!(synced.goal(Workload::A) > 1.1 && all[0].goal(Workload::A) < 1.1);
    }

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
