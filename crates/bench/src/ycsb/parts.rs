//! What single parts of our engine give to these workloads: the same work with each and without it, in turn.
//!
//! - Absorption: a checkpoint writes a node once for all updates since the last; without it one is made after every
//!   hundred updates.
//! - Seek: one cursor goes from range to range; without it each range gets a new cursor.
//! - Upper bound: a cursor knows where a range ends; without it the reader notices by the first key behind.
//! - Log: the longest write of it for a commit that nobody syncs, while a checkpoint is under way; without it, none is.
//! - Filter: look-ups of absent keys whose leaves are not in memory, alone and followed by the insert of the key.

use super::KvArguments;
use crate::Error;
use crate::figures::Figures;
use crate::report::{OURS, Report};
use crate::say;
use crate::statistics::Better;
use crate::stores::data::{KEY_LEN, Numbers, SPREAD, Values, key};
use crate::stores::kinds::{Outcome, SPACE, forget_cached, format_file, io_mode};
use crate::stores::workload::{Chooser, Distribution};
use bytes::Bytes;
use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{Batch, Durability, Engine, KeyRange, Operation, Options, View};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const WITHOUT: &str = "without";
const SECTION: &str = "What parts of the engine give: with each, against without it";
const VALUE_LEN: usize = 100;
const RECORD_LEN: u64 = (KEY_LEN + VALUE_LEN) as u64;
/// Records of a commit of a load.
const LOAD_BATCH: u64 = 1000;
/// Updates between two checkpoints where nothing is absorbed.
const UNABSORBED: u64 = 100;
/// Records of a range.
const RANGE: u64 = 10;
/// Memory of a store whose leaves are not to be in memory.
const MEMORY_SMALL: u64 = 32 << 20;

/// How much is done.
#[derive(Clone, Copy)]
struct PartScale {
    records: u64,
    updates: u64,
    ranges: u64,
    looks: u64,
}

type Case = fn(&Path, PartScale, bool) -> Outcome<Vec<f64>>;
/// What is measured, in which unit, and which way is good.
type Measured = (&'static str, &'static str, Better);

const CASES: [(Case, &[Measured]); 5] = [
    (
        absorption,
        &[
            ("absorption: zipfian updates, unsynced", "ops/s", Better::Higher),
            ("absorption: bytes written a byte put", "bytes a byte", Better::Lower),
        ],
    ),
    (log, &[("log: longest write beside a checkpoint", "ms", Better::Lower)]),
    (seek, &[("seek: ranges of 10 records in one view", "ranges/s", Better::Higher)]),
    (upper_bound, &[("upper bound: ranges of 10 records, cold", "ranges/s", Better::Higher)]),
    (
        filter,
        &[
            ("filter: look-ups of absent keys, cold", "ops/s", Better::Higher),
            ("filter: look-up, then insert, cold", "ops/s", Better::Higher),
        ],
    ),
];

/// Measures and adds the rows.
pub fn measure(arguments: &KvArguments, report: &mut Report) -> Result<(), Error> {
    let scale = match arguments.quick {
        true => PartScale { records: 20_000, updates: 5_000, ranges: 2_000, looks: 500 },
        false => PartScale { records: 1_000_000, updates: 300_000, ranges: 100_000, looks: 10_000 },
    };
    for (case, rows) in CASES {
        if !rows.iter().any(|(name, ..)| arguments.only.as_ref().is_none_or(|text| name.contains(text.as_str()))) {
            continue;
        }
        let mut found = vec![Figures::default(); rows.len()];
        for round in 0..arguments.rounds() {
            for turn in 0..2 {
                let with_part = (turn + round) % 2 == 0;
                let folder = tempfile::Builder::new()
                    .prefix("koine-bench-")
                    .tempdir_in(&arguments.dir)
                    .map_err(Error::io("cannot make a folder"))?;
                let path = folder.path().join("store.koine");
                let figures = format_file(&path).and_then(|()| case(&path, scale, with_part)).map_err(Error::Worker)?;
                let name = if with_part { OURS } else { WITHOUT };
                found.iter_mut().zip(figures).for_each(|(found, figure)| found.push(name, Some(figure)));
            }
            for ((name, unit, _), found) in rows.iter().zip(&found) {
                let last = |who| found.of(who).last().copied().flatten().unwrap_or(f64::NAN);
                say(&format!("round {}: {name}: {:.2} {unit}, without {:.2}", round + 1, last(OURS), last(WITHOUT)));
            }
        }
        for ((name, unit, better), found) in rows.iter().zip(found) {
            report.rows.push(found.row(name, unit, *better, 1.0, &[WITHOUT.to_owned()]).in_section(SECTION));
        }
    }
    Ok(())
}

