//! `koine info`: what is known of a bucket or an object.

use clap::Args;
use koine::object::{AccessTimes, ContentHeaders, ObjectInfo, Objects, VersionId};
use serde_json::{Value, json};

use super::{ObjectUrl, no_versions};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::size;
use crate::target::{Target, TargetArgs, failed, rfc3339};

const EXAMPLES: &str = "Examples:
  koine info --store store.koine koine://photos/a.jpg
  koine info --quiet koine://photos/a.jpg && echo there      exit code 4 where it is not";

/// The options of `koine info`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct InfoArgs {
    /// koine://BUCKET, koine://BUCKET/KEY, or s3:// in place of koine://.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Tell nothing but the exit code.
    #[arg(short, long)]
    quiet: bool,
    /// A version of the object, as `koine ls --versions` tells it.
    #[arg(long, value_name = "ID")]
    version: Option<VersionId>,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine info`.
pub fn run(args: &InfoArgs, output: Output) -> Outcome {
    for text in &args.names {
        let named = ObjectUrl::parse(text)?;
        let target = args.reach.look(&named.scheme)?;
        let told = tell(&target, &named, args.version);
        let closed = target.close();
        let value = told?;
        closed?;
        if !args.quiet {
            output.json(&value)?;
            output.people(lines(&named, &value))?;
        }
    }
    Ok(())
}

fn tell(target: &Target, named: &ObjectUrl, version: Option<VersionId>) -> Outcome<Value> {
    let ObjectUrl { bucket, key, .. } = named;
    match (target, version) {
        (_, Some(_)) if key.is_empty() => {
            Err(Failure::usage(format!("{named} is a whole bucket; name a key in it to see a version")))
        }
        (Target::S3 { .. }, Some(_)) => Err(no_versions(named)),
        (Target::Store(store), Some(version)) => {
            Ok(object(bucket, &store.objects().head_version(named.name(), version).map_err(failed)?))
        }
        (Target::Store(store), None) if key.is_empty() => self::bucket(store.objects(), bucket),
        (Target::Store(store), None) => Ok(object(bucket, &store.objects().head(bucket, key).map_err(failed)?)),
        (Target::S3 { client, runtime }, None) if key.is_empty() => {
            runtime.block_on(client.list(bucket, "", "/", None))?;
            Ok(json!({ "type": "bucket", "bucket": bucket }))
        }
        (Target::S3 { client, runtime }, None) => {
            let found = runtime.block_on(client.head(bucket, key))?;
            let sum = found.checksum.map(|sum| json!({ "CRC64NVME": hex::encode(sum.to_be_bytes()) }));
            Ok(json!({ "type": "object", "bucket": bucket, "key": key, "size": found.size, "etag": found.etag,
                       "checksums": sum.unwrap_or_else(|| json!({})) }))
        }
    }
}

/// All that is known of a bucket, and what it holds.
pub(crate) fn bucket(objects: &Objects, name: &str) -> Outcome<Value> {
    let info = objects.head_bucket(name).map_err(failed)?;
    let usage = objects.bucket_usage(name).map_err(failed)?;
    let kept = match info.access_times {
        AccessTimes::Off => "off",
        AccessTimes::Relative => "relative",
    };
    Ok(json!({
        "type": "bucket", "bucket": info.name, "created": rfc3339(info.created), "space": info.space.0.to_string(),
        "versioning": info.versioning.name(),
        "usage": { "objects": usage.objects, "bytes": usage.bytes, "older": usage.older,
                   "older_bytes": usage.older_bytes, "upload_bytes": usage.upload_bytes },
        "quota_bytes": info.quota.bytes, "quota_objects": info.quota.objects, "access_times": kept,
        "metadata": pairs(&info.metadata), "tags": pairs(&info.tags), "location": info.location,
    }))
}

fn pairs(entries: &[(String, String)]) -> Value {
    Value::Object(entries.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect())
}

/// All that is known of an object.
pub(crate) fn object(bucket: &str, info: &ObjectInfo) -> Value {
    let checksums: serde_json::Map<String, Value> =
        info.checksums.iter().map(|sum| (sum.algorithm.name().to_owned(), sum.to_text().into())).collect();
    json!({
        "type": "object", "bucket": bucket, "key": info.key, "size": info.size, "etag": info.etag.to_string(),
        "id": info.id.to_string(), "version": info.version.0, "version_id": info.version_id.to_string(),
        "created": rfc3339(info.created),
        "modified": rfc3339(info.modified), "changed": rfc3339(info.changed),
        "accessed": info.accessed.map(rfc3339), "mode": info.mode,
        "owner": info.posix_owner.map(|(uid, gid)| format!("{uid}:{gid}")),
        "parts": info.part_count, "checksums": checksums, "headers": headers(&info.headers), "metadata": pairs(&info.metadata),
        "tags": pairs(&info.tags),
    })
}

fn headers(headers: &ContentHeaders) -> Value {
    let named = [
        ("Content-Type", &headers.content_type),
        ("Cache-Control", &headers.cache_control),
        ("Content-Disposition", &headers.content_disposition),
        ("Content-Encoding", &headers.content_encoding),
        ("Content-Language", &headers.content_language),
        ("Expires", &headers.expires),
    ];
    let there = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::from(value.clone()?))));
    Value::Object(there.collect())
}

/// The same for people: a line for each field that says something.
fn lines(named: &ObjectUrl, value: &Value) -> String {
    let mut text = printable(&named.to_string());
    let fields = value.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| !matches!(name.as_str(), "type" | "bucket" | "key")) {
        match value {
            Value::Null => {}
            Value::Object(entries) => {
                for (entry, value) in entries {
                    let shown = value.as_str().map_or_else(|| value.to_string(), printable);
                    text += &format!("\n  {:10} {}: {shown}", name, printable(entry));
                }
            }
            Value::String(value) => text += &format!("\n  {name:10} {}", printable(value)),
            Value::Number(number) if name == "size" => {
                let bytes = number.as_u64().unwrap_or(0);
                text += &format!("\n  {name:10} {} ({bytes} bytes)", size::show(bytes));
            }
            Value::Number(number) if name == "mode" && number.as_u64() == Some(0) => {}
            other => text += &format!("\n  {name:10} {other}"),
        }
    }
    text
}
