//! `koine diff`: what `koine sync` would find.
//!
//! Invariant: exit code 1 where the places differ or something cannot be read, 0 where they are the same.

use clap::Args;
use serde_json::json;

use super::compare::{Compare, Found};
use super::{Comparing, tree};
use crate::doors::Doors;
use crate::failure::{Failure, Outcome};
use crate::holder::Reach;
use crate::location::Location;
use crate::output::{Output, printable};

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
    comparing: Comparing,
    #[command(flatten)]
    reach: Reach,
}

/// Runs `koine diff`.
pub fn run(args: &DiffArgs, output: Output) -> Outcome {
    let (from, to) = (Location::parse(&args.from)?, Location::parse(&args.to)?);
    tree::check(&from)?;
    tree::check(&to)?;
    let doors = Doors::look(&args.reach, [&from, &to])?;
    let done = compare(args, &doors, (&from, &to), output);
    let closed = doors.close();
    let differ = done?;
    closed?;
    if !args.quiet {
        output.json(&json!({ "type": "summary", "differences": differ }))?;
    }
    if differ == 0 { Ok(()) } else { Err(Failure::silent()) }
}

/// How many differences there are.
fn compare(args: &DiffArgs, doors: &Doors, (from, to): (&Location, &Location), output: Output) -> Outcome<u64> {
    std::thread::scope(|scope| {
        let same_bytes =
            |first: &tree::Entry, second: &tree::Entry| super::same_bytes(doors, (from, to), (first, second));
        let (first, second) = args.comparing.streams(scope, doors, (from, to), false)?;
        let mut compare = Compare::new(first, second, args.comparing.by(), &same_bytes);
        let mut differ = 0;
        while let Some(found) = compare.next()? {
            if found == Found::Same {
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

fn tell(found: &Found, output: Output) -> Outcome {
    let (mark, name, why) = match found {
        Found::First(entry) => ("<", &entry.name, "only in FROM"),
        Found::Second(entry) => (">", &entry.name, "only in TO"),
        Found::Differs(entry, why) => ("!", &entry.name, why.text()),
        Found::LeftOut(left) => ("?", &left.name, left.reason.as_str()),
        Found::Same => return Ok(()),
    };
    let kind = match found {
        Found::First(_) => "only_from",
        Found::Second(_) => "only_to",
        Found::LeftOut(_) => "left_out",
        _ => "differs",
    };
    let reason =
        if matches!(found, Found::Differs(..) | Found::LeftOut(_)) { format!(" ({why})") } else { String::new() };
    output.people(format!("{mark} {}{reason}", printable(name)))?;
    output.json(&json!({ "type": kind, "name": name, "why": why }))
}
