//! One large value written and read in one go, beside fio on the same file system with the same sync.

use super::EngineArguments;
use crate::Error;
use crate::budget::Budget;
use crate::figures::Figures;
use crate::fio::{self, FioJob, FioMode};
use crate::report::OURS;
use crate::report::Report;
use crate::s3::show_size;
use crate::say;
use crate::statistics::Better;
use crate::stores::kinds::{Koine, Memory, forget_cached};
use std::path::Path;
use std::time::Instant;

/// What the issue asks of both.
const GOAL: f64 = 0.9;
/// The first two are judged; the others are not what programs do by default.
const JUDGED: usize = 2;
const CASES: [&str; 4] = ["large write", "large read", "large read without a copy", "the same again"];
const PIECE_LEN: usize = 1 << 20;
const QUICK_LEN: u64 = 128 << 20;
const MEMORY: Memory = Memory { total_len: 128 << 20 };
const MB: f64 = 1e6;

/// Measures and adds the rows.
pub fn measure(arguments: &EngineArguments, budget: &mut Budget, report: &mut Report) -> Result<(), Error> {
    let length = if arguments.quick { arguments.large.min(QUICK_LEN) } else { arguments.large };
    let cases = CASES.map(|what| format!("{what} of {}", show_size(length)));
    if !cases.iter().any(|case| arguments.names(case)) {
        return Ok(());
    }
    let with_fio = fio::is_here();
    if !with_fio {
        report.notes.push("fio is not on PATH: large writes and reads have no reference.".into());
    }
    let mut found: [Figures; 4] = Default::default();
    for round in 0..arguments.rounds() {
        if budget.is_over() {
            break;
        }
        let folder = tempfile::Builder::new()
            .prefix("koine-bench-")
            .tempdir_in(&arguments.dir)
            .map_err(Error::io("cannot make a folder"))?;
        // Ours and the references take turns at going first.
        if round % 2 == 0 {
            ours(folder.path(), length, &mut found, report);
        }
        if with_fio {
            references(folder.path(), length, &mut found)?;
        }
        if round % 2 == 1 {
            ours(folder.path(), length, &mut found, report);
        }
        let shown = |figures: &Figures| {
            let last = |name| figures.of(name).last().copied().flatten();
            let all = std::iter::once(OURS).chain(FioMode::ALL.map(FioMode::name));
            all.filter_map(|name| Some(format!("{name} {:.0}", last(name)?))).collect::<Vec<_>>().join(", ")
        };
        for (case, figures) in cases.iter().zip(&found) {
            say(&format!("round {}: {case}: {} MB/s", round + 1, shown(figures)));
        }
    }
    let names = FioMode::ALL.map(|manner| manner.name().to_owned());
    for (place, (case, figures)) in cases.iter().zip(found).enumerate().filter(|(_, (case, _))| arguments.names(case)) {
        if place < JUDGED {
            let row = figures.row(case, "MB/s", Better::Higher, GOAL, &names);
            report.rows.push(row.in_section("Large: one value in pieces of 1 MiB, made durable at the end; read cold"));
        } else if !arguments.quick {
            let row = figures.row(case, "MB/s", Better::Higher, 1.0, &[]);
            report.rows.push(row.in_section("Large: the same value mapped, cold and then warm"));
        }
    }
    Ok(())
}

fn ours(folder: &Path, length: u64, found: &mut [Figures; 4], report: &mut Report) {
    let rates = match koine(folder, length) {
        Ok(rates) => rates.map(Some),
        Err(error) => {
            report.errors.push(format!("{OURS}: one large value: {error}"));
            [None; 4]
        }
    };
    found.iter_mut().zip(rates).for_each(|(figures, rate)| figures.push(OURS, rate));
}

/// MB/s of each case.
fn koine(folder: &Path, length: u64) -> Result<[f64; 4], String> {
    let path = folder.join("store.koine");
    let piece = pattern();
    let store = Koine::open(&path, MEMORY)?;
    let begun = Instant::now();
    store.put_large(0, length, &piece)?;
    let write = rate(length, begun);
    store.end()?;
    forget_cached(&path);
    let store = Koine::open(&path, MEMORY)?;
    let begun = Instant::now();
    store.read_large(0, length, &piece)?;
    let read = rate(length, begun);
    store.end()?;
    forget_cached(&path);
    let store = Koine::open(&path, MEMORY)?;
    let begun = Instant::now();
    store.map_large(0, length, &piece)?;
    let mapped = rate(length, begun);
    // What was mapped is in the page cache now.
    let begun = Instant::now();
    store.map_large(0, length, &piece)?;
    let mapped_again = rate(length, begun);
    store.end()?;
    let _gone = std::fs::remove_file(&path);
    Ok([write, read, mapped, mapped_again])
}

/// Bytes of which no two pieces of a device look alike.
fn pattern() -> Vec<u8> {
    (0..PIECE_LEN as u64 / 8).flat_map(|number| super::data::mix(number).to_le_bytes()).collect()
}

fn rate(length: u64, begun: Instant) -> f64 {
    length as f64 / MB / begun.elapsed().as_secs_f64().max(1e-9)
}

fn references(folder: &Path, length: u64, found: &mut [Figures; 4]) -> Result<(), Error> {
    let [writes, reads, ..] = found;
    let file = folder.join("fio");
    for manner in FioMode::ALL {
        let job = |access| FioJob {
            file: &file,
            access,
            block_len: PIECE_LEN as u64,
            file_len: length,
            manner,
            sync_every: None,
            seconds: None,
        };
        writes.push(manner.name(), Some(fio::run(job("write"))?.bytes / MB));
        // fio forgets what is cached before it reads.
        reads.push(manner.name(), Some(fio::run(job("read"))?.bytes / MB));
        std::fs::remove_file(&file).map_err(Error::io("cannot remove fio's file"))?;
    }
    Ok(())
}
