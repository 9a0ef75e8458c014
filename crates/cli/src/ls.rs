//! `koine ls`: buckets, keys under a prefix, or a local folder.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Client, Listed};
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::output::{Output, printable};
use crate::remote::Remote;
use crate::size;

const EXAMPLES: &str = "Examples:
  koine ls s3://                        all buckets
  koine ls s3://photos/2026/            what lies there; folders end with /
  koine ls --recursive s3://photos      every object
  koine ls --json s3://photos | jq .key
  koine ls ./photos                     a local folder, in the same form";

/// The options of `koine ls`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LsArgs {
    /// s3://, s3://BUCKET/PREFIX, or a local path.
    #[arg(default_value = "s3://", value_name = "LOCATION")]
    location: String,
    /// Everything below, not only the next level.
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Runs `koine ls`.
pub async fn run(args: &LsArgs, output: Output) -> Outcome {
    match Location::parse(&args.location)? {
        Location::Local(path) => list_local(&path, args.recursive, output),
        Location::S3 { bucket, .. } if bucket.is_empty() => {
            args.remote.client()?.buckets().await?.iter().try_for_each(|bucket| show(bucket, output))
        }
        Location::S3 { bucket, key } => {
            list_bucket(&args.remote.client()?, &bucket, &key, args.recursive, output).await
        }
    }
}

async fn list_bucket(client: &Client, bucket: &str, prefix: &str, recursive: bool, output: Output) -> Outcome {
    let delimiter = if recursive { "" } else { "/" };
    let mut from = None;
    let mut shown = 0_usize;
    loop {
        let page = client.list(bucket, prefix, delimiter, from.as_deref()).await?;
        shown += page.entries.len();
        page.entries.iter().try_for_each(|entry| show(entry, output))?;
        match page.next {
            Some(next) => from = Some(next),
            None if shown == 0 && !prefix.is_empty() => {
                return Err(Failure::missing(format!("s3://{bucket}/{prefix}: no key begins so")));
            }
            None => return Ok(()),
        }
    }
}

fn show(entry: &Listed, output: Output) -> Outcome {
    let (line, value) = match entry {
        Listed::Bucket { name, created } => {
            (row("", created, &printable(name)), json!({ "type": "bucket", "name": name, "created": created }))
        }
        Listed::Prefix { prefix } => (row("", "", &printable(prefix)), json!({ "type": "prefix", "prefix": prefix })),
        Listed::Object { key, size, modified, etag } => (
            row(&size::show(*size), modified, &printable(key)),
            json!({ "type": "object", "key": key, "size": size, "modified": modified, "etag": etag }),
        ),
    };
    output.people(line)?;
    output.json(&value)
}

/// A line: size, time, name.
fn row(size: &str, time: &str, name: &str) -> String {
    // `2026-11-21T15:00:00.000Z`: seconds are enough for people.
    let time = time.get(..19).map_or_else(String::new, |time| time.replacen('T', " ", 1));
    format!("{size:>10}  {time:19}  {name}")
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
        output.people(row("", &modified, &format!("{}/", printable(&name))))?;
        return output.json(&json!({ "type": "folder", "path": name }));
    }
    output.people(row(&size::show(metadata.len()), &modified, &printable(&name)))?;
    let value: Value = json!({ "type": "file", "path": name, "size": metadata.len(), "modified": modified });
    output.json(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_line_up() {
        assert_eq!(row("1.5 KiB", "2026-11-21T15:00:00.123Z", "a"), "   1.5 KiB  2026-11-21 15:00:00  a");
        assert_eq!(row("", "", "a/"), "                                 a/");
    }
}
