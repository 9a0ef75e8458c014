//! `koine mb` and `koine rb`: buckets are made and removed.

use clap::Args;
use serde_json::json;

use super::{ObjectUrl, in_store};
use crate::client::Listed;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::target::{Target, TargetArgs, failed};

const MAKE_EXAMPLES: &str = "Examples:
  koine mb --store store.koine koine://photos
  koine mb s3://photos s3://backup            on an S3 server";

const REMOVE_EXAMPLES: &str = "Examples:
  koine rb --store store.koine koine://photos     an empty bucket
  koine rb --force koine://photos                 with all that is in it
  koine rb --force --group lab                    all buckets of a group, with all that is in them";

/// How many objects are deleted at once.
const DELETE_LEN: usize = 1000;

/// The options of `koine mb`.
#[derive(Args, Debug)]
#[command(after_help = MAKE_EXAMPLES)]
pub struct BucketMakeArgs {
    /// koine://BUCKET or s3://BUCKET.
    #[arg(value_name = "BUCKET", required = true)]
    buckets: Vec<String>,
    #[command(flatten)]
    reach: TargetArgs,
}

/// The options of `koine rb`.
#[derive(Args, Debug)]
#[command(after_help = REMOVE_EXAMPLES)]
pub struct BucketRemoveArgs {
    /// koine://BUCKET or s3://BUCKET.
    #[arg(value_name = "BUCKET", required_unless_present = "group")]
    buckets: Vec<String>,
    /// Delete the objects in it first.
    #[arg(long)]
    force: bool,
    /// All buckets of this group, with all that they hold and their snapshots.
    #[arg(long, value_name = "GROUP", conflicts_with = "buckets", requires = "force")]
    group: Option<String>,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine mb`.
pub fn make(args: &BucketMakeArgs, output: Output) -> Outcome {
    each(&args.buckets, &args.reach, |target, bucket| {
        target.create_bucket(&bucket.bucket)?;
        output.done(
            format!("made {}{}", bucket.scheme.prefix(), bucket.bucket),
            &json!({ "type": "made", "bucket": bucket.bucket }),
        )
    })
}

/// Runs `koine rb`.
pub fn remove(args: &BucketRemoveArgs, output: Output) -> Outcome {
    if let Some(group) = &args.group {
        let gone = in_store(&args.reach, &[], |store| store.objects().delete_buckets_of(group).map_err(failed))?;
        let buckets = if gone == 1 { "bucket" } else { "buckets" };
        let text = format!("removed {gone} {buckets} of the group {}", printable(group));
        return output.done(text, &json!({ "type": "removed", "group": group, "buckets": gone }));
    }
    each(&args.buckets, &args.reach, |target, bucket| {
        if args.force {
            empty(target, &bucket.bucket)?;
        }
        target.delete_bucket(&bucket.bucket)?;
        let text = format!("removed {}{}", bucket.scheme.prefix(), bucket.bucket);
        output.done(text, &json!({ "type": "removed", "bucket": bucket.bucket }))
    })
}

/// Does it for each bucket; those behind one that failed are left alone.
fn each(buckets: &[String], reach: &TargetArgs, mut act: impl FnMut(&Target, &ObjectUrl) -> Outcome) -> Outcome {
    let buckets = buckets.iter().map(|text| ObjectUrl::bucket(text)).collect::<Outcome<Vec<_>>>()?;
    let Some(first) = buckets.first() else { return Ok(()) };
    if buckets.iter().any(|bucket| bucket.scheme != first.scheme) {
        return Err(Failure::usage("names of a store and of servers cannot be mixed here: use one command for each"));
    }
    let target = reach.open(&first.scheme)?;
    let done = buckets.iter().try_for_each(|bucket| act(&target, bucket));
    let closed = target.close();
    done.and(closed)
}

/// Deletes all objects of a bucket.
fn empty(target: &Target, bucket: &str) -> Outcome {
    if let Target::Store(store) = target {
        // Before anything goes: a bucket with snapshots would stay, emptied.
        if let Some(snapshot) = store.objects().list_snapshots(bucket).map_err(failed)?.first() {
            let name = &snapshot.name;
            return Err(Failure::failed(format!(
                "{bucket} has snapshots, {name} among them; nothing was changed. Remove them first: koine snapshot rm koine://{bucket}@{name}"
            )));
        }
        store.objects().purge_bucket(bucket).wait().map_err(failed)?;
        return Ok(());
    }
    loop {
        // From the beginning each time: what was deleted is not listed again.
        let page = target.list(bucket, "", "", None)?;
        let keys: Vec<String> = page.entries.iter().map(Listed::name).map(str::to_owned).collect();
        if keys.is_empty() {
            return Ok(());
        }
        keys.chunks(DELETE_LEN).try_for_each(|keys| target.delete(bucket, keys))?;
    }
}
