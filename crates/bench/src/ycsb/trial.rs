//! The measurement: for each set its workloads in order, every store in turn within each.
//!
//! Stores take turns at going first. A round begins with fresh workers and empty stores.

use super::KvArguments;
use super::plan::RecordSet;
use crate::Error;
use crate::budget::Budget;
use crate::figures::Figures;
use crate::report::{Latency, OURS, Report};
use crate::say;
use crate::statistics::Better;
use crate::stores::MemoryGroup;
use crate::stores::child::{WorkerProcess, WorkerStart};
use crate::stores::data::KEY_LEN;
use crate::stores::kinds::StoreKind;
use crate::stores::measured::Measured;
use crate::stores::worker::Closed;
use crate::stores::workload::Workload;

const MIB: f64 = 1_048_576.0;

/// What was found of one workload.
#[derive(Debug, Clone, Default)]
struct WorkloadFigures {
    rate: Figures,
    p50_ms: Figures,
    p99_ms: Figures,
    cpu_us: Figures,
}

/// What a whole set cost.
#[derive(Debug, Clone, Default)]
struct Costs {
    written: Figures,
    memory_mib: Figures,
}

/// A store at work.
struct YcsbContestant {
    kind: StoreKind,
    worker: Option<WorkerProcess>,
    put_len: u64,
}

/// Measures all sets and adds their rows to the report.
pub fn measure(
    arguments: &KvArguments,
    field: &[StoreKind],
    sets: &[RecordSet],
    budget: &mut Budget,
    report: &mut Report,
) -> Result<(), Error> {
    let without_group = sets.iter().any(|set| set.limit_len.is_some()).then(|| MemoryGroup::probe().err()).flatten();
    if let Some(error) = &without_group {
        report.notes.push(format!("Nothing was measured with data larger than memory: {error}."));
    }
    for set in sets {
        if set.limit_len.is_some() && without_group.is_some() {
            continue;
        }
        // Redis holds everything in memory.
        let fits = |kind: &&StoreKind| set.limit_len.is_none() || **kind != StoreKind::Redis;
        let field: Vec<StoreKind> = field.iter().filter(fits).copied().collect();
        budget.expect(set.workloads().count() * field.len());
        let workloads: Vec<Workload> = set.workloads().collect();
        let (mut found, mut costs) = (vec![WorkloadFigures::default(); workloads.len()], Costs::default());
        for round in 0..arguments.rounds() {
            let mut trial = YcsbTrial { arguments, set, budget, round, errors: &mut report.errors };
            trial.run(&field, &workloads, &mut found, &mut costs)?;
        }
        add_rows(set, &field, &workloads, &found, &costs, report);
    }
    Ok(())
}

struct YcsbTrial<'a> {
    arguments: &'a KvArguments,
    set: &'a RecordSet,
    budget: &'a mut Budget,
    round: usize,
    errors: &'a mut Vec<String>,
}

