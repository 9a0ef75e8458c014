//! Versions on the command line: `koine ls --versions`, `koine rm --version`, `koine bucket versioning`.

use clap::{Subcommand, ValueEnum};
use koine::object::{ErrorKind, VersionId, VersionQuery, VersionSummary, Versioning};
use serde_json::json;

use super::groups::BucketNameArgs;
use super::{ObjectUrl, in_store, look_in_store};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, listing_row, printable};
use crate::pattern::Pattern;
use crate::size;
use crate::target::{TargetArgs, failed, rfc3339};

/// How many are told at once.
const PAGE_LEN: usize = 1000;

/// Lists the versions of all objects that begin so, or whose names a pattern takes.
pub(crate) fn list(reach: &TargetArgs, named: &ObjectUrl, exact: bool, output: Output) -> Outcome {
    if named.bucket.is_empty() {
        return Err(Failure::usage("--versions needs a bucket: koine://BUCKET/PREFIX"));
    }
    let pattern = if exact { None } else { Pattern::parse(&named.key)? };
    let prefix = pattern.as_ref().map_or(named.key.as_str(), Pattern::prefix);
    let mut query = VersionQuery { prefix: prefix.to_owned(), limit: PAGE_LEN, ..VersionQuery::default() };
    let mut shown = 0_usize;
    look_in_store(reach, &[named], |store| {
        loop {
            let page = store.objects().list_versions(&named.bucket, &query).map_err(failed)?;
            let takes = |version: &&VersionSummary| pattern.as_ref().is_none_or(|pattern| pattern.takes(&version.key));
            for version in page.versions.iter().filter(takes) {
                shown += 1;
                show(version, output)?;
            }
            let Some((key, version)) = page.next else { return Ok(()) };
            (query.key_after, query.version_after) = (Some(key), version);
        }
    })?;
    if shown == 0 && !named.key.is_empty() {
        return Err(Failure::missing(format!("{}: no version has this prefix", printable(&named.to_string()))));
    }
    Ok(())
}

fn show(version: &VersionSummary, output: Output) -> Outcome {
    let VersionSummary { key, id, newest, modified, object } = version;
    let modified = rfc3339(*modified);
    let size = object.as_ref().map_or_else(|| "deleted".to_owned(), |object| size::show(object.size));
    let mark = if *newest { "*" } else { " " };
    output.people(format!("{id:16} {mark} {}", listing_row(&size, &modified, &printable(key))))?;
    output.json(&match object {
        Some(object) => json!({ "type": "version", "key": key, "version_id": id.to_string(), "newest": newest,
                                "modified": modified, "size": object.size, "etag": object.etag.to_string() }),
        None => json!({ "type": "marker", "key": key, "version_id": id.to_string(), "newest": newest,
                        "modified": modified }),
    })
}

/// Deletes a version of an object for good.
pub(crate) fn remove(
    reach: &TargetArgs,
    named: &ObjectUrl,
    version: VersionId,
    force: bool,
    output: Output,
) -> Outcome {
    in_store(reach, &[named], |store| match store.objects().delete_version(named.name(), version).wait() {
        Err(error) if force && error.kind() == ErrorKind::NoSuchVersion => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(deleted) => {
            let what = if deleted.marker { "delete marker" } else { "version" };
            output.people(format!("deleted {what} {version} of {}", printable(&named.to_string())))?;
            output.json(&json!({ "type": "deleted", "name": named.to_string(), "version_id": version.to_string(),
                                 "marker": deleted.marker }))
        }
    })
}

/// The verbs of `koine bucket versioning`.
#[derive(Subcommand, Debug)]
pub(crate) enum VersioningCommand {
    /// Show what a bucket keeps.
    Show(BucketNameArgs),
    /// Say what a bucket keeps from now on.
    Set {
        #[command(flatten)]
        of: BucketNameArgs,
        /// What it keeps.
        #[arg(value_name = "STATE")]
        state: State,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum State {
    /// Every object that is put under a name.
    Enabled,
    /// What was kept while versions were enabled, and one object a name beside it.
    Suspended,
}

/// Runs `koine bucket versioning`.
pub(crate) fn versioning(command: &VersioningCommand, output: Output) -> Outcome {
    let (of, state) = match command {
        VersioningCommand::Show(of) => (of, None),
        VersioningCommand::Set { of, state } => (of, Some(state)),
    };
    let named = ObjectUrl::bucket(&of.bucket)?;
    let now = in_store(&of.reach, &[&named], |store| {
        if let Some(state) = state {
            let versioning = match state {
                State::Enabled => Versioning::Enabled,
                State::Suspended => Versioning::Suspended,
            };
            store.objects().set_versioning(&named.bucket, versioning).wait().map_err(failed)?;
        }
        Ok(store.objects().head_bucket(&named.bucket).map_err(failed)?.versioning)
    })?;
    output.people(format!("{}  versions {now}", named.bucket))?;
    output.json(&json!({ "type": "bucket", "bucket": named.bucket, "versioning": now.name() }))
}
