//! `koine defrag`: writes values that lie in many small pieces anew in few large ones.

use std::path::{Path, PathBuf};

use clap::Args;
use koine::{DefragOptions, DefragPosition, DefragStep, SpaceReport, Upkeep};
use serde_json::json;

use crate::failure::Outcome;
use crate::output::Output;
use crate::store_path;
use crate::{resume, size};

const EXAMPLES: &str = "Examples:
  koine stat store.koine --space                     how many pieces values have
  koine defrag store.koine                           then fewer
  koine defrag /dev/sdx1 --rate 20MiB --resume F     at most 20 MiB a second; go on where the run before was stopped

Only where bytes lie changes: no version of an object, no snapshot. What snapshots and clones share is left as it is, since moving
it would take its space twice. It can be stopped at any time. No server may hold the store (exit code 3 and its pid); a program
does it to its own store while it is in use with Engine::defrag.";

/// The bounds of what is rewritten at once.
const STEP_LEN_MIN: u64 = 256 << 10;
const STEP_LEN_MAX: u64 = 4 << 20;

/// The options of `koine defrag`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DefragArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// Rewrite at most so many bytes a second [default: as fast as the device takes them].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    rate: Option<u64>,
    /// Keep the position in this file, and begin where it says; it is removed at the end.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

/// Runs `koine defrag`.
pub fn run(args: &DefragArgs, output: Output) -> Outcome {
    let from = args.resume.as_deref().map_or(Ok(DefragPosition::default()), position)?;
    let store = Upkeep::open(&args.store)?;
    let did = all(args, &store, from, output);
    let closed = store.close();
    let (sum, before, after) = did?;
    closed?;
    output.json(&json!({
        "type": "defragmented", "store": args.store.display().to_string(), "bytes": sum.rewritten_len,
        "windows": sum.windows, "pieces_before": sum.pieces_before, "pieces_after": sum.pieces_after, "left": sum.left,
        "values_by_pieces_before": before.pieces, "values_by_pieces_after": after.pieces,
    }))?;
    output.people(format!(
        "{}: {} in {} pieces lie in {} now; values of more than 8 pieces: {}, before {}",
        args.store.display(),
        size::show(sum.rewritten_len),
        sum.pieces_before,
        sum.pieces_after,
        many(&after),
        many(&before)
    ))?;
    if sum.left > 0 {
        output.people(format!(
            "{} parts were left as they are: shared with a snapshot or clone, or no better room",
            sum.left
        ))?;
    }
    Ok(())
}

fn many(report: &SpaceReport) -> u64 {
    report.pieces.range(9..).map(|(_, values)| *values).sum()
}

fn all(
    args: &DefragArgs,
    store: &Upkeep,
    from: DefragPosition,
    output: Output,
) -> Outcome<(DefragStep, SpaceReport, SpaceReport)> {
    let rate_per_second = args.rate.unwrap_or(0);
    // About a second's worth at once, so that a low rate is an even one.
    let step_len = if rate_per_second == 0 { STEP_LEN_MAX } else { rate_per_second.clamp(STEP_LEN_MIN, STEP_LEN_MAX) };
    let before = store.space_report()?;
    let mut defrag = store.defrag(DefragOptions { rate_per_second, step_len }, from)?;
    let bar = output.bytes_bar(0, &args.store.display().to_string());
    let mut sum = DefragStep::default();
    loop {
        let step = defrag.step().map_err(koine::Error::from)?;
        sum.windows += step.windows;
        sum.rewritten_len += step.rewritten_len;
        sum.pieces_before += step.pieces_before;
        sum.pieces_after += step.pieces_after;
        sum.left += step.left;
        bar.inc(step.rewritten_len);
        if step.done {
            break;
        }
        if let Some(file) = &args.resume {
            resume::write(file, &defrag.position().to_bytes())?;
        }
        std::thread::sleep(defrag.wait());
    }
    bar.finish_and_clear();
    if let Some(file) = &args.resume {
        resume::remove(file)?;
    }
    Ok((sum, before, store.space_report()?))
}

fn position(file: &Path) -> Outcome<DefragPosition> {
    let kept = resume::read(file)?;
    Ok(kept
        .map(|bytes| DefragPosition::from_bytes(&bytes))
        .transpose()
        .map_err(koine::Error::from)?
        .unwrap_or_default())
}
