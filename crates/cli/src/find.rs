//! `koine find`: lists what is below places and fits; it changes nothing.

use std::ops::ControlFlow;

use clap::Args;
use glob::MatchOptions;
use serde_json::json;

use crate::client::Listed;
use crate::cp::plan::Filter;
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::moment;
use crate::output::{Output, listing_row, printable};
use crate::size;
use crate::sync::tree::{self, Entry, TreeItem, TreeOptions};
use crate::target::TargetArgs;
use crate::targets::Targets;

const EXAMPLES: &str = "Examples:
  koine find --name '*.jpg' koine://photos                     by the last part of names
  koine find --name '2026/**/*.jpg' s3://photos                by whole names, where the pattern has a /
  koine find --larger 1GiB --older 30d s3://                   in all buckets of a server
  koine find --newer 2026-01-31 --long koine://photos/2026     with sizes and times
  koine find --smaller 1B s3://photos | xargs -d '\\n' koine rm --exact

All that is given has to fit; of several --name one has to. Nothing found is no failure. koine search finds by metadata and tags.";

/// The options of `koine find`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct FindArgs {
    /// koine://, koine://BUCKET/PREFIX, s3:// or ALIAS:// in place of koine://, or a folder
    /// [default: koine:// where a store is named, else s3://].
    #[arg(value_name = "LOCATION")]
    locations: Vec<String>,
    /// Names that fit: `*` and `?` within a level, `**` over levels, `[a-z]`. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    name: Vec<String>,
    /// Longer than this.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    larger: Option<u64>,
    /// Shorter than this.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    smaller: Option<u64>,
    /// Last changed before: how long ago (12h, 30d), a date or a time.
    #[arg(long, value_name = "MOMENT", value_parser = moment::moment)]
    older: Option<i64>,
    /// Last changed after: how long ago (12h, 30d), a date or a time.
    #[arg(long, value_name = "MOMENT", value_parser = moment::moment)]
    newer: Option<i64>,
    /// With sizes and times.
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine find`.
pub fn run(args: &FindArgs, output: Output) -> Outcome {
    let default = [if args.reach.names_store() { "koine://" } else { "s3://" }.to_owned()];
    let texts = if args.locations.is_empty() { &default[..] } else { &args.locations[..] };
    let places = texts.iter().map(|text| Location::parse(text)).collect::<Outcome<Vec<_>>>()?;
    let wanted = FindFilter::new(args)?;
    let targets = Targets::look(&args.reach, &places)?;
    let mut left_out = 0;
    let done = places.iter().try_for_each(|place| match place {
        Location::Object { scheme, bucket, .. } if bucket.is_empty() => {
            targets.of(scheme)?.buckets(None)?.iter().try_for_each(|listed| {
                let Listed::Bucket { name, .. } = listed else { return Ok(()) };
                let bucket = Location::Object { scheme: scheme.clone(), bucket: name.clone(), key: String::new() };
                find(&wanted, &targets, &bucket, &mut left_out, output)
            })
        }
        place => find(&wanted, &targets, place, &mut left_out, output),
    });
    let closed = targets.close();
    done.and(closed)?;
    if left_out == 0 { Ok(()) } else { Err(Failure::failed(format!("{left_out} could not be read"))) }
}

/// What is looked for.
struct FindFilter<'a> {
    args: &'a FindArgs,
    names: Vec<glob::Pattern>,
}

impl<'a> FindFilter<'a> {
    fn new(args: &'a FindArgs) -> Outcome<Self> {
        let parse = |text: &String| {
            glob::Pattern::new(text)
                .map_err(|error| Failure::usage(format!("--name {text:?} is not a valid pattern: {error}")))
        };
        Ok(FindFilter { args, names: args.name.iter().map(parse).collect::<Outcome<_>>()? })
    }

    fn takes(&self, entry: &Entry) -> bool {
        let FindArgs { larger, smaller, older, newer, .. } = self.args;
        let last = entry.name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let options =
            MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };
        let named = self.names.iter().any(|pattern| {
            let name = if pattern.as_str().contains('/') { entry.name.as_str() } else { last };
            pattern.matches_with(name, options)
        });
        // What has no time is neither older nor newer.
        let at = |fits: &dyn Fn(i64) -> bool| entry.modified.is_some_and(fits);
        (self.names.is_empty() || named)
            && larger.is_none_or(|size| entry.size > size)
            && smaller.is_none_or(|size| entry.size < size)
            && older.is_none_or(|moment| at(&|modified| modified < moment))
            && newer.is_none_or(|moment| at(&|modified| modified > moment))
    }
}

fn find(wanted: &FindFilter<'_>, targets: &Targets, place: &Location, left_out: &mut u64, output: Output) -> Outcome {
    let reading = TreeOptions { filter: Filter::default(), follow: false, files_only: false, may_be_absent: false };
    let base = place.to_string();
    let base = if base.ends_with('/') { base } else { format!("{base}/") };
    let mut shown = Ok(());
    tree::each(targets, place, &reading, |told| {
        match told {
            TreeItem::Entry(entry) if wanted.takes(&entry) => shown = show(&base, &entry, wanted.args.long, output),
            TreeItem::LeftOut(left) => {
                *left_out += 1;
                eprintln!("koine: {}: {}", printable(&left.name), left.reason);
            }
            TreeItem::Entry(_) | TreeItem::Failed(_) => {}
        }
        if shown.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    shown
}

fn show(base: &str, entry: &Entry, long: bool, output: Output) -> Outcome {
    let name = format!("{base}{}", entry.name);
    let modified = entry.modified.map(moment::show).unwrap_or_default();
    if long {
        output.people(listing_row(&size::show(entry.size), &modified, &printable(&name)))?;
    } else {
        output.people(printable(&name))?;
    }
    output.json(&json!({ "type": "found", "name": name, "size": entry.size, "modified": modified, "etag": entry.etag }))
}
