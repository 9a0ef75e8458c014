//! Small access: blocks of objects written and read, beside ext4, XFS and btrfs on the same kind of loop device.

mod drive;
mod plan;

use super::EngineArguments;
use super::place::{Place, Places, name_of_ours};
use crate::Error;
use crate::budget::Budget;
use crate::figures::Figures;
use crate::fio::{self, FioJob, FioMode};
use crate::report::OURS;
use crate::report::Report;
use crate::s3::show_size;
use crate::say;
use crate::statistics::Better;
use drive::{Done, Region};
use koine_engine::LockWaits;
use plan::{LARGE_LEN, PLAIN_LEN, SmallCell, SmallOperation, THREADS_MAX};

const OBJECTS: usize = 8;
const OBJECT_LEN: u64 = 32 << 20;
const QUICK_OBJECT_LEN: u64 = 2 << 20;
const DEVICE_LEN: u64 = 4 << 30;
const QUICK_DEVICE_LEN: u64 = 512 << 20;
/// What the issue asks of plain synced writes beside fio, and of transactions beside large synced writes.
const FIO_GOAL: f64 = 0.9;
const TRANSACTION_GOAL: f64 = 0.8;
/// What the paper found: transactions against writes synced one by one.
const PAPER_GOAL: f64 = 50.0;
const MB: f64 = 1e6;
const FIO: &str = "fio";
/// Name of the figures of how long our own locks were waited for.
const LOCKS: &str = "locks";
/// The table of stores with other blocks.
const BLOCKS_SECTION: &str = "Small access: by the store's block size";
const LOCKS_SECTION: &str = "Small access: waiting for our own locks, 8 threads";

/// Measures and adds the rows.
pub fn measure(arguments: &EngineArguments, budget: &mut Budget, report: &mut Report) -> Result<(), Error> {
    let cells = plan::cells(arguments);
    if cells.is_empty() || budget.is_over() {
        return Ok(());
    }
    let (object_len, device_len) =
        if arguments.quick { (QUICK_OBJECT_LEN, QUICK_DEVICE_LEN) } else { (OBJECT_LEN, DEVICE_LEN) };
    say("making a store and file systems on loop devices");
    let mut field = Places::make(&arguments.dir, device_len, 1000, true)?;
    report.notes.append(&mut field.notes);
    for block_len in &arguments.store_block_lens {
        field.add_ours(device_len, *block_len)?;
    }
    let mut regions = Vec::new();
    for place in &field.places {
        let private: Result<Vec<u64>, String> = (0..OBJECTS).map(|_| place.create()).collect();
        let region = private.and_then(|private| {
            let region = Region { private, shared: place.create()?, length: object_len };
            drive::fill(place.as_ref(), &region).map(|()| region)
        });
        regions.push(region.map_err(Error::Worker)?);
    }
    budget.expect(cells.len() * (field.places.len() + 1));
    let mut found = vec![Figures::default(); cells.len()];
    for round in 0..arguments.rounds() {
        for (cell, figures) in cells.iter().zip(&mut found) {
            for turn in 0..field.places.len() {
                let index = (turn + round) % field.places.len();
                let (Some(place), Some(region)) = (field.places.get_mut(index), regions.get(index)) else { continue };
                let before = LockWaits::now();
                let done = sample(place.as_mut(), region, cell, budget).unwrap_or_else(|error| {
                    report.errors.push(format!("{}, {}: {error}", place.name(), cell.name()));
                    None
                });
                figures.push(place.name(), done.map(|done| rate(cell, done)));
                if place.name() == OURS {
                    figures.push(LOCKS, done.map(|done| lock_share(cell, done, LockWaits::now().since(before))));
                }
            }
            if cell.is_plain() && fio::is_here() {
                figures.push(
                    FIO,
                    budget
                        .next()
                        .map(|seconds| fio_rate(&field, cell, object_len * OBJECTS as u64, seconds))
                        .transpose()?,
                );
            }
            say_round(round, cell, figures);
        }
    }
    report.rows.extend(rows(&cells, &found));
    report.rows.extend(block_rows(&cells, &found, &arguments.store_block_lens));
    Ok(())
}

/// The names of the cells that were asked for.
pub fn names(arguments: &EngineArguments) -> Vec<String> {
    plan::cells(arguments).iter().map(SmallCell::name).collect()
}

fn say_round(round: usize, cell: &SmallCell, figures: &Figures) {
    let last = |name: &str| figures.of(name).last().copied().flatten();
    let names = std::iter::once(OURS.to_owned()).chain(Places::references()).chain([FIO.to_owned()]);
    let shown: Vec<String> = names.filter_map(|name| Some(format!("{name} {:.1}", last(&name)?))).collect();
    say(&format!("round {}, {}: {} MB/s", round + 1, cell.name(), shown.join(", ")));
}

/// MB/s.
fn rate(cell: &SmallCell, done: Done) -> f64 {
    (done.blocks * cell.block_len) as f64 / MB / done.elapsed.as_secs_f64().max(1e-9)
}

/// How much of the threads' time was spent at locks of ours that others held, in percent.
fn lock_share(cell: &SmallCell, done: Done, waits: LockWaits) -> f64 {
    100.0 * waits.time.as_secs_f64() / (done.elapsed.as_secs_f64() * cell.threads as f64).max(1e-9)
}

/// One stretch; `None` when the time is over or the place cannot do it.
fn sample(
    place: &mut dyn Place,
    region: &Region,
    cell: &SmallCell,
    budget: &mut Budget,
) -> Result<Option<Done>, String> {
    let Some(seconds) = budget.next() else { return Ok(None) };
    if cell.verb == SmallOperation::Read {
        place.forget()?;
    }
    let done = drive::drive(place, region, cell, seconds)?;
    place.settle()?;
    Ok(done)
}

