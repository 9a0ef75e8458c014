//! `koine sync`: makes a folder, a bucket or a part of one like another, wherever the two are.
//!
//! Invariants:
//! - Listings are laid side by side as they come; no list of all names is in memory.
//! - Nothing is deleted before everything is copied, and nothing at all where a part of FROM could not be read.

mod compare;
mod delete;
pub mod diff;
mod sums;
pub mod tree;

use std::sync::mpsc::Receiver;
use std::thread::Scope;
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;

use crate::cp::context::{PART_LEN_MIN, TransferOptions};
use crate::cp::plan::{Filter, Job, LeftOut};
use crate::cp::summary::Summary;
use crate::cp::tell_left_out;
use crate::cp::transfer;
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::output::{Output, printable};
use crate::size;
use crate::target::TargetArgs;
use crate::targets::Targets;
use compare::{Compare, CompareBy, Difference};
use delete::Deleting;
use tree::{Entry, TreeItem, TreeOptions};

const EXAMPLES: &str = "Examples:
  koine sync ./photos koine://photos                          what is new or was changed goes into the store
  koine sync --delete koine://photos s3://photos              and what only the server has is deleted there
  koine sync --dry-run --delete s3://photos lab://photos      says what would be copied and deleted
  koine sync --exclude '*.tmp' --include '2026/*' s3://photos ./photos
  koine diff ./photos koine://photos                          the same comparison, told

Compared is: the size; then ETags, where both sides have one: equal ones are the same, two MD5s that are not are different; then times:
what was changed in FROM after TO is copied. With --size-only the size alone, with --checksum the size and the CRC-64/NVME of all bytes,
which stores and many servers keep; else they are read. The clocks of both sides are taken as equal.
Names that --exclude takes are neither copied nor deleted. Where a part of FROM cannot be read, or has nothing, nothing is deleted.";

/// What is compared, and how.
#[derive(Args, Clone, Debug)]
struct CompareArgs {
    /// Only names that fit; `*` stands for any text, `/` included. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// No names that fit. May be given several times, and counts more than --include.
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Compare sizes alone.
    #[arg(long, conflicts_with = "checksum")]
    size_only: bool,
    /// Compare sizes and checksums of all bytes, whatever the times.
    #[arg(long)]
    checksum: bool,
    /// Pass links in folders over; else they are followed.
    #[arg(long)]
    no_follow_links: bool,
}

impl CompareArgs {
    fn by(&self) -> CompareBy {
        match (self.size_only, self.checksum) {
            (true, _) => CompareBy::Size,
            (_, true) => CompareBy::Checksum,
            _ => CompareBy::Time,
        }
    }

    fn takes_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Both listings, each on a thread.
    fn streams<'scope, 'a: 'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        targets: &'a Targets,
        (from, to): (&'a Location, &'a Location),
        to_may_be_absent: bool,
    ) -> Outcome<(Receiver<TreeItem>, Receiver<TreeItem>)> {
        let reading = TreeOptions {
            filter: Filter::new(&self.include, &self.exclude)?,
            follow: !self.no_follow_links,
            files_only: [from, to].into_iter().any(|place| matches!(place, Location::Local(_))),
            may_be_absent: false,
        };
        let first = tree::stream(scope, targets, from, reading.clone());
        let second = tree::stream(scope, targets, to, TreeOptions { may_be_absent: to_may_be_absent, ..reading });
        Ok((first, second))
    }
}

/// Whether a name has the same bytes in both places.
fn same_bytes(
    targets: &Targets,
    (from, to): (&Location, &Location),
    (first, second): (&Entry, &Entry),
) -> Outcome<bool> {
    let sum = |place: &Location, entry: &Entry| sums::of(targets, &tree::child(place, &entry.name)?);
    Ok(sum(from, first)? == sum(to, second)?)
}

