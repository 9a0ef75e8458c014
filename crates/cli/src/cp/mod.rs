//! `koine cp`: files into buckets, objects out of them, objects between them.
//!
//! Invariants:
//! - What arrives is verified end to end: CRC-64/NVME over every byte, or the MD5 of the ETag.
//! - A target appears whole or not at all: uploads complete last, downloads are renamed into place.
//! - Memory is bounded by `--parallel` parts in flight.

mod checksum;
mod copy;
mod download;
mod plan;
mod upload;

pub use plan::below as file_below;

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::output::{Output, printable};
use crate::remote::Remote;
use crate::size;
use plan::Job;

const EXAMPLES: &str = "Examples:
  koine cp photo.jpg s3://photos/2026/          one file
  koine cp -r ./photos s3://photos              a folder and all below it
  koine cp s3://photos/2026/photo.jpg .         one object back
  koine cp -r s3://photos/2026 ./2026           all objects below a prefix
  koine cp -r s3://photos s3://backup/photos    between buckets, inside the server

Files above --part-size travel in parts, several at once; checksums are verified at both ends.";

/// The fewest bytes of a part that S3 takes.
const PART_LEN_MIN: u64 = 5 << 20;
/// The most parts of an object.
const PARTS_MAX: u64 = 10_000;

/// The options of `koine cp`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CpArgs {
    /// A local path or s3://BUCKET/KEY.
    #[arg(value_name = "FROM")]
    from: String,
    /// A local path or s3://BUCKET/KEY; a name that ends with / is a folder.
    #[arg(value_name = "TO")]
    to: String,
    /// Everything below FROM.
    #[arg(short, long)]
    recursive: bool,
    /// How many parts or objects are under way at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
    /// The length of a part; grows by itself for objects of more than 10,000 parts.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size::parse)]
    part_size: u64,
    #[command(flatten)]
    remote: Remote,
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
        let least = size.div_ceil(PARTS_MAX).next_multiple_of(1 << 20);
        let length = self.part_len.max(least).max(1);
        (0..size.div_ceil(length)).map(|index| (index * length, length.min(size - index * length))).collect()
    }
}

/// Whether the bytes of a finished job could be compared with a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verified {
    Yes,
    /// The server has no checksum of the whole object.
    NothingToCompare,
}

/// Runs `koine cp`.
pub async fn run(args: &CpArgs, output: Output) -> Outcome {
    if args.part_size < PART_LEN_MIN {
        return Err(Failure::usage(format!("--part-size {}: S3 takes parts from 5 MiB on", args.part_size)));
    }
    let from = Location::parse(&args.from)?;
    let to = Location::parse(&args.to)?;
    let client = args.remote.client()?;
    let jobs = plan::jobs(&client, &from, &to, args.recursive).await?;
    let total = jobs.iter().map(|job| job.size).sum();
    let bar = output.bytes_bar(total, &printable(&args.from));
    let permits = Arc::new(Semaphore::new(usize::from(args.parallel)));
    let context = Arc::new(Context { client, permits, part_len: args.part_size, bar });
    let began = Instant::now();
    let result = run_all(&context, jobs, usize::from(args.parallel), output).await;
    context.bar.finish_and_clear();
    result?.tell(began.elapsed().as_secs_f64(), output)
}

/// What became of all jobs.
#[derive(Default)]
struct Summary {
    copied: u64,
    bytes: u64,
    unverified: u64,
    failed: u64,
}

impl Summary {
    fn tell(&self, seconds: f64, output: Output) -> Outcome {
        let verified = match self.unverified {
            0 => "checksums verified".to_owned(),
            some => format!("{some} had no checksum to verify"),
        };
        let rate = size::show((self.bytes as f64 / seconds.max(0.001)) as u64);
        let objects = if self.copied == 1 { "object" } else { "objects" };
        output.people(format!(
            "{} {objects}, {} in {seconds:.1} s ({rate}/s), {verified}",
            self.copied,
            size::show(self.bytes)
        ))?;
        output.json(&json!({
            "type": "summary", "copied": self.copied, "failed": self.failed, "bytes": self.bytes,
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
        match result {
            Ok(verified) => {
                summary.copied += 1;
                summary.bytes += job.size;
                summary.unverified += u64::from(verified == Verified::NothingToCompare);
                output.json(&json!({
                    "type": "copied", "from": job.from.to_string(), "to": job.to.to_string(), "bytes": job.size,
                }))?;
            }
            Err(failure) if single => return Err(failure),
            Err(failure) => {
                summary.failed += 1;
                context.bar.suspend(|| eprintln!("koine: {}: {failure}", printable(&job.from.to_string())));
            }
        }
    }
}

async fn run_one(context: &Arc<Context>, job: &Job) -> Outcome<Verified> {
    match (&job.from, &job.to) {
        (Location::Local(path), Location::S3 { bucket, key }) => upload::run(context, path, bucket, key).await,
        (Location::S3 { bucket, key }, Location::Local(path)) => download::run(context, bucket, key, path).await,
        (Location::S3 { bucket, key }, Location::S3 { bucket: to, key: to_key }) => {
            copy::run(context, (bucket, key), (to, to_key)).await
        }
        (Location::Local(_), Location::Local(_)) => Err(Failure::usage("one side must be s3://BUCKET/KEY")),
    }
}
