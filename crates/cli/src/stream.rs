//! `koine export`, `koine send` and `koine receive`: spaces as streams, to keep or to make another store the same.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use koine::{ReceiveOptions, SpaceId, Spaces};
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::size;
use crate::store_path;

const EXPORT_EXAMPLES: &str = "Examples:
  koine export store.koine --to backup.stream            everything, as it is in one version
  koine export store.koine --space 18 --to bucket.stream
  koine export store.koine | ssh other koine receive new.koine

`koine spaces STORE` lists spaces, `koine stat STORE --space` tells which bucket is in which. The store is not changed, and no server
may hold it (exit code 3 and its pid); a program exports its own store while it is in use with Engine::export.";

const SEND_EXAMPLES: &str = "Examples:
  koine spaces store.koine --snapshot 18 --as 4000000001     a snapshot of space 18
  koine send store.koine 4000000001 --to monday.stream
  koine send store.koine 4000000002 --from 4000000001 | ssh other koine receive copy.koine

With --from only what differs from that snapshot is read and told; the other side must have received it.
The store is not changed, and no server may hold it (exit code 3 and its pid).";

const RECEIVE_EXAMPLES: &str = "Examples:
  koine format copy.koine && koine receive copy.koine --from backup.stream
  koine send store.koine 4000000001 | koine receive copy.koine
  koine receive copy.koine --from monday.stream --as 18 --writable

All spaces of a stream are there at once in the end. A stream that is damaged or cut is refused and nothing of it is kept: receive
it again from its begin. What is there is never overwritten.";

/// The options of `koine export`.
#[derive(Args, Debug)]
#[command(after_help = EXPORT_EXAMPLES)]
pub struct ExportArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// Only this space; may be given more than once [default: all].
    #[arg(long, value_name = "ID")]
    space: Vec<u64>,
    /// Where the stream goes [default: the standard output].
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// The options of `koine send`.
#[derive(Args, Debug)]
#[command(after_help = SEND_EXAMPLES)]
pub struct SendArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// The space, mostly a snapshot.
    #[arg(value_name = "SPACE")]
    space: u64,
    /// A snapshot that it comes from: only what differs is told.
    #[arg(long, value_name = "OLD")]
    from: Option<u64>,
    /// Where the stream goes [default: the standard output].
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// The options of `koine receive`.
#[derive(Args, Debug)]
#[command(after_help = RECEIVE_EXAMPLES)]
pub struct ReceiveArgs {
    /// A file or a block device.
    #[arg(value_name = "STORE", value_parser = store_path::parser())]
    store: PathBuf,
    /// Where the stream comes from [default: the standard input].
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The id that the one space of the stream gets [default: as where it comes from].
    #[arg(long = "as", value_name = "ID")]
    space: Option<u64>,
    /// Let snapshots become spaces that may be changed; nothing can be received against them later.
    #[arg(long)]
    writable: bool,
}

/// Runs `koine export`.
pub fn export(args: &ExportArgs, output: Output) -> Outcome {
    let spaces: Vec<SpaceId> = args.space.iter().copied().map(SpaceId).collect();
    let store = Spaces::open(&args.store, true)?;
    write(args.to.as_deref(), output, "exported", |out, progress| Ok(store.export(&spaces, out, progress)?))
}

/// Runs `koine send`.
pub fn send(args: &SendArgs, output: Output) -> Outcome {
    let store = Spaces::open(&args.store, true)?;
    let (space, base) = (SpaceId(args.space), args.from.map(SpaceId));
    write(args.to.as_deref(), output, "sent", |out, progress| Ok(store.send(space, base, out, progress)?))
}

/// Writes a stream to a file, under its name only when it is whole, or to the standard output.
fn write(
    to: Option<&Path>,
    output: Output,
    what: &str,
    make: impl FnOnce(&mut dyn Write, &mut dyn FnMut(u64)) -> Outcome<u64>,
) -> Outcome {
    let Some(path) = to else {
        let mut out = io::stdout().lock();
        if out.is_terminal() {
            return Err(Failure::usage("a stream is no text: give --to FILE, or a pipe"));
        }
        return make(&mut out, &mut |_| ()).map(drop);
    };
    let failed = |error| Failure::io(format!("cannot write {}", path.display()), &error);
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let mut file = File::create(&part).map_err(failed)?;
    let bar = output.bytes_bar(0, &path.display().to_string());
    let done = make(&mut file, &mut |length| bar.set_position(length));
    bar.finish_and_clear();
    let length = done.inspect_err(|_| drop(std::fs::remove_file(&part)))?;
    file.sync_all().and_then(|()| std::fs::rename(&part, path)).map_err(failed)?;
    output.json(&json!({ "type": what, "stream": path.display().to_string(), "bytes": length }))?;
    output.people(format!("{what} {} to {}", size::show(length), path.display()))
}

/// Runs `koine receive`.
pub fn receive(args: &ReceiveArgs, output: Output) -> Outcome {
    let mut input: Box<dyn Read> = match &args.from {
        Some(path) => {
            let file = File::open(path).map_err(|e| Failure::io(format!("cannot open {}", path.display()), &e))?;
            Box::new(BufReader::with_capacity(1 << 20, file))
        }
        None if io::stdin().is_terminal() => {
            return Err(Failure::usage("no stream: give --from FILE, or a pipe"));
        }
        None => Box::new(io::stdin().lock()),
    };
    let store = Spaces::open(&args.store, false)?;
    let options = ReceiveOptions { space: args.space.map(SpaceId), writable: args.writable };
    let bar = output.bytes_bar(0, &args.store.display().to_string());
    let received = store.receive(&mut *input, options, &mut |length| bar.set_position(length));
    bar.finish_and_clear();
    let closed = store.close();
    let received = received?;
    closed?;
    let spaces: Vec<u64> = received.spaces.iter().map(|space| space.0).collect();
    output.json(&json!({
        "type": "received", "store": args.store.display().to_string(), "spaces": spaces, "keys": received.keys,
        "bytes": received.bytes,
    }))?;
    let names: Vec<String> = spaces.iter().map(u64::to_string).collect();
    let what = if spaces.len() == 1 { "space" } else { "spaces" };
    output.people(format!(
        "received {what} {}: {} keys, {} of values",
        names.join(", "),
        received.keys,
        size::show(received.bytes)
    ))
}
