//! `koine snapshot` and `koine branch`: a bucket as it was, and a bucket that goes on from there.

use clap::{Args, Subcommand};
use koine::object::Objects;
use serde_json::json;

use super::{ObjectUrl, in_store, look_in_store};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::target::{TargetArgs, failed, rfc3339};

const SNAPSHOT_EXAMPLES: &str = "Examples:
  export KOINE_STORE=store.koine
  koine snapshot create koine://photos@monday
  koine ls koine://photos@monday/2026/            read like a bucket, written by nobody
  koine snapshot restore koine://photos@monday    the bucket's content is that of the snapshot again
  koine snapshot rm koine://photos@monday

A snapshot shares its bytes with the bucket; making one costs the same whatever the bucket holds.";

const BRANCH_EXAMPLES: &str = "Examples:
  koine branch --store store.koine koine://photos koine://trial
  koine branch koine://photos@monday koine://again

The new bucket has everything that the old one had at that moment and shares its bytes; afterwards neither sees what the other does.";

/// The options of `koine snapshot`.
#[derive(Args, Debug)]
#[command(after_help = SNAPSHOT_EXAMPLES)]
pub struct SnapshotArgs {
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Subcommand, Debug)]
enum SnapshotCommand {
    /// Keep a bucket as it is now.
    Create(NamedArgs),
    /// List the snapshots of a bucket.
    Ls(SnapshotBucketArgs),
    /// Replace what the bucket has by what the snapshot has.
    Restore(NamedArgs),
    /// Remove a snapshot.
    Rm(NamedArgs),
}

#[derive(Args, Debug)]
struct NamedArgs {
    /// koine://BUCKET@SNAPSHOT.
    #[arg(value_name = "BUCKET@SNAPSHOT")]
    name: String,
    #[command(flatten)]
    reach: TargetArgs,
}

#[derive(Args, Debug)]
struct SnapshotBucketArgs {
    /// koine://BUCKET.
    #[arg(value_name = "BUCKET")]
    bucket: String,
    #[command(flatten)]
    reach: TargetArgs,
}

/// The options of `koine branch`.
#[derive(Args, Debug)]
#[command(after_help = BRANCH_EXAMPLES)]
pub struct BranchArgs {
    /// koine://BUCKET or koine://BUCKET@SNAPSHOT.
    #[arg(value_name = "FROM")]
    from: String,
    /// koine://BUCKET, which is made.
    #[arg(value_name = "TO")]
    to: String,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine snapshot`.
pub fn run(args: &SnapshotArgs, output: Output) -> Outcome {
    match &args.command {
        SnapshotCommand::Create(args) => on_snapshot(args, |objects, bucket, snapshot| {
            let made = objects.snapshot_bucket(bucket, snapshot).wait().map_err(failed)?;
            let text = format!("made the snapshot koine://{bucket}@{}", printable(&made.name));
            output.done(text, &json!({ "type": "snapshot", "bucket": bucket, "snapshot": made.name, "created": rfc3339(made.created) }))
        }),
        SnapshotCommand::Restore(args) => on_snapshot(args, |objects, bucket, snapshot| {
            objects.restore_bucket(bucket, snapshot).wait().map_err(failed)?;
            let text = format!("koine://{bucket} has what its snapshot {} has", printable(snapshot));
            output.done(text, &json!({ "type": "restored", "bucket": bucket, "snapshot": snapshot }))
        }),
        SnapshotCommand::Rm(args) => on_snapshot(args, |objects, bucket, snapshot| {
            objects.delete_snapshot(bucket, snapshot).wait().map_err(failed)?;
            let text = format!("removed the snapshot koine://{bucket}@{}", printable(snapshot));
            output.done(text, &json!({ "type": "removed", "bucket": bucket, "snapshot": snapshot }))
        }),
        SnapshotCommand::Ls(args) => list(args, output),
    }
}

fn on_snapshot(args: &NamedArgs, act: impl FnOnce(&Objects, &str, &str) -> Outcome) -> Outcome {
    let named = ObjectUrl::bucket(&args.name)?;
    let (bucket, snapshot) = named.bucket.split_once('@').ok_or_else(|| {
        Failure::usage(format!("{} does not name a snapshot; write koine://BUCKET@SNAPSHOT", args.name))
    })?;
    in_store(&args.reach, &[&named], |store| act(store.objects(), bucket, snapshot))
}

fn list(args: &SnapshotBucketArgs, output: Output) -> Outcome {
    let named = ObjectUrl::bucket(&args.bucket)?;
    let snapshots =
        look_in_store(&args.reach, &[&named], |store| store.objects().list_snapshots(&named.bucket).map_err(failed))?;
    for snapshot in snapshots {
        let created = rfc3339(snapshot.created);
        output.people(format!("{created}  {}@{}", named.bucket, printable(&snapshot.name)))?;
        output.json(
            &json!({ "type": "snapshot", "bucket": named.bucket, "snapshot": snapshot.name, "created": created }),
        )?;
    }
    Ok(())
}

/// Runs `koine branch`.
pub fn branch(args: &BranchArgs, output: Output) -> Outcome {
    let (from, to) = (ObjectUrl::bucket(&args.from)?, ObjectUrl::bucket(&args.to)?);
    let made = in_store(&args.reach, &[&from, &to], |store| {
        store.objects().branch_bucket(&from.bucket, &to.bucket).wait().map_err(failed)
    })?;
    let text = format!("made koine://{}, which goes on from koine://{}", made.name, from.bucket);
    let value = json!({ "type": "made", "bucket": made.name, "from": from.bucket, "created": rfc3339(made.created) });
    output.done(text, &value)
}
