//! `koine cat`: the bytes of objects on standard output.

use std::io::{self, Write};

use clap::Args;
use koine::object::VersionId;

use super::{ObjectUrl, no_versions};
use crate::byte_range::RangeArg;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::target::{Target, TargetArgs, failed};

const EXAMPLES: &str = "Examples:
  koine cat --store store.koine koine://logs/today
  koine cat --range -1024 s3://logs/today        the last 1,024 bytes
  koine cat --version 187b3c5d2a9f0e41 koine://logs/today";

/// How much is read at once.
const PIECE_LEN: u64 = 1 << 20;

/// The options of `koine cat`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CatArgs {
    /// koine://BUCKET/KEY or s3://BUCKET/KEY.
    #[arg(value_name = "OBJECT", required = true)]
    objects: Vec<String>,
    /// FIRST-LAST, FIRST- or -COUNT, in bytes.
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    range: Option<RangeArg>,
    /// A version of the object, as `koine ls --versions` tells it.
    #[arg(long, value_name = "ID")]
    version: Option<VersionId>,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine cat`.
pub fn run(args: &CatArgs, output: Output) -> Outcome {
    if output.is_json() {
        return Err(Failure::usage("bytes are not JSON: leave out --json"));
    }
    let range = args.range.unwrap_or(RangeArg::From(0, None));
    for text in &args.objects {
        let named = ObjectUrl::object(text)?;
        let target = args.reach.open(&named.scheme)?;
        let done = write_out(&target, &named, args.version, range);
        let closed = target.close();
        done.and(closed)?;
    }
    Ok(())
}

fn write_out(target: &Target, named: &ObjectUrl, version: Option<VersionId>, range: RangeArg) -> Outcome {
    let mut out = io::stdout().lock();
    let mut write = |bytes: &[u8]| match out.write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::io("cannot write to standard output", &error)),
        Ok(()) => Ok(()),
    };
    match target {
        Target::Store(store) => {
            let reader = match version {
                None => store.objects().get(&named.bucket, &named.key),
                Some(version) => store.objects().get_version(named.name(), version),
            };
            let reader = reader.map_err(failed)?;
            each_piece(range.within(reader.info().size), |offset, length| {
                let bytes = reader.bytes(offset, usize::try_from(length).unwrap_or(usize::MAX)).map_err(failed)?;
                write(&bytes)
            })?;
        }
        Target::S3 { .. } if version.is_some() => return Err(no_versions(named)),
        Target::S3 { client, runtime } => {
            let object = runtime.block_on(client.head(&named.bucket, &named.key))?;
            each_piece(range.within(object.size), |offset, length| {
                let got = client.get(&named.bucket, &named.key, &object.etag, offset, length);
                write(&runtime.block_on(got)?)
            })?;
        }
    }
    out.flush().map_err(|error| Failure::io("cannot write to standard output", &error))
}

fn each_piece((offset, length): (u64, u64), mut act: impl FnMut(u64, u64) -> Outcome) -> Outcome {
    let end = offset + length;
    let mut offset = offset;
    while offset < end {
        let length = PIECE_LEN.min(end - offset);
        act(offset, length)?;
        offset += length;
    }
    Ok(())
}