/// A name of each case that was asked for.
pub fn names(arguments: &KvArguments) -> Vec<String> {
    let wanted = |name: &&str| arguments.only.as_ref().is_none_or(|text| name.contains(text.as_str()));
    CASES
        .iter()
        .flat_map(|(_, rows)| rows.iter().map(|(name, ..)| *name).filter(wanted).take(1))
        .map(str::to_owned)
        .collect()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn open(path: &Path, memory_len: u64, filters: bool) -> Outcome<Engine> {
    let device = FileDevice::open_with(path, OpenOptions::default(), io_mode()).map_err(text)?;
    let options = Options { memory_len, filters, ..Options::default() };
    Engine::open(Arc::new(device), options).map_err(text)
}

/// A new store with records whose numbers are multiples of [`SPREAD`].
fn loaded(path: &Path, memory_len: u64, filters: bool, records: u64) -> Outcome<Engine> {
    let engine = open(path, memory_len, filters)?;
    commit(&engine, Batch::new().then(Operation::CreateSpace { space: SPACE }))?;
    let values = Values::new(VALUE_LEN);
    for from in (0..records).step_by(LOAD_BATCH as usize) {
        let numbers = (from..records.min(from + LOAD_BATCH)).map(|record| record * SPREAD);
        commit(&engine, numbers.fold(Batch::new(), |batch, number| put(batch, &values, number, 0)))?;
    }
    engine.checkpoint().and_then(|()| engine.sync()).map_err(text)?;
    Ok(engine)
}

fn put(batch: Batch, values: &Values, number: u64, generation: u64) -> Batch {
    let mut value = Vec::new();
    values.fill(number, generation, &mut value);
    batch.put(SPACE, Bytes::copy_from_slice(&key(number)), Bytes::from(value))
}

fn commit(engine: &Engine, batch: Batch) -> Outcome<()> {
    engine.commit(batch, Durability::Written).map(drop).map_err(text)
}

fn written_len() -> Outcome<u64> {
    let io = std::fs::read_to_string("/proc/self/io").map_err(text)?;
    let field = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    field.and_then(|text| text.trim().parse().ok()).ok_or_else(|| "the system does not count bytes written".into())
}

fn absorption(path: &Path, scale: PartScale, absorbs: bool) -> Outcome<Vec<f64>> {
    let engine = loaded(path, Options::default().memory_len, true, scale.records)?;
    let (values, chooser) = (Values::new(VALUE_LEN), Chooser::new(Distribution::Zipfian, scale.records));
    let mut numbers = Numbers::new(3);
    // Without absorption so little is done in the same time that a part of the work is enough.
    let updates = if absorbs { scale.updates } else { scale.updates / 30 };
    let (before, begun) = (written_len()?, Instant::now());
    for update in 1..=updates {
        let number = chooser.choose(&mut numbers, scale.records) * SPREAD;
        commit(&engine, put(Batch::new(), &values, number, update))?;
        if !absorbs && update % UNABSORBED == 0 {
            engine.checkpoint().map_err(text)?;
        }
    }
    // What was put off is part of the work.
    engine.checkpoint().map_err(text)?;
    let rate = updates as f64 / seconds(begun);
    let written = written_len()? - before;
    engine.close().map_err(text)?;
    Ok(vec![rate, written as f64 / (updates * RECORD_LEN) as f64])
}

fn log(path: &Path, scale: PartScale, beside: bool) -> Outcome<Vec<f64>> {
    let engine = loaded(path, Options::default().memory_len, true, scale.records)?;
    let (values, mut numbers) = (Values::new(VALUE_LEN), Numbers::new(7));
    let is_over = AtomicBool::new(false);
    engine.longest_log_writes();
    let (updated, checkpointed) = std::thread::scope(|scope| {
        let checkpoints = scope.spawn(|| -> Outcome<()> {
            while beside && !is_over.load(Ordering::Relaxed) {
                engine.checkpoint().map_err(text)?;
            }
            Ok(())
        });
        let mut update =
            |update| commit(&engine, put(Batch::new(), &values, numbers.below(scale.records) * SPREAD, update));
        let updated = (1..=scale.updates).try_for_each(&mut update);
        is_over.store(true, Ordering::Relaxed);
        (updated, checkpoints.join())
    });
    updated?;
    checkpointed.map_err(|_| "the thread of the checkpoints panicked".to_owned())??;
    let longest = engine.longest_log_writes();
    engine.close().map_err(text)?;
    let longest = if beside { longest.beside_checkpoint } else { longest.alone };
    Ok(vec![longest.as_secs_f64() * 1000.0])
}

fn seek(path: &Path, scale: PartScale, seeks: bool) -> Outcome<Vec<f64>> {
    let engine = loaded(path, 512 << 20, true, scale.records)?;
    let (view, values) = (engine.view(), Values::new(VALUE_LEN));
    let mut numbers = Numbers::new(4);
    let all = || KeyRange { start: Bytes::new(), end: None };
    let mut cursor = view.cursor(SPACE, all(), false).map_err(text)?;
    let begun = Instant::now();
    for _ in 0..scale.ranges {
        let from = key(numbers.below(scale.records - RANGE) * SPREAD);
        if seeks {
            cursor.seek(&from);
        } else {
            cursor = view
                .cursor(SPACE, KeyRange { start: Bytes::copy_from_slice(&from), end: None }, false)
                .map_err(text)?;
        }
        for _ in 0..RANGE {
            let entry = cursor.step().map_err(text)?.ok_or("a range ends early")?;
            if !entry.value.is_some_and(|value| values.verify(entry.key, value)) {
                return Err("a range has a wrong record".into());
            }
        }
    }
    let rate = scale.ranges as f64 / seconds(begun);
    drop((cursor, view));
    engine.close().map_err(text)?;
    Ok(vec![rate])
}

/// A store of which nothing is in memory.
fn cold(path: &Path, filters: bool, records: u64) -> Outcome<Engine> {
    let engine = loaded(path, MEMORY_SMALL, filters, records)?;
    if !filters {
        engine.close().map_err(text)?;
        drop(engine);
        forget_cached(path);
        return open(path, MEMORY_SMALL, filters);
    }
    // It stays open for its filter; its cache holds the last leaves alone.
    forget_cached(path);
    Ok(engine)
}

fn upper_bound(path: &Path, scale: PartScale, bounds: bool) -> Outcome<Vec<f64>> {
    let engine = cold(path, false, scale.records)?;
    let (view, values) = (engine.view(), Values::new(VALUE_LEN));
    let mut numbers = Numbers::new(5);
    let ranges = scale.ranges.min(scale.looks);
    let begun = Instant::now();
    for _ in 0..ranges {
        let first = numbers.below(scale.records - RANGE);
        let (from, to) = (key(first * SPREAD), key((first + RANGE) * SPREAD));
        let end = bounds.then(|| Bytes::copy_from_slice(&to));
        let range = KeyRange { start: Bytes::copy_from_slice(&from), end };
        let mut cursor = view.cursor(SPACE, range, false).map_err(text)?;
        let mut met = 0;
        while let Some(entry) = cursor.step().map_err(text)? {
            if entry.key >= to.as_slice() {
                break;
            }
            if !entry.value.is_some_and(|value| values.verify(entry.key, value)) {
                return Err("a range has a wrong record".into());
            }
            met += 1;
        }
        if met != RANGE {
            return Err(format!("a range has {met} records of {RANGE}"));
        }
    }
    let rate = ranges as f64 / seconds(begun);
    drop(view);
    engine.close().map_err(text)?;
    Ok(vec![rate])
}

fn filter(path: &Path, scale: PartScale, filters: bool) -> Outcome<Vec<f64>> {
    let engine = cold(path, filters, scale.records)?;
    let mut numbers = Numbers::new(6);
    let mut absent = || numbers.below(scale.records) * SPREAD + 1 + numbers.below(SPREAD - 1);
    let is_absent = |view: &View, number| match view.stat(SPACE, &key(number)).map_err(text)? {
        None => Ok(()),
        Some(_) => Err("a key is there that nobody put".to_owned()),
    };
    let begun = Instant::now();
    for _ in 0..scale.looks {
        is_absent(&engine.view(), absent())?;
    }
    let looks = scale.looks as f64 / seconds(begun);
    forget_cached(path);
    let values = Values::new(VALUE_LEN);
    let inserts = scale.looks / 2;
    let begun = Instant::now();
    for insert in 0..inserts {
        let number = absent();
        // Drawn twice it is there the second time, which is no fault.
        if engine.view().stat(SPACE, &key(number)).map_err(text)?.is_none() {
            commit(&engine, put(Batch::new(), &values, number, insert))?;
        }
    }
    let rate = inserts as f64 / seconds(begun);
    engine.close().map_err(text)?;
    Ok(vec![looks, rate])
}

fn seconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_measured_with_it_and_without() {
        let scale = PartScale { records: 3000, updates: 3000, ranges: 50, looks: 50 };
        for (case, rows) in CASES {
            for with_part in [true, false] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("store.koine");
                format_file(&path).unwrap();
                let figures = case(&path, scale, with_part).unwrap();
                assert!(figures.len() == rows.len() && figures.iter().all(|figure| *figure > 0.0), "{rows:?}");
            }
        }
    }
}
