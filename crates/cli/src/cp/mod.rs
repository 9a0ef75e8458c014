//! `koine cp`: files into buckets, objects out of them, objects between them; of a store or of an S3 server.
//!
//! Invariants:
//! - What arrives is verified end to end: CRC-64/NVME over every byte, or the MD5 of the ETag.
//! - A target appears whole or not at all: uploads complete last, downloads are renamed into place.
//! - Memory is bounded by `--parallel` parts in flight.

mod beside;
mod checksum;
mod copy;
mod download;
mod folder;
pub mod plan;
mod segment;
mod store;
mod upload;

pub use plan::below as file_below;

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use koine::object::{EditOptions, EtagMatch, PutCondition, VersionId};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::holder::{Holder, Reach};
use crate::location::{Door, Location};
use crate::object::range::Range;
use crate::output::{Output, printable};
use crate::size;
use plan::{Filter, Job, LeftOut, Plan, Reading};

const EXAMPLES: &str = "Examples:
  koine cp --store store.koine photo.jpg koine://photos/2026/     one file into a store
  koine cp -r ./photos koine://photos                             a folder and all below it
  koine cp 'koine://photos/2026/*.jpg' ./new/                     all objects of such a name
  koine cp -r --exclude '*.tmp' --dry-run ./photos koine://photos says what would be copied, temporary files left out
  koine cp -r --resume koine://photos ./photos                    goes on where it was interrupted
  koine cp --range 0-99 koine://a/log koine://b/log --offset 500  100 bytes of one object into another, without copying
  koine cp --version ID koine://photos/a.jpg koine://photos/a.jpg   what was put over or deleted is there again
  koine cp -r s3://photos s3://backup/photos                      between buckets, inside an S3 server

Checksums are verified at both ends. Copies between names of one store share their bytes: they cost the same whatever the length.
Over S3 files above --part-size travel in parts, several at once.
What cannot be copied (links to nothing, pipes, sockets, what may not be read) is named; the rest is copied, and the exit code is 1.";

/// The fewest bytes of a part that S3 takes.
const PART_LEN_MIN: u64 = 5 << 20;
/// The most parts of an object.
const PARTS_MAX: u64 = 10_000;

/// The options of `koine cp`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CpArgs {
    /// Local paths, koine://BUCKET/KEY or s3://BUCKET/KEY.
    #[arg(value_name = "FROM", required = true)]
    from: Vec<String>,
    /// Where to; a name that ends with / is a folder.
    #[arg(value_name = "TO")]
    to: String,
    /// Everything below FROM.
    #[arg(short, long)]
    recursive: bool,
    /// Only names below FROM that fit; `*` stands for any text, `/` included. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// No names below FROM that fit. May be given several times, and counts more than --include.
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Say what would be copied, and copy nothing.
    #[arg(long)]
    dry_run: bool,
    /// Pass links in folders over; else they are followed.
    #[arg(long)]
    no_follow_links: bool,
    /// Keys are names as they stand, whatever `*`, `?` and `[` there are in them.
    #[arg(long)]
    exact: bool,
    /// Only where the target is not there. Of a store.
    #[arg(long)]
    if_absent: bool,
    /// Only where the target is an object that is there. Of a store.
    #[arg(long, conflicts_with_all = ["if_absent", "resume"])]
    if_present: bool,
    /// Give objects the MD5 of their bytes as ETag, for clients of S3 that compare it. It takes a core's time. Of a store.
    #[arg(long)]
    md5: bool,
    /// Go on where a copy was interrupted: what is there and has the same checksum is left, files and uploads that were begun are finished.
    /// Of a store.
    #[arg(long, conflicts_with = "if_absent")]
    resume: bool,
    /// Only these bytes of an object: FIRST-LAST, FIRST- or -COUNT. Of a store.
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    range: Option<Range>,
    /// Write into the target from this byte on, and leave the rest as it is. Of a store.
    #[arg(long, value_name = "N")]
    offset: Option<u64>,
    /// This version of an object, as `koine ls --versions` tells it. Of a store.
    #[arg(long, value_name = "ID")]
    version: Option<VersionId>,
    /// How many parts or objects are under way at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
    /// The length of a part; grows by itself for objects of more than 10,000 parts.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size::parse)]
    part_size: u64,
    #[command(flatten)]
    reach: Reach,
}

