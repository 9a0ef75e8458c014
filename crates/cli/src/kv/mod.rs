//! `koine kv`: keys and values of any store, of one that a server holds too.
//!
//! Invariants:
//! - A value is read and written in pieces: its length is bounded by the store, not by memory.
//! - A command is one batch: it happens whole or not at all.

mod batch;
mod keys;
mod scan;
mod values;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use koine::kv::{Batch, Condition, Durability, Error, ErrorKind, Kv, Operation, Place, Refusal, SpaceId};
use koine::{OpenOptions, Store};
use serde_json::json;

use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, printable};
use crate::secret::read_key;
use keys::Form;
use scan::ScanArgs;

const EXAMPLES: &str = "Examples:
  koine kv put store.koine greeting 'hello'          a value given here; from a file: --file NAME, from a pipe: --file -
  koine kv get store.koine greeting
  koine kv scan store.koine --prefix user/ --values
  koine kv put koine+tcp:host:7070 key value --key-file wire.key
  printf '{\"put\":\"a\",\"value\":\"1\"}\\n{\"delete\":\"b\"}\\n' | koine kv batch store.koine

STORE is a file, a device, `memory:`, `rocksdb:FOLDER` (where this program was built with RocksDB), `koine+unix:SOCKET` or
`koine+tcp:HOST:PORT`. A store that a server of the same user holds is reached through that server. Keys are text, or bytes with --hex. Unless --space tells otherwise, keys lie in space 32, apart
from buckets and their objects.";

/// Where `koine kv` works unless it is told otherwise: apart from what objects use.
const SPACE_DEFAULT: u64 = 32;

/// The options of `koine kv`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct KvArgs {
    #[command(subcommand)]
    command: KvCommand,
}

/// What every one of them takes.
#[derive(Args, Debug)]
struct SpaceArgs {
    /// The space of the keys.
    #[arg(long, value_name = "ID", default_value_t = SPACE_DEFAULT)]
    space: u64,
    /// Keys are given and shown as hexadecimal digits.
    #[arg(long)]
    hex: bool,
    /// A file with the key that a server over TCP wants.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum KvCommand {
    /// Write the value of a key to standard output or a file.
    Get(values::GetArgs),
    /// Set the value of a key, or a part of it.
    Put(values::KeyPutArgs),
    /// Remove a key, or all with a prefix.
    Del(DelArgs),
    /// List keys in order.
    Scan(ScanArgs),
    /// Give another key the value of one, sharing its data.
    Copy(PairArgs),
    /// Give a value another key.
    Rename(PairArgs),
    /// Do many things at once, or none: a line of JSON each.
    Batch(batch::BatchArgs),
    /// Version and size of a key; exit code 4 when it is not there.
    Stat(KeyStatArgs),
}

#[derive(Args, Debug)]
struct DelArgs {
    #[arg(value_name = "STORE", env = "KOINE_STORE")]
    store: String,
    /// The key, or with --prefix what keys begin with.
    #[arg(value_name = "KEY")]
    key: String,
    /// Remove all keys that begin with KEY.
    #[arg(long)]
    prefix: bool,
    #[command(flatten)]
    target: SpaceArgs,
}

#[derive(Args, Debug)]
struct PairArgs {
    #[arg(value_name = "STORE", env = "KOINE_STORE")]
    store: String,
    #[arg(value_name = "FROM")]
    from: String,
    #[arg(value_name = "TO")]
    to: String,
    /// Refuse when TO is there.
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    target: SpaceArgs,
}

#[derive(Args, Debug)]
struct KeyStatArgs {
    #[arg(value_name = "STORE", env = "KOINE_STORE")]
    store: String,
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    target: SpaceArgs,
}

/// An open store and how its keys are told.
struct Session {
    store: Store,
    space: SpaceId,
    form: Form,
}

impl Session {
    fn open(place: &str, target: &SpaceArgs) -> Outcome<Session> {
        Session::open_as(place, target, false)
    }

    /// To look only: a store that nobody holds is not changed by a byte.
    fn look(place: &str, target: &SpaceArgs) -> Outcome<Session> {
        Session::open_as(place, target, true)
    }

    fn open_as(place: &str, target: &SpaceArgs, read_only: bool) -> Outcome<Session> {
        let key = target.key_file.as_deref().map(read_key).transpose()?;
        // A store that is not there is not made: a slip of the pen would be a new store.
        let options = OpenOptions { join: true, read_only, key, ..OpenOptions::default() };
        let store = koine::open(place, &options)?;
        Ok(Session { store, space: SpaceId(target.space), form: Form { hex: target.hex } })
    }

    fn kv(&self) -> &Arc<dyn Kv> {
        self.store.kv()
    }

    fn place(&self, key: &str) -> Outcome<Place> {
        Ok(Place { space: self.space, key: self.form.parse(key)? })
    }

