//! `koine set`: what is known of an object beside its bytes; `koine compose`: one object of several.

use clap::Args;
use koine::env::Timestamp;
use koine::object::{
    AttributeChange, ComposeOptions, EditOptions, MetadataChange, ObjectName, PutCondition, PutOptions, Segment,
};

use super::{ObjectUrl, in_store, info};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::size;
use crate::target::{TargetArgs, failed};

const SET_EXAMPLES: &str = "Examples:
  export KOINE_STORE=store.koine
  koine set koine://photos/a.jpg --metadata camera=x100 --tag year=2026
  koine set koine://photos/a.jpg --remove-metadata camera --content-type image/jpeg
  koine set koine://photos/a.jpg --modified 2026-01-01T00:00:00Z --mode 640";

const COMPOSE_EXAMPLES: &str = "Example:
  koine compose --store store.koine koine://logs/mon koine://logs/tue koine://logs/week

The bytes are shared, not copied: it costs the same whatever the length of each.";

/// The options of `koine set`.
#[derive(Args, Debug)]
#[command(after_help = SET_EXAMPLES)]
pub struct SetArgs {
    /// koine://BUCKET/KEY.
    #[arg(value_name = "OBJECT")]
    object: String,
    /// An entry of its metadata.
    #[arg(long, value_name = "NAME=VALUE", value_parser = entry)]
    metadata: Vec<(String, String)>,
    /// An entry of its metadata that goes.
    #[arg(long, value_name = "NAME")]
    remove_metadata: Vec<String>,
    /// A tag.
    #[arg(long, value_name = "NAME=VALUE", value_parser = entry)]
    tag: Vec<(String, String)>,
    /// A tag that goes.
    #[arg(long, value_name = "NAME")]
    remove_tag: Vec<String>,
    /// What it is, as HTTP tells it.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Permission bits, in octal.
    #[arg(long, value_name = "BITS", value_parser = octal)]
    mode: Option<u32>,
    /// User and group, as numbers, for file systems.
    #[arg(long, value_name = "UID:GID", value_parser = owner)]
    owner: Option<(u32, u32)>,
    /// When its bytes were last changed, as in 2026-01-01T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    modified: Option<Timestamp>,
    /// When it was last read, where its bucket keeps that.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    accessed: Option<Timestamp>,
    #[command(flatten)]
    reach: TargetArgs,
}

/// The options of `koine compose`.
#[derive(Args, Debug)]
#[command(after_help = COMPOSE_EXAMPLES)]
pub struct ComposeArgs {
    /// koine://BUCKET/KEY, in order.
    #[arg(value_name = "FROM", required = true)]
    from: Vec<String>,
    /// koine://BUCKET/KEY, which may be one of them.
    #[arg(value_name = "TO")]
    to: String,
    /// Only where the target is not there.
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    reach: TargetArgs,
}

pub(super) fn entry(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not an entry; write NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn octal(text: &str) -> Result<u32, String> {
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
    bits.ok_or_else(|| format!("{text:?} are not permission bits; write them as 640"))
}

fn owner(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    numbers.ok_or_else(|| format!("{text:?} is not an owner; write two numbers, as 1000:100"))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let read = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339);
    let time = read.ok().and_then(|time| u64::try_from(time.unix_timestamp_nanos()).ok());
    time.map(Timestamp).ok_or_else(|| format!("{text:?} is not a time since 1970; write it as 2026-01-01T00:00:00Z"))
}

pub(super) fn change(set: &[(String, String)], remove: &[String]) -> Option<MetadataChange> {
    let any = !set.is_empty() || !remove.is_empty();
    any.then(|| MetadataChange::Merge { set: set.to_vec(), remove: remove.to_vec() })
}

/// Runs `koine set`.
pub fn set(args: &SetArgs, output: Output) -> Outcome {
    let named = ObjectUrl::object(&args.object)?;
    let mut change = AttributeChange {
        metadata: change(&args.metadata, &args.remove_metadata),
        tags: change(&args.tag, &args.remove_tag),
        mode: args.mode,
        posix_owner: args.owner,
        modified: args.modified,
        accessed: args.accessed,
        ..AttributeChange::default()
    };
    if change == AttributeChange::default() && args.content_type.is_none() {
        return Err(Failure::usage("nothing to set; see koine set --help"));
    }
    let name = ObjectName::new(&named.bucket, &named.key);
    let info = in_store(&args.reach, &[&named], |store| {
        let mut options = EditOptions::default();
        if let Some(content_type) = &args.content_type {
            // All headers are set at once: the others are those that were read, of the object that they were read of.
            let there = store.objects().head(name.bucket, name.key).map_err(failed)?;
            options.only = Some(there.id);
            let mut headers = there.headers;
            headers.content_type = Some(content_type.clone());
            change.headers = Some(headers);
        }
        store.objects().set_attributes(name, change, options).wait().map_err(failed)
    })?;
    output.people(format!("changed {}", printable(&named.to_string())))?;
    output.json(&info::object(&named.bucket, &info))
}

/// Runs `koine compose`.
pub fn compose(args: &ComposeArgs, output: Output) -> Outcome {
    let from = args.from.iter().map(|name| ObjectUrl::object(name)).collect::<Outcome<Vec<_>>>()?;
    let to = ObjectUrl::object(&args.to)?;
    let mut all: Vec<&ObjectUrl> = from.iter().collect();
    all.push(&to);
    let info = in_store(&args.reach, &all, |store| {
        let segments: Vec<Segment<'_>> =
            from.iter().map(|from| Segment::whole(ObjectName::new(&from.bucket, &from.key))).collect();
        let condition = if args.if_absent { PutCondition::absent() } else { PutCondition::none() };
        let put = PutOptions { condition, ..PutOptions::default() };
        let options = ComposeOptions { put, ..ComposeOptions::default() };
        let target = ObjectName::new(&to.bucket, &to.key);
        store.objects().compose(&segments, target, options).wait().map_err(failed)
    })?;
    output.people(format!("composed {}, {}", printable(&to.to_string()), size::show(info.size)))?;
    output.json(&info::object(&to.bucket, &info))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_bits_and_entries_are_read() {
        assert_eq!(moment("2026-01-01T00:00:00Z"), Ok(Timestamp(1_767_225_600_000_000_000)));
        assert!(moment("yesterday").is_err() && moment("1960-01-01T00:00:00Z").is_err());
        assert_eq!(octal("640"), Ok(0o640));
        assert!(octal("8").is_err() && octal("70000").is_err());
        assert_eq!(owner("1000:100"), Ok((1000, 100)));
        assert!(owner("1000").is_err() && owner("ann:lab").is_err());
        assert_eq!(entry("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(entry("a").is_err());
    }
}