impl CpArgs {
    /// What has to hold of each target.
    fn condition(&self) -> PutCondition {
        match (self.if_absent, self.if_present) {
            (true, _) => PutCondition::absent(),
            (_, true) => PutCondition { if_match: Some(EtagMatch::Any), ..PutCondition::none() },
            _ => PutCondition::none(),
        }
    }

    /// The same, of a target that is edited.
    fn edit(&self) -> EditOptions {
        EditOptions { condition: self.condition(), ..EditOptions::default() }
    }
}

/// Offset and length of each part of `size` bytes, where one should have `part_len`.
fn parts(size: u64, part_len: u64) -> Vec<(u64, u64)> {
    let least = size.div_ceil(PARTS_MAX).next_multiple_of(1 << 20);
    let length = part_len.max(least).max(1);
    (0..size.div_ceil(length)).map(|index| (index * length, length.min(size - index * length))).collect()
}

/// What the jobs of one command share.
struct Context {
    client: Client,
    permits: Arc<Semaphore>,
    part_len: u64,
    bar: ProgressBar,
}

impl Context {
    /// Waits for one of the places in flight.
    async fn permit(&self) -> Outcome<OwnedSemaphorePermit> {
        let permits = Arc::clone(&self.permits);
        permits.acquire_owned().await.map_err(|_| Failure::failed("stopped"))
    }

    /// The parts of `size` bytes: offset and length of each.
    fn parts(&self, size: u64) -> Vec<(u64, u64)> {
        parts(size, self.part_len)
    }
}

/// Whether the bytes of a finished job could be compared with a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verified {
    Yes,
    /// They were there already and are equal; nothing was copied.
    There,
    /// The server has no checksum of the whole object.
    NothingToCompare,
}

/// Runs `koine cp`.
pub fn run(args: &CpArgs, output: Output) -> Outcome {
    if args.part_size < PART_LEN_MIN {
        return Err(Failure::usage(format!("--part-size {}: parts have 5 MiB or more", args.part_size)));
    }
    let from = args.from.iter().map(|name| Location::parse(name)).collect::<Outcome<Vec<_>>>()?;
    let to = Location::parse(&args.to)?;
    let door = from.iter().chain([&to]).find_map(|name| match name {
        Location::Object { door, .. } => Some(*door),
        Location::Local(_) => None,
    });
    let door = door.unwrap_or(Door::S3);
    let in_place = args.range.is_some() || args.offset.is_some() || args.version.is_some();
    if door == Door::S3 && (args.if_absent || args.if_present || args.md5 || args.resume || in_place) {
        return Err(Failure::usage(
            "--if-absent, --if-present, --md5, --resume, --range, --offset and --version are for koine:// names",
        ));
    }
    if args.if_present && matches!(to, Location::Local(_)) {
        return Err(Failure::usage("--if-present is of a target in a store"));
    }
    let holder = args.reach.open(door)?;
    if let Holder::Store(opened) = &holder
        && in_place
    {
        let done = segment::run(args, opened.objects(), &from, &to, output);
        let closed = holder.close();
        return done.and(closed);
    }
    let reading = Reading {
        recursive: args.recursive,
        exact: args.exact,
        follow: !args.no_follow_links,
        filter: Filter::new(&args.include, &args.exclude)?,
    };
    let Plan { jobs, left_out } = plan::plan(&holder, &from, &to, &reading)?;
    if args.dry_run {
        let told = tell_plan(&Plan { jobs, left_out }, output);
        return told.and(holder.close());
    }
    let left = tell_left_out(&left_out, output)?;
    let total = jobs.iter().map(|job| job.size).sum();
    let bar = output.bytes_bar(total, &printable(&args.from.join(" ")));
    let began = Instant::now();
    let result = match &holder {
        Holder::S3 { client, runtime } => {
            let permits = Arc::new(Semaphore::new(usize::from(args.parallel)));
            let client = client.clone();
            let context = Arc::new(Context { client, permits, part_len: args.part_size, bar: bar.clone() });
            runtime.block_on(run_all(&context, jobs, usize::from(args.parallel), output))
        }
        Holder::Store(opened) => store::run_all(args, opened.objects(), &bar, jobs, output),
    };
    bar.finish_and_clear();
    let told = result.and_then(|mut summary| {
        summary.failed += left;
        summary.tell(began.elapsed().as_secs_f64(), output)
    });
    let closed = holder.close();
    told.and(closed)
}

