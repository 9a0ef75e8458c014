//! `koine rm`: objects are deleted, by name, by pattern, or all below a prefix.

use clap::Args;
use koine::object::{VersionId, Versioning};
use serde_json::json;

use super::{ObjectUrl, versions};
use crate::client::Listed;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::pattern::Pattern;
use crate::target::{Target, TargetArgs, failed};

const EXAMPLES: &str = "Examples:
  koine rm --store store.koine koine://photos/2026/a.jpg
  koine rm 'koine://photos/**/*.tmp'              every object of such a name
  koine rm -r koine://photos/2026                 all below it
  koine rm -r koine://photos                      the whole bucket, in one commit; it stays, empty (older versions stay, where they are kept)
  koine rm -r --dry-run s3://photos               what would go
  koine rm --version 187b3c5d2a9f0e41 koine://photos/a.jpg    of a bucket that keeps versions, that one for good";

/// How many are deleted in one commit.
const DELETE_LEN: usize = 1000;

/// The options of `koine rm`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RmArgs {
    /// koine://BUCKET/KEY or s3://BUCKET/KEY.
    #[arg(value_name = "OBJECT", required = true)]
    objects: Vec<String>,
    /// Everything below it; a bucket alone is emptied and stays.
    #[arg(short, long)]
    recursive: bool,
    /// Nothing there is no failure.
    #[arg(short, long)]
    force: bool,
    /// Say what would be deleted, and delete nothing.
    #[arg(long)]
    dry_run: bool,
    /// The key is a name as it stands, whatever `*`, `?` and `[` there are in it.
    #[arg(long)]
    exact: bool,
    /// A version of the object, or a delete marker, for good, as `koine ls --versions` tells it.
    #[arg(long, value_name = "ID", conflicts_with_all = ["recursive", "dry_run"])]
    version: Option<VersionId>,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine rm`.
pub fn run(args: &RmArgs, output: Output) -> Outcome {
    let objects = args.objects.iter().map(|text| ObjectUrl::parse(text)).collect::<Outcome<Vec<_>>>()?;
    let Some(first) = objects.first() else { return Ok(()) };
    if objects.iter().any(|object| object.scheme != first.scheme) {
        return Err(Failure::usage("names of a store and of servers cannot be mixed here: use one command for each"));
    }
    if let Some(named) = objects.iter().find(|named| named.key.is_empty() && !args.recursive) {
        return Err(Failure::usage(format!("{named} is a whole bucket; add --recursive, or name a key")));
    }
    if let Some(version) = args.version {
        return match objects.as_slice() {
            [named] => versions::remove(&args.reach, named, version, args.force, output),
            _ => Err(Failure::usage("--version takes exactly one object")),
        };
    }
    let target = args.reach.open(&first.scheme)?;
    let done = objects.iter().try_for_each(|named| remove(&target, named, args, output));
    let closed = target.close();
    done.and(closed)
}

fn remove(target: &Target, named: &ObjectUrl, args: &RmArgs, output: Output) -> Outcome {
    if let Target::Store(store) = target
        && named.key.is_empty()
        && !args.dry_run
        && store.objects().head_bucket(&named.bucket).map_err(failed)?.versioning == Versioning::Never
    {
        // Whatever it holds, in one commit. A bucket that keeps versions keeps them: its objects get delete markers.
        store.objects().purge_bucket(&named.bucket).wait().map_err(failed)?;
        output.people(format!("emptied {}", printable(&named.to_string())))?;
        return output.json(&json!({ "type": "emptied", "bucket": named.bucket }));
    }
    let pattern = if args.exact { None } else { Pattern::parse(&named.key)? };
    let mut going = Removal { target, named, args, output, keys: Vec::new(), count: 0 };
    if let Some(pattern) = &pattern {
        target.each(&named.bucket, pattern.prefix(), |entry| {
            if pattern.takes(entry.name()) { going.add(entry) } else { Ok(()) }
        })?;
    } else if args.recursive {
        // `a` means `a` itself and all below `a/`, never `ab`.
        let folder = named.key.clone();
        target.each(&named.bucket, &folder, |entry| match entry.name().strip_prefix(&folder) {
            Some(rest) if rest.is_empty() || folder.is_empty() || folder.ends_with('/') || rest.starts_with('/') => {
                going.add(entry)
            }
            _ => Ok(()),
        })?;
    } else {
        match target.size(&named.bucket, &named.key) {
            Ok(_) => going.name(named.key.clone())?,
            Err(failure) if args.force && failure.exit == crate::failure::Exit::Missing => {}
            Err(failure) => return Err(failure),
        }
    }
    going.flush()?;
    let may_be_empty = args.force || (named.key.is_empty() && args.recursive);
    if going.count == 0 && !may_be_empty {
        return Err(Failure::missing(format!("{}: nothing found", printable(&named.to_string()))));
    }
    Ok(())
}

/// What is to go, a commit's worth at a time.
struct Removal<'a> {
    target: &'a Target,
    named: &'a ObjectUrl,
    args: &'a RmArgs,
    output: Output,
    keys: Vec<String>,
    count: u64,
}

impl Removal<'_> {
    fn add(&mut self, entry: Listed) -> Outcome {
        match entry {
            Listed::Object { key, .. } => self.name(key),
            Listed::Prefix { .. } | Listed::Bucket { .. } => Ok(()),
        }
    }

    fn name(&mut self, key: String) -> Outcome {
        self.count += 1;
        self.keys.push(key);
        if self.keys.len() >= DELETE_LEN { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Outcome {
        let keys = std::mem::take(&mut self.keys);
        if !self.args.dry_run {
            self.target.delete(&self.named.bucket, &keys)?;
        }
        let word = if self.args.dry_run { "would delete" } else { "deleted" };
        for key in &keys {
            let name =
                ObjectUrl { scheme: self.named.scheme.clone(), bucket: self.named.bucket.clone(), key: key.clone() }
                    .to_string();
            self.output.people(format!("{word} {}", printable(&name)))?;
            self.output.json(&json!({ "type": word, "name": name }))?;
        }
        Ok(())
    }
}