impl YcsbTrial<'_> {
    fn run(
        &mut self,
        field: &[StoreKind],
        workloads: &[Workload],
        found: &mut [WorkloadFigures],
        costs: &mut Costs,
    ) -> Result<(), Error> {
        let mut contestants = Vec::new();
        for kind in field.iter().copied() {
            contestants.push(YcsbContestant { kind, worker: Some(self.begin(kind)?), put_len: 0 });
        }
        for (workload, found) in workloads.iter().zip(found) {
            self.workload(*workload, &mut contestants, found);
        }
        for contestant in &mut contestants {
            let closed = contestant.worker.as_mut().map(WorkerProcess::close).transpose();
            let closed = self.keep(contestant, "close", closed).flatten();
            let name = contestant.kind.name();
            let own_memory = closed.and_then(|Closed { own_memory_len, .. }| own_memory_len);
            let written = closed.and_then(|Closed { written_len, .. }| written_len);
            costs.memory_mib.push(name, own_memory.map(|length| length as f64 / MIB));
            costs.written.push(name, written.map(|written| written as f64 / contestant.put_len.max(1) as f64));
        }
        Ok(())
    }

    fn begin(&self, kind: StoreKind) -> Result<WorkerProcess, Error> {
        let limit_len = self.set.limit_len;
        let mut worker =
            WorkerProcess::start(WorkerStart { kind, dir: &self.arguments.dir, limit_len, traced: false })?;
        worker.open(self.set.memory)?;
        Ok(worker)
    }

    fn workload(&mut self, workload: Workload, contestants: &mut [YcsbContestant], found: &mut WorkloadFigures) {
        let mut shown = Vec::new();
        let count = contestants.len();
        for turn in 0..count {
            let Some(contestant) = contestants.get_mut((turn + self.round) % count) else { continue };
            let measured = self.sample(workload, contestant);
            let name = contestant.kind.name();
            let operations = measured.as_ref().map(|measured| measured.operations.max(1) as f64);
            let rate = measured.as_ref().map(|measured| measured.operations as f64 / measured.seconds.max(1e-9));
            let cpu = measured.as_ref().and_then(|measured| measured.cpu_seconds);
            found.rate.push(name, rate);
            found.p50_ms.push(name, measured.as_ref().and_then(|measured| measured.p50_ms));
            found.p99_ms.push(name, measured.as_ref().and_then(|measured| measured.p99_ms));
            found.cpu_us.push(name, cpu.zip(operations).map(|(cpu, operations)| cpu * 1e6 / operations));
            shown.push(format!("{name} {}", rate.map_or_else(|| "none".into(), |rate| format!("{rate:.0}"))));
        }
        let (round, rounds, name) = (self.round + 1, self.arguments.rounds(), self.set.full_name());
        say(&format!("round {round} of {rounds}, {name}: {}: {} ops/s", workload.name(), shown.join(", ")));
    }

    /// `None` when it failed, or when the time of a quick run is over.
    fn sample(&mut self, workload: Workload, contestant: &mut YcsbContestant) -> Option<Measured> {
        let seconds = self.budget.next()?;
        let work = self.set.work(workload, seconds);
        let done = contestant.worker.as_mut()?.work(&work);
        let measured = self.keep(contestant, workload.name(), done)?;
        contestant.put_len += measured.puts * (KEY_LEN + self.set.value_len) as u64;
        Some(measured)
    }

    /// What failed is an error of the report, and its store is out of the round.
    fn keep<T>(&mut self, contestant: &mut YcsbContestant, doing: &str, done: Result<T, Error>) -> Option<T> {
        done.inspect_err(|error| {
            let name = contestant.kind.name();
            say(&format!("{}: {doing}: {name}: {error}", self.set.full_name()));
            // A reference that cannot do it in the memory that it gets has no figure; only ours makes a run worthless.
            if contestant.kind == StoreKind::Koine || self.set.limit_len.is_none() {
                self.errors.push(format!("{}: {doing}: {error}", self.set.full_name()));
            }
            contestant.worker = None;
        })
        .ok()
    }
}

fn add_rows(
    set: &RecordSet,
    field: &[StoreKind],
    workloads: &[Workload],
    found: &[WorkloadFigures],
    costs: &Costs,
    report: &mut Report,
) {
    let references: Vec<String> = field.iter().skip(1).map(|kind| kind.name().to_owned()).collect();
    for (workload, found) in workloads.iter().zip(found) {
        let case = format!("{}: {} x{}", set.name(), workload.name(), set.threads);
        let row = found.rate.row(&case, "ops/s", Better::Higher, set.goal(*workload), &references);
        report.rows.push(row.in_section(set.section()));
        for kind in field {
            let name = kind.name();
            report.latencies.push(Latency {
                case: case.clone(),
                server: if *kind == StoreKind::Koine { OURS.to_owned() } else { name.to_owned() },
                p50_ms: found.p50_ms.median(name),
                p99_ms: found.p99_ms.median(name),
                client_us: found.cpu_us.median(name),
            });
        }
    }
    let mut cost = |figures: &Figures, what: &str, unit: &str| {
        let case = format!("{}: {what}", set.full_name());
        let row = figures.row(&case, unit, Better::Lower, 1.0, &references);
        report.rows.push(row.in_section("YCSB: costs of all workloads of a set, one after another"));
    };
    cost(&costs.written, "bytes written a byte put", "bytes a byte");
    cost(&costs.memory_mib, "own memory at most", "MiB");
}
