//! `koine collect`: what no name leads to is told and removed.

use clap::Args;
use koine::object::{CollectEvent, CollectOptions, Collected, Found, LeftOver};
use serde_json::json;

use crate::failure::Outcome;
use crate::output::Output;
use crate::size;
use crate::target::{TargetArgs, failed};

const EXAMPLES: &str = "Examples:
  koine collect --store store.koine --dry-run       tell, and remove nothing
  koine collect --store store.koine --rate 5MiB     read at most 5 MiB of names and records a second

It may run while the store is in use, also through the server that holds it, and removes nothing that a name leads to. A store of
Koine's own engine never has anything but tokens that have expired and deletions of groups that were interrupted.";

/// People are told so many things one by one; the rest is counted.
const TOLD_MAX: u64 = 50;

/// The options of `koine collect`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CollectArgs {
    /// Tell what there is, and remove nothing.
    #[arg(long)]
    dry_run: bool,
    /// Read at most so many bytes a second [default: as fast as it goes].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    rate: Option<u64>,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine collect`.
pub fn run(args: &CollectArgs, output: Output) -> Outcome {
    let options = CollectOptions { remove: !args.dry_run, bytes_per_second: args.rate, ..CollectOptions::default() };
    let store = args.reach.store()?;
    let bar = output.items("names read");
    let (mut told, mut outcome) = (0u64, Ok(()));
    let mut tell = |event: CollectEvent<'_>| match event {
        CollectEvent::Read(keys) => bar.inc(keys),
        CollectEvent::Found(found) if outcome.is_ok() => {
            told += 1;
            outcome = bar.suspend(|| tell_of(&found, told, output));
        }
        CollectEvent::Bucket(_) | CollectEvent::Found(_) => {}
    };
    let collected = store.objects().collect_telling(&options, &mut tell).map_err(failed);
    bar.finish_and_clear();
    let closed = store.close();
    let collected = collected?;
    closed?;
    outcome?;
    summary(&collected, args.dry_run, output)
}

fn tell_of(found: &Found<'_>, number: u64, output: Output) -> Outcome {
    let bucket = found.bucket.unwrap_or("the catalogue");
    let off_by = match found.what {
        LeftOver::Counter(off_by) => Some(off_by),
        _ => None,
    };
    output.json(&json!({
        "type": "found", "bucket": found.bucket, "what": found.what.word(), "key": hex::encode(found.key),
        "bytes": found.bytes, "off_by": off_by,
    }))?;
    match number {
        1..=TOLD_MAX => {
            let how_much = off_by.map_or_else(|| size::show(found.bytes), |off_by| format!("off by {off_by}"));
            output.people(format!("{bucket}: {} {}, {how_much}", found.what.word(), found.key.escape_ascii()))
        }
        number if number == TOLD_MAX + 1 => output.people("and more, which are counted below"),
        _ => Ok(()),
    }
}

fn summary(collected: &Collected, dry_run: bool, output: Output) -> Outcome {
    let Collected { buckets, names, data, tables, parts, entries, indexes, access_times, counters, .. } = *collected;
    output.json(&json!({
        "type": "collected", "removed": collected.removed, "found": collected.found(), "buckets": buckets,
        "names": names, "data": data, "tables": tables, "parts": parts, "entries": entries, "indexes": indexes,
        "access_times": access_times, "counters": counters, "catalogue": collected.catalogue,
        "tokens": collected.tokens, "deletions": collected.deletions, "bytes": collected.bytes, "dry_run": dry_run,
    }))?;
    let found = collected.found();
    let looked = format!("{buckets} buckets with {names} names");
    let bytes = size::show(collected.bytes);
    output.people(match (found, dry_run) {
        (0, _) => format!("{looked}: nothing is left over"),
        (_, true) => format!("{looked}: {found} things are left over, {bytes}; nothing was removed"),
        (_, false) => {
            format!("{looked}: {found} things were left over, {bytes}; {} of them are gone now", collected.removed)
        }
    })
}
