//! `koine share`: an address by which whoever has it may get or put one object, for a while, without keys.

use clap::Args;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::moment;
use crate::object::ObjectUrl;
use crate::output::Output;
use crate::target::{Target, TargetArgs};

use std::time::Duration;

const EXAMPLES: &str = "Examples:
  koine share s3://photos/a.jpg                     to get it, for a day
  koine share --expires 7d lab://photos/a.jpg       of the server with the alias lab
  koine share --put --expires 1h s3://inbox/report.pdf
  curl -T report.pdf \"$(koine share --put s3://inbox/report.pdf)\"

The address is signed with the keys of who makes it (signature version 4), and ends to work when these keys do, or their rights. It is
made without asking the server: the object need not be there yet.";

/// The longest time that S3 takes.
const EXPIRES_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The options of `koine share`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ShareArgs {
    /// s3://BUCKET/KEY or ALIAS://BUCKET/KEY.
    #[arg(value_name = "OBJECT")]
    object: String,
    /// To put the object; else to get it.
    #[arg(long)]
    put: bool,
    /// How long it works: 45s, 90m, 12h, at most 7d.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = moment::span)]
    expires: Duration,
    #[command(flatten)]
    reach: TargetArgs,
}

/// Runs `koine share`.
pub fn run(args: &ShareArgs, output: Output) -> Outcome {
    let named = ObjectUrl::object(&args.object)?;
    if !named.scheme.is_server() {
        return Err(Failure::usage(format!(
            "{named}: only an S3 server has such addresses: name the object s3://{}/{} and the server by --endpoint, or by an alias",
            named.bucket, named.key
        )));
    }
    if args.expires > EXPIRES_MAX || args.expires.is_zero() {
        return Err(Failure::usage("--expires: an address works for at least one second and at most 7 days"));
    }
    let method = if args.put { "PUT" } else { "GET" };
    let target = args.reach.open(&named.scheme)?;
    let Target::S3 { client, .. } = &target else { return Err(Failure::failed("no server was opened")) };
    let (url, ends) = client.presigned(method, (&named.bucket, &named.key), args.expires)?;
    target.close()?;
    output.people(&url)?;
    output.json(&json!({ "type": "share", "method": method, "url": url, "expires": ends }))
}
