//! `koine format`: makes a store on a file or a device.

use std::path::PathBuf;

use clap::Args;
use koine::FormatOptions;
use koine::numbered;
use serde_json::json;

use crate::failure::Outcome;
use crate::output::Output;
use crate::size;

const EXAMPLES: &str = "Examples:
  koine format store.koine                   a file of 256 MiB that grows as it is needed
  koine format store.koine --size 100GiB     that grows up to 100 GiB
  koine format /dev/sdx1                     a whole device or partition
  koine format /dev/sdx1 --force             over what is on it: all of that is lost

A file that is missing is made. What is there is overwritten only when its first and last MiB are
zero, or with --force. A block is always 4 KiB.";

/// The options of `koine format`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct FormatArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE")]
    store: PathBuf,
    /// Up to what a file may grow [default: as far as the disk allows].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,
    /// The most numbered objects (libkoine, `koine::numbered`) that there may be at once, for ever [default: as many as fit].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    object_limit: Option<u64>,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
}

/// Runs `koine format`.
pub fn run(args: &FormatArgs, output: Output) -> Outcome {
    let made = koine::format(&args.store, &FormatOptions { size_max: args.size, force: args.force })?;
    if args.object_limit.is_some() {
        // The limit is kept with the objects, of which this makes an empty store.
        numbered::open_with(&args.store, args.object_limit, None)?.close().map_err(koine::Error::from)?;
    }
    let limit = match made.size_max {
        Some(limit) if limit == made.size => "a fixed size".to_owned(),
        Some(limit) => format!("grows up to {}", size::show(limit)),
        None => "grows as it is needed".to_owned(),
    };
    let store = args.store.display();
    output.people(format!(
        "{store} is an empty store now: {}, {limit}\nTry  koine serve {store}",
        size::show(made.size)
    ))?;
    output
        .json(&json!({ "type": "formatted", "store": store.to_string(), "size": made.size, "size_max": made.size_max, "object_limit": args.object_limit }))
}
