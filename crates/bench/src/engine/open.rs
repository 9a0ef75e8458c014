//! How long a store takes to open, clean and after a kill; and how even a long load is.

use super::EngineArguments;
use crate::Error;
use crate::budget::Budget;
use crate::figures::Figures;
use crate::report::OURS;
use crate::report::Report;
use crate::s3::show_size;
use crate::say;
use crate::statistics::{Better, median};
use crate::stores::child::{WorkerProcess, WorkerStart};
use crate::stores::kinds::{Koine, Level, Memory, StoreKind, forget_cached};
use crate::stores::worker::{Kind, Order, Phase};
use std::path::Path;

/// What the issue allows.
const CLEAN_MS: f64 = 100.0;
const KILLED_MS: f64 = 2000.0;
const STALL: f64 = 3.0;
const MEMORY: Memory = Memory { total_len: 128 << 20 };
const QUICK_LEN: u64 = 64 << 20;
const VALUE_LEN: usize = 400;
const LARGE_LEN: u64 = 1 << 20;
/// One byte of so many lies in small items.
const SMALL_SHARE: u64 = 10;
const IN_FLIGHT: usize = 32;
/// Commits before each kill.
const UNFINISHED: u64 = 20_000;

/// Measures opening and adds the rows.
pub fn measure(arguments: &EngineArguments, budget: &mut Budget, report: &mut Report) -> Result<(), Error> {
    let length = if arguments.quick { arguments.open.min(QUICK_LEN) } else { arguments.open };
    let size = show_size(length);
    let cases = [format!("open {size} clean"), format!("open {size} after a kill")];
    if !cases.iter().any(|case| arguments.names(case)) || budget.is_over() {
        return Ok(());
    }
    let folder = tempfile::Builder::new()
        .prefix("koine-bench-")
        .tempdir_in(&arguments.dir)
        .map_err(Error::io("cannot make a folder"))?;
    say(&format!("making a store of {size}"));
    let items = length / SMALL_SHARE / VALUE_LEN as u64;
    make(folder.path(), length, items).map_err(Error::Worker)?;
    let (mut clean, mut killed) = (Figures::default(), Figures::default());
    for round in 0..arguments.rounds() {
        forget_cached(&folder.path().join("store.koine"));
        let mut worker = start(arguments)?;
        clean.push(OURS, Some(worker.open_in(folder.path(), MEMORY)?.seconds * 1e3));
        let commits = if arguments.quick { UNFINISHED / 10 } else { UNFINISHED };
        worker.run(&phase(Kind::Overwrite, items, commits))?;
        // The worker dies with all it knows; what it was told to keep lies in the log.
        drop(worker);
        forget_cached(&folder.path().join("store.koine"));
        let mut worker = start(arguments)?;
        killed.push(OURS, Some(worker.open_in(folder.path(), MEMORY)?.seconds * 1e3));
        // Everything that was committed is there.
        worker.run(&phase(Kind::Read { pinned: false }, items, 1000))?;
        worker.close()?;
        let last = |figures: &Figures| figures.of(OURS).last().copied().flatten().unwrap_or(f64::NAN);
        say(&format!(
            "round {}: {size}: clean {:.1} ms, after a kill {:.1} ms",
            round + 1,
            last(&clean),
            last(&killed)
        ));
    }
    for (case, figures, limit) in [(&cases[0], clean, CLEAN_MS), (&cases[1], killed, KILLED_MS)] {
        if arguments.names(case) {
            let row = figures.row_with_limit(case, "ms", Better::Lower, limit, &[]);
            report.rows.push(row.in_section("Opening a store, against the limit"));
        }
    }
    Ok(())
}

fn start(arguments: &EngineArguments) -> Result<WorkerProcess, Error> {
    WorkerProcess::start(WorkerStart { kind: StoreKind::Koine, dir: &arguments.dir, limit_len: None, traced: false })
}

fn phase(kind: Kind, items: u64, operations: u64) -> Phase {
    Phase {
        kind,
        level: Level::Sync,
        threads: 1,
        in_flight: if kind.writes() { IN_FLIGHT } else { 1 },
        items,
        value_len: VALUE_LEN,
        seconds: 0.0,
        operations: Some(operations),
    }
}

/// Large values and small items, so that the index is one of a store in use.
fn make(folder: &Path, length: u64, items: u64) -> Result<(), String> {
    let store = Koine::open(&folder.join("store.koine"), MEMORY)?;
    let piece = vec![7; LARGE_LEN as usize];
    for number in 0..(length - length / SMALL_SHARE) / LARGE_LEN {
        store.put_large(number, LARGE_LEN, &piece)?;
    }
    crate::stores::worker::load(
        &store,
        &Phase { level: Level::Written, ..phase(Kind::Load(Order::Random), items, 0) },
    )?;
    store.end()
}

/// Measures how even a long load is and adds the row. A quick run has no time for it.
pub fn measure_stall(arguments: &EngineArguments, report: &mut Report) -> Result<(), Error> {
    let case = format!("worst second of a load of {} s", arguments.stall_seconds);
    if arguments.quick || !arguments.names(&case) {
        return Ok(());
    }
    say(&format!("loading for {} seconds", arguments.stall_seconds));
    let mut worker = start(arguments)?;
    worker.open(MEMORY)?;
    let load = Phase {
        threads: 8,
        in_flight: 1,
        level: Level::Written,
        seconds: arguments.stall_seconds as f64,
        operations: None,
        ..phase(Kind::Insert, 1 << 40, 0)
    };
    let measured = worker.run(&load)?;
    let mut figures = Figures::default();
    figures.push(OURS, unevenness(&measured.each_second));
    let row = figures.row_with_limit(&case, "median a worst", Better::Lower, STALL, &[]);
    report.rows.push(row.in_section("Evenness, against the limit"));
    Ok(())
}

/// The median second against the worst one; the first, in which the load begins, is left out.
fn unevenness(each_second: &[u64]) -> Option<f64> {
    let seconds: Vec<f64> = each_second.iter().skip(1).map(|count| *count as f64).collect();
    let worst = seconds.iter().copied().reduce(f64::min)?;
    // A second in which nothing was done is as bad as one with a single commit.
    Some(median(&seconds)? / worst.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_second_counts_and_the_first_does_not() {
        assert_eq!(unevenness(&[1, 100, 50, 100]), Some(2.0));
        assert_eq!(unevenness(&[100, 100, 0, 100]), Some(100.0));
        assert_eq!(unevenness(&[100]), None);
    }
}
