//! `koine ls`: buckets, keys under a prefix, or a local folder.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use crate::client::Listed;
use crate::failure::{Failure, Outcome};
use crate::location::{Location, Scheme};
use crate::object::{ObjectUrl, versions};
use crate::output::{Output, listing_row, printable};
use crate::pattern::Pattern;
use crate::size;
use crate::target::{Target, TargetArgs};

const EXAMPLES: &str = "Examples:
  koine ls --store store.koine koine://      all buckets of a store
  koine ls --group staff koine://            those of a group
  koine ls koine://photos/2026/              what lies there (KOINE_STORE is set); folders end with /
  koine ls 'koine://photos/**/*.jpg'         every object of such a name
  koine ls --recursive s3://photos           every object, by an S3 server
  koine ls --versions koine://photos/2026/   every version of what begins so, with its id
  koine ls --json s3://photos | jq .key
  koine ls ./photos                          a local folder, in the same form";

/// The options of `koine ls`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LsArgs {
    /// koine://, koine://BUCKET/PREFIX, s3:// in place of koine://, or a local path [default: koine:// where a store is named, else s3://]
    #[arg(value_name = "LOCATION")]
    location: Option<String>,
    /// Everything below, not only the next level.
    #[arg(short, long)]
    recursive: bool,
    /// The key is a prefix as it stands, whatever `*`, `?` and `[` there are in it.
    #[arg(long)]
    exact: bool,
    /// Every version of every object that begins so, newest first, with its id; delete markers too.
    #[arg(long, conflicts_with = "recursive")]
    versions: bool,
    /// The buckets of this group alone. Of a store.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["recursive", "versions", "exact"])]
    group: Option<String>,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine ls`.
pub fn run(args: &LsArgs, output: Output) -> Outcome {
    let location = args.location.as_deref().unwrap_or(if args.reach.names_store() { "koine://" } else { "s3://" });
    let (scheme, bucket, key) = match Location::parse(location)? {
        Location::Local(path) => return list_local(&path, args.recursive, output),
        Location::Object { scheme, bucket, key } => (scheme, bucket, key),
    };
    if args.versions {
        return versions::list(&args.reach, &ObjectUrl { scheme, bucket, key }, args.exact, output);
    }
    if args.group.is_some() && (scheme.is_server() || !bucket.is_empty()) {
        return Err(Failure::usage("--group is for the buckets of a store: koine ls --group NAME koine://"));
    }
    let target = args.reach.look(&scheme)?;
    if bucket.is_empty() {
        target.buckets(args.group.clone())?.iter().try_for_each(|bucket| show(bucket, output))?;
    } else {
        let pattern = if args.exact { None } else { Pattern::parse(&key)? };
        match pattern {
            Some(pattern) => list_matches(&target, (&scheme, &bucket), &pattern, output)?,
            None => list_prefix(&target, (&scheme, &bucket), &key, args.recursive, output)?,
        }
    }
    target.close()
}

fn list_prefix(
    target: &Target,
    (scheme, bucket): (&Scheme, &str),
    prefix: &str,
    recursive: bool,
    output: Output,
) -> Outcome {
    let delimiter = if recursive { "" } else { "/" };
    let mut from = None;
    let mut shown = 0_usize;
    loop {
        let page = target.list(bucket, prefix, delimiter, from.as_deref())?;
        shown += page.entries.len();
        page.entries.iter().try_for_each(|entry| show(entry, output))?;
        match page.next {
            Some(next) => from = Some(next),
            None if shown == 0 && !prefix.is_empty() => {
                return Err(Failure::missing(format!("{}{bucket}/{prefix}: no key has this prefix", scheme.prefix())));
            }
            None => return Ok(()),
        }
    }
}

fn list_matches(target: &Target, (scheme, bucket): (&Scheme, &str), pattern: &Pattern, output: Output) -> Outcome {
    let mut shown = false;
    target.each(bucket, pattern.prefix(), |entry| {
        if !pattern.takes(entry.name()) {
            return Ok(());
        }
        shown = true;
        show(&entry, output)
    })?;
    if shown { Ok(()) } else { Err(pattern.nothing(scheme, bucket)) }
}

fn show(entry: &Listed, output: Output) -> Outcome {
    let (line, value) = match entry {
        Listed::Bucket { name, created } => {
            (listing_row("", created, &printable(name)), json!({ "type": "bucket", "name": name, "created": created }))
        }
        Listed::Prefix { prefix } => {
            (listing_row("", "", &printable(prefix)), json!({ "type": "prefix", "prefix": prefix }))
        }
        Listed::Object { key, size, modified, etag } => (
            listing_row(&size::show(*size), modified, &printable(key)),
            json!({ "type": "object", "key": key, "size": size, "modified": modified, "etag": etag }),
        ),
    };
    output.people(line)?;
    output.json(&value)
}

fn list_local(path: &Path, recursive: bool, output: Output) -> Outcome {
    let failed = |error| Failure::io(path.display(), &error);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_dir() {
        return show_local(path, &metadata, output);
    }
    let mut entries = std::fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let metadata = entry.metadata().map_err(failed)?;
        if recursive && metadata.is_dir() {
            list_local(&entry.path(), true, output)?;
        } else {
            show_local(&entry.path(), &metadata, output)?;
        }
    }
    Ok(())
}

fn show_local(path: &Path, metadata: &std::fs::Metadata, output: Output) -> Outcome {
    let modified = time::OffsetDateTime::from_unix_timestamp(metadata.mtime())
        .ok()
        .and_then(|time| time.format(&time::format_description::well_known::Rfc3339).ok())
        .unwrap_or_default();
    let name = path.to_string_lossy();
    if metadata.is_dir() {
        output.people(listing_row("", &modified, &format!("{}/", printable(&name))))?;
        return output.json(&json!({ "type": "folder", "path": name }));
    }
    output.people(listing_row(&size::show(metadata.len()), &modified, &printable(&name)))?;
    let value: Value = json!({ "type": "file", "path": name, "size": metadata.len(), "modified": modified });
    output.json(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_line_up() {
        assert_eq!(listing_row("1.5 KiB", "2026-11-21T15:00:00.123Z", "a"), "   1.5 KiB  2026-11-21 15:00:00  a");
        assert_eq!(listing_row("", "", "a/"), "                                 a/");
    }
}
