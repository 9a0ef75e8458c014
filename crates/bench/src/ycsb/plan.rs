//! The sets of records that the workloads are done on.

use super::KvArguments;
use crate::stores::data::KEY_LEN;
use crate::stores::kinds::{Level, Memory};
use crate::stores::workload::{Distribution, Workload, WorkloadRun};

/// Bytes of keys and values where everything fits into memory.
const IN_MEMORY_LEN: u64 = 80 << 20;
/// Data larger than memory is so many times as large.
const TIMES_MEMORY: u64 = 4;
/// Memory of every store where everything fits.
const MEMORY: Memory = Memory { total_len: 1 << 30 };
const QUICK_RECORDS: u64 = 20_000;

/// Records of one length in stores of one kind, and how they are used.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordSet {
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

impl RecordSet {
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
    pub fn work(&self, workload: Workload, seconds: f64) -> WorkloadRun {
        let distribution = if workload == Workload::D { Distribution::Latest } else { self.distribution };
        WorkloadRun {
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
pub fn sets(arguments: &KvArguments) -> Vec<RecordSet> {
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
                        sets.push(RecordSet { value_len, level, threads, distribution, records, limit_len, memory });
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

/// What two programs do in turn: a set each.
pub fn stretches(arguments: &KvArguments) -> Vec<Vec<String>> {
    let options = |set: RecordSet| [("--only", set.full_name()), ("--threads", set.threads.to_string())];
    let stretch = |set| options(set).into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect();
    sets(arguments).into_iter().map(stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_plan_has_all_that_is_asked_for_once() {
        let all = sets(&KvArguments { uniform: true, ..KvArguments::default() });
        let mut names: Vec<String> = all.iter().map(RecordSet::full_name).collect();
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
        let all = sets(&KvArguments::default());
        let synced = all.iter().find(|set| set.level == Level::Sync).unwrap();
        assert!(synced.goal(Workload::A) > 1.1 && all[0].goal(Workload::A) < 1.1);
    }
}
