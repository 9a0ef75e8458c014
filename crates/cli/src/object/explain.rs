//! `koine bucket explain`: whether somebody may do something, and why.

use clap::Args;
use koine::object::{Action, Asker};
use serde_json::json;

use super::{ObjectUrl, look_in_store};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, printable};
use crate::target::{TargetArgs, failed};

/// The options of `koine bucket explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// koine://BUCKET or koine://BUCKET/KEY.
    #[arg(value_name = "NAME")]
    name: String,
    /// What is to be done, as policies write it: s3:GetObject.
    #[arg(value_name = "ACTION", value_parser = action)]
    action: Action,
    /// Who would do it; without this and --access-key, somebody without an identity.
    #[arg(long, value_name = "USER", conflicts_with = "access_key")]
    user: Option<String>,
    /// Who signs with this access key; what it is narrowed to counts too.
    #[arg(long, value_name = "KEY")]
    access_key: Option<String>,
    #[command(flatten)]
    reach: TargetArgs,
}

fn action(text: &str) -> Result<Action, String> {
    text.parse().map_err(|error: koine::object::Error| error.message().to_owned())
}

/// Runs `koine bucket explain`.
pub fn run(args: &ExplainArgs, output: Output) -> Outcome {
    let named = ObjectUrl::parse(&args.name)?;
    let key = Some(named.key.as_str()).filter(|key| !key.is_empty());
    let (asker, who) = match (&args.user, &args.access_key) {
        (Some(user), _) => (Asker::User(user.clone()), user.as_str()),
        (None, Some(key)) => (Asker::AccessKey(key.clone()), key.as_str()),
        (None, None) => (Asker::Everyone, "everyone"),
    };
    let decision = look_in_store(&args.reach, &[&named], |store| {
        store.objects().identities().explain(&asker, args.action, &named.bucket, key).map_err(failed)
    })?;
    let (may, rule) = (if decision.allowed { "may" } else { "may not" }, decision.rule.to_string());
    output.people(format!("{} {may} do {}: {}", printable(who), args.action.name(), printable(&rule)))?;
    output.json(&json!({
        "type": "decision", "name": args.name, "action": args.action.name(), "who": who, "allowed": decision.allowed,
        "rule": rule,
    }))?;
    // As `grep` does it, the exit code tells what was found; it was told above already.
    if decision.allowed { Ok(()) } else { Err(Failure::refused("not allowed")) }
}
