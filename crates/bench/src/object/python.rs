//! The Python package beside this library: the same objects put and read in a process of its own, on a store of its own.
//!
//! `python3` on PATH has to find the package (`./x wheel`, then `pip install`, or PYTHONPATH).

use super::ours::{Buffers, LocalObjects, PIECE_LEN};
use super::{ObjectArguments, show_size};
use crate::Error;
use crate::figures::Figures;
use crate::report::{OURS, Report};
use crate::s3::payload::Payload;
use crate::say;
use crate::statistics::Better;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const SCRIPT: &str = include_str!("python.py");
const RUST: &str = "rust";
/// Within 20 %.
const GOAL: f64 = 0.8;
const SIZES: [u64; 4] = [1 << 20, 16 << 20, 100 << 20, 1 << 30];
const QUICK_SIZES: [u64; 1] = [1 << 20];
/// Bytes that a cell moves at least.
const TOTAL_LEN: u64 = 512 << 20;
const QUICK_TOTAL_LEN: u64 = 32 << 20;
/// Of the store, as for [`super::large`].
const MEMORY_LEN: u64 = 2 << 30;
/// Of a quick run.
#[cfg(test)]
pub const ROWS_QUICK: usize = 2;
const SECTION: &str = "Python, one thread (reference: the library in Rust; objects in memory when they are read)";

/// MB/s of one contestant in one round.
#[derive(serde::Deserialize)]
struct PythonSample {
    put: f64,
    get: f64,
}

/// Measures and adds the rows.
pub fn measure(arguments: &ObjectArguments, report: &mut Report) -> Result<(), Error> {
    let (sizes, total): (&[u64], u64) =
        if arguments.quick { (&QUICK_SIZES, QUICK_TOTAL_LEN) } else { (&SIZES, TOTAL_LEN) };
    let sizes = sizes.iter().filter(|size| CASES.iter().any(|case| arguments.names(&name(case, **size))));
    let mut sizes: Vec<(u64, [Figures; 2])> = sizes.map(|size| (*size, Default::default())).collect();
    if sizes.is_empty() {
        return Ok(());
    }
    if !is_here() {
        report.notes.push("python3 on PATH finds no package koine: Python is not measured.".into());
        return Ok(());
    }
    for round in 0..arguments.rounds() {
        for (size, figures) in &mut sizes {
            let total = total.max(*size);
            let samples =
                [(RUST, in_rust(&arguments.dir, *size, total)?), (OURS, in_python(&arguments.dir, *size, total)?)];
            for (contestant, sample) in &samples {
                figures[0].push(contestant, Some(sample.put));
                figures[1].push(contestant, Some(sample.get));
            }
            let [(_, rust), (_, python)] = samples;
            say(&format!(
                "round {}: {}: PUT {:.0} (Rust {:.0}), GET {:.0} (Rust {:.0}) MB/s",
                round + 1,
                show_size(*size),
                python.put,
                rust.put,
                python.get,
                rust.get
            ));
        }
    }
    for (size, figures) in &sizes {
        for (case, figures) in CASES.iter().zip(figures) {
            let name = name(case, *size);
            if arguments.names(&name) {
                let row = figures.row(&name, "MB/s", Better::Higher, GOAL, &[RUST.to_owned()]);
                report.rows.push(row.in_section(SECTION));
            }
        }
    }
    Ok(())
}

const CASES: [&str; 2] = ["Python PUT", "Python GET"];

fn name(case: &str, size: u64) -> String {
    format!("{case} {}", show_size(size))
}

fn is_here() -> bool {
    let found =
        Command::new("python3").args(["-c", "import koine"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

fn in_rust(dir: &Path, size: u64, total: u64) -> Result<PythonSample, Error> {
    let ours = LocalObjects::start_with(dir, Some(MEMORY_LEN))?;
    let keys: Vec<String> = (0..(total / size).max(1)).map(|_| ours.fresh()).collect();
    let payload = Payload::new(PIECE_LEN)?;
    let mut buffers = Buffers::new(usize::try_from(total).unwrap_or(1) / PIECE_LEN, total);
    let rate = |act: &mut dyn FnMut(&String) -> Result<(), Error>| -> Result<f64, Error> {
        let begun = Instant::now();
        keys.iter().try_for_each(act)?;
        Ok(keys.len() as f64 * size as f64 / 1e6 / begun.elapsed().as_secs_f64().max(1e-9))
    };
    let put = rate(&mut |key| ours.put(key, size, payload.bytes()))?;
    let mut get = 0.0;
    // What is read once does not stay; what is read again does.
    for _ in 0..3 {
        get = rate(&mut |key| ours.read(key, &mut buffers).map(drop))?;
    }
    Ok(PythonSample { put, get })
}

fn in_python(dir: &Path, size: u64, total: u64) -> Result<PythonSample, Error> {
    let folder =
        tempfile::Builder::new().prefix("koine-bench-").tempdir_in(dir).map_err(Error::io("cannot make a folder"))?;
    let mut command = Command::new("python3");
    command.args(["-c", SCRIPT]).arg(folder.path().join("store.koine"));
    command.args([size, total, MEMORY_LEN].map(|number| number.to_string()));
    let output = command.output().map_err(Error::io("cannot run python3"))?;
    let failed = || Error::Worker(format!("python3: {}", String::from_utf8_lossy(&output.stderr).trim()));
    if !output.status.success() {
        return Err(failed());
    }
    serde_json::from_slice(&output.stdout).map_err(|_| failed())
}
