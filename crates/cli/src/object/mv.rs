//! `koine mv` and `koine exchange`: names change, bytes stay where they are.

use clap::Args;
use koine::object::{ErrorKind, ExchangeOptions, ListQuery, ObjectName, Objects, PutCondition, RenameOptions};
use serde_json::json;

use super::{ObjectUrl, in_store};
use crate::cp::plan::{self, Plan, ReadOptions};
use crate::cp::tell_left_out;
use crate::failure::{Failure, Outcome};
use crate::location::{Location, Scheme};
use crate::output::{Output, printable};
use crate::pattern::Pattern;
use crate::target::{TargetArgs, failed};
use crate::targets::Targets;

const MOVE_EXAMPLES: &str = "Examples:
  export KOINE_STORE=store.koine
  koine mv koine://photos/a.jpg koine://photos/2026/          one object, to another name
  koine mv 'koine://photos/*.jpg' koine://archive/photos/     every object of such a name, to another bucket
  koine mv -r koine://photos/2025 koine://photos/old          a folder, in one commit
  koine mv --if-absent koine://photos/a koine://photos/b      only where nothing has the name";

const EXCHANGE_EXAMPLES: &str = "Example:
  koine exchange --store store.koine koine://site/live koine://site/next";

/// The options of `koine mv`.
#[derive(Args, Debug)]
#[command(after_help = MOVE_EXAMPLES)]
pub struct MvArgs {
    /// koine://BUCKET/KEY.
    #[arg(value_name = "FROM", required = true)]
    from: Vec<String>,
    /// koine://BUCKET/KEY; a name that ends with / is a folder.
    #[arg(value_name = "TO")]
    to: String,
    /// Everything below FROM: in one commit within a bucket where nothing is below TO, else an object at a time.
    #[arg(short, long)]
    recursive: bool,
    /// Keys are names as they stand, whatever `*`, `?` and `[` there are in them.
    #[arg(long)]
    exact: bool,
    /// Only where the target is not there.
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    reach: TargetArgs,
}

/// The options of `koine exchange`.
#[derive(Args, Debug)]
#[command(after_help = EXCHANGE_EXAMPLES)]
pub struct ExchangeArgs {
    /// koine://BUCKET/KEY.
    #[arg(value_name = "ONE")]
    one: String,
    /// koine://BUCKET/KEY.
    #[arg(value_name = "OTHER")]
    other: String,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine mv`.
pub fn run(args: &MvArgs, output: Output) -> Outcome {
    let from = args.from.iter().map(|name| Location::parse(name)).collect::<Outcome<Vec<_>>>()?;
    let to = Location::parse(&args.to)?;
    if !from.iter().chain([&to]).all(|name| matches!(name, Location::Object { scheme: Scheme::Store, .. })) {
        return Err(Failure::usage(
            "koine mv moves within a store: name both sides koine://BUCKET/KEY (else: koine cp, then koine rm)",
        ));
    }
    let targets = Targets::open(&args.reach, from.iter().chain([&to]))?;
    let done = move_all(args, &targets, &from, &to, output);
    let closed = targets.close();
    done.and(closed)
}

fn move_all(args: &MvArgs, targets: &Targets, from: &[Location], to: &Location, output: Output) -> Outcome {
    let Some(store) = targets.store() else { return Ok(()) };
    if let ([Location::Object { bucket, key, .. }], Location::Object { bucket: to, key: to_key, .. }) = (from, to)
        && args.recursive
        && bucket == to
        && !key.is_empty()
        && !to_key.is_empty()
        && (args.exact || Pattern::parse(key)?.is_none())
        && move_folder(store.objects(), bucket, (key, to_key), output)?
    {
        return Ok(());
    }
    let reading = ReadOptions { recursive: args.recursive, exact: args.exact, ..ReadOptions::default() };
    let Plan { jobs, left_out } = plan::plan(targets, from, to, &reading)?;
    let left = tell_left_out(&left_out, output)?;
    for job in jobs {
        let (Location::Object { bucket, key, .. }, Location::Object { bucket: to, key: to_key, .. }) =
            (&job.from, &job.to)
        else {
            continue;
        };
        let condition = if args.if_absent { PutCondition::absent() } else { PutCondition::none() };
        let options = RenameOptions { condition, ..RenameOptions::default() };
        let moved = store.objects().rename(ObjectName::new(bucket, key), ObjectName::new(to, to_key), options);
        moved.wait().map_err(failed)?;
        let (from, to) = (job.from.to_string(), job.to.to_string());
        output.people(format!("moved {} to {}", printable(&from), printable(&to)))?;
        output.json(&json!({ "type": "moved", "from": from, "to": to }))?;
    }
    if left == 0 { Ok(()) } else { Err(Failure::failed(format!("{left} could not be moved"))) }
}

/// Moves everything below a folder in one commit; `false` where there is something in the way, or nothing to move.
fn move_folder(objects: &Objects, bucket: &str, (from, to): (&str, &str), output: Output) -> Outcome<bool> {
    let (from, to) = (plan::as_folder(from), plan::as_folder(to));
    let query = ListQuery { prefix: from.clone(), limit: 1, ..ListQuery::default() };
    if objects.list(bucket, &query).map_err(failed)?.objects.is_empty() {
        return Ok(false);
    }
    match objects.rename_prefix(bucket, &from, &to).wait() {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::TransactionTooLarge) => {
            return Ok(false);
        }
        Err(error) => return Err(failed(error)),
    }
    let scheme = Scheme::Store.prefix();
    let (from, to) = (format!("{scheme}{bucket}/{from}"), format!("{scheme}{bucket}/{to}"));
    output.people(format!("moved {} to {}", printable(&from), printable(&to)))?;
    output.json(&json!({ "type": "moved", "from": from, "to": to }))?;
    Ok(true)
}

/// Runs `koine exchange`.
pub fn exchange(args: &ExchangeArgs, output: Output) -> Outcome {
    let (one, other) = (ObjectUrl::object(&args.one)?, ObjectUrl::object(&args.other)?);
    in_store(&args.reach, &[&one, &other], |store| {
        let names = (ObjectName::new(&one.bucket, &one.key), ObjectName::new(&other.bucket, &other.key));
        let swapped = store.objects().exchange(names.0, names.1, ExchangeOptions::default());
        swapped.wait().map(drop).map_err(failed)
    })?;
    let (one, other) = (one.to_string(), other.to_string());
    let text = format!("exchanged {} and {}", printable(&one), printable(&other));
    output.done(text, &json!({ "type": "exchanged", "one": one, "other": other }))
}
