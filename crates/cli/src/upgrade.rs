//! `koine upgrade`: gives a store of an older format the one of this program.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::failure::Outcome;
use crate::output::Output;
use crate::store_path;

const EXAMPLES: &str = "Examples:
  koine upgrade store.koine --dry-run     what would be done
  koine upgrade store.koine
  koine upgrade --json /dev/sdx1 | jq .format

A store never changes its format by being opened: a program that finds an older one says so and changes
nothing. The log is read first; a store that cannot be opened is not upgraded. From format 0 to 1 only the
two superblocks are written, one after the other, each durable before the next. The records of buckets and
objects have a format of their own: from 0 to 1 every bucket is counted, which reads all names, and listed
under its owner and group. A crash in between leaves a store of either format with all it had, and to upgrade
again finishes it. There is no way back. No server may hold the store (exit code 3 and its pid).";

/// The options of `koine upgrade`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct UpgradeArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// Write nothing; tell what would be done, and whether it can be.
    #[arg(long)]
    dry_run: bool,
}

/// Runs `koine upgrade`.
pub fn run(args: &UpgradeArgs, output: Output) -> Outcome {
    let told = koine::upgrade(&args.store, args.dry_run)?;
    let (store, catalogue) = (args.store.display(), told.catalogue);
    output.json(&json!({
        "type": "upgraded", "store": store.to_string(), "from": told.store.from, "format": told.store.to,
        "superblocks": told.store.superblocks, "dry_run": args.dry_run,
        "objects": catalogue.map(|done| json!({
            "from": done.from, "format": done.to, "buckets": done.buckets, "counters": done.counters,
        })),
    }))?;
    if let Some(done) = catalogue.filter(|done| done.from != done.to) {
        let would = if args.dry_run { "would be" } else { "were" };
        output.people(format!(
            "buckets and objects {would} upgraded from format {} to {}: {} buckets, {} counts set",
            done.from, done.to, done.buckets, done.counters
        ))?;
    }
    let (from, to) = (told.store.from, told.store.to);
    output.people(match told.store.superblocks {
        0 if catalogue.is_some_and(|done| done.from != done.to) => return Ok(()),
        0 => format!("{store} has format {to} already; nothing was changed"),
        many if args.dry_run => format!(
            "{store} would be upgraded from format {from} to {to}: superblocks to write: {many}; nothing was changed"
        ),
        _ => format!("{store} was upgraded from format {from} to {to}"),
    })
}
