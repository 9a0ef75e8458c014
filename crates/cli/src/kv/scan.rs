//! `koine kv scan`: keys in order.

use clap::Args;
use koine::kv::{Direction, KeyRange};
use serde_json::json;

use super::{Session, SpaceArgs, failed};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};

/// Longer values are not shown in a list.
const SHOWN_LEN_MAX: u64 = 1024;

#[derive(Args, Debug)]
pub(super) struct ScanArgs {
    #[arg(value_name = "STORE", env = "KOINE_STORE")]
    store: String,
    /// Keys that begin with this.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
    /// From this key on.
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Before this key.
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// From the last key to the first.
    #[arg(long)]
    reverse: bool,
    /// At most so many.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Show values too, up to 1,024 bytes of each.
    #[arg(long)]
    values: bool,
    #[command(flatten)]
    target: SpaceArgs,
}

/// Runs `koine kv scan`.
pub(super) fn run(args: &ScanArgs, output: Output) -> Outcome {
    let session = Session::look(&args.store, &args.target)?;
    let (form, space) = (session.form, session.space);
    let range = match &args.prefix {
        Some(prefix) => KeyRange::prefix(form.parse(prefix)?),
        None => KeyRange {
            start: args.from.as_deref().map(|key| form.parse(key)).transpose()?.unwrap_or_default(),
            end: args.to.as_deref().map(|key| form.parse(key)).transpose()?,
        },
    };
    let direction = if args.reverse { Direction::Backward } else { Direction::Forward };
    let view = session.kv().view().map_err(failed)?;
    if !view.has_space(space).map_err(failed)? {
        return Err(Failure::missing(format!("there is no space {}; the first `koine kv put` makes it", space.0)));
    }
    let mut cursor = view.cursor(space, range, direction).map_err(failed)?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0
        && let Some(entry) = cursor.next().map_err(failed)?
    {
        left -= 1;
        let (size, version) = (entry.stat.size, entry.stat.version.0);
        let mut line = json!({ "type": "key", "key": form.json(&entry.key), "size": size, "version": version });
        let mut text = format!("{}\t{size}", form.show(&entry.key));
        if args.values && size <= SHOWN_LEN_MAX {
            let value = match entry.value {
                Some(value) => value,
                None => view.bytes(space, &entry.key, 0, SHOWN_LEN_MAX as usize).map_err(failed)?,
            };
            line["value"] = form.json(&value);
            text += &format!("\t{}", printable(&form.show(&value)));
        }
        output.json(&line)?;
        output.people(text)?;
    }
    drop((cursor, view));
    session.close()
}
