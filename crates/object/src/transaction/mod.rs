//! Many calls in one commit: a transaction reads one version and its own changes, and happens whole or not at all.
//!
//! Invariants:
//! - Everything that was read, names that were absent and ranges that were listed included, is a condition of the
//!   commit; a refusal means that it is done again from the beginning, with a new view.
//! - Each call is the verb that the call of the same name outside runs, asked for its rights in the same way.
//! - Nothing is sent before the commit, and nothing is waited for while the body runs.

mod changes;
mod reads;

use std::thread;

use koine_kv::{
    ATTEMPTS_MAX, BATCH_OPERATIONS_MAX, Batch, Commit, ErrorKind as KvErrorKind, RequestId,
    Transaction as KvTransaction, Version, pause_before_attempt, request_of_attempt,
};

use crate::error::{Error, ErrorKind, Result};
use crate::local::Local;
use crate::rights::Removal;

/// The most changes, and the most conditions, of a transaction.
pub const TRANSACTION_CHANGES_MAX: usize = BATCH_OPERATIONS_MAX;

/// Calls that are committed together.
pub(crate) struct LocalTransaction {
    local: Local,
    below: KvTransaction,
    /// The version whose rules were asked last, beside those that the transaction reads.
    judged: Version,
    /// What it takes away.
    removals: Vec<Removal>,
}

impl Local {
    /// Runs `body` and commits all that it changes at once: [`Objects::transact`](crate::Objects::transact).
    pub fn transact<T>(
        &self,
        request: Option<RequestId>,
        mut body: impl FnMut(&mut LocalTransaction) -> Result<T>,
    ) -> Result<(T, Commit)> {
        self.check_not_pinned()?;
        for attempt in 0..ATTEMPTS_MAX {
            if let Some(pause) = pause_before_attempt(attempt) {
                thread::sleep(pause);
            }
            let below = KvTransaction::begin(&**self.kv())?;
            let version = below.view().version();
            let mut transaction =
                LocalTransaction { local: self.clone(), below, judged: version, removals: Vec::new() };
            let value = match body(&mut transaction) {
                Ok(value) => value,
                // The view was taken back while the body ran: a newer one may do.
                Err(error) if error.kind() == ErrorKind::Expired => continue,
                Err(error) => return Err(error),
            };
            let LocalTransaction { below, removals, .. } = transaction;
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
