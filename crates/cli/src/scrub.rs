//! `koine scrub`: reads and verifies a store at a rate, and can go on where it was.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use koine::{Finding, ScrubOptions, ScrubPosition, Whose};
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::store_path;
use crate::{resume, size};

const EXAMPLES: &str = "Examples:
  koine scrub store.koine                            exit code 0: sound, 1: unsound (what, where and whose is told)
  koine scrub /dev/sdx1 --rate 50MiB                 at most 50 MiB a second
  koine scrub /dev/sdx1 --rate 50MiB --resume F      go on where the run before was stopped (kept in the file F)

Every index node and every byte of data is read past the page cache and compared with its checksum, in the order
of keys and with little memory. `koine check` also compares reference counts and free space with what
names them. Nothing is changed, and no server may hold the store (exit code 3 and its pid); a server reads its
own store with `koine serve --scrub-rate`.";

/// The bounds of what is read at once.
const STEP_LEN_MIN: u64 = 256 << 10;
const STEP_LEN_MAX: u64 = 4 << 20;

/// The options of `koine scrub`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ScrubArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// Read at most so many bytes a second [default: as fast as the device gives them].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    rate: Option<u64>,
    /// Keep the position in this file, and begin where it says; it is removed at the end.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

/// Runs `koine scrub`.
pub fn run(args: &ScrubArgs, output: Output) -> Outcome {
    let began = Instant::now();
    let store = koine::inspect(&args.store)?;
    let from = args.resume.as_deref().map_or(Ok(ScrubPosition::default()), position)?;
    let rate_per_second = args.rate.unwrap_or(0);
    // About a second's worth at once, so that a low rate is an even one.
    let step_len = if rate_per_second == 0 { STEP_LEN_MAX } else { rate_per_second.clamp(STEP_LEN_MIN, STEP_LEN_MAX) };
    let options = ScrubOptions { rate_per_second, step_len };
    let mut scrub = store.scrub(options, from);
    let bar = output.bytes_bar(store.usage().used, &args.store.display().to_string());
    let (mut nodes, mut pieces, mut read_len, mut findings) = (0, 0, 0, Vec::new());
    loop {
        let step = scrub.step().map_err(koine::Error::from)?;
        (nodes, pieces, read_len) = (nodes + step.nodes, pieces + step.pieces, read_len + step.read_len);
        findings.extend(step.findings);
        bar.inc(step.read_len);
        if step.done {
            break;
        }
        if let Some(file) = &args.resume {
            resume::write(file, &scrub.position().to_bytes())?;
        }
        std::thread::sleep(scrub.wait());
    }
    bar.finish_and_clear();
    if let Some(file) = &args.resume {
        resume::remove(file)?;
    }
    let whose = store.whose(&findings);
    let told: Vec<serde_json::Value> =
        findings.iter().zip(&whose).map(|(finding, whose)| finding_json(finding, whose.as_ref())).collect();
    output.json(&json!({
        "type": "scrubbed", "store": args.store.display().to_string(), "sound": findings.is_empty(),
        "nodes": nodes, "pieces": pieces, "bytes": read_len, "findings": told,
    }))?;
    let seconds = began.elapsed().as_secs_f64();
    let read = size::show(read_len);
    output.people(format!("verified {nodes} index nodes and {pieces} pieces of values, {read}, in {seconds:.1} s"))?;
    for (finding, whose) in findings.iter().zip(&whose) {
        output.people(format!("  damaged: {}", tell(finding, whose.as_ref())))?;
    }
    if findings.is_empty() {
        return output.people(format!("{}: nothing is damaged", args.store.display()));
    }
    let count = findings.len();
    let plural = if count == 1 { "place is" } else { "places are" };
    Err(Failure::failed(format!(
        "{}: {count} {plural} damaged; `koine salvage` copies out everything else",
        args.store.display()
    )))
}

/// A finding with the names of its bucket and object, and its ids behind them.
pub fn tell(finding: &Finding, whose: Option<&Whose>) -> String {
    let finding = printable(&finding.to_string());
    match whose {
        None => finding,
        Some(Whose { bucket, object: None }) => format!("bucket {}: {finding}", printable(bucket)),
        Some(Whose { bucket, object: Some(key) }) => {
            format!("koine://{}/{}: {finding}", printable(bucket), printable(key))
        }
    }
}

/// The same for programs.
pub fn finding_json(finding: &Finding, whose: Option<&Whose>) -> serde_json::Value {
    json!({
        "concerns": finding.concern.to_string(), "message": finding.message,
        "bucket": whose.map(|whose| &whose.bucket), "object": whose.and_then(|whose| whose.object.as_ref()),
    })
}

fn position(file: &Path) -> Outcome<ScrubPosition> {
    let kept = resume::read(file)?;
    Ok(kept.map(|bytes| ScrubPosition::from_bytes(&bytes)).transpose().map_err(koine::Error::from)?.unwrap_or_default())
}