    /// Makes the space where it is missing.
    fn make_space(&self) -> Outcome {
        if self.kv().view().and_then(|view| view.has_space(self.space)).map_err(failed)? {
            return Ok(());
        }
        let made = self.kv().commit(Batch::new().then(Operation::CreateSpace { space: self.space }), Durability::Sync);
        match made {
            // Somebody was faster.
            Err(error) if error.kind() == ErrorKind::Refused => Ok(()),
            made => made.map(drop).map_err(failed),
        }
    }

    /// Does it durably, says what was `done`, and closes the store. `what` tells what a condition or an operation that did not hold means.
    fn commit(self, batch: Batch, output: Output, done: &str, what: impl Fn(Refusal) -> String) -> Outcome {
        let outcome = self.kv().commit(batch, Durability::Sync);
        let done = match outcome {
            Ok(commit) => output.done(done, &json!({ "type": "committed", "version": commit.version.0 })),
            Err(error) => Err(match error.refusal() {
                Some(refusal) => Failure::failed(format!("{}; nothing was changed", what(refusal))),
                None => failed(error),
            }),
        };
        let closed = self.close();
        done.and(closed)
    }

    fn close(self) -> Outcome {
        Ok(self.store.close()?)
    }
}

/// An error of the store for people.
fn failed(error: Error) -> Failure {
    let exit = match error.kind() {
        ErrorKind::NotFound => Exit::Missing,
        ErrorKind::Owned => Exit::Held,
        ErrorKind::Invalid => Exit::Usage,
        _ => Exit::Failed,
    };
    Failure { exit, message: error.to_string() }
}

/// Runs `koine kv`.
pub fn run(args: &KvArgs, output: Output) -> Outcome {
    match &args.command {
        KvCommand::Get(args) => values::get(args, output),
        KvCommand::Put(args) => values::put(args, output),
        KvCommand::Del(args) => delete(args, output),
        KvCommand::Scan(args) => scan::run(args, output),
        KvCommand::Copy(args) => pair(args, output, "copied", |from, to| Operation::CloneRange {
            from,
            from_offset: 0,
            length: u64::MAX,
            to,
            to_offset: 0,
        }),
        KvCommand::Rename(args) => pair(args, output, "renamed", |from, to| Operation::Rename { from, to }),
        KvCommand::Batch(args) => batch::run(args, output),
        KvCommand::Stat(args) => stat(args, output),
    }
}

fn delete(args: &DelArgs, output: Output) -> Outcome {
    let session = Session::open(&args.store, &args.target)?;
    let at = session.place(&args.key)?;
    if args.prefix {
        let range = koine::kv::KeyRange::prefix(at.key);
        if !session.kv().view().and_then(|view| view.has_space(at.space)).map_err(failed)? {
            return session.close();
        }
        let batch = Batch::new().then(Operation::DeleteRange { space: at.space, range });
        let done = format!("removed all keys that begin with {}", printable(&args.key));
        return session.commit(batch, output, &done, |_| "the space is gone".into());
    }
    let there = Condition::Present { space: at.space, key: at.key.clone() };
    let absent = Failure::missing(format!("{} is not there", args.key));
    let outcome = session.kv().commit(Batch::new().when(there).then(Operation::Delete { at }), Durability::Sync);
    let done = match outcome {
        Ok(commit) => {
            let value = json!({ "type": "committed", "version": commit.version.0 });
            output.done(format!("removed {}", printable(&args.key)), &value)
        }
        Err(error) if error.kind() == ErrorKind::Refused => Err(absent),
        Err(error) => Err(failed(error)),
    };
    let closed = session.close();
    done.and(closed)
}

fn pair(args: &PairArgs, output: Output, did: &str, operation: impl Fn(Place, Place) -> Operation) -> Outcome {
    let session = Session::open(&args.store, &args.target)?;
    let (from, to) = (session.place(&args.from)?, session.place(&args.to)?);
    if from == to {
        return Err(Failure::usage("FROM and TO are the same key"));
    }
    let mut batch = Batch::new();
    if args.if_absent {
        batch = batch.when(Condition::Absent { space: to.space, key: to.key.clone() });
    }
    // What was there is replaced, also where it was longer.
    let batch = batch.then(Operation::Delete { at: to.clone() }).then(operation(from, to));
    let done = format!("{did} {} to {}", printable(&args.from), printable(&args.to));
    session.commit(batch, output, &done, |refusal| match refusal {
        Refusal::Condition(_) => format!("{} already exists", args.to),
        Refusal::Operation(_) => format!("{} is not there", args.from),
    })
}

fn stat(args: &KeyStatArgs, output: Output) -> Outcome {
    let session = Session::look(&args.store, &args.target)?;
    let at = session.place(&args.key)?;
    let found = session.kv().view().and_then(|view| view.stat(at.space, &at.key)).map_err(failed)?;
    let stat = found.ok_or_else(|| Failure::missing(format!("{} is not there", args.key)))?;
    output.json(
        &json!({ "type": "key", "key": session.form.json(&at.key), "size": stat.size, "version": stat.version.0 }),
    )?;
    output.people(format!("{}  {} bytes, version {}", session.form.show(&at.key), stat.size, stat.version.0))?;
    session.close()
}
