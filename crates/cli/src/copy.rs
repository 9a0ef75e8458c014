//! `koine copy`: everything of one store to another, whatever the two are.
//!
//! Invariants:
//! - What it does is `koine::kv::copy`, through the seam alone: here are its places, its progress and its words.
//! - An interrupted copy is gone on with by the same command.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use koine::kv::copy::{Copied, CopyError, CopyOptions, CopyProgress, Phase, copy};
use koine::kv::wrap::{Limit, Limits, Rate, Retry, RetryOptions};
use koine::kv::{ErrorKind, Kv, SpaceId};
use koine::{OpenOptions, Place, Store};
use serde_json::json;

use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::secret::read_key;
use crate::size;

const EXAMPLES: &str = "Examples:
  koine format new.koine && koine copy old.koine new.koine
  koine copy store.koine koine+tcp:host:7070 --to-key-file wire.key
  koine copy koine+unix:/run/a.sock b.koine --space 32     the keys of `koine kv` alone

FROM and TO are a file, a device, `koine+unix:SOCKET` or `koine+tcp:HOST:PORT`; a store that a server of the same user holds is
reached through that server. One version of FROM is copied, also while others write to it. Interrupted, the same command goes on
where it was; after it is done, the same command brings what has changed since. TO has to be there, and empty.";

/// So long a turn is waited for where there is a rate: for ever.
const TURN: Duration = Duration::from_secs(1 << 32);

/// The options of `koine copy`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct StoreCopyArgs {
    /// The store that is copied.
    #[arg(value_name = "FROM")]
    from: String,
    /// The store that it is copied to.
    #[arg(value_name = "TO")]
    to: String,
    /// Copy this space only; may be given several times.
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u64).range(16..))]
    space: Vec<u64>,
    /// TO may hold other things: spaces of FROM are made equal there, other spaces stay; every value is compared.
    #[arg(long)]
    force: bool,
    /// Read both stores afterwards and compare every byte.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    verify: bool,
    /// Read at most so many bytes a second of FROM.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    rate: Option<u64>,
    /// A file with the key that the server of FROM wants over TCP.
    #[arg(long, value_name = "FILE")]
    from_key_file: Option<PathBuf>,
    /// A file with the key that the server of TO wants over TCP.
    #[arg(long, value_name = "FILE")]
    to_key_file: Option<PathBuf>,
}

fn open(place: &str, key_file: Option<&PathBuf>) -> Outcome<Store> {
    let key = key_file.map(|path| read_key(path)).transpose()?;
    // Neither is made: a slip of the pen would be a new store.
    Ok(koine::open(place, &OpenOptions { join: true, key, ..OpenOptions::default() })?)
}

/// A store that may be busy for a while.
fn patient(store: &Store) -> Arc<dyn Kv> {
    Arc::new(Retry::new(Arc::clone(store.kv()), RetryOptions::default()))
}

/// What the destination remembers of where it was copied from.
fn label(place: &Place) -> String {
    let whole = place.path().and_then(|path| path.canonicalize().ok());
    whole.map_or_else(|| place.to_string(), |path| path.display().to_string())
}

/// Runs `koine copy`.
pub fn run(args: &StoreCopyArgs, output: Output) -> Outcome {
    if args.rate == Some(0) {
        return Err(Failure::usage("--rate 0 would never end; leave it out for no limit"));
    }
    let places = [&args.from, &args.to].map(|place| Place::parse(place));
    if let [Ok(from), Ok(to)] = &places
        && from.path().is_some()
        && label(from) == label(to)
    {
        return Err(Failure::usage(format!("{from} and {to} are one store: there is nothing to copy")));
    }
    let from = open(&args.from, args.from_key_file.as_ref())?;
    let to = open(&args.to, args.to_key_file.as_ref())?;
    let mut options = CopyOptions { force: args.force, verify: args.verify, ..CopyOptions::new(label(from.place())) };
    if !args.space.is_empty() {
        let mut spaces: Vec<SpaceId> = args.space.iter().copied().map(SpaceId).collect();
        spaces.sort_unstable();
        spaces.dedup();
        options.spaces = Some(spaces);
    }
    // A store that was just made has a catalogue without buckets, and may have a root key of its own.
    options.founded = koine::Objects::founding_keys();
    let mut source = patient(&from);
    if let Some(per_second) = args.rate {
        let rate = Rate { per_second, burst: per_second / 4 };
        source = Arc::new(Limit::new(source, &Limits { bytes_rate: Some(rate), wait: TURN, ..Limits::default() }));
    }
    let bar = output.counter("copying");
    let told = |progress: &CopyProgress| {
        let what = match progress.phase {
            Phase::Copying => "copying",
            Phase::Verifying => "verifying",
        };
        bar.set_message(format!("{what} space {}, {} keys", progress.space.0, progress.keys));
        bar.set_position(progress.bytes);
    };
    let outcome = copy(&*source, &*patient(&to), &options, &mut { told });
    bar.finish_and_clear();
    let told = outcome.map_err(failed).and_then(|done| tell(&done, output));
    let closed = from.close().and(to.close());
    told.and(closed.map_err(Failure::from))
}

fn failed(error: CopyError) -> Failure {
    let exit = match error.error().map(koine::kv::Error::kind) {
        Some(ErrorKind::NotFound) => Exit::Missing,
        Some(ErrorKind::Owned) => Exit::Held,
        _ => Exit::Failed,
    };
    Failure { exit, message: error.to_string() }
}

fn tell(done: &Copied, output: Output) -> Outcome {
    let Copied { version, resumed, spaces, keys, bytes, kept, removed, verified } = *done;
    output.json(&json!({
        "type": "copied", "version": version.0, "resumed": resumed, "spaces": spaces, "keys": keys, "bytes": bytes,
        "kept": kept, "removed": removed, "verified": verified,
    }))?;
    let size = size::show(bytes);
    let mut text = format!("{spaces} spaces: {keys} keys copied ({size}), {kept} were there");
    if removed > 0 {
        text.push_str(&format!(", {removed} removed that the source has no more"));
    }
    match verified {
        Some(keys) => text.push_str(&format!("; all {keys} compared, nothing differs")),
        None => text.push_str("; not compared"),
    }
    output.people(text)
}
