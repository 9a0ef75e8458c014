//! Large objects beside what the machine gives: GET of what is cached beside one thread's memcpy over distinct buffers,
//! GET of what is not and PUT beside fio on the same file system with the same sync.

use super::ours::{Buffers, LocalObjects, PIECE_LEN};
use super::{ObjectArguments, show_size};
use crate::Error;
use crate::figures::Figures;
use crate::fio::{self, FioJob, FioMode};
use crate::report::{OURS, Report};
use crate::s3::payload::Payload;
use crate::say;
use crate::statistics::Better;
use std::path::Path;
use std::time::Instant;

const MEMCPY: &str = "memcpy";
/// What the issue asks.
const CACHED_GOAL: f64 = 0.7;
const DISK_GOAL: f64 = 0.9;
/// Bytes that a cell moves: objects of it, one after the other.
const TOTAL_LEN: u64 = 1 << 30;
/// Of the store: all that a cell moves fits into it, and is cached once it was read.
const MEMORY_LEN: u64 = 2 << 30;
const SIZES: [u64; 3] = [1 << 20, 100 << 20, 1 << 30];
const QUICK_SIZES: [u64; 1] = [1 << 20];
const QUICK_TOTAL_LEN: u64 = 64 << 20;
/// Of a quick run.
#[cfg(test)]
pub const ROWS_QUICK: usize = 3;
const SECTION: &str = "Large, one thread (references: memcpy over distinct buffers; fio in blocks of 1 MiB)";

/// One size.
struct Size {
    size: u64,
    put: Figures,
    cached: Figures,
    cold: Figures,
}

/// Measures and adds the rows.
pub fn measure(arguments: &ObjectArguments, report: &mut Report) -> Result<(), Error> {
    let (sizes, total): (&[u64], u64) =
        if arguments.quick { (&QUICK_SIZES, QUICK_TOTAL_LEN) } else { (&SIZES, TOTAL_LEN) };
    let new = |size: &u64| Size {
        size: *size,
        put: Figures::default(),
        cached: Figures::default(),
        cold: Figures::default(),
    };
    let mut sizes: Vec<Size> = sizes.iter().map(new).collect();
    sizes.retain(|size| CASES.iter().any(|case| arguments.names(&name(case, size.size))));
    if sizes.is_empty() {
        return Ok(());
    }
    let with_fio = fio::is_here();
    if !with_fio {
        report.notes.push("fio is not on PATH: large objects have no reference on the disk.".into());
    }
    let payload = Payload::new(PIECE_LEN)?;
    let count = usize::try_from(total).unwrap_or(1) / PIECE_LEN;
    let mut copier = LargeCopier { from: vec![3; count * PIECE_LEN], to: vec![5; count * PIECE_LEN] };
    let mut buffers = Buffers::new(count, total);
    for round in 0..arguments.rounds() {
        for size in &mut sizes {
            sample(arguments, size, total, &payload, &mut buffers)?;
            size.cached.push(MEMCPY, Some(copier.rate()));
            if with_fio {
                references(&arguments.dir, size, total)?;
            }
            let last = |figures: &Figures, name: &str| figures.of(name).last().copied().flatten().unwrap_or(0.0);
            say(&format!(
                "round {}: {}: PUT {:.0}, GET cached {:.0} (memcpy {:.0}), GET cold {:.0} MB/s",
                round + 1,
                show_size(size.size),
                last(&size.put, OURS),
                last(&size.cached, OURS),
                last(&size.cached, MEMCPY),
                last(&size.cold, OURS)
            ));
        }
    }
    let fio_names: Vec<String> = FioMode::ALL.map(|manner| manner.name().to_owned()).to_vec();
    for size in &sizes {
        let memcpy = [MEMCPY.to_owned()];
        let rows: [(&str, &Figures, f64, &[String]); 3] = [
            (CASES[0], &size.put, DISK_GOAL, &fio_names),
            (CASES[1], &size.cached, CACHED_GOAL, &memcpy),
            (CASES[2], &size.cold, DISK_GOAL, &fio_names),
        ];
        for (case, figures, goal, references) in rows {
            let name = name(case, size.size);
            if arguments.names(&name) {
                let row = figures.row(&name, "MB/s", Better::Higher, goal, references);
                report.rows.push(row.in_section(SECTION));
            }
        }
    }
    Ok(())
}

const CASES: [&str; 3] = ["PUT", "GET cached", "GET cold"];

fn name(case: &str, size: u64) -> String {
    format!("{case} {}", show_size(size))
}

fn sample(
    arguments: &ObjectArguments,
    size: &mut Size,
    total: u64,
    payload: &Payload,
    buffers: &mut Buffers,
) -> Result<(), Error> {
    let mut ours = LocalObjects::start_with(&arguments.dir, Some(MEMORY_LEN))?;
    let keys: Vec<String> = (0..(total / size.size).max(1)).map(|_| ours.fresh()).collect();
    let bytes = keys.len() as u64 * size.size;
    let rate = |begun: Instant| bytes as f64 / 1e6 / begun.elapsed().as_secs_f64().max(1e-9);
    let begun = Instant::now();
    keys.iter().try_for_each(|key| ours.put(key, size.size, payload.bytes()))?;
    size.put.push(OURS, Some(rate(begun)));
    ours.forget()?;
    // As fio does, which has one buffer.
    let mut one = Buffers::new(1, PIECE_LEN as u64);
    let begun = Instant::now();
    keys.iter().try_for_each(|key| ours.read(key, &mut one).map(drop))?;
    size.cold.push(OURS, Some(rate(begun)));
    // What is read once does not stay; what is read again does.
    keys.iter().try_for_each(|key| ours.read(key, buffers).map(drop))?;
    let begun = Instant::now();
    keys.iter().try_for_each(|key| ours.read(key, buffers).map(drop))?;
    size.cached.push(OURS, Some(rate(begun)));
    Ok(())
}

fn references(dir: &Path, size: &mut Size, total: u64) -> Result<(), Error> {
    let folder =
        tempfile::Builder::new().prefix("koine-bench-").tempdir_in(dir).map_err(Error::io("cannot make a folder"))?;
    let file = folder.path().join("fio");
    for manner in FioMode::ALL {
        // As often as objects are committed, and with as many bytes in all.
        let sync_every = Some((size.size / PIECE_LEN as u64).max(1));
        let job = |access, file_len| FioJob {
            file: &file,
            access,
            block_len: PIECE_LEN as u64,
            file_len,
            manner,
            sync_every,
            seconds: None,
        };
        let written = fio::run(job("write", total))?.bytes / 1e6;
        // Where each object is one call and is waited for, a queue of them is no equal.
        let is_equal = manner != FioMode::Queued || size.size > PIECE_LEN as u64;
        size.put.push(manner.name(), is_equal.then_some(written));
        // fio forgets what is cached before it reads.
        size.cold.push(manner.name(), Some(fio::run(job("read", total))?.bytes / 1e6));
        std::fs::remove_file(&file).map_err(Error::io("cannot remove fio's file"))?;
    }
    Ok(())
}

/// Copies from one piece of memory to another, both too large for any cache.
struct LargeCopier {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl LargeCopier {
    /// MB/s of one pass, a piece at a time.
    fn rate(&mut self) -> f64 {
        let begun = Instant::now();
        for (from, to) in self.from.chunks(PIECE_LEN).zip(self.to.chunks_mut(PIECE_LEN)) {
            to.copy_from_slice(from);
            std::hint::black_box(&to);
        }
        self.from.len() as f64 / 1e6 / begun.elapsed().as_secs_f64().max(1e-9)
    }
}
