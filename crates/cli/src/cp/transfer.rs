//! Runs copies: those of a store on threads, those that a server takes part in as tasks.
//!
//! Invariants:
//! - One copy that fails does not stop the others.
//! - Jobs are taken as there is room: however many there are, `--parallel` of them are in memory.

use std::sync::Arc;

use indicatif::ProgressBar;
use koine::object::{EditOptions, EtagKind, EtagMatch, Objects, PutCondition};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::plan::Job;
use super::summary::{Summary, Verified};
use super::{across, copy, download, store, upload};
use crate::client::Client;
use crate::doors::Doors;
use crate::failure::{Failure, Outcome};
use crate::holder::Holder;
use crate::location::{Door, Location};
use crate::output::Output;

/// The fewest bytes of a part that S3 takes.
pub const PART_LEN_MIN: u64 = 5 << 20;
/// The most parts of an object.
const PARTS_MAX: u64 = 10_000;

/// How copies are made.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Only where the target is not there.
    pub if_absent: bool,
    /// Only where it is.
    pub if_present: bool,
    /// Objects of a store get the MD5 of their bytes as ETag.
    pub md5: bool,
    /// Go on with what was begun.
    pub resume: bool,
    /// How many parts or objects are under way at once.
    pub parallel: usize,
    /// How long a part should be.
    pub part_len: u64,
}

impl Manner {
    /// What has to hold of each target.
    pub fn condition(&self) -> PutCondition {
        match (self.if_absent, self.if_present) {
            (true, _) => PutCondition::absent(),
            (_, true) => PutCondition { if_match: Some(EtagMatch::Any), ..PutCondition::none() },
            _ => PutCondition::none(),
        }
    }

    /// The same, of a target that is edited.
    pub fn edit(&self) -> EditOptions {
        EditOptions { condition: self.condition(), ..EditOptions::default() }
    }

    /// Which ETag objects of a store get.
    pub fn etag(&self) -> EtagKind {
        if self.md5 { EtagKind::Md5 } else { EtagKind::Drawn }
    }
}

/// Offset and length of each part of `size` bytes, where one should have `part_len`.
pub fn parts(size: u64, part_len: u64) -> Vec<(u64, u64)> {
    let least = size.div_ceil(PARTS_MAX).next_multiple_of(1 << 20);
    let length = part_len.max(least).max(1);
    (0..size.div_ceil(length)).map(|index| (index * length, length.min(size - index * length))).collect()
}

/// What copies by one server share.
pub struct Context {
    pub client: Client,
    pub permits: Arc<Semaphore>,
    pub part_len: u64,
    pub bar: ProgressBar,
}

impl Context {
    /// Waits for one of the places in flight.
    pub async fn permit(&self) -> Outcome<OwnedSemaphorePermit> {
        permit(&self.permits).await
    }

    /// The parts of `size` bytes: offset and length of each.
    pub fn parts(&self, size: u64) -> Vec<(u64, u64)> {
        parts(size, self.part_len)
    }
}

/// Waits for one of the places in flight.
pub async fn permit(permits: &Arc<Semaphore>) -> Outcome<OwnedSemaphorePermit> {
    Arc::clone(permits).acquire_owned().await.map_err(|_| Failure::failed("stopped"))
}

/// Where objects are read or written.
#[derive(Clone)]
pub enum Side {
    Store(Objects),
    S3(Client),
}

/// What all copies of a command share that a server takes part in.
pub struct Shared {
    sides: Vec<(Door, Side)>,
    pub manner: Manner,
    pub permits: Arc<Semaphore>,
    pub bar: ProgressBar,
}

impl Shared {
    fn side(&self, door: &Door) -> Outcome<&Side> {
        let found = self.sides.iter().find(|(there, _)| there == door);
        found.map(|(_, side)| side).ok_or_else(|| Failure::failed(format!("{} was not opened", door.scheme())))
    }

    fn context(&self, client: &Client) -> Arc<Context> {
        let permits = Arc::clone(&self.permits);
        let (part_len, bar) = (self.manner.part_len, self.bar.clone());
        Arc::new(Context { client: client.clone(), permits, part_len, bar })
    }

    async fn run(self: &Arc<Self>, job: &Job) -> Outcome<Verified> {
        match (&job.from, &job.to) {
            (Location::Local(path), Location::Object { door, bucket, key }) => match self.side(door)? {
                Side::S3(client) => upload::run(&self.context(client), path, bucket, key).await,
                Side::Store(_) => Err(Failure::failed("a copy into a store was given to a server")),
            },
            (Location::Object { door, bucket, key }, Location::Local(path)) => match self.side(door)? {
                Side::S3(client) => download::run(&self.context(client), bucket, key, path).await,
                Side::Store(_) => Err(Failure::failed("a copy out of a store was given to a server")),
            },
            (Location::Object { door, bucket, key }, Location::Object { door: to_door, bucket: to, key: to_key }) => {
                let (from_side, to_side) = (self.side(door)?, self.side(to_door)?);
                match from_side {
                    Side::S3(client) if door == to_door => {
                        copy::run(&self.context(client), (bucket, key), (to, to_key)).await
                    }
                    _ => across::run(self, (from_side, bucket, key), (to_side, to, to_key)).await,
                }
            }
            (Location::Local(_), Location::Local(_)) => Err(Failure::usage("one side must be an object")),
        }
    }
}

/// Whether a server takes part in a copy.
pub fn by_server(job: &Job) -> bool {
    [&job.from, &job.to].into_iter().any(|name| matches!(name, Location::Object { door, .. } if door.is_server()))
}

/// Runs copies; all of them by a server, or none. The failure of a `single` one is that of the command.
pub fn run(
    manner: &Manner,
    doors: &Doors,
    (jobs, single): (impl Iterator<Item = Job> + Send, bool),
    bar: &ProgressBar,
    output: Output,
) -> Outcome<Summary> {
    let mut jobs = jobs.peekable();
    let Some(first) = jobs.peek() else { return Ok(Summary::default()) };
    if !by_server(first) {
        let Some(store) = doors.store() else { return Err(Failure::usage("one side must be an object")) };
        return store::run_all(manner, store.objects(), bar, (jobs, single), output);
    }
    let mut on = None;
    let sides = doors.all().map(|(door, holder)| {
        let side = match holder {
            Holder::Store(store) => Side::Store(store.objects().clone()),
            Holder::S3 { client, runtime } => {
                on = on.or(Some(runtime));
                Side::S3(client.clone())
            }
        };
        (door.clone(), side)
    });
    let shared = Shared {
        sides: sides.collect(),
        manner: manner.clone(),
        permits: Arc::new(Semaphore::new(manner.parallel)),
        bar: bar.clone(),
    };
    let runtime = on.ok_or_else(|| Failure::failed("no server was opened"))?;
    runtime.block_on(run_all(&Arc::new(shared), (jobs, single), output))
}

async fn run_all(
    shared: &Arc<Shared>,
    (mut waiting, single): (impl Iterator<Item = Job>, bool),
    output: Output,
) -> Outcome<Summary> {
    let mut summary = Summary::default();
    let mut running = JoinSet::new();
    loop {
        while running.len() < shared.manner.parallel {
            let Some(job) = waiting.next() else { break };
            let shared = Arc::clone(shared);
            running.spawn(async move {
                let result = shared.run(&job).await;
                (job, result)
            });
        }
        let Some(done) = running.join_next().await else { return Ok(summary) };
        let (job, result) = done.map_err(|error| Failure::failed(format!("a copy failed: {error}")))?;
        summary.note(&job, result, single, &shared.bar, output)?;
    }
}
