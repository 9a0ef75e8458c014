//! `koine serve`: opens a store and serves S3 until it is told to stop.
//!
//! Invariants:
//! - A file with content and a device without a store are never formatted.
//! - Nothing is served without credentials; secrets are shown once and never logged.
//! - A stop finishes the requests under way, then closes the store.

mod banner;
mod credentials;
mod files;
mod hangup;
pub mod medium;
mod memory;
mod scrub;
mod sealing;
pub mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use koine::{OpenOptions, SealingKey, Store};
use koine_gateway::{Credentials, Gateway, GatewayOptions, Secret};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::size;
use banner::Banner;
use credentials::Root;
pub use hangup::grow_when_asked;
use medium::MediumArgs;
use scrub::BackgroundScrub;
use wire::{OthersArgs, Wire, WireArgs};

const EXAMPLES: &str = "Examples:
  koine serve store.koine                          make or open a store, S3 at 127.0.0.1:9000
  koine serve store.koine --s3 0.0.0.0:9000        for the network (no TLS yet: a trusted one)
  koine serve store.koine --size 100GiB            let the file grow up to 100 GiB
  koine serve /dev/sdx1 --credentials root.key     a device made by `koine format /dev/sdx1`
  koine serve memory:                              in memory, gone at the end
  koine serve store.koine --wire 0.0.0.0:7070 --wire-key wire.key   keys and values for other machines

The first start makes random root credentials and shows them once; without a terminal it writes
them to STORE.credentials, for its owner only. KOINE_ROOT_USER and KOINE_ROOT_PASSWORD win at each
start and are not stored. KOINE_LOG sets what is logged: error, warn (default), info (also what was
refused by which rule, and what was deleted, by whom) or debug.
The secrets of S3 keys are sealed with a key in STORE.sealing, made with the first of them: keep a copy of it
apart from the store (see koine identity). It is read anew by itself when it has changed.
SIGHUP makes it take what was added to its device (see koine grow).
Ctrl-C or SIGTERM stops it after the requests under way; a second one at once.";

/// The options of `koine serve`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// A file (made when missing or empty), a formatted device, `memory:`, or `rocksdb:FOLDER`.
    #[arg(value_name = "STORE", env = "KOINE_STORE")]
    store: String,
    /// Where S3 listens; port 0 takes a free one. May be given more than once.
    #[arg(long, value_name = "ADDRESS", env = "KOINE_S3", default_value = "127.0.0.1:9000", value_delimiter = ',')]
    s3: Vec<SocketAddr>,
    /// Where a first start writes the root credentials, in place of showing them.
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    #[command(flatten)]
    medium: MediumArgs,
    /// Read and verify the store in the background, at most so many bytes a second; a pass begins with the
    /// server and a day after the one before, damage is logged [default: off].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    scrub_rate: Option<u64>,
    /// The region that signatures must name [default: any].
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// The file of keys that seal the secrets of access keys, made with the first of them; `none` keeps secrets as
    /// they are [default: koine-sealing-key in $CREDENTIALS_DIRECTORY; else STORE.sealing; none for a device].
    #[arg(long, value_name = "FILE", env = "KOINE_SEALING_KEY")]
    sealing_key: Option<SealingKey>,
    #[command(flatten)]
    wire: WireArgs,
    #[command(flatten)]
    others: OthersArgs,
}

/// Runs `koine serve`.
pub fn run(args: &ServeArgs, output: Output) -> Outcome {
    log_to_stderr()?;
    let sealing_key = args.sealing_key.clone().unwrap_or_default();
    let store = Arc::new(koine::open(&args.store, &OpenOptions { sealing_key, ..args.medium.options() })?);
    if let Some(warning) = store.warning() {
        tracing::warn!("{warning}");
    }
    sealing::check(&store, matches!(args.sealing_key, Some(SealingKey::File(_))))?;
    let root = Root::find(&store, |name| std::env::var(name).ok())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("cannot start threads", &error))?;
    let scrub = BackgroundScrub::start(&store, args.scrub_rate.unwrap_or(0))?;
    let served = runtime.block_on(serve(args, output, &store, root));
    drop(scrub);
    // Tasks may still hold the store: they end with the runtime.
    drop(runtime);
    let closed = store.close().map_err(Failure::from);
    served?;
    closed?;
    if !output.is_json() {
        eprintln!("koine: stopped; everything acknowledged is on the medium");
    }
    Ok(())
}

