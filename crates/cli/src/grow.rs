//! `koine grow`: takes what was added to a device, or changes up to what a file may grow.

use std::path::PathBuf;

use clap::Args;
use koine::GrowTo;
use serde_json::json;

use crate::failure::Outcome;
use crate::output::Output;
use crate::size;
use crate::store_path;

const EXAMPLES: &str = "Examples:
  koine grow /dev/sdx1                    take all of a partition that was made longer
  koine grow /dev/sdx1 --size 500GiB      take a part of what was added
  koine grow store.koine --size 200GiB    let a file grow up to 200 GiB
  koine grow store.koine --unlimited      let it grow as far as the disk allows

Nothing is lost by it, and a crash in between leaves the old length or the new. A store never becomes
smaller. A running server holds its store (exit code 3 and its pid); on a device it takes what was added when it
gets SIGHUP: kill -HUP PID.";

/// The options of `koine grow`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct GrowArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// The length of the store on a device, or up to what a file may grow [default: all of a device].
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "unlimited")]
    size: Option<u64>,
    /// Take the limit of a file away.
    #[arg(long)]
    unlimited: bool,
}

/// Runs `koine grow`.
pub fn run(args: &GrowArgs, output: Output) -> Outcome {
    let to = match args.size {
        Some(size) => GrowTo::Size(size),
        None if args.unlimited => GrowTo::Unlimited,
        None => GrowTo::Device,
    };
    let grown = koine::grow(&args.store, to)?;
    let store = args.store.display();
    output.json(&json!({
        "type": "grown", "store": store.to_string(), "before": grown.before, "size": grown.after, "size_max": grown.limit,
    }))?;
    let limit = match grown.limit {
        Some(limit) if limit == grown.after => "a fixed size".to_owned(),
        Some(limit) => format!("grows up to {}", size::show(limit)),
        None => "grows as it is needed".to_owned(),
    };
    let was = if grown.before == grown.after { String::new() } else { format!(" (was {})", size::show(grown.before)) };
    output.people(format!("{store}: {}{was}, {limit}", size::show(grown.after)))
}
