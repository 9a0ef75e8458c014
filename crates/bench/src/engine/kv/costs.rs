//! What the same work costs each store beside time: flushes, bytes written, space, memory.
//!
//! These do not depend on how fast the machine is, so they are measured in few rounds and with as little memory as an
//! embedding program would give.

use super::super::EngineArguments;
use super::names;
use super::plan::{IN_FLIGHT, KvCell, KvSet};
use super::trial::loading;
use crate::Error;
use crate::budget::Budget;
use crate::figures::Figures;
use crate::report::OURS;
use crate::report::Report;
use crate::say;
use crate::statistics::Better;
use crate::stores::child::{WorkerProcess, WorkerStart};
use crate::stores::data::KEY_LEN;
use crate::stores::flushes;
use crate::stores::kinds::{Level, Memory, StoreKind};
use crate::stores::worker::{Kind, Phase};

/// Memory of each store.
const MEMORY: Memory = Memory { total_len: 64 << 20 };
/// Rounds at most.
const ROUNDS: usize = 3;
/// How long items are overwritten, for each second that a cell takes.
const OVERWRITE_SECONDS: f64 = 10.0;
/// Commits under strace.
const TRACED: u64 = 200;
/// Items loaded there beforehand.
const TRACED_ITEMS: u64 = 1000;
const MIB: f64 = 1_048_576.0;

/// What one store cost in one round.
#[derive(Debug, Clone, Default)]
struct Cost {
    load_written: Option<f64>,
    overwrite_written: Option<f64>,
    disk: Option<f64>,
    memory_mib: Option<f64>,
    item_bytes: Option<f64>,
}

#[derive(Debug, Default)]
struct CostFigures {
    load_written: Figures,
    overwrite_written: Figures,
    disk: Figures,
    memory_mib: Figures,
    item_bytes: Figures,
}

/// Measures the costs of each set and adds their rows.
pub fn measure(
    arguments: &EngineArguments,
    field: &[StoreKind],
    sets: &[KvSet],
    budget: &mut Budget,
    report: &mut Report,
) {
    for set in sets {
        let wanted = |case: &str| arguments.names(&format!("{}: {case}", set.name()));
        if CASES.iter().any(|case| wanted(case)) {
            costs_of(arguments, field, set, budget, report);
        }
        if wanted(FLUSHES_ONE) || wanted(FLUSHES_MANY) {
            flushes_of(arguments, field, set, budget, report);
        }
    }
}

/// The first of the rows, which are measured together.
pub const LOAD_WRITTEN: &str = "bytes written, load at random";
const OVERWRITE_WRITTEN: &str = "bytes written, synced overwrites";
const DISK: &str = "space on disk";
const MEMORY_PEAK: &str = "own memory";
const ITEM: &str = "bytes of an item";
const CASES: [&str; 5] = [LOAD_WRITTEN, OVERWRITE_WRITTEN, DISK, MEMORY_PEAK, ITEM];
const FLUSHES_ONE: &str = "flushes a commit, one writer";
const FLUSHES_MANY: &str = "flushes a commit, 32 in flight";

fn costs_of(arguments: &EngineArguments, field: &[StoreKind], set: &KvSet, budget: &mut Budget, report: &mut Report) {
    let mut found = CostFigures::default();
    for round in 0..arguments.rounds().min(ROUNDS) {
        for kind in field {
            if budget.is_over() {
                break;
            }
            let name = kind.name();
            let cost = cost(arguments, *kind, set).unwrap_or_else(|error| {
                report.errors.push(format!("{}: costs of {name}: {error}", set.name()));
                Cost::default()
            });
            say(&format!("round {}, {}: costs of {name}: {cost:.2?}", round + 1, set.name()));
            found.load_written.push(name, cost.load_written);
            found.overwrite_written.push(name, cost.overwrite_written);
            found.disk.push(name, cost.disk);
            found.memory_mib.push(name, cost.memory_mib);
            found.item_bytes.push(name, cost.item_bytes);
        }
    }
    let references = names(&StoreKind::REFERENCES);
    let section = format!("Costs: {} values of {}", set.items, crate::s3::show_size(set.value_len as u64));
    let mut add = |figures: &Figures, case: &str, unit: &str| {
        let row = figures.row(&format!("{}: {case}", set.name()), unit, Better::Lower, 1.0, &references);
        report.rows.push(row.in_section(section.clone()));
    };
    add(&found.load_written, LOAD_WRITTEN, "bytes a byte");
    if !arguments.quick {
        add(&found.overwrite_written, OVERWRITE_WRITTEN, "bytes a byte");
        add(&found.disk, DISK, "bytes a byte");
    }
    add(&found.memory_mib, MEMORY_PEAK, "MiB");
    add(&found.item_bytes, ITEM, "bytes");
}

