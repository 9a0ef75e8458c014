//! `koine search`: objects by their metadata or tags.

use clap::Args;
use koine::object::{Indexed, SearchQuery, Wanted};
use serde_json::json;

use super::{ObjectUrl, look_in_store};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::target::{TargetArgs, failed, rfc3339};

const EXAMPLES: &str = "Examples:
  export KOINE_STORE=store.koine
  koine search koine://photos --metadata camera=x100      those with this text
  koine search koine://photos/2026/ --metadata camera^x   those under 2026/ whose text begins so
  koine search koine://photos --tag year                  those that have such a tag
  koine search koine://photos --tag year --between 2024 2026

With an index (koine bucket index add) it costs what is found; without one everything in the bucket is looked at.";

/// How much is asked for at once.
const PAGE: usize = 1000;

/// The options of `koine search`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SearchArgs {
    /// koine://BUCKET, koine://BUCKET@SNAPSHOT, or one of them and what names begin with.
    #[arg(value_name = "BUCKET")]
    bucket: String,
    /// An entry of metadata: that it is there, its text, or what its text begins with.
    #[arg(long, value_name = "NAME[=VALUE|^PREFIX]", required_unless_present = "tag", conflicts_with = "tag")]
    metadata: Option<String>,
    /// A tag, in the same way.
    #[arg(long, value_name = "NAME[=VALUE|^PREFIX]")]
    tag: Option<String>,
    /// Texts from the first to the last of these, in the order of their bytes.
    #[arg(long, num_args = 2, value_names = ["FIRST", "LAST"])]
    between: Option<Vec<String>>,
    /// At most so many objects.
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    #[command(flatten)]
    reach: TargetArgs,
}

/// A name, and what its text is to be.
fn wanted(text: &str, between: Option<&[String]>) -> Outcome<(String, Wanted)> {
    let at = text.find(['=', '^']);
    let (name, rest) = text.split_at(at.unwrap_or(text.len()));
    let wanted = match (rest.strip_prefix('='), rest.strip_prefix('^'), between) {
        (None, None, Some([first, last])) => Wanted::Between(first.clone(), last.clone()),
        (None, None, _) => Wanted::Any,
        (_, _, Some(_)) => {
            return Err(Failure::usage(format!("{text}: with --between, give the name of the entry alone")));
        }
        (Some(value), _, None) => Wanted::Equal(value.to_owned()),
        (None, Some(prefix), None) => Wanted::BeginsWith(prefix.to_owned()),
    };
    if name.is_empty() {
        return Err(Failure::usage(format!("{text:?} lacks a name; write NAME, NAME=VALUE or NAME^PREFIX")));
    }
    Ok((name.to_owned(), wanted))
}

fn query(args: &SearchArgs, prefix: &str) -> Outcome<SearchQuery> {
    let between = args.between.as_deref();
    let (of, wanted) = match (&args.metadata, &args.tag) {
        (Some(text), _) => wanted(text, between).map(|(name, wanted)| (Indexed::Metadata(name), wanted))?,
        (None, Some(text)) => wanted(text, between).map(|(name, wanted)| (Indexed::Tag(name), wanted))?,
        (None, None) => return Err(Failure::usage("say what to search by: --metadata or --tag")),
    };
    let limit = args.limit.unwrap_or(usize::MAX).min(PAGE);
    Ok(SearchQuery { wanted, prefix: prefix.to_owned(), limit, ..SearchQuery::new(of) })
}

/// Runs `koine search`.
pub fn run(args: &SearchArgs, output: Output) -> Outcome {
    let named = ObjectUrl::parse(&args.bucket)?;
    let mut query = query(args, &named.key)?;
    let mut left = args.limit.unwrap_or(usize::MAX);
    look_in_store(&args.reach, &[&named], |store| {
        while left > 0 {
            query.limit = query.limit.min(left);
            let page = store.objects().search(&named.bucket, &query).map_err(failed)?;
            left -= page.found.len();
            for (value, object) in page.found {
                let name = format!("{}{}/{}", named.scheme.prefix(), named.bucket, object.key);
                output.people(format!("{}  {}", printable(&name), printable(&value)))?;
                output.json(&json!({
                    "type": "object", "bucket": named.bucket, "key": object.key, "value": value, "size": object.size,
                    "etag": object.etag.to_string(), "version": object.version.0, "modified": rfc3339(object.modified),
                }))?;
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_read() {
        let read = |text: &str| wanted(text, None).ok();
        assert_eq!(read("a"), Some(("a".into(), Wanted::Any)));
        assert_eq!(read("a=b^c=d"), Some(("a".into(), Wanted::Equal("b^c=d".into()))));
        assert_eq!(read("a^b=c"), Some(("a".into(), Wanted::BeginsWith("b=c".into()))));
        assert_eq!(read("a="), Some(("a".into(), Wanted::Equal(String::new()))));
        assert_eq!(read("=a"), None);
        let between = ["1".to_owned(), "2".to_owned()];
        assert_eq!(wanted("a", Some(&between)).ok(), Some(("a".into(), Wanted::Between("1".into(), "2".into()))));
        assert!(wanted("a=b", Some(&between)).is_err());
    }
}
