//! `koine cp`: files into buckets, objects out of them, objects between them; of a store or of S3 servers.
//!
//! Invariants:
//! - What arrives is verified end to end: CRC-64/NVME over every byte, or the MD5 of the ETag.
//! - A target appears whole or not at all: uploads complete last, downloads are renamed into place.
//! - Memory is bounded by `--parallel` parts in flight.

mod across;
pub mod checksum;
pub mod context;
mod download;
pub mod folder;
mod part_file;
pub mod plan;
mod segment;
mod server_copy;
pub mod store_copy;
pub mod summary;
pub mod transfer;
mod upload;

pub use plan::below as file_below;

use std::time::Instant;

use clap::Args;
use koine::object::VersionId;
use serde_json::json;

use crate::byte_range::RangeArg;
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::output::{Output, printable};
use crate::size;
use crate::target::TargetArgs;
use crate::targets::Targets;
use context::{PART_LEN_MIN, TransferOptions};
use plan::{Filter, Job, LeftOut, Plan, ReadOptions};
use summary::Summary;

const EXAMPLES: &str = "Examples:
  koine cp --store store.koine photo.jpg koine://photos/2026/     one file into a store
  koine cp -r ./photos koine://photos                             a folder and all below it
  koine cp 'koine://photos/2026/*.jpg' ./new/                     all objects of such a name
  koine cp -r --exclude '*.tmp' --dry-run ./photos koine://photos says what would be copied, temporary files left out
  koine cp -r --resume koine://photos ./photos                    goes on where it was interrupted
  koine cp --range 0-99 koine://a/log koine://b/log --offset 500  100 bytes of one object into another, without copying
  koine cp --version ID koine://photos/a.jpg koine://photos/a.jpg   what was put over or deleted is there again
  koine cp -r s3://photos s3://backup/photos                      between buckets, inside an S3 server
  koine cp -r koine://photos s3://photos                          from a store to an S3 server, and back the other way round
  koine cp -r lab://photos s3://photos                            from one server to another (koine alias set lab URL)

Checksums are verified at both ends. Copies between names of one store share their bytes: they cost the same whatever the length.
Over S3 what is longer than --part-size travels in parts, several at once. Between a store and a server, or two servers, the bytes
go through this program, at most --parallel parts at a time; headers, metadata and tags go with them.
What cannot be copied (links to nothing, pipes, sockets, what may not be read) is named; the rest is copied, and the exit code is 1.";

/// The options of `koine cp`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CpArgs {
    /// Local paths, koine://BUCKET/KEY, s3://BUCKET/KEY, or ALIAS://BUCKET/KEY (see koine alias).
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
    /// Only where the target is not there. For targets in a store, and files out of one.
    #[arg(long)]
    if_absent: bool,
    /// Only where the target is an object that is there. For targets in a store.
    #[arg(long, conflicts_with_all = ["if_absent", "resume"])]
    if_present: bool,
    /// Give objects the MD5 of their bytes as ETag, for clients of S3 that compare it. It takes a core's time. For targets in a store.
    #[arg(long)]
    md5: bool,
    /// Go on where a copy was interrupted: what is there and has the same checksum is left, files and uploads that were begun are finished.
    /// Of a store.
    #[arg(long, conflicts_with = "if_absent")]
    resume: bool,
    /// Only these bytes of an object: FIRST-LAST, FIRST- or -COUNT. Of a store.
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    range: Option<RangeArg>,
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
    reach: TargetArgs,
}

impl CpArgs {
    fn options(&self) -> TransferOptions {
        TransferOptions {
            if_absent: self.if_absent,
            if_present: self.if_present,
            md5: self.md5,
            resume: self.resume,
            parallel: usize::from(self.parallel),
            part_len: self.part_size,
        }
    }

    fn in_place(&self) -> bool {
        self.range.is_some() || self.offset.is_some() || self.version.is_some()
    }

    /// Whether what is asked for can be had of the places named.
    fn check(&self, from: &[Location], to: &Location) -> Outcome {
        if self.part_size < PART_LEN_MIN {
            return Err(Failure::usage(format!("--part-size {}: a part has at least 5 MiB", self.part_size)));
        }
        let server = |name: &Location| matches!(name, Location::Object { scheme, .. } if scheme.is_server());
        let from_server = from.iter().any(server);
        if (self.resume || self.in_place()) && (from_server || server(to)) {
            return Err(Failure::usage(
                "--resume, --range, --offset and --version are for koine:// names alone; koine sync copies what is missing or differs",
            ));
        }
        let into_store = matches!(to, Location::Object { .. }) && !server(to);
        if (self.if_absent || self.if_present || self.md5) && !into_store && (from_server || server(to)) {
            return Err(Failure::usage(
                "--if-absent, --if-present and --md5 are for targets in a store, koine://BUCKET/KEY",
            ));
        }
        if self.if_present && matches!(to, Location::Local(_)) {
            return Err(Failure::usage("--if-present applies to targets in a store"));
        }
        Ok(())
    }
}

/// Runs `koine cp`.
pub fn run(args: &CpArgs, output: Output) -> Outcome {
    let from = args.from.iter().map(|name| Location::parse(name)).collect::<Outcome<Vec<_>>>()?;
    let to = Location::parse(&args.to)?;
    args.check(&from, &to)?;
    let targets = Targets::open(&args.reach, from.iter().chain([&to]))?;
    let done = copy(args, &targets, &from, &to, output);
    let closed = targets.close();
    done.and(closed)
}

fn copy(args: &CpArgs, targets: &Targets, from: &[Location], to: &Location, output: Output) -> Outcome {
    if let Some(store) = targets.store()
        && args.in_place()
    {
        return segment::run(args, store.objects(), from, to, output);
    }
    let reading = ReadOptions {
        recursive: args.recursive,
        exact: args.exact,
        follow: !args.no_follow_links,
        filter: Filter::new(&args.include, &args.exclude)?,
    };
    let plan = plan::plan(targets, from, to, &reading)?;
    if args.dry_run {
        return tell_plan(&plan, output);
    }
    let Plan { jobs, left_out } = plan;
    let left = tell_left_out(&left_out, output)?;
    let total = jobs.iter().map(|job| job.size).sum();
    let bar = output.bytes_bar(total, &printable(&args.from.join(" ")));
    let began = Instant::now();
    let (options, single) = (args.options(), jobs.len() == 1);
    let (by_server, inside): (Vec<_>, Vec<_>) = jobs.into_iter().partition(transfer::by_server);
    let result = [inside, by_server].into_iter().try_fold(Summary::default(), |summary, jobs| {
        let more = transfer::run(&options, targets, (jobs.into_iter(), single), &bar, output)?;
        Ok::<_, Failure>(summary.and(more))
    });
    bar.finish_and_clear();
    let mut summary = result?;
    summary.failed += left;
    summary.tell(began.elapsed().as_secs_f64(), output)
}

/// Names what is not copied; how many.
pub fn tell_left_out(left_out: &[LeftOut], output: Output) -> Outcome<u64> {
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
