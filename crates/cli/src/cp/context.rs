//! What the copies of one command share: their options, the clients they use, and how many parts may be in flight.
//!
//! Invariants:
//! - A part has at most `--part-size` bytes, or as many as an object of 10,000 parts needs.

use std::sync::Arc;

use indicatif::ProgressBar;
use koine::object::{EditOptions, EtagKind, EtagMatch, Objects, PutCondition};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::location::Scheme;

/// The fewest bytes of a part that S3 takes.
pub const PART_LEN_MIN: u64 = 5 << 20;
/// The most parts of an object.
const PARTS_MAX: u64 = 10_000;

/// How copies are made.
#[derive(Clone, Debug)]
pub struct TransferOptions {
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

impl TransferOptions {
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
pub struct ServerContext {
    pub client: Client,
    pub permits: Arc<Semaphore>,
    pub part_len: u64,
    pub bar: ProgressBar,
}

impl ServerContext {
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
pub enum CopySide {
    Store(Objects),
    S3(Client),
}

/// What all copies of a command share that a server takes part in.
pub struct TransferContext {
    pub sides: Vec<(Scheme, CopySide)>,
    pub options: TransferOptions,
    pub permits: Arc<Semaphore>,
    pub bar: ProgressBar,
}

impl TransferContext {
    /// The store or the server of a scheme.
    pub fn side(&self, scheme: &Scheme) -> Outcome<&CopySide> {
        let found = self.sides.iter().find(|(there, _)| there == scheme);
        found.map(|(_, side)| side).ok_or_else(|| Failure::failed(format!("{} was not opened", scheme.prefix())))
    }

    /// What copies by this server share.
    pub fn context(&self, client: &Client) -> Arc<ServerContext> {
        let permits = Arc::clone(&self.permits);
        let (part_len, bar) = (self.options.part_len, self.bar.clone());
        Arc::new(ServerContext { client: client.clone(), permits, part_len, bar })
    }
}
