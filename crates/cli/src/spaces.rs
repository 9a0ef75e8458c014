//! `koine spaces`: lists the spaces of a store, and makes and drops branches of them.

use std::path::PathBuf;

use clap::Args;
use koine::{SpaceId, Spaces};
use serde_json::json;

use crate::failure::Outcome;
use crate::output::{Output, printable};
use crate::store_path;

const EXAMPLES: &str = "Examples:
  koine spaces store.koine                          what spaces there are
  koine spaces store.koine --snapshot 18            a snapshot of space 18, under a free id, which is told
  koine spaces store.koine --clone 18 --as 5000000000
  koine spaces store.koine --drop 4294967296

A snapshot or a clone costs one record and a few index nodes, whatever the space holds. `koine stat STORE --space` tells how much
each takes. No server may hold the store (exit code 3 and its pid).";

/// The options of `koine spaces`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SpacesArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// Make a snapshot of this space.
    #[arg(long, value_name = "ID", conflicts_with_all = ["clone", "drop"])]
    snapshot: Option<u64>,
    /// Make a clone of this space, which may be changed.
    #[arg(long, value_name = "ID", conflicts_with = "drop")]
    clone: Option<u64>,
    /// Drop this space and everything in it.
    #[arg(long, value_name = "ID")]
    drop: Option<u64>,
    /// The id of the new space [default: a free one].
    #[arg(long = "as", value_name = "ID", conflicts_with = "drop")]
    id: Option<u64>,
}

/// Runs `koine spaces`.
pub fn run(args: &SpacesArgs, output: Output) -> Outcome {
    if let Some(from) = args.snapshot.or(args.clone) {
        let store = Spaces::open(&args.store, false)?;
        let made = store.branch(SpaceId(from), args.id.map(SpaceId), args.clone.is_some());
        store.close()?;
        let made = made?;
        let kind = if args.clone.is_some() { "clone" } else { "snapshot" };
        output.json(&json!({ "type": kind, "from": from, "space": made.0 }))?;
        return output.people(format!("space {} is a {kind} of space {from}", made.0));
    }
    if let Some(space) = args.drop {
        let store = Spaces::open(&args.store, false)?;
        let dropped = store.drop_space(SpaceId(space));
        store.close()?;
        dropped?;
        output.json(&json!({ "type": "dropped", "space": space }))?;
        return output.people(format!("space {space} was dropped; its room comes back by and by"));
    }
    let store = Spaces::open(&args.store, true)?;
    let names = store.names();
    for info in store.list()? {
        let name = names.get(info.space);
        let kind = if info.is_snapshot { "snapshot" } else { "space" };
        output.json(&json!({
            "type": "space", "space": info.space.0, "snapshot": info.is_snapshot, "created": info.created.0,
            "branched": info.is_branched, "bucket": name,
        }))?;
        let branched = if info.is_branched { ", shares data with others" } else { "" };
        let name = name.map_or_else(String::new, |name| format!(", the bucket {}", printable(name)));
        output.people(format!("{:<12} {kind} made by commit {}{branched}{name}", info.space.0, info.created.0))?;
    }
    Ok(())
}
