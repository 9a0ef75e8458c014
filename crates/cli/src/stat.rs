//! `koine stat`: how full a store is and what it is; with `--space` where its space goes.

mod space;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::failure::Outcome;
use crate::output::Output;
use crate::size;
use crate::store_path;

const EXAMPLES: &str = "Examples:
  koine stat store.koine
  koine stat store.koine --space            buckets, spaces, shared and fragmented space
  koine stat --json /dev/sdx1 | jq .free

With --space the whole index is read, and with it the record of every object; data is not.
Nothing is changed, and no server may hold the store (exit code 3 and its pid).";

/// The options of `koine stat`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct StatArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// Where the space goes: by bucket and by space; what is shared, waits to be used again, or is fragmented.
    #[arg(long)]
    space: bool,
}

/// Runs `koine stat`.
pub fn run(args: &StatArgs, output: Output) -> Outcome {
    let store = koine::inspect(&args.store)?;
    let (usage, info) = (store.usage(), store.info());
    let closed = if info.recovered.clean { "in order" } else { "not in order; the next start recovers it" };
    let limit = usage.limit.map_or_else(|| "as far as the medium goes".to_owned(), size::show);
    let id = format!("{:016x}", info.store_id);
    let rows = [
        ("store", args.store.display().to_string()),
        ("id", id.clone()),
        ("format", info.format.to_string()),
        ("block size", size::show(info.block_len)),
        ("size", size::show(usage.total)),
        ("grows up to", limit),
        ("used", size::show(usage.used)),
        ("free", size::show(usage.free)),
        ("set aside", size::show(usage.promised)),
        ("waiting", size::show(usage.waiting)),
        ("log ring", size::show(info.ring_len)),
        ("last commit", info.version.0.to_string()),
        ("closed", closed.to_owned()),
    ];
    output.people(rows.map(|(name, value)| format!("{name:<12} {value}")).join("\n"))?;
    let detail = args.space.then(|| space::Detail::read(&store)).transpose()?;
    if let Some(detail) = &detail {
        output.people(detail.tell())?;
    }
    let mut value = json!({
        "type": "stat", "store": args.store.display().to_string(), "id": id, "format": info.format,
        "block_size": info.block_len,
        "total": usage.total, "limit": usage.limit, "used": usage.used, "free": usage.free,
        "waiting": usage.waiting, "set_aside": usage.promised, "ring": info.ring_len, "version": info.version.0,
        "closed_in_order": info.recovered.clean, "log_commits": info.recovered.commits,
    });
    if let (Some(detail), Some(object)) = (&detail, value.as_object_mut()) {
        object.insert("space".to_owned(), detail.json());
    }
    output.json(&value)
}
