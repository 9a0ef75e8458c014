//! `koine export`, `koine send` and `koine receive`: buckets and spaces as streams, to keep or to make another store the same.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use koine::object::ReceiveBucket;
use koine::{ReceiveHow, ReceiveOptions, ReceivedBucket, SpaceId, Spaces};
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::size;
use crate::store_path;

const EXPORT_EXAMPLES: &str = "Examples:
  koine export store.koine --to backup.stream            everything, as it is in one version
  koine export store.koine --space 18 --to bucket.stream
  koine export store.koine | ssh other koine receive new.koine

`koine spaces ls STORE` lists spaces, `koine stat STORE --space` tells which bucket is in which. The store is not changed, and no server
may hold it (exit code 3 and its pid); a program exports its own store while it is in use with Engine::export.";

const SEND_EXAMPLES: &str = "Examples:
  koine send store.koine photos --to photos.stream           a bucket with all its snapshots
  koine send store.koine photos@monday | ssh other koine receive copy.koine
  koine send store.koine photos@tuesday --from monday | ssh other koine receive copy.koine
  koine send store.koine 4000000001 --to space.stream        a space by its id, without a name (koine spaces ls tells them)

With --from only what differs from that snapshot is read and told; the other side must have received it. A number is a space; a
bucket whose name is a number is koine://NUMBER. Owners, access lists and policies of the bucket are not sent.
The store is not changed, and no server may hold it (exit code 3 and its pid).";

const RECEIVE_EXAMPLES: &str = "Examples:
  koine format copy.koine && koine receive copy.koine --from backup.stream
  koine send store.koine photos | koine receive copy.koine   the bucket photos and its snapshots, owned by root
  koine receive copy.koine --from photos.stream --as album --owner anna
  koine receive copy.koine --from space.stream --as 18 --writable

A bucket is there at once, with the records of its snapshots; a name that is taken is refused. A snapshot that was sent with --from
is added to the bucket that has the older one. All spaces of a stream are there at once in the end. A stream that is damaged or cut is refused and nothing of it is kept: receive
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
    /// A bucket, a snapshot of one (BUCKET@SNAPSHOT), or the id of a space.
    #[arg(value_name = "WHAT")]
    what: What,
    /// An older snapshot of the same bucket (its name), or one that the space comes from (its id): only what differs is told.
    #[arg(long, value_name = "OLD")]
    from: Option<String>,
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
    /// The name that the bucket gets, or the id that the one space of the stream gets [default: as where it comes from].
    #[arg(long = "as", value_name = "NAME|ID")]
    what: Option<What>,
    /// The user whose the bucket becomes [default: root].
    #[arg(long, value_name = "USER")]
    owner: Option<String>,
    /// Let snapshots of a stream of spaces become spaces that may be changed; nothing can be received against them later.
    #[arg(long)]
    writable: bool,
    /// Receive the spaces of a bucket alone, under their ids and without names.
    #[arg(long, conflicts_with = "owner")]
    raw: bool,
}

/// What is sent, and what it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Space(u64),
    Bucket(String),
}

impl FromStr for What {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<What, Self::Err> {
        let named = || What::Bucket(text.strip_prefix("koine://").unwrap_or(text).trim_end_matches('/').to_owned());
        Ok(text.parse().map_or_else(|_| named(), What::Space))
    }
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
    let from = args.from.as_deref();
    write(args.to.as_deref(), output, "sent", |out, progress| match &args.what {
        What::Bucket(bucket) => Ok(store.send_bucket(bucket, snapshot_of(bucket, from)?, out, progress)?),
        What::Space(space) => {
            let base = from.map(|from| {
                let wrong = |_| Failure::usage(format!("--from {from}: a space is sent against the id of a snapshot"));
                from.parse().map(SpaceId).map_err(wrong)
            });
            Ok(store.send(SpaceId(*space), base.transpose()?, out, progress)?)
        }
    })
}

/// The name of the older snapshot, also where the bucket stands before it.
fn snapshot_of<'a>(bucket: &str, from: Option<&'a str>) -> Outcome<Option<&'a str>> {
    let name = bucket.split('@').next().unwrap_or(bucket);
    let Some((of, snapshot)) = from.and_then(|from| from.split_once('@')) else { return Ok(from) };
    if of.trim_start_matches("koine://") != name {
        return Err(Failure::usage(format!("--from names a snapshot of the bucket {of}, not of {name}")));
    }
    Ok(Some(snapshot))
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
    let (space, name) = match args.what.clone() {
        Some(What::Space(space)) => (Some(SpaceId(space)), None),
        Some(What::Bucket(name)) => (None, Some(name)),
        None => (None, None),
    };
    let how = ReceiveHow {
        spaces: ReceiveOptions { space, writable: args.writable },
        bucket: ReceiveBucket { name, owner: args.owner.clone() },
        raw: args.raw,
    };
    let bar = output.bytes_bar(0, &args.store.display().to_string());
    let received = store.receive(&mut *input, &how, &mut |length| bar.set_position(length));
    bar.finish_and_clear();
    let closed = store.close();
    let (received, bucket) = received?;
    closed?;
    let spaces: Vec<String> = received.spaces.iter().map(|space| space.0.to_string()).collect();
    output.json(&json!({
        "type": "received", "store": args.store.display().to_string(), "spaces": spaces, "keys": received.keys,
        "bytes": received.bytes, "bucket": bucket.as_ref().map(|bucket| &bucket.bucket),
        "snapshots": bucket.as_ref().map(|bucket| &bucket.snapshots),
    }))?;
    let what = match bucket {
        Some(bucket) => tell_bucket(&bucket),
        None => {
            format!("{} {}", if spaces.len() == 1 { "space" } else { "spaces" }, spaces.join(", "))
        }
    };
    output.people(format!("received {what}: {} keys, {} of values", received.keys, size::show(received.bytes)))
}

fn tell_bucket(received: &ReceivedBucket) -> String {
    let ReceivedBucket { bucket, is_there, snapshots } = received;
    let names = snapshots.join(", ");
    match (is_there, snapshots.len()) {
        (true, _) => {
            format!("the snapshot {names} of the bucket {bucket}, whose content is as it was (koine snapshot restore)")
        }
        (false, 0) => format!("the bucket {bucket}"),
        (false, 1) => format!("the bucket {bucket} with its snapshot {names}"),
        (false, count) => format!("the bucket {bucket} with its {count} snapshots {names}"),
    }
}
