//! `koine diff`: what `koine sync` would find.
//!
//! Invariant: exit code 1 where the places differ or something cannot be read, 0 where they are the same.

use clap::Args;
use serde_json::json;

use super::compare::{Compare, Difference};
use super::{CompareArgs, tree};
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::output::{Output, printable};
use crate::target::TargetArgs;
use crate::targets::Targets;

const EXAMPLES: &str = "Examples:
  koine diff ./photos koine://photos                 what a sync would copy (<), find at the target alone (>), or copy anew (!)
  koine diff --checksum koine://photos s3://photos   by the bytes, whatever the times
  koine diff -q s3://photos lab://photos || koine sync s3://photos lab://photos

Compared is, as by koine sync: the size; then ETags, where both sides have one: equal ones are the same, two MD5s that are not are
different; then times: FROM differs where it was changed after TO. With --size-only the size alone, with --checksum the size and the
CRC-64/NVME of all bytes. Exit code 0: the same; 1: they differ, or something could not be read.";

/// The options of `koine diff`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    /// A folder, koine://BUCKET/PREFIX, s3://BUCKET/PREFIX or ALIAS://BUCKET/PREFIX.
    #[arg(value_name = "FROM")]
    from: String,
    /// The same, to compare with.
    #[arg(value_name = "TO")]
    to: String,
    /// Tell nothing but the exit code, and stop at the first difference.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    comparing: CompareArgs,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine diff`.
pub fn run(args: &DiffArgs, output: Output) -> Outcome {
    let (from, to) = (Location::parse(&args.from)?, Location::parse(&args.to)?);
    tree::check(&from)?;
    tree::check(&to)?;
    let targets = Targets::look(&args.reach, [&from, &to])?;
    let done = compare(args, &targets, (&from, &to), output);
    let closed = targets.close();
    let differ = done?;
    closed?;
    if !args.quiet {
        output.json(&json!({ "type": "summary", "differences": differ }))?;
    }
    if differ == 0 { Ok(()) } else { Err(Failure::silent()) }
}

/// How many differences there are.
fn compare(args: &DiffArgs, targets: &Targets, (from, to): (&Location, &Location), output: Output) -> Outcome<u64> {
    std::thread::scope(|scope| {
        let same_bytes =
            |first: &tree::Entry, second: &tree::Entry| super::same_bytes(targets, (from, to), (first, second));
        let (first, second) = args.comparing.streams(scope, targets, (from, to), false)?;
        let mut compare = Compare::new(first, second, args.comparing.by(), &same_bytes);
        let mut differ = 0;
        while let Some(found) = compare.next()? {
            if found == Difference::Same {
                continue;
            }
            differ += 1;
            if args.quiet {
                break;
            }
            tell(&found, output)?;
        }
        Ok(differ)
    })
}

fn tell(found: &Difference, output: Output) -> Outcome {
    let (mark, name, why) = match found {
        Difference::First(entry) => ("<", &entry.name, "only in FROM"),
        Difference::Second(entry) => (">", &entry.name, "only in TO"),
        Difference::Differs(entry, why) => ("!", &entry.name, why.text()),
        Difference::LeftOut(left) => ("?", &left.name, left.reason.as_str()),
        Difference::Same => return Ok(()),
    };
    let kind = match found {
        Difference::First(_) => "only_from",
        Difference::Second(_) => "only_to",
        Difference::LeftOut(_) => "left_out",
        _ => "differs",
    };
    let reason = if matches!(found, Difference::Differs(..) | Difference::LeftOut(_)) {
        format!(" ({why})")
    } else {
        String::new()
    };
    output.people(format!("{mark} {}{reason}", printable(name)))?;
    output.json(&json!({ "type": kind, "name": name, "why": why }))
}
