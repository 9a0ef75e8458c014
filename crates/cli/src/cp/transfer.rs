//! Runs copies: those of a store on threads, those that a server takes part in as tasks.
//!
//! Invariants:
//! - One copy that fails does not stop the others.
//! - Jobs are taken as there is room: however many there are, `--parallel` of them are in memory.

use std::sync::Arc;

use indicatif::ProgressBar;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::context::{CopySide, TransferContext, TransferOptions};
use super::plan::Job;
use super::summary::{Summary, Verified};
use super::{across, download, server_copy, store_copy, upload};
use crate::failure::{Failure, Outcome};
use crate::location::Location;
use crate::output::Output;
use crate::target::Target;
use crate::targets::Targets;

async fn run_one(context: &Arc<TransferContext>, job: &Job) -> Outcome<Verified> {
    match (&job.from, &job.to) {
        (Location::Local(path), Location::Object { scheme, bucket, key }) => match context.side(scheme)? {
            CopySide::S3(client) => upload::run(&context.context(client), path, bucket, key).await,
            CopySide::Store(_) => Err(Failure::failed("a copy into a store was given to a server")),
        },
        (Location::Object { scheme, bucket, key }, Location::Local(path)) => match context.side(scheme)? {
            CopySide::S3(client) => download::run(&context.context(client), bucket, key, path).await,
            CopySide::Store(_) => Err(Failure::failed("a copy out of a store was given to a server")),
        },
        (Location::Object { scheme, bucket, key }, Location::Object { scheme: to_scheme, bucket: to, key: to_key }) => {
            let (from_side, to_side) = (context.side(scheme)?, context.side(to_scheme)?);
            match from_side {
                CopySide::S3(client) if scheme == to_scheme => {
                    server_copy::run(&context.context(client), (bucket, key), (to, to_key)).await
                }
                _ => across::run(context, (from_side, bucket, key), (to_side, to, to_key)).await,
            }
        }
        (Location::Local(_), Location::Local(_)) => Err(Failure::usage("one side must be an object")),
    }
}

/// Whether a server takes part in a copy.
pub fn by_server(job: &Job) -> bool {
    [&job.from, &job.to].into_iter().any(|name| matches!(name, Location::Object { scheme, .. } if scheme.is_server()))
}

/// Runs copies; all of them by a server, or none. The failure of a `single` one is that of the command.
pub fn run(
    options: &TransferOptions,
    targets: &Targets,
    (jobs, single): (impl Iterator<Item = Job> + Send, bool),
    bar: &ProgressBar,
    output: Output,
) -> Outcome<Summary> {
    let mut jobs = jobs.peekable();
    let Some(first) = jobs.peek() else { return Ok(Summary::default()) };
    if !by_server(first) {
        let Some(store) = targets.store() else { return Err(Failure::usage("one side must be an object")) };
        return store_copy::run_all(options, store.objects(), bar, (jobs, single), output);
    }
    let mut on = None;
    let sides = targets.all().map(|(scheme, target)| {
        let side = match target {
            Target::Store(store) => CopySide::Store(store.objects().clone()),
            Target::S3 { client, runtime } => {
                on = on.or(Some(runtime));
                CopySide::S3(client.clone())
            }
        };
        (scheme.clone(), side)
    });
    let shared = TransferContext {
        sides: sides.collect(),
        options: options.clone(),
        permits: Arc::new(Semaphore::new(options.parallel)),
        bar: bar.clone(),
    };
    let runtime = on.ok_or_else(|| Failure::failed("no server was opened"))?;
    runtime.block_on(run_all(&Arc::new(shared), (jobs, single), output))
}

async fn run_all(
    shared: &Arc<TransferContext>,
    (mut waiting, single): (impl Iterator<Item = Job>, bool),
    output: Output,
) -> Outcome<Summary> {
    let mut summary = Summary::default();
    let mut running = JoinSet::new();
    loop {
        while running.len() < shared.options.parallel {
            let Some(job) = waiting.next() else { break };
            let shared = Arc::clone(shared);
            running.spawn(async move {
                let result = run_one(&shared, &job).await;
                (job, result)
            });
        }
        let Some(done) = running.join_next().await else { return Ok(summary) };
        let (job, result) = done.map_err(|error| Failure::failed(format!("a copy failed: {error}")))?;
        summary.note(&job, result, single, &shared.bar, output)?;
    }
}
