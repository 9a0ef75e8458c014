//! Many calls in one commit: a transaction reads one version and its own changes, and happens whole or not at all.
//!
//! Invariants:
//! - Everything that was read, names that were absent and ranges that were listed included, is a condition of the
//!   commit; a refusal means that it is done again from the beginning, with a new view.
//! - Each call is the verb that the call of the same name outside runs, asked for its rights in the same way.
//! - Nothing is sent before the commit, and nothing is waited for while the body runs.

mod changes;
mod reads;

use std::fmt;
use std::sync::Arc;
use std::thread;

use koine_kv::{
    ATTEMPTS_MAX, BATCH_OPERATIONS_MAX, Batch, Bytes, Commit, ErrorKind as KvErrorKind, MemoryKv, MemoryOptions,
    Payload, RequestId, Version,
};
use koine_kv::{Transaction as KvTransaction, pause_before_attempt, request_of_attempt};

use crate::body::{Body, Finished};
use crate::checksum::{ChecksumAlgorithm, Digests, Expected, Hasher};
use crate::error::{Error, ErrorKind, Result};
use crate::etag::EtagKind;
use crate::objects::Objects;
use crate::put::invalid;
use crate::remote::{self, Remote, RemoteBody, RemoteTransaction, RemoteWriter};
use crate::rights::Removal;

/// The most changes, and the most conditions, of a transaction.
pub const TRANSACTION_CHANGES_MAX: usize = BATCH_OPERATIONS_MAX;

/// What is known of a body before it is staged.
#[derive(Clone, Debug, Default)]
pub struct StageOptions {
    /// Its length, where it is known; another length is `IncompleteBody`.
    pub length: Option<u64>,
    /// What it is compared with; trailers are given to `finish`.
    pub expected: Expected,
    /// The checksums to compute beside those expected; CRC64NVME where there are none.
    pub checksums: Vec<ChecksumAlgorithm>,
    /// Which ETag an object gets that is put with it.
    pub etag: EtagKind,
}

/// A body on its way in. Dropped before `finish`, it leaves nothing.
pub struct BodyWriter {
    work: Work,
}

enum Work {
    Here(Box<Body>),
    There(Box<RemoteWriter>),
}

/// A body that is there, for one call of one transaction. Dropped without a commit, it leaves nothing.
#[derive(Clone)]
pub struct StagedBody {
    pub(crate) payload: Payload,
    pub(crate) size: u64,
    pub(crate) digests: Digests,
    /// Where it waits, where that is not here; payload and digests are of nothing then.
    pub(crate) there: Option<Arc<RemoteBody>>,
}

impl BodyWriter {
    /// Adds a piece of any length. May wait for the device's writes, never for a flush.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        match &mut self.work {
            Work::Here(body) => body.write(piece),
            Work::There(writer) => writer.write(piece),
        }
    }

    /// No more pieces: verifies what was promised by the options and by these trailers.
    pub fn finish(self, trailers: &Expected) -> Result<StagedBody> {
        match self.work {
            Work::Here(body) => {
                let Finished { payload, size, digests } = body.finish(trailers)?;
                Ok(StagedBody { payload, size, digests, there: None })
            }
            Work::There(writer) => {
                let (there, size) = writer.finish_body(trailers)?;
                let (payload, digests) = (Payload::Bytes(Bytes::new()), Hasher::new(false, []).finish());
                Ok(StagedBody { payload, size, digests, there: Some(Arc::new(there)) })
            }
        }
    }
}

impl StagedBody {
    /// Its number where it waits.
    pub(crate) fn number_there(&self) -> Result<u64> {
        let there = self.there.as_ref();
        let there = there.ok_or_else(|| invalid("a body of another store: stage it where the transaction is"))?;
        there.number()
    }

    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyWriter")
    }
}

impl fmt::Debug for StagedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagedBody({} bytes)", self.size)
    }
}

/// Calls that are committed together.
pub struct Transaction<'a> {
    objects: &'a Objects,
    /// Nothing where the transaction runs elsewhere.
    below: KvTransaction,
    there: Option<RemoteTransaction>,
    /// The version whose rules were asked last, beside those that the transaction reads.
    judged: Version,
    /// What it takes away.
    removals: Vec<Removal>,
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transaction({:?})", self.objects)
    }
}

