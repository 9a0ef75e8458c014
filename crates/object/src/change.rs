//! How everything visible is changed: read, decide, submit; on a refusal read again.
//!
//! Invariants:
//! - A plan is made from one view and carries every fact it rests on as a condition of its batch.
//! - No thread waits between attempts: the next one begins where the refusal is told.
//! - Each attempt has its own request id, derived from the first, because refusals are outcomes too: a repeat
//!   of the whole walks the same ids up to the one that was committed.

use koine_kv::{Batch, Commit, Durability, ErrorKind as KvErrorKind, RequestId, View, request_of_attempt};

use crate::error::{Error, ErrorKind, Result};
use crate::objects::Objects;
use crate::pending::{Pending, Step};

/// After so many refusals the caller is told of a conflict. Each means that somebody else made progress.
const ATTEMPTS_MAX: u32 = 500;

/// What a look at the store decides.
pub(crate) enum Plan<T> {
    /// Nothing is to be changed.
    Done(T),
    /// This batch is to be applied.
    Submit(Batch),
    /// The caller's condition does not hold, unless this very request was applied before: its batch, which must
    /// be one that is never applied, tells.
    Doubtful(Batch, Error),
}

/// A change that may need several attempts.
pub(crate) trait Change: Send + Sized + 'static {
    /// What the caller is told.
    type Outcome: Send + 'static;

    /// Where it happens.
    fn objects(&self) -> &Objects;

    /// The caller's name for it.
    fn request(&self) -> Option<RequestId> {
        None
    }

    /// Decides by what stands now.
    fn plan(&mut self, view: &dyn View) -> Result<Plan<Self::Outcome>>;

    /// The batch of the last plan (or of an earlier request of this id) was committed.
    fn committed(self, commit: Commit) -> Result<Self::Outcome>;
}

/// Begins a change.
pub(crate) fn run<C: Change>(change: C) -> Pending<C::Outcome> {
    Pending::new(attempt(change, 0))
}

fn attempt<C: Change>(mut change: C, count: u32) -> Step<C::Outcome> {
    if count == ATTEMPTS_MAX {
        let message = "others changed the same thing again and again; try again";
        return Step::Done(Err(Error::new(ErrorKind::Conflict, message)));
    }
    let view = change.objects().kv().view();
    match view.map_err(Error::from).and_then(|view| change.plan(view.as_ref())) {
        Err(error) => Step::Done(Err(error)),
        Ok(Plan::Done(outcome)) => Step::Done(Ok(outcome)),
        Ok(Plan::Submit(batch)) => submit(change, batch, count, None),
        Ok(Plan::Doubtful(batch, error)) if count == 0 && change.request().is_some() => {
            submit(change, batch, count, Some(error))
        }
        Ok(Plan::Doubtful(_, error)) => Step::Done(Err(error)),
    }
}

fn submit<C: Change>(change: C, mut batch: Batch, count: u32, doubt: Option<Error>) -> Step<C::Outcome> {
    batch.request = change.request().map(|request| request_of_attempt(request, count));
    let ticket = change.objects().kv().submit(batch, Durability::Sync);
    let then = move |outcome: koine_kv::Result<Commit>| match (outcome, doubt) {
        (Ok(commit), _) => Step::Done(change.committed(commit)),
        (Err(error), Some(doubt)) if error.kind() == KvErrorKind::Refused => Step::Done(Err(doubt)),
        (Err(error), None) if error.kind() == KvErrorKind::Refused => attempt(change, count + 1),
        (Err(error), _) => Step::Done(Err(error.into())),
    };
    Step::Wait(ticket, Box::new(then))
}