async fn serve(args: &ServeArgs, output: Output, store: &Arc<Store>, root: Root) -> Outcome {
    let listen = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => "; something listens there already, choose another with --s3 ADDRESS",
            _ => "",
        };
        Failure::failed(format!("{error}{hint}"))
    };
    let first = args.s3.first().ok_or_else(|| Failure::usage("--s3 does not name an address"))?;
    let mut options = GatewayOptions::new(*first);
    options.addresses.clone_from(&args.s3);
    options.region.clone_from(&args.region);
    options.limits.connections_max = files::for_connections(options.limits.connections_max);
    let credentials =
        Credentials { access: root.key().access_key.clone(), secret: Secret::new(root.key().secret.clone()) };
    // Listening comes before the credentials are shown: a start that fails shows nothing.
    let gateway = Gateway::bind(store.objects().clone(), credentials, options).await.map_err(listen)?;
    let stop = stop_signal()?;
    grow_when_asked(store)?;
    let shown = root.keep(store, args.credentials.as_deref(), output)?;
    let addresses = gateway.local_addresses().map_err(listen)?;
    let wire = Wire::open(&args.wire, Some(&args.others), store)?;
    Banner { store, addresses: &addresses, wire: &wire, root: &root, shown: &shown }.print(output)?;
    let cut = gateway.serve(stop).await;
    wire.close();
    if cut > 0 {
        eprintln!("koine: {cut} connections were cut before their requests were done");
    }
    Ok(())
}

/// Ready at the first SIGINT or SIGTERM; a second one ends the program at once.
pub fn stop_signal() -> Outcome<impl Future<Output = ()>> {
    let failed = |error| Failure::io("cannot listen for signals", &error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    Ok(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        eprintln!("koine: stopping; requests under way are finished first (once more to stop at once)");
        tokio::spawn(async move {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            // What was acknowledged is safe; the next start recovers.
            std::process::exit(130);
        });
    })
}

/// Warnings go to the standard error, and what else `KOINE_LOG` asks for.
///
/// Nothing of the protocol library is logged, whatever is asked for: it tells requests whole, with the metadata that users
/// gave. The door and the store tell what is to be known of them.
pub fn log_to_stderr() -> Outcome {
    let filter = std::env::var("KOINE_LOG").unwrap_or_else(|_| "warn".to_owned());
    log_to(&filter, std::io::stderr)?.init();
    Ok(())
}

fn log_to(
    filter: &str,
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> Outcome<impl SubscriberInitExt> {
    let asked = EnvFilter::try_new(filter)
        .map_err(|error| Failure::usage(format!("KOINE_LOG={filter}: {error}; use error, warn, info or debug")))?;
    let of_library = |target: &str| target == "s3s" || target.starts_with("s3s::");
    let ours = filter_fn(move |metadata| !of_library(metadata.target()));
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    Ok(tracing_subscriber::registry().with(asked).with(ours).with(lines))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("the log").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_protocol_library_says_nothing_whatever_is_asked_for() {
        for filter in ["trace", "trace,s3s=trace", "s3s::ops=trace,info", "s3s[call]=trace,info"] {
            let log = Log::default();
            let writer = log.clone();
            let guard = log_to(filter, move || writer.clone()).expect("a filter").set_default();
            tracing::info!("of the store");
            tracing::error!(target: "s3s::ops", "metadata of a user");
            tracing::error_span!(target: "s3s", "call", request = "secret").in_scope(|| tracing::info!("within"));
            drop(guard);
            let text = String::from_utf8(log.0.lock().expect("the log").clone()).expect("text");
            assert!(text.contains("of the store") && text.contains("within"), "{filter}: {text}");
            assert!(!text.contains("metadata") && !text.contains("secret"), "{filter}: {text}");
        }
        assert!(log_to("a=b=c", io::sink).is_err());
    }
}
