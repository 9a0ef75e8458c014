//! `koine format`: makes a store on a file or a device.

use std::path::PathBuf;

use clap::Args;
use koine::numbered;
use koine::{FormatOptions, OpenOptions};
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::size;
use crate::store_path;

const EXAMPLES: &str = "Examples:
  koine format store.koine                   a file of 256 MiB that grows as it is needed
  koine format store.koine --size 100GiB     that grows up to 100 GiB
  koine format store.koine --block-size 64KiB   whose values lie on boundaries of 64 KiB
  koine format /dev/sdx1                     a whole device or partition
  koine format /dev/sdx1 --force             over what is on it: all of that is lost
  koine format rocksdb:folder                a store in RocksDB, in a folder that is missing or empty

A file that is missing is made. What is there is overwritten only when its first and last MiB are
zero, or with --force.

The block size is for ever: space for values of more than 32 KiB is given out in such blocks, which helps
devices whose own pages, stripes or erase units are as large. Smaller values are packed together, and
what is left of a last block is used when no whole one is free any more: nothing is lost.";

/// The options of `koine format`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct FormatArgs {
    /// A file or a block device, or `rocksdb:FOLDER`.
    #[arg(value_name = "STORE", value_parser = store_path::or_rocks())]
    store: PathBuf,
    /// Up to what a file may grow [default: as far as the disk allows].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,
    /// In which blocks values lie: a power of two from 4KiB to 1MiB [default: 4KiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    block_size: Option<u64>,
    /// The most numbered objects (libkoine, `koine::numbered`) that there may be at once, for ever [default: as many as fit].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    object_limit: Option<u64>,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
}

/// Runs `koine format`.
pub fn run(args: &FormatArgs, output: Output) -> Outcome {
    if let Some(place) = args.store.to_str().filter(|place| place.starts_with("rocksdb:")) {
        return format_rocks(place, args, output);
    }
    let options = FormatOptions { size_max: args.size, block_size: args.block_size, force: args.force };
    let made = koine::format(&args.store, &options)?;
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
        "{store} is an empty store now: {}, {limit}, blocks of {}\nTry  koine serve {store}",
        size::show(made.size),
        size::show(made.block_size)
    ))?;
    output.json(&json!({
        "type": "formatted", "store": store.to_string(), "size": made.size, "size_max": made.size_max,
        "block_size": made.block_size, "object_limit": args.object_limit,
    }))
}

/// Makes a store in RocksDB, where there is none.
fn format_rocks(place: &str, args: &FormatArgs, output: Output) -> Outcome {
    if args.size.is_some() || args.block_size.is_some() || args.object_limit.is_some() || args.force {
        let message = "a store in RocksDB has no size, blocks or object limit, and nothing is overwritten: leave these options out";
        return Err(Failure::usage(message));
    }
    match koine::open(place, &OpenOptions::default()) {
        Err(koine::Error::MissingAt(_)) => {}
        Err(error) => return Err(error.into()),
        Ok(store) => {
            store.close()?;
            return Err(Failure::failed(format!("{place} is already a store; nothing was changed")));
        }
    }
    koine::open(place, &OpenOptions { create: true, ..OpenOptions::default() })?.close()?;
    output.people(format!("{place} is an empty store now\nTry  koine serve {place}"))?;
    output.json(&json!({ "type": "formatted", "store": place }))
}
