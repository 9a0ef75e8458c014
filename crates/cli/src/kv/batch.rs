//! `koine kv batch`: lines of JSON that happen together or not at all.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use koine::kv::{Batch, Condition, Operation, Payload, Place, Refusal, SpaceId, Version};
use serde::Deserialize;

use super::{Session, SpaceArgs};
use crate::failure::{Failure, Outcome};
use crate::output::Output;

const LINES: &str = "Lines:
  {\"if_absent\": KEY}  {\"if_present\": KEY}  {\"if_version\": KEY, \"version\": N}
  {\"put\": KEY, \"value\": TEXT}  {\"append\": KEY, \"value\": TEXT}  {\"write\": KEY, \"offset\": N, \"value\": TEXT}
  {\"truncate\": KEY, \"length\": N}  {\"delete\": KEY}  {\"delete_prefix\": KEY}
  {\"rename\": KEY, \"to\": KEY}  {\"copy\": KEY, \"to\": KEY}  {\"add\": KEY, \"delta\": N}

Conditions hold against the state before; operations happen in order. With --hex, KEY and TEXT are hexadecimal digits.";

#[derive(Args, Debug)]
#[command(after_help = LINES)]
pub(super) struct BatchArgs {
    #[arg(value_name = "STORE", env = "KOINE_STORE")]
    store: String,
    /// Where the lines are; `-` is standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    target: SpaceArgs,
}

/// One line: what is named first decides which it is.
#[derive(Deserialize, Debug)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    IfAbsent { if_absent: String },
    IfPresent { if_present: String },
    IfVersion { if_version: String, version: u64 },
    Put { put: String, value: String },
    Append { append: String, value: String },
    Write { write: String, offset: u64, value: String },
    Truncate { truncate: String, length: u64 },
    Delete { delete: String },
    DeletePrefix { delete_prefix: String },
    Rename { rename: String, to: String },
    Copy { copy: String, to: String },
    Add { add: String, delta: i64 },
}

/// Runs `koine kv batch`.
pub(super) fn run(args: &BatchArgs, output: Output) -> Outcome {
    let session = Session::open(&args.store, &args.target)?;
    let cannot = |error| Failure::io(format!("cannot read {}", args.file.display()), &error);
    let lines: Box<dyn BufRead> = match args.file == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(BufReader::new(File::open(&args.file).map_err(cannot)?)),
    };
    let (mut batch, mut conditions, mut operations) = (Batch::new(), Vec::new(), Vec::new());
    for (number, line) in (1u64..).zip(lines.lines()) {
        let line = line.map_err(cannot)?;
        if line.trim().is_empty() {
            continue;
        }
        let parsed: Line = serde_json::from_str(&line).map_err(|_| {
            Failure::usage(format!("line {number} is none of those that `koine kv batch --help` lists: {line}"))
        })?;
        let (before, after) = (batch.conditions.len(), batch.operations.len());
        batch = add(batch, parsed, &session)?;
        conditions.resize(conditions.len() + batch.conditions.len() - before, number);
        operations.resize(operations.len() + batch.operations.len() - after, number);
    }
    session.make_space()?;
    let done = match batch.operations.len() {
        1 => "1 change was made".to_owned(),
        some => format!("{some} changes were made, in one commit"),
    };
    session.commit(batch, output, &done, |refusal| {
        let (lines, index, what) = match refusal {
            Refusal::Condition(index) => (&conditions, index, "does not hold"),
            Refusal::Operation(index) => (&operations, index, "cannot be done"),
        };
        lines.get(index as usize).map_or_else(|| format!("a line {what}"), |line| format!("line {line} {what}"))
    })
}

fn add(batch: Batch, line: Line, session: &Session) -> Outcome<Batch> {
    let form = session.form;
    let space: SpaceId = session.space;
    let at = |key: &str| -> Outcome<Place> { session.place(key) };
    let key = |key: &str| -> Outcome<Bytes> { form.parse(key) };
    let data = |value: &str| -> Outcome<Payload> { Ok(Payload::Bytes(form.parse(value)?)) };
    Ok(match line {
        Line::IfAbsent { if_absent } => batch.when(Condition::Absent { space, key: key(&if_absent)? }),
        Line::IfPresent { if_present } => batch.when(Condition::Present { space, key: key(&if_present)? }),
        Line::IfVersion { if_version, version } => {
            batch.when(Condition::VersionIs { space, key: key(&if_version)?, version: Version(version) })
        }
        Line::Put { put, value } => batch.then(Operation::Put { at: at(&put)?, value: data(&value)? }),
        Line::Append { append, value } => batch.then(Operation::Append { at: at(&append)?, data: data(&value)? }),
        Line::Write { write, offset, value } => {
            batch.then(Operation::WriteAt { at: at(&write)?, offset, data: data(&value)? })
        }
        Line::Truncate { truncate, length } => batch.then(Operation::Truncate { at: at(&truncate)?, length }),
        Line::Delete { delete } => batch.then(Operation::Delete { at: at(&delete)? }),
        Line::DeletePrefix { delete_prefix } => {
            let range = koine::kv::KeyRange::prefix(key(&delete_prefix)?);
            batch.then(Operation::DeleteRange { space, range })
        }
        Line::Rename { rename, to } => batch.then(Operation::Rename { from: at(&rename)?, to: at(&to)? }),
        Line::Copy { copy, to } => {
            let (from, to) = (at(&copy)?, at(&to)?);
            if from == to {
                return Err(Failure::usage("a key is to be copied to itself"));
            }
            let clone = Operation::CloneRange { from, from_offset: 0, length: u64::MAX, to: to.clone(), to_offset: 0 };
            batch.then(Operation::Delete { at: to }).then(clone)
        }
        Line::Add { add, delta } => batch.then(Operation::AddCounter { at: at(&add)?, delta }),
    })
}