/// Names what is not copied; how many.
fn tell_left_out(left_out: &[LeftOut], output: Output) -> Outcome<u64> {
    for LeftOut { name, reason } in left_out {
        eprintln!("koine: {}: {reason}", printable(name));
        output.json(&json!({ "type": "left_out", "name": name, "reason": reason }))?;
    }
    Ok(left_out.len() as u64)
}

/// What would be done.
fn tell_plan(plan: &Plan, output: Output) -> Outcome {
    for Job { from, to, size } in &plan.jobs {
        let (from, to) = (from.to_string(), to.to_string());
        output.people(format!("would copy {} to {}, {}", printable(&from), printable(&to), size::show(*size)))?;
        output.json(&json!({ "type": "would_copy", "from": from, "to": to, "bytes": size }))?;
    }
    match tell_left_out(&plan.left_out, output)? {
        0 => Ok(()),
        some => Err(Failure::failed(format!("{some} could not be copied"))),
    }
}

/// What became of all jobs.
#[derive(Default)]
struct Summary {
    copied: u64,
    /// Was there already.
    left: u64,
    bytes: u64,
    unverified: u64,
    failed: u64,
}

impl Summary {
    /// Counts a job; the failure of the only one is that of the command.
    fn note(
        &mut self,
        job: &Job,
        result: Outcome<Verified>,
        single: bool,
        bar: &ProgressBar,
        output: Output,
    ) -> Outcome {
        match result {
            Ok(Verified::There) => self.left += 1,
            Ok(verified) => {
                self.copied += 1;
                self.bytes += job.size;
                self.unverified += u64::from(verified == Verified::NothingToCompare);
                output.json(&json!({
                    "type": "copied", "from": job.from.to_string(), "to": job.to.to_string(), "bytes": job.size,
                }))?;
            }
            Err(failure) if single => return Err(failure),
            Err(failure) => {
                self.failed += 1;
                bar.suspend(|| eprintln!("koine: {}: {failure}", printable(&job.from.to_string())));
            }
        }
        Ok(())
    }

    fn tell(&self, seconds: f64, output: Output) -> Outcome {
        let verified = match self.unverified {
            0 => "checksums verified".to_owned(),
            some => format!("{some} had no checksum to verify"),
        };
        let rate = size::show((self.bytes as f64 / seconds.max(0.001)) as u64);
        let objects = if self.copied == 1 { "object" } else { "objects" };
        let left = if self.left == 0 { String::new() } else { format!(", {} there already", self.left) };
        output.people(format!(
            "{} {objects}, {} in {seconds:.1} s ({rate}/s), {verified}{left}",
            self.copied,
            size::show(self.bytes)
        ))?;
        output.json(&json!({
            "type": "summary", "copied": self.copied, "failed": self.failed, "bytes": self.bytes, "left": self.left,
            "unverified": self.unverified, "seconds": seconds,
        }))?;
        match self.failed {
            0 => Ok(()),
            failed => Err(Failure::failed(format!("{failed} of {} could not be copied", failed + self.copied))),
        }
    }
}

/// Runs the jobs, `parallel` at a time; one that fails does not stop the others.
async fn run_all(context: &Arc<Context>, jobs: Vec<Job>, parallel: usize, output: Output) -> Outcome<Summary> {
    let mut summary = Summary::default();
    let mut running = JoinSet::new();
    let single = jobs.len() == 1;
    let mut waiting = jobs.into_iter();
    loop {
        while running.len() < parallel {
            let Some(job) = waiting.next() else { break };
            let context = Arc::clone(context);
            running.spawn(async move {
                let result = run_one(&context, &job).await;
                (job, result)
            });
        }
        let Some(done) = running.join_next().await else { return Ok(summary) };
        let (job, result) = done.map_err(|error| Failure::failed(format!("a copy broke off: {error}")))?;
        summary.note(&job, result, single, &context.bar, output)?;
    }
}

async fn run_one(context: &Arc<Context>, job: &Job) -> Outcome<Verified> {
    match (&job.from, &job.to) {
        (Location::Local(path), Location::Object { bucket, key, .. }) => upload::run(context, path, bucket, key).await,
        (Location::Object { bucket, key, .. }, Location::Local(path)) => {
            download::run(context, bucket, key, path).await
        }
        (Location::Object { bucket, key, .. }, Location::Object { bucket: to, key: to_key, .. }) => {
            copy::run(context, (bucket, key), (to, to_key)).await
        }
        (Location::Local(_), Location::Local(_)) => Err(Failure::usage("one side must be an object")),
    }
}