impl Objects {
    /// Begins a body for a transaction.
    pub fn stage(&self, options: StageOptions) -> Result<BodyWriter> {
        if let Some(remote) = self.remote() {
            let writer = RemoteWriter::open(remote, remote::Writing::Body(options))?;
            return Ok(BodyWriter { work: Work::There(Box::new(writer)) });
        }
        let body = Body::new(self.kv(), options.length, options.expected, options.etag, options.checksums)?;
        Ok(BodyWriter { work: Work::Here(Box::new(body)) })
    }

    /// The same where the store is elsewhere: it says how often this is done.
    fn transact_there<T>(
        &self,
        remote: &Arc<Remote>,
        request: Option<RequestId>,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<(T, Commit)> {
        let there = Some(RemoteTransaction::begin(remote, request)?);
        let nothing = MemoryKv::new(MemoryOptions::default());
        let below = KvTransaction::begin(&nothing)?;
        let mut transaction = Transaction { objects: self, below, there, judged: Version(0), removals: Vec::new() };
        loop {
            let outcome = body(&mut transaction);
            let end = match &outcome {
                Ok(_) => remote::End::Commit,
                Err(error) if error.kind() == ErrorKind::Expired => remote::End::Again,
                Err(_) => remote::End::Drop,
            };
            let ended = match &transaction.there {
                Some(there) if end != remote::End::Drop => there.end(end)?,
                _ => None,
            };
            match (outcome, ended) {
                (Ok(value), Some(commit)) => return Ok((value, commit)),
                (Err(error), _) if end == remote::End::Drop => return Err(error),
                _ => {}
            }
        }
    }

    /// Runs `body` and commits all that it changes at once, durably; again, at most [`ATTEMPTS_MAX`] times in all, where
    /// others changed what it read (then `Busy`). An error of `body` ends it, and nothing is changed. Where nothing
    /// is changed nothing is committed, and what was read is one version of everything; its number is told.
    ///
    /// `request` names it, so that a repeat after a lost answer gets the first one's commit (told as repeated) and
    /// changes nothing more. What `body` gives is then of the repeat.
    ///
    /// Errors: those of the calls made, `TransactionTooLarge` beyond [`TRANSACTION_CHANGES_MAX`] changes or as many
    /// conditions.
    pub fn transact<T>(
        &self,
        request: Option<RequestId>,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<(T, Commit)> {
        if let Some(remote) = self.remote() {
            return self.transact_there(remote, request, body);
        }
        self.check_not_pinned()?;
        for attempt in 0..ATTEMPTS_MAX {
            if let Some(pause) = pause_before_attempt(attempt) {
                thread::sleep(pause);
            }
            let below = KvTransaction::begin(&**self.kv())?;
            let version = below.view().version();
            let mut transaction =
                Transaction { objects: self, below, there: None, judged: version, removals: Vec::new() };
            let value = match body(&mut transaction) {
                Ok(value) => value,
                // The view was taken back while the body ran: a newer one may do.
                Err(error) if error.kind() == ErrorKind::Expired => continue,
                Err(error) => return Err(error),
            };
            let Transaction { below, removals, .. } = transaction;
            let mut batch = below.into_batch();
            if batch.operations.is_empty() {
                return Ok((value, Commit { version, repeated: false }));
            }
            check_size(&batch)?;
            batch.request = request.map(|request| request_of_attempt(request, attempt));
            match self.kv().commit(batch, self.durability()) {
                Ok(commit) => {
                    removals.into_iter().for_each(Removal::tell);
                    return Ok((value, commit));
                }
                Err(error) if error.kind() == KvErrorKind::Refused => {}
                Err(error) => return Err(error.into()),
            }
        }
        let message = format!("others changed what a transaction read, {ATTEMPTS_MAX} times in a row; try again later");
        Err(Error::new(ErrorKind::Busy, message))
    }
}

fn check_size(batch: &Batch) -> Result<()> {
    let largest = batch.operations.len().max(batch.conditions.len());
    if largest > TRANSACTION_CHANGES_MAX {
        let message = format!(
            "the transaction has {} changes and rests on {} conditions; {TRANSACTION_CHANGES_MAX} of each are allowed: make it smaller",
            batch.operations.len(),
            batch.conditions.len()
        );
        return Err(Error::new(ErrorKind::TransactionTooLarge, message));
    }
    Ok(())
}