/// The same writes by fio: over blocks that were written before, each made durable.
fn fio_rate(field: &Places, cell: &SmallCell, object_len: u64, seconds: f64) -> Result<f64, Error> {
    let file = field.spare();
    let job = |access, block_len, sync_each: bool, seconds| FioJob {
        file: &file,
        access,
        block_len,
        file_len: object_len,
        manner: FioMode::Direct,
        sync_every: sync_each.then_some(1),
        seconds,
    };
    fio::run(job("write", LARGE_LEN, false, None))?;
    let access = if cell.access == plan::Access::Random { "randwrite" } else { "write" };
    Ok(fio::run(job(access, PLAIN_LEN, true, Some(seconds)))?.bytes / MB)
}

/// A row a cell, and those that compare two cells of ours.
fn rows(cells: &[SmallCell], found: &[Figures]) -> Vec<crate::report::Row> {
    let mut rows = Vec::new();
    for (cell, figures) in cells.iter().zip(found) {
        if cell.verb == SmallOperation::Transact {
            continue;
        }
        let row = figures.row(&cell.name(), "MB/s", Better::Higher, 1.0, &Places::references());
        rows.push(row.in_section(cell.section()));
        if cell.is_plain() {
            let case = format!("{} beside fio", cell.name());
            rows.push(
                figures.row(&case, "MB/s", Better::Higher, FIO_GOAL, &[FIO.to_owned()]).in_section(cell.section()),
            );
        }
    }
    for (cell, figures) in cells.iter().zip(found).filter(|(cell, _)| cell.verb == SmallOperation::Transact) {
        for (block_len, name, goal) in
            [(LARGE_LEN, "1 MiB synced", TRANSACTION_GOAL), (PLAIN_LEN, "4 KiB synced", PAPER_GOAL)]
        {
            let like = SmallCell { verb: SmallOperation::WriteSynced, block_len, ..*cell };
            let mut compared = Figures::default();
            figures.of(OURS).iter().for_each(|figure| compared.push(OURS, *figure));
            if let Some((_, other)) = cells.iter().zip(found).find(|(cell, _)| **cell == like) {
                other.of(OURS).iter().for_each(|figure| compared.push(name, *figure));
            }
            let case = format!("{} beside {name}", cell.name());
            rows.push(compared.row(&case, "MB/s", Better::Higher, goal, &[name.into()]).in_section(cell.section()));
        }
    }
    for (cell, figures) in cells.iter().zip(found).filter(|(cell, _)| cell.threads == THREADS_MAX) {
        let mut locks = Figures::default();
        figures.of(LOCKS).iter().for_each(|figure| locks.push(OURS, *figure));
        let row = locks.row(&cell.name(), "% of the threads' time", Better::Lower, 1.0, &[]);
        rows.push(row.in_section(LOCKS_SECTION));
    }
    rows
}

/// Stores of ours with other blocks beside the one with its own.
fn block_rows(cells: &[SmallCell], found: &[Figures], block_lens: &[u64]) -> Vec<crate::report::Row> {
    let mut rows = Vec::new();
    for (cell, figures) in cells.iter().zip(found) {
        for block_len in block_lens {
            let (name, own) = (name_of_ours(*block_len), "blocks of 4 KiB");
            let mut compared = Figures::default();
            figures.of(&name).iter().for_each(|figure| compared.push(OURS, *figure));
            figures.of(OURS).iter().for_each(|figure| compared.push(own, *figure));
            let case = format!("{}, store of {} blocks", cell.name(), show_size(*block_len));
            let row = compared.row(&case, "MB/s", Better::Higher, 1.0, &[own.into()]);
            rows.push(row.in_section(BLOCKS_SECTION));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_of_other_blocks_are_compared_with_our_own() {
        let cells = plan::quick();
        let mut figures = Figures::default();
        figures.push(OURS, Some(2.0));
        figures.push(&name_of_ours(64 << 10), Some(3.0));
        let rows = block_rows(&cells, &[figures], &[64 << 10]);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].case, "4 KiB random private write synced x1, store of 64 KiB blocks");
        assert_eq!((rows[0].ratio, rows[0].references["blocks of 4 KiB"]), (Some(1.5), Some(2.0)));
    }

    #[test]
    fn transactions_are_compared_with_our_own_writes() {
        let cells: Vec<SmallCell> = plan::full().into_iter().filter(|cell| cell.threads == 1).collect();
        let figure = |cell: &SmallCell| match (cell.verb, cell.block_len) {
            (SmallOperation::Transact, _) => 100.0,
            (_, LARGE_LEN) => 200.0,
            _ => 2.0,
        };
        let found: Vec<Figures> = cells
            .iter()
            .map(|cell| {
                let mut figures = Figures::default();
                figures.push(OURS, Some(figure(cell)));
                figures.push("ext4", Some(4.0));
                figures
            })
            .collect();
        let rows = rows(&cells, &found);
        let row = |case: &str| rows.iter().find(|row| row.case == case).unwrap_or_else(|| panic!("{case}"));
        let plain = row("4 KiB random private write synced x1");
        assert_eq!((plain.ratio, plain.references["ext4"], plain.references["xfs"]), (Some(0.5), Some(4.0), None));
        let large = row("4 KiB random private write in transactions x1 beside 1 MiB synced");
        assert_eq!((large.ratio, large.goal), (Some(0.5), 0.8));
        let paper = row("4 KiB random private write in transactions x1 beside 4 KiB synced");
        assert_eq!((paper.ratio, paper.goal, paper.holds()), (Some(50.0), 50.0, Some(true)));
        assert_eq!(row("4 KiB random private write synced x1 beside fio").ratio, None);
    }
}
