//! `koine du`: how many bytes and objects lie below places, from their listings.
//!
//! Invariant: a listing is in the order of names, so what is below a level is over when the next level begins: only the
//! levels that an object lies in are in memory.

use std::ops::ControlFlow;

use clap::Args;
use serde_json::json;

use crate::client::Listed;
use crate::cp::plan::Filter;
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::output::{Output, printable};
use crate::size;
use crate::sync::tree::{self, TreeItem, TreeOptions};
use crate::target::TargetArgs;
use crate::targets::Targets;

const EXAMPLES: &str = "Examples:
  koine du koine://                       every bucket of a store (KOINE_STORE is set), and all together
  koine du --depth 1 koine://photos       a bucket, and each folder in it
  koine du s3://photos/2026 ./photos      a prefix of a bucket and a local folder
  koine du --json --depth 2 s3://photos | jq 'select(.bytes > 1e9) | .name'

Counted are the objects that a listing tells, their bytes as they are read: not older versions, uploads that were begun,
or what a store shares (koine stat STORE --space tells that).";

/// The options of `koine du`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DuArgs {
    /// koine://, koine://BUCKET/PREFIX, s3:// or ALIAS:// in place of koine://, or a folder
    /// [default: koine:// where a store is named, else s3://].
    #[arg(value_name = "LOCATION")]
    locations: Vec<String>,
    /// Also the folders this many levels below.
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    depth: usize,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine du`.
pub fn run(args: &DuArgs, output: Output) -> Outcome {
    let default = [if args.reach.names_store() { "koine://" } else { "s3://" }.to_owned()];
    let texts = if args.locations.is_empty() { &default[..] } else { &args.locations[..] };
    let places = texts.iter().map(|text| Location::parse(text)).collect::<Outcome<Vec<_>>>()?;
    let targets = Targets::look(&args.reach, &places)?;
    let mut left_out = 0;
    let done = places.iter().try_for_each(|place| tell(args, &targets, place, &mut left_out, output));
    let closed = targets.close();
    done.and(closed)?;
    if left_out == 0 { Ok(()) } else { Err(Failure::failed(format!("{left_out} could not be read"))) }
}

fn tell(args: &DuArgs, targets: &Targets, place: &Location, left_out: &mut u64, output: Output) -> Outcome {
    let Location::Object { scheme, bucket, .. } = place else {
        return measure(targets, place, args.depth, left_out, output).map(drop);
    };
    if !bucket.is_empty() {
        return measure(targets, place, args.depth, left_out, output).map(drop);
    }
    let mut all = Usage::default();
    for listed in targets.of(scheme)?.buckets(None)? {
        let Listed::Bucket { name, .. } = listed else { continue };
        let bucket = Location::Object { scheme: scheme.clone(), bucket: name, key: String::new() };
        all.add(measure(targets, &bucket, args.depth, left_out, output)?);
    }
    show(&scheme.prefix(), all, output)
}

/// Objects and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    objects: u64,
    bytes: u64,
}

impl Usage {
    fn add(&mut self, more: Usage) {
        self.objects = self.objects.saturating_add(more.objects);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

fn measure(targets: &Targets, place: &Location, depth: usize, left_out: &mut u64, output: Output) -> Outcome<Usage> {
    let reading = TreeOptions { filter: Filter::default(), follow: false, files_only: false, may_be_absent: false };
    let name = place.to_string();
    let base = if name.ends_with('/') { name.clone() } else { format!("{name}/") };
    let mut told = Ok(());
    let mut levels = UsageByLevel::new(depth, |folder: &str, usage| {
        if told.is_ok() {
            told = show(&format!("{base}{folder}"), usage, output);
        }
    });
    tree::each(targets, place, &reading, |told| {
        match told {
            TreeItem::Entry(entry) => levels.add(&entry.name, entry.size),
            TreeItem::LeftOut(left) => {
                *left_out += 1;
                eprintln!("koine: {}: {}", printable(&left.name), left.reason);
            }
            TreeItem::Failed(_) => {}
        }
        ControlFlow::Continue(())
    })?;
    let all = levels.finish();
    told?;
    show(&name, all, output)?;
    Ok(all)
}

fn show(name: &str, usage: Usage, output: Output) -> Outcome {
    let Usage { objects, bytes } = usage;
    output.people(format!("{:>10} {objects:>12}  {}", size::show(bytes), printable(name)))?;
    output.json(&json!({ "type": "usage", "name": name, "objects": objects, "bytes": bytes }))
}

/// The levels that the entry before lies in, each with what is known to be below it.
struct UsageByLevel<F> {
    depth: usize,
    /// From the top; the first has no name and is the place itself.
    open: Vec<(String, Usage)>,
    /// Takes a level that is over.
    tell: F,
}

impl<F: FnMut(&str, Usage)> UsageByLevel<F> {
    fn new(depth: usize, tell: F) -> Self {
        UsageByLevel { depth, open: vec![(String::new(), Usage::default())], tell }
    }

    fn add(&mut self, name: &str, bytes: u64) {
        while self.open.len() > 1 && !self.open.last().is_some_and(|(folder, _)| name.starts_with(folder.as_str())) {
            self.close();
        }
        while self.open.len() <= self.depth {
            let from = self.open.last().map_or(0, |(folder, _)| folder.len());
            let Some(slash) = name.get(from..).and_then(|rest| rest.find('/')) else { break };
            let folder = name.get(..=from + slash).unwrap_or_default().to_owned();
            self.open.push((folder, Usage::default()));
        }
        if let Some((_, usage)) = self.open.last_mut() {
            usage.add(Usage { objects: 1, bytes });
        }
    }

    fn close(&mut self) {
        let Some((folder, usage)) = self.open.pop() else { return };
        (self.tell)(&folder, usage);
        if let Some((_, above)) = self.open.last_mut() {
            above.add(usage);
        }
    }

    /// All that was added.
    fn finish(mut self) -> Usage {
        while self.open.len() > 1 {
            self.close();
        }
        self.open.pop().map(|(_, usage)| usage).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_told_when_they_are_over() {
        let check = |depth: usize, expected: &[(&str, u64, u64)]| {
            let mut told = Vec::new();
            let mut levels = UsageByLevel::new(depth, |name: &str, usage: Usage| told.push((name.to_owned(), usage)));
            for (name, bytes) in [("a", 1), ("b/c/d", 2), ("b/c/e", 4), ("b/f", 8), ("ba/x", 16), ("g/h/i/j", 32)] {
                levels.add(name, bytes);
            }
            assert_eq!(levels.finish(), Usage { objects: 6, bytes: 63 });
            let told: Vec<_> = told.iter().map(|(name, usage)| (name.as_str(), usage.objects, usage.bytes)).collect();
            assert_eq!(told, expected);
        };
        check(0, &[]);
        check(1, &[("b/", 3, 14), ("ba/", 1, 16), ("g/", 1, 32)]);
        check(2, &[("b/c/", 2, 6), ("b/", 3, 14), ("ba/", 1, 16), ("g/h/", 1, 32), ("g/", 1, 32)]);
    }
}
