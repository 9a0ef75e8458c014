//! `koine node data`: puts, gets, deletes and tests keys straight on a device, for clients of the wire.
//!
//! Invariants:
//! - A device is formatted only when that is asked for and its first and last MiB are zeros; one with content never is.
//! - A stop answers what was asked before it, then closes the store.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use koine::{Found, Store};
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::serve::medium::MediumArgs;
use crate::serve::wire::{Wire, WireArgs};
use crate::serve::{grow_when_asked, log_to_stderr, stop_signal};
use crate::size;
use crate::store_path;

const EXAMPLES: &str = "Examples:
  koine node data /dev/sdx1 --format               an empty device; later without --format
  koine node data node.koine --size 100GiB         a file, made when it is missing
  koine node data /dev/sdx1 --wire 0.0.0.0:7070 --wire-key wire.key   for other machines
  koine kv put /dev/sdx1 key value                 from the same machine, while the node runs
  koine kv get koine+tcp:node1:7070 key --key-file wire.key   from another one

It listens on a socket for processes of its user, and on TCP where --wire says so: no S3, no objects
but those that clients make of keys and values. Keys have up to 2,048 bytes, values any length.

KOINE_LOG sets what is logged: error, warn (default), info or debug. SIGHUP makes it take what was
added to its device. Ctrl-C or SIGTERM stops it after the requests under way; a second one at once.";

/// The options of `koine node data`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DataArgs {
    /// A device, or a file (made when missing or empty).
    #[arg(value_name = "DEVICE", value_parser = store_path::parser())]
    device: PathBuf,
    /// Make a store on a device that is empty: its first and last MiB are zeros. What has a store already keeps it.
    #[arg(long)]
    format: bool,
    #[command(flatten)]
    medium: MediumArgs,
    #[command(flatten)]
    wire: WireArgs,
}

/// Runs `koine node data`.
pub fn run(args: &DataArgs, output: Output) -> Outcome {
    log_to_stderr()?;
    prepare(args)?;
    let path = args.device.to_str().ok_or_else(|| Failure::usage("the name of the device is not UTF-8"))?;
    let store = Arc::new(koine::open(&format!("engine:{path}"), &args.medium.options())?);
    if let Some(warning) = store.warning() {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::io("cannot start threads", &error))?;
    let served = runtime.block_on(async {
        let stop = stop_signal()?;
        grow_when_asked(&store)?;
        let wire = Wire::open(&args.wire, None, &store)?;
        banner(&store, &wire, output)?;
        stop.await;
        wire.close();
        Ok(())
    });
    // A task may still hold the store: it ends with the runtime.
    drop(runtime);
    let closed = store.close().map_err(Failure::from);
    served.and(closed)?;
    if !output.is_json() {
        eprintln!("koine: stopped; everything acknowledged is on the medium");
    }
    Ok(())
}

/// Makes a store on a device that is empty, where that was asked for.
fn prepare(args: &DataArgs) -> Outcome {
    if !matches!(koine::probe(&args.device)?, Found::Zeros) {
        // A file is made by opening it; what else there may be is refused there, with what to do.
        return Ok(());
    }
    if !args.format {
        let device = args.device.display();
        return Err(Failure::failed(format!(
            "{device} holds only zeros, no store yet: koine node data {device} --format makes one"
        )));
    }
    koine::format(&args.device, &args.medium.format_options())?;
    Ok(())
}

/// What listens where, and a first command to try.
fn banner(store: &Store, wire: &Wire, output: Output) -> Outcome {
    let place = store.place().to_string();
    let addresses: Vec<String> = wire.addresses.iter().map(|address| format!("koine+tcp:{address}")).collect();
    output.json(&json!({
        "type": "serving", "store": place, "pid": std::process::id(), "wire": addresses,
        "socket": wire.socket.as_ref().map(|socket| socket.to_string_lossy()),
    }))?;
    let usage = store.kv().usage().map_err(|error| Failure::from(koine::Error::from(error)))?;
    let (version, used) = (env!("CARGO_PKG_VERSION"), size::show(usage.used));
    let mut text = format!("Koine {version}: data node on {place} ({used} used)\n\n");
    if let Some(socket) = &wire.socket {
        text += &format!("  Processes    koine+unix:{}\n", socket.display());
    }
    for address in &addresses {
        text += &format!("  Machines     {address}\n");
    }
    text += &format!("\n  Try          koine kv put {place} key value\n  Stop         Ctrl-C\n");
    output.people(text)
}