/// The options of `koine sync`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SyncArgs {
    /// A folder, koine://BUCKET/PREFIX, s3://BUCKET/PREFIX or ALIAS://BUCKET/PREFIX.
    #[arg(value_name = "FROM")]
    from: String,
    /// The same; becomes like FROM.
    #[arg(value_name = "TO")]
    to: String,
    /// Delete what only TO has, after everything is copied.
    #[arg(long)]
    delete: bool,
    /// Say what would be copied and deleted, and do nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    comparing: CompareArgs,
    /// How many parts or objects are under way at once.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
    /// The length of a part; grows by itself for objects of more than 10,000 parts.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size::parse)]
    part_size: u64,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine sync`.
pub fn run(args: &SyncArgs, output: Output) -> Outcome {
    let (from, to) = (Location::parse(&args.from)?, Location::parse(&args.to)?);
    tree::check(&from)?;
    tree::check(&to)?;
    if args.part_size < PART_LEN_MIN {
        return Err(Failure::usage(format!("--part-size {}: a part has at least 5 MiB", args.part_size)));
    }
    match (&from, &to) {
        (Location::Local(_), Location::Local(_)) => {
            return Err(Failure::usage(
                "both sides are folders; one must be in a store or on a server (rsync syncs folders)",
            ));
        }
        (Location::Object { .. }, Location::Object { .. }) if within(&from, &to) || within(&to, &from) => {
            return Err(Failure::usage("one side lies inside the other: what was copied would be copied again"));
        }
        _ => {}
    }
    let targets = Targets::open(&args.reach, [&from, &to])?;
    let done = Sync { args, targets: &targets, from: &from, to: &to, output }.run();
    let closed = targets.close();
    done.and(closed)
}

/// Whether a place lies in another, or is it.
fn within(place: &Location, other: &Location) -> bool {
    match (place, other) {
        (
            Location::Object { scheme, bucket, key },
            Location::Object { scheme: other_door, bucket: other_bucket, key: other_key },
        ) => {
            let folder = crate::cp::plan::as_folder;
            scheme == other_door && bucket == other_bucket && folder(key).starts_with(&folder(other_key))
        }
        _ => false,
    }
}

struct Sync<'a> {
    args: &'a SyncArgs,
    targets: &'a Targets,
    from: &'a Location,
    to: &'a Location,
    output: Output,
}

/// What the comparison found beside what is copied.
#[derive(Default)]
struct SyncCounts {
    any_in_from: bool,
    same: u64,
    only_in_to: u64,
    left_out: u64,
    failure: Option<Failure>,
}

impl Sync<'_> {
    fn run(&self) -> Outcome {
        let began = Instant::now();
        let bar = self.output.counter(&printable(&self.args.from));
        let copied = self.copy(&bar);
        bar.finish_and_clear();
        let (mut summary, seen) = copied?;
        if let Location::Object { key, .. } = self.from
            && !seen.any_in_from
            && !key.is_empty()
            && self.args.comparing.takes_all()
        {
            return Err(Failure::missing(format!("{}: no key has this prefix", tree::child(self.from, "")?)));
        }
        summary.left += seen.same;
        summary.failed += seen.left_out;
        if self.args.delete && seen.only_in_to > 0 {
            self.delete(&seen, &mut summary)?;
        }
        if self.args.dry_run {
            let say = format!(
                "would copy {}, would delete {}, {} there already",
                summary.copied, summary.deleted, summary.left
            );
            self.output.people(say)?;
            return match summary.failed {
                0 => Ok(()),
                some => Err(Failure::failed(format!("{some} could not be copied"))),
            };
        }
        summary.tell(began.elapsed().as_secs_f64(), self.output)
    }

    /// Copies what only FROM has and what differs.
    fn copy(&self, bar: &ProgressBar) -> Outcome<(Summary, SyncCounts)> {
        let options = TransferOptions {
            if_absent: false,
            if_present: false,
            md5: false,
            resume: false,
            parallel: usize::from(self.args.parallel),
            part_len: self.args.part_size,
        };
        let mut seen = SyncCounts::default();
        let summary = self.compare(|mut compare| {
            if self.args.dry_run {
                let mut summary = Summary::default();
                while let Some(job) = self.next_job(&mut compare, &mut seen) {
                    self.would_copy(&job)?;
                    summary.copied += 1;
                    summary.bytes += job.size;
                }
                return Ok(summary);
            }
            let jobs = std::iter::from_fn(|| self.next_job(&mut compare, &mut seen));
            transfer::run(&options, self.targets, (jobs, false), bar, self.output)
        })?;
        match seen.failure.take() {
            Some(failure) => Err(failure),
            None => Ok((summary, seen)),
        }
    }

    fn compare<T>(&self, act: impl FnOnce(Compare<'_>) -> Outcome<T>) -> Outcome<T> {
        let places = (self.from, self.to);
        let same_bytes = |first: &Entry, second: &Entry| same_bytes(self.targets, places, (first, second));
        std::thread::scope(|scope| {
            let (first, second) = self.args.comparing.streams(scope, self.targets, places, true)?;
            act(Compare::new(first, second, self.args.comparing.by(), &same_bytes))
        })
    }

    /// The next copy; everything else is noted.
    fn next_job(&self, compare: &mut Compare<'_>, seen: &mut SyncCounts) -> Option<Job> {
        loop {
            let entry = match compare.next() {
                Ok(None) => return None,
                Err(failure) => {
                    seen.failure = Some(failure);
                    return None;
                }
                Ok(Some(Difference::Second(_))) => {
                    seen.only_in_to += 1;
                    continue;
                }
                Ok(Some(Difference::Same)) => {
                    seen.any_in_from = true;
                    seen.same += 1;
                    continue;
                }
                Ok(Some(Difference::LeftOut(left))) => {
                    self.leave_out(left, seen);
                    continue;
                }
                Ok(Some(Difference::First(entry) | Difference::Differs(entry, _))) => entry,
            };
            seen.any_in_from = true;
            match (tree::child(self.from, &entry.name), tree::child(self.to, &entry.name)) {
                (Ok(from), Ok(to)) => return Some(Job { from, to, size: entry.size }),
                (Err(failure), _) | (_, Err(failure)) => {
                    let name = tree::child(self.from, &entry.name).map_or(entry.name, |name| name.to_string());
                    self.leave_out(LeftOut { name, reason: failure.message }, seen);
                }
            }
        }
    }

    fn leave_out(&self, left: LeftOut, seen: &mut SyncCounts) {
        seen.left_out += 1;
        if let Err(failure) = tell_left_out(&[left], self.output) {
            seen.failure = Some(failure);
        }
    }

    fn would_copy(&self, job: &Job) -> Outcome {
        let (from, to) = (job.from.to_string(), job.to.to_string());
        let size = size::show(job.size);
        self.output.people(format!("would copy {} to {}, {size}", printable(&from), printable(&to)))?;
        self.output.json(&json!({ "type": "would_copy", "from": from, "to": to, "bytes": job.size }))
    }

    /// Deletes what only TO has, by a comparison of its own: no list of names was kept.
    fn delete(&self, seen: &SyncCounts, summary: &mut Summary) -> Outcome {
        if seen.left_out > 0 {
            eprintln!(
                "koine: nothing was deleted: a part of {} could not be read or copied",
                printable(&self.args.from)
            );
            return Ok(());
        }
        if !seen.any_in_from {
            summary.failed += 1;
            eprintln!(
                "koine: nothing was deleted: {} has nothing to compare with; koine rm -r empties {}",
                printable(&self.args.from),
                printable(&self.args.to)
            );
            return Ok(());
        }
        let (targets, place, dry_run, output) = (self.targets, self.to, self.args.dry_run, self.output);
        let mut deleting = Deleting { targets, place, dry_run, output, summary, names: Vec::new() };
        self.compare(|mut compare| {
            while let Some(found) = compare.next()? {
                match found {
                    Difference::Second(entry) => deleting.add(entry.name)?,
                    Difference::LeftOut(left) => {
                        let why = format!("{}: {}; what was not deleted yet stays", left.name, left.reason);
                        return Err(Failure::failed(why));
                    }
                    _ => {}
                }
            }
            deleting.flush()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_another_is_seen() {
        let check = |place: &str, other: &str, is: bool| {
            let parse = |text| Location::parse(text).unwrap();
            assert_eq!(within(&parse(place), &parse(other)), is, "{place} {other}");
        };
        check("s3://b/a", "s3://b", true);
        check("s3://b/a", "s3://b/a/", true);
        check("s3://b/ab", "s3://b/a", false);
        check("s3://b/a", "koine://b/a", false);
        check("s3://b", "s3://b/a", false);
    }
}
