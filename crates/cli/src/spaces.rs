//! `koine spaces`: lists the spaces of a store, and makes and drops snapshots and clones of them.
//!
//! Invariant: in JSON an id of a space is a string: it has up to 64 bits, and many readers of JSON keep 53.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use koine::{SpaceId, Spaces};
use serde_json::json;

use crate::failure::Outcome;
use crate::output::{Output, printable};
use crate::store_path;

const EXAMPLES: &str = "Examples:
  koine spaces ls store.koine                          all spaces of a store
  koine spaces snapshot store.koine 18                 a snapshot of space 18; its id is told
  koine spaces clone store.koine 18 --as 5000000000    a clone, which may be changed, with this id
  koine spaces drop store.koine 4294967296

A snapshot or a clone costs one record and a few index nodes, however much the space holds. `koine stat STORE --space` tells how much
each takes. No server may hold the store (exit code 3 and its pid).";

/// The options of `koine spaces`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SpacesArgs {
    #[command(subcommand)]
    verb: SpacesCommand,
}

#[derive(Subcommand, Debug)]
enum SpacesCommand {
    /// List the spaces of a store: id, kind, the commit that made each, whether it shares data with others, its bucket.
    Ls(StoreArgs),
    /// Make a snapshot of a space.
    Snapshot(SpaceBranchArgs),
    /// Make a clone of a space, which may be changed.
    Clone(SpaceBranchArgs),
    /// Drop a space and everything in it.
    Drop(DropArgs),
}

#[derive(Args, Debug)]
struct StoreArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
}

#[derive(Args, Debug)]
struct SpaceBranchArgs {
    #[command(flatten)]
    of: StoreArgs,
    /// The space, by its id.
    #[arg(value_name = "ID")]
    space: u64,
    /// The id of the new space [default: a free one].
    #[arg(long = "as", value_name = "ID")]
    id: Option<u64>,
}

#[derive(Args, Debug)]
struct DropArgs {
    #[command(flatten)]
    of: StoreArgs,
    /// The space, by its id.
    #[arg(value_name = "ID")]
    space: u64,
}

/// Runs `koine spaces`.
pub fn run(args: &SpacesArgs, output: Output) -> Outcome {
    match &args.verb {
        SpacesCommand::Ls(args) => list(args, output),
        SpacesCommand::Snapshot(args) => branch(args, false, output),
        SpacesCommand::Clone(args) => branch(args, true, output),
        SpacesCommand::Drop(args) => drop_space(args, output),
    }
}

fn branch(args: &SpaceBranchArgs, writable: bool, output: Output) -> Outcome {
    let store = Spaces::open(&args.of.store, false)?;
    let made = store.branch(SpaceId(args.space), args.id.map(SpaceId), writable);
    store.close()?;
    let made = made?;
    let kind = if writable { "clone" } else { "snapshot" };
    output.json(&json!({ "type": kind, "from": args.space.to_string(), "space": made.0.to_string() }))?;
    output.people(format!("space {} is a {kind} of space {}", made.0, args.space))
}

fn drop_space(args: &DropArgs, output: Output) -> Outcome {
    let store = Spaces::open(&args.of.store, false)?;
    let dropped = store.drop_space(SpaceId(args.space));
    store.close()?;
    dropped?;
    output.json(&json!({ "type": "dropped", "space": args.space.to_string() }))?;
    output.people(format!("space {} was dropped; its room is freed in the background", args.space))
}

fn list(args: &StoreArgs, output: Output) -> Outcome {
    let store = Spaces::open(&args.store, true)?;
    let names = store.names();
    output.people(format!("{:<20} {:<8} {:>12} {:<6}  bucket", "id", "kind", "commit", "data"))?;
    for info in store.list()? {
        let name = names.get(info.space);
        let kind = if info.is_snapshot { "snapshot" } else { "space" };
        output.json(&json!({
            "type": "space", "space": info.space.0.to_string(), "snapshot": info.is_snapshot, "created": info.created.0,
            "branched": info.is_branched, "bucket": name,
        }))?;
        let shares = if info.is_branched { "shared" } else { "" };
        let name = name.map_or_else(String::new, printable);
        let line = format!("{:<20} {kind:<8} {:>12} {shares:<6}  {name}", info.space.0, info.created.0);
        output.people(line.trim_end())?;
    }
    Ok(())
}
