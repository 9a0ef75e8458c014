//! `koine append` and `koine truncate`: an object's bytes change in place.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use koine::object::{EditOptions, Expected, ObjectName};

use super::{ObjectUrl, in_store, info};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::size;
use crate::target::{TargetArgs, failed};

const APPEND_EXAMPLES: &str = "Examples:
  date | koine append --store store.koine koine://logs/today
  koine append koine://logs/today more.txt --no-create";

const TRUNCATE_EXAMPLES: &str = "Examples:
  koine truncate --store store.koine koine://logs/today 0
  koine truncate koine://images/disk 10GiB       longer than it is: zeros, which take no space";

/// How much is read at once.
const PIECE_LEN: usize = 1 << 20;

/// The options of `koine append`.
#[derive(Args, Debug)]
#[command(after_help = APPEND_EXAMPLES)]
pub struct AppendArgs {
    /// koine://BUCKET/KEY; made where it is not there.
    #[arg(value_name = "OBJECT")]
    object: String,
    /// Where the bytes are; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Only where the object is there.
    #[arg(long)]
    no_create: bool,
    #[command(flatten)]
    reach: TargetArgs,
}

/// The options of `koine truncate`.
#[derive(Args, Debug)]
#[command(after_help = TRUNCATE_EXAMPLES)]
pub struct TruncateArgs {
    /// koine://BUCKET/KEY.
    #[arg(value_name = "OBJECT")]
    object: String,
    /// Its new length.
    #[arg(value_name = "SIZE", value_parser = size::parse)]
    size: u64,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine append`.
pub fn append(args: &AppendArgs, output: Output) -> Outcome {
    let named = ObjectUrl::object(&args.object)?;
    let cannot = |error: io::Error| Failure::io(format!("cannot read {}", args.file.display()), &error);
    let mut from: Box<dyn Read> = match args.file == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(&args.file).map_err(cannot)?),
    };
    let info = in_store(&args.reach, &[&named], |store| {
        let options = EditOptions { create: !args.no_create, ..EditOptions::default() };
        let name = ObjectName::new(&named.bucket, &named.key);
        let mut writer = store.objects().append(name, options).map_err(failed)?;
        let mut buffer = vec![0; PIECE_LEN];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => writer.write(buffer.get(..count).unwrap_or_default()).map_err(failed)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(cannot(error)),
            }
        }
        writer.finish(&Expected::none()).wait().map_err(failed)
    })?;
    tell("appended to", &named, &info, output)
}

/// Runs `koine truncate`.
pub fn truncate(args: &TruncateArgs, output: Output) -> Outcome {
    let named = ObjectUrl::object(&args.object)?;
    let info = in_store(&args.reach, &[&named], |store| {
        let name = ObjectName::new(&named.bucket, &named.key);
        store.objects().truncate(name, args.size, EditOptions::default()).wait().map_err(failed)
    })?;
    tell("truncated", &named, &info, output)
}

fn tell(did: &str, named: &ObjectUrl, info: &koine::object::ObjectInfo, output: Output) -> Outcome {
    output.people(format!("{did} {}; it has {} now", printable(&named.to_string()), size::show(info.size)))?;
    output.json(&info::object(&named.bucket, info))
}
