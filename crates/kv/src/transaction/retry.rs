//! Running a transaction until what it read holds.
//!
//! Invariants:
//! - Only a refusal of a gathered condition, or an expired view, is tried again.
//! - The pauses follow from the attempt alone; the bound ends a fight that cannot be won.

use std::thread;
use std::time::Duration;

use koine_engine::{Commit, Durability, Error, ErrorKind, Refusal, RequestId, Result};

use super::Transaction;
use crate::seam::Kv;

/// How often a transaction is tried at most.
pub const ATTEMPTS_MAX: u32 = 64;

/// So many attempts follow each other without a pause.
const ATTEMPTS_AT_ONCE: u32 = 3;
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// The request id of an attempt, counted from 0: the first has the id itself.
pub fn request_of_attempt(request: RequestId, attempt: u32) -> RequestId {
    let mut id = u128::from_be_bytes(request.0);
    // An odd factor keeps all attempts apart.
    id ^= u128::from(attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    RequestId(id.to_be_bytes())
}

/// How long to wait before an attempt, counted from 0; `None` for the first ones.
pub fn pause_before_attempt(attempt: u32) -> Option<Duration> {
    let doublings = attempt.checked_sub(ATTEMPTS_AT_ONCE)?;
    Some(PAUSE_MIN.saturating_mul(1 << doublings.min(16)).min(PAUSE_MAX))
}

/// Runs `body` and commits, again while others change what it read.
pub(crate) fn transact<K: Kv + ?Sized, T>(
    kv: &K,
    durability: Durability,
    mut body: impl FnMut(&mut Transaction) -> Result<T>,
) -> Result<(T, Commit)> {
    let mut last = None;
    for attempt in 0..ATTEMPTS_MAX {
        if let Some(pause) = pause_before_attempt(attempt) {
            thread::sleep(pause);
        }
        match try_once(kv, durability, attempt, &mut body) {
            Ok(done) => return Ok(done),
            Err(Failure::Again(error)) => last = Some(error),
            Err(Failure::End(error)) => return Err(error),
        }
    }
    let message = format!("others changed what a transaction read, {ATTEMPTS_MAX} times in a row; try again later");
    let error = Error::new(ErrorKind::Busy, message);
    Err(match last {
        Some(last) => error.with_source(last),
        None => error,
    })
}

enum Failure {
    Again(Error),
    End(Error),
}

fn try_once<K: Kv + ?Sized, T>(
    kv: &K,
    durability: Durability,
    attempt: u32,
    body: &mut impl FnMut(&mut Transaction) -> Result<T>,
) -> Result<(T, Commit), Failure> {
    let expired = |error: Error| match error.kind() {
        ErrorKind::Expired => Failure::Again(error),
        _ => Failure::End(error),
    };
    let mut transaction = Transaction::begin(kv).map_err(expired)?;
    let value = body(&mut transaction).map_err(expired)?;
    let explicit = transaction.explicit.len();
    if explicit == 0 && transaction.operations.is_empty() && transaction.request.is_none() {
        // What was read is one version of everything: nothing is left to be decided.
        return Ok((value, Commit { version: transaction.view.version(), repeated: false }));
    }
    let mut batch = transaction.into_batch();
    batch.request = batch.request.map(|request| request_of_attempt(request, attempt));
    match kv.commit(batch, durability) {
        Ok(commit) => Ok((value, commit)),
        Err(error) => match error.refusal() {
            Some(Refusal::Condition(index)) if index as usize >= explicit => Err(Failure::Again(error)),
            _ => Err(Failure::End(error)),
        },
    }
}
