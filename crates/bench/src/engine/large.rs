//! One large value written and read in one go, beside fio on the same file system with the same sync.

use super::budget::Budget;
use super::figures::Figures;
use super::fio::{self, Job, Manner};
use super::store::{Koine, Memory, forget_cached};
use super::{Arguments, OURS};
use crate::Error;
use crate::report::Report;
use crate::s3::show_size;
use crate::say;
use crate::statistics::Better;
use std::path::Path;
use std::time::Instant;

/// What the issue asks of both.
const GOAL: f64 = 0.9;
const PIECE_LEN: usize = 1 << 20;
const QUICK_LEN: u64 = 128 << 20;
const MEMORY: Memory = Memory { total_len: 128 << 20 };
const MB: f64 = 1e6;

/// Measures and adds the rows.
pub fn measure(arguments: &Arguments, budget: &mut Budget, report: &mut Report) -> Result<(), Error> {
    let length = if arguments.quick { arguments.large.min(QUICK_LEN) } else { arguments.large };
    let cases = ["large write", "large read"].map(|what| format!("{what} of {}", show_size(length)));
    if !cases.iter().any(|case| arguments.names(case)) {
        return Ok(());
    }
    let with_fio = fio::is_here();
    if !with_fio {
        report.notes.push("fio is not on PATH: large writes and reads have no reference.".into());
    }
    let (mut writes, mut reads) = (Figures::default(), Figures::default());
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
            ours(folder.path(), length, &mut writes, &mut reads, report);
        }
        if with_fio {
            references(folder.path(), length, &mut writes, &mut reads)?;
        }
        if round % 2 == 1 {
            ours(folder.path(), length, &mut writes, &mut reads, report);
        }
        let shown = |figures: &Figures| {
            let last = |name| figures.of(name).last().copied().flatten().unwrap_or(f64::NAN);
            let all = std::iter::once(OURS).chain(Manner::ALL.map(Manner::name));
            all.map(|name| format!("{name} {:.0}", last(name))).collect::<Vec<_>>().join(", ")
        };
        say(&format!("round {}: {}: {} MB/s", round + 1, cases[0], shown(&writes)));
        say(&format!("round {}: {}: {} MB/s", round + 1, cases[1], shown(&reads)));
    }
    let names = Manner::ALL.map(|manner| manner.name().to_owned());
    for (case, figures) in cases.iter().zip([writes, reads]) {
        if arguments.names(case) {
            let row = figures.row(case, "MB/s", Better::Higher, GOAL, &names);
            report.rows.push(row.in_section("Large: one value in pieces of 1 MiB, made durable at the end; read cold"));
        }
    }
    Ok(())
}

fn ours(folder: &Path, length: u64, writes: &mut Figures, reads: &mut Figures, report: &mut Report) {
    let (write, read) = match koine(folder, length) {
        Ok((write, read)) => (Some(write), Some(read)),
        Err(error) => {
            report.errors.push(format!("{OURS}: one large value: {error}"));
            (None, None)
        }
    };
    writes.push(OURS, write);
    reads.push(OURS, read);
}

/// MB/s of the write and of the read.
fn koine(folder: &Path, length: u64) -> Result<(f64, f64), String> {
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
    let _gone = std::fs::remove_file(&path);
    Ok((write, read))
}

/// Bytes of which no two pieces of a device look alike.
fn pattern() -> Vec<u8> {
    (0..PIECE_LEN as u64 / 8).flat_map(|number| super::data::mix(number).to_le_bytes()).collect()
}

fn rate(length: u64, begun: Instant) -> f64 {
    length as f64 / MB / begun.elapsed().as_secs_f64().max(1e-9)
}

fn references(folder: &Path, length: u64, writes: &mut Figures, reads: &mut Figures) -> Result<(), Error> {
    let file = folder.join("fio");
    for manner in Manner::ALL {
        let job = |access| Job {
            file: &file,
            access,
            block_len: PIECE_LEN as u64,
            file_len: length,
            manner,
            sync_each: false,
            seconds: None,
        };
        writes.push(manner.name(), Some(fio::run(job("write"))?.bytes / MB));
        // fio forgets what is cached before it reads.
        reads.push(manner.name(), Some(fio::run(job("read"))?.bytes / MB));
        std::fs::remove_file(&file).map_err(Error::io("cannot remove fio's file"))?;
    }
    Ok(())
}
