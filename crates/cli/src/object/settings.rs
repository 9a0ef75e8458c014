//! `koine bucket set` and `koine bucket index`: what a bucket keeps of its objects and of itself.

use clap::{Args, Subcommand, ValueEnum};
use koine::object::{AccessTimes, BucketChange, IndexInfo, Indexed, Objects};
use serde_json::{Value, json};

use super::set::{change, entry};
use super::{ObjectUrl, in_store, info};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::size::{self, Limit};
use crate::target::{TargetArgs, failed};

/// The options of `koine bucket set`.
#[derive(Args, Debug)]
pub struct BucketSetArgs {
    /// koine://BUCKET.
    #[arg(value_name = "BUCKET")]
    bucket: String,
    /// Whether it is kept when objects were last read.
    #[arg(long, value_name = "KIND")]
    access_times: Option<AccessTimeMode>,
    /// An entry of its metadata.
    #[arg(long, value_name = "NAME=VALUE", value_parser = entry)]
    metadata: Vec<(String, String)>,
    /// An entry of its metadata that goes.
    #[arg(long, value_name = "NAME")]
    remove_metadata: Vec<String>,
    /// A tag.
    #[arg(long, value_name = "NAME=VALUE", value_parser = entry)]
    tag: Vec<(String, String)>,
    /// A tag that goes.
    #[arg(long, value_name = "NAME")]
    remove_tag: Vec<String>,
    /// The most bytes that it may hold, as in 10GiB; `none` for no limit.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_limit)]
    quota_bytes: Option<Limit>,
    /// The most objects that it may hold; `none` for no limit.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    quota_objects: Option<Limit>,
    #[command(flatten)]
    reach: TargetArgs,
}

fn count(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => {
            text.parse().map(|count| Limit(Some(count))).map_err(|_| format!("{text:?} is not a number of objects"))
        }
    }
}

/// What is kept of reads.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AccessTimeMode {
    /// Nothing.
    Off,
    /// A time, which is renewed where it is older than the last change, or older than a day.
    Relative,
}

/// Runs `koine bucket set`.
pub fn set(args: &BucketSetArgs, output: Output) -> Outcome {
    let named = ObjectUrl::bucket(&args.bucket)?;
    let change = BucketChange {
        access_times: args.access_times.map(|kept| match kept {
            AccessTimeMode::Off => AccessTimes::Off,
            AccessTimeMode::Relative => AccessTimes::Relative,
        }),
        metadata: change(&args.metadata, &args.remove_metadata),
        tags: change(&args.tag, &args.remove_tag),
        quota_bytes: args.quota_bytes.map(|limit| limit.0),
        quota_objects: args.quota_objects.map(|limit| limit.0),
        ..BucketChange::default()
    };
    if change == BucketChange::default() {
        return Err(Failure::usage("nothing to set; see koine bucket set --help"));
    }
    let value = in_store(&args.reach, &[&named], |store| {
        store.objects().set_bucket(&named.bucket, change).wait().map_err(failed)?;
        info::bucket(store.objects(), &named.bucket)
    })?;
    output.people(format!("changed {}", printable(&args.bucket)))?;
    output.json(&value)
}

/// The options of `koine bucket index`.
#[derive(Args, Debug)]
pub struct IndexArgs {
    #[command(subcommand)]
    command: IndexCommand,
}

#[derive(Subcommand, Debug)]
enum IndexCommand {
    /// Add an index and build it, or build one to its end whose building was interrupted; others may write meanwhile.
    Add(OfArgs),
    /// Take an index away.
    Rm(OfArgs),
    /// List the indexes of a bucket.
    Ls(IndexBucketArgs),
}

#[derive(Args, Debug)]
struct OfArgs {
    /// koine://BUCKET.
    #[arg(value_name = "BUCKET")]
    bucket: String,
    /// Over an entry of metadata.
    #[arg(long, value_name = "NAME", required_unless_present = "tag", conflicts_with = "tag")]
    metadata: Option<String>,
    /// Over a tag.
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    #[command(flatten)]
    reach: TargetArgs,
}

#[derive(Args, Debug)]
struct IndexBucketArgs {
    /// koine://BUCKET or koine://BUCKET@SNAPSHOT.
    #[arg(value_name = "BUCKET")]
    bucket: String,
    #[command(flatten)]
    reach: TargetArgs,
}

impl OfArgs {
    fn of(&self) -> Outcome<Indexed> {
        match (&self.metadata, &self.tag) {
            (Some(name), _) => Ok(Indexed::Metadata(name.clone())),
            (None, Some(name)) => Ok(Indexed::Tag(name.clone())),
            (None, None) => Err(Failure::usage("say what to index: --metadata or --tag")),
        }
    }
}

/// Runs `koine bucket index`.
pub fn index(args: &IndexArgs, output: Output) -> Outcome {
    match &args.command {
        IndexCommand::Add(args) => on_index(args, |objects, bucket, of| {
            let added = objects.add_index(bucket, of).map_err(failed)?;
            let text =
                format!("koine://{bucket} has an index over the {} {}", kind(&added.of), printable(added.of.name()));
            output.done(text, &shown(bucket, &added))
        }),
        IndexCommand::Rm(args) => on_index(args, |objects, bucket, of| {
            objects.drop_index(bucket, of.clone()).wait().map_err(failed)?;
            let text = format!("removed the index of koine://{bucket} over the {} {}", kind(&of), printable(of.name()));
            output.done(text, &json!({ "type": "removed", "bucket": bucket, "of": kind(&of), "name": of.name() }))
        }),
        IndexCommand::Ls(args) => {
            let named = ObjectUrl::bucket(&args.bucket)?;
            in_store(&args.reach, &[&named], |store| {
                let indexes = store.objects().indexes(&named.bucket).map_err(failed)?;
                indexes.iter().try_for_each(|index| {
                    let state = if index.whole { "" } else { "  being built, or interrupted: add it again" };
                    output.people(format!("{:8}  {}{state}", kind(&index.of), printable(index.of.name())))?;
                    output.json(&shown(&named.bucket, index))
                })
            })
        }
    }
}

fn on_index(args: &OfArgs, act: impl FnOnce(&Objects, &str, Indexed) -> Outcome) -> Outcome {
    let (named, of) = (ObjectUrl::bucket(&args.bucket)?, args.of()?);
    in_store(&args.reach, &[&named], |store| act(store.objects(), &named.bucket, of))
}

fn kind(of: &Indexed) -> &'static str {
    match of {
        Indexed::Metadata(_) => "metadata",
        Indexed::Tag(_) => "tag",
    }
}

fn shown(bucket: &str, index: &IndexInfo) -> Value {
    let (of, name) = (kind(&index.of), index.of.name());
    json!({ "type": "index", "bucket": bucket, "of": of, "name": name, "whole": index.whole })
}
