//! `koine trim`: gives free space back to the device or the file system.

use std::path::PathBuf;

use clap::Args;
use koine::Upkeep;
use serde_json::json;

use crate::failure::Outcome;
use crate::output::Output;
use crate::size;
use crate::store_path;

const EXAMPLES: &str = "Examples:
  koine trim /dev/sdx1         tells the device which blocks are free
  koine trim store.koine       makes holes in the file: the file system gets the space

What is free in rows of at least 64 KiB is given back. In a file somebody else may have the space when the store wants it again;
the store then stops with a write error and has to be opened again. `koine serve --discard` does it all the time for what is freed.
No server may hold the store (exit code 3 and its pid).";

/// The options of `koine trim`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TrimArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
}

/// Runs `koine trim`.
pub fn run(args: &TrimArgs, output: Output) -> Outcome {
    let store = Upkeep::open(&args.store)?;
    let bar = output.bytes_bar(0, &args.store.display().to_string());
    let trimmed = store.trim(&mut |length| bar.set_position(length));
    bar.finish_and_clear();
    let closed = store.close();
    let length = trimmed?;
    closed?;
    output.json(&json!({ "type": "trimmed", "store": args.store.display().to_string(), "bytes": length }))?;
    output.people(format!("{}: {} were given back", args.store.display(), size::show(length)))
}