fn cost(arguments: &EngineArguments, kind: StoreKind, set: &KvSet) -> Result<Cost, Error> {
    let start = WorkerStart { kind, dir: &arguments.dir, limit_len: None, traced: false };
    let mut worker = WorkerProcess::start(start)?;
    worker.open(MEMORY)?;
    worker.run(&loading(set))?;
    let settled = worker.settle()?;
    let closed = worker.close()?;
    let stored = (set.items * (KEY_LEN + set.value_len) as u64) as f64;
    let mut cost = Cost {
        load_written: closed.written_len.map(|written| written as f64 / stored),
        disk: Some(worker.disk_len() as f64 / stored),
        memory_mib: closed.own_memory_len.map(|length| length as f64 / MIB),
        item_bytes: settled.used_len.map(|used| used as f64 / set.items as f64),
        overwrite_written: None,
    };
    if !arguments.quick {
        // For a time in which what is put off comes due more than once; what is left of it is done by the close.
        worker.open(MEMORY)?;
        let seconds = OVERWRITE_SECONDS * arguments.duration;
        let measured = worker.run(&Phase { operations: None, seconds, ..overwrites(set, IN_FLIGHT, 0) })?;
        let end = worker.close()?;
        let stored = (measured.operations * (KEY_LEN + set.value_len) as u64) as f64;
        let written = end.written_len.zip(closed.written_len).map(|(after, before)| after - before);
        cost.overwrite_written = written.map(|written| written as f64 / stored.max(1.0));
    }
    Ok(cost)
}

/// Synced overwrites in a number that is known.
fn overwrites(set: &KvSet, in_flight: usize, operations: u64) -> Phase {
    let cell = KvCell { kind: Kind::Overwrite, level: Level::Sync, threads: 1, in_flight };
    Phase { operations: Some(operations), ..cell.phase(set, 0.0) }
}

fn flushes_of(arguments: &EngineArguments, field: &[StoreKind], set: &KvSet, budget: &mut Budget, report: &mut Report) {
    let (mut one, mut many, mut inside) = (Figures::default(), Figures::default(), None);
    if flushes::can_trace() {
        for kind in field {
            if budget.is_over() {
                break;
            }
            let counted = flushes_of_store(arguments, *kind, set).unwrap_or_else(|error| {
                report.errors.push(format!("{}: flushes of {}: {error}", set.name(), kind.name()));
                FlushCount::default()
            });
            one.push(kind.name(), counted.one);
            many.push(kind.name(), counted.many);
            inside = inside.or(counted.inside);
        }
    } else {
        report.notes.push("strace is not here or may not trace: flushes were not counted.".into());
    }
    if let Some(inside) = inside {
        report.notes.push(format!("Counted at its device, {OURS} makes {inside:.2} flushes a commit with one writer."));
    }
    let references = names(&StoreKind::REFERENCES);
    for (figures, case) in [(one, FLUSHES_ONE), (many, FLUSHES_MANY)] {
        if arguments.quick && case == FLUSHES_MANY {
            continue;
        }
        let row = figures.row(&format!("{}: {case}", set.name()), "flushes", Better::Lower, 1.0, &references);
        let section = "Costs: flushes (fsync, fdatasync, msync, writes with O_SYNC or O_DSYNC), counted by strace";
        report.rows.push(row.in_section(section));
    }
}

#[derive(Debug, Default)]
struct FlushCount {
    one: Option<f64>,
    many: Option<f64>,
    /// By the store's own count.
    inside: Option<f64>,
}

fn flushes_of_store(arguments: &EngineArguments, kind: StoreKind, set: &KvSet) -> Result<FlushCount, Error> {
    let (none, _) = traced(arguments, kind, set, None)?;
    let (one, inside) = traced(arguments, kind, set, Some(1))?;
    let mut counted = FlushCount { one: Some(per_commit(one, none)), many: None, inside };
    if !arguments.quick {
        let (many, _) = traced(arguments, kind, set, Some(IN_FLIGHT))?;
        counted.many = Some(per_commit(many, none));
    }
    Ok(counted)
}

fn per_commit(with: u64, without: u64) -> f64 {
    with.saturating_sub(without) as f64 / TRACED as f64
}

/// Flushes of a worker from its start to its end; and, inside, those of a commit.
fn traced(
    arguments: &EngineArguments,
    kind: StoreKind,
    set: &KvSet,
    in_flight: Option<usize>,
) -> Result<(u64, Option<f64>), Error> {
    let start = WorkerStart { kind, dir: &arguments.dir, limit_len: None, traced: true };
    let mut worker = WorkerProcess::start(start)?;
    worker.open(MEMORY)?;
    let small = KvSet { items: set.items.min(TRACED_ITEMS), ..set.clone() };
    worker.run(&loading(&small))?;
    let mut inside = None;
    if let Some(in_flight) = in_flight {
        let measured = worker.run(&overwrites(&small, in_flight, TRACED))?;
        inside = measured.flushes.map(|flushes| flushes as f64 / measured.operations.max(1) as f64);
    }
    worker.close()?;
    Ok((flushes::count(&worker.trace()?), inside))
}
