//! How everything visible is changed: a verb reads and decides in a transaction, which is submitted; on a refusal
//! it does so again.
//!
//! Invariants:
//! - What a verb reads of records it reads through the transaction, so that it is a condition of the batch. What
//!   it only writes (a counter, a new object's data) depends on nothing.
//! - A verb decides before it adds its first change, and [`perform`] takes back what one added that fails all the same
//!   (by a quota): verbs may follow each other in one transaction, where each sees what those before it did.
//! - A verb is applied by [`perform`] alone, after its caller was found to be allowed all that it needs, in the
//!   same transaction; a [`CommandContext`] can be had nowhere else.
//! - No thread waits between attempts: the next one begins where the refusal is told.
//! - Each attempt has its own request id, derived from the first, because refusals are outcomes too: a repeat
//!   of the whole walks the same ids up to the one that was committed.

#[cfg(test)]
mod tests;

use std::cell::RefCell;

use koine_env::{Random, Timestamp, patience};
use koine_kv::{Batch, Commit, ErrorKind as KvErrorKind, RequestId, Transaction, request_of_attempt};

use crate::caller::Caller;
use crate::error::{Error, ErrorKind, READ_ATTEMPTS_MAX, Result, is_taken_back};
use crate::ids::ObjectId;
use crate::local::Local;
use crate::pending::{Pending, Step};
use crate::quota;
use crate::rights::{self, Allowed, Removal, Rights, ownership};
use crate::turns::{Asked, Turn};

/// After so many refusals the caller is told of a conflict. Each means that somebody else made progress.
const ATTEMPTS_MAX: u32 = 500;

/// What a verb uses that is not read from the store.
pub(crate) struct CommandContext<'a> {
    /// The time of what is changed.
    pub now: Timestamp,
    random: &'a dyn Random,
    /// Who the verb is done for; it may do what the verb needs.
    pub caller: &'a Caller,
    local: &'a Local,
    /// What allowed the caller what it does.
    allowed: RefCell<Allowed>,
    /// What it takes away.
    removals: RefCell<Vec<Removal>>,
}

impl CommandContext<'_> {
    /// Whether the caller may do something that the verb does for a part of what it is given, each by itself.
    pub fn may(&self, txn: &mut Transaction, needs: impl FnOnce(&mut Rights<'_>) -> Result<()>) -> Result<()> {
        self.allowed.replace(rights::ask(txn, self.local, needs)?);
        Ok(())
    }

    /// The verb takes something away: the log says so once it is committed. `what` names it, and tells nothing else of it.
    pub fn removes(&self, what: impl FnOnce() -> String) {
        self.removals.borrow_mut().extend(Removal::of(&self.allowed.borrow(), what));
    }

    pub fn draw_u64(&self) -> u64 {
        self.random.next_u64()
    }

    /// An id for a new object; the batch must hold the condition that it is free.
    pub fn draw_id(&self) -> ObjectId {
        ObjectId(self.draw_u64())
    }
}

/// What a look at the store decides.
pub(crate) enum Applied<T> {
    /// Nothing is to be changed.
    Done(T),
    /// What the transaction has is to be committed.
    Changed,
    /// The caller's condition does not hold, unless this very request was applied before: its batch, which must
    /// be one that is never applied, tells.
    MaybeReplayed(Batch, Error),
}

/// A change of what is visible.
pub(crate) trait Verb: Send + Sized + 'static {
    /// What the caller is told.
    type Outcome: Send + 'static;

    /// The caller's name for it.
    fn request(&self) -> Option<RequestId> {
        None
    }

    /// The name that it changes, where it does so by what stands there: when others were faster it waits for those of
    /// this process that wait already, so that every one is made in the end.
    fn contended(&self) -> Option<(&str, &str)> {
        None
    }

    /// Asks for everything that the caller must be allowed, with the names that the verb was given:
    ///
    /// ```ignore
    /// fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
    ///     rights.object(Action::GetObject, &self.from.bucket, &self.from.key)?;
    ///     rights.object(Action::PutObject, &self.to.bucket, &self.to.key)
    /// }
    /// ```
    ///
    /// Which actions calls need that S3 has not stands in docs/decisions/0026-identities.md. A verb that has an
    /// outcome for each of many names asks for each in `apply`, with [`CommandContext::may`], and says so here. What the
    /// answers rest on becomes conditions. It is not called for the store's owner.
    fn needs(&self, rights: &mut Rights<'_>) -> Result<()>;

    /// Reads, decides, and adds what is to be changed. Only [`perform`] calls it, again, with a new transaction, when something that
    /// was read has changed.
    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<Self::Outcome>>;

    /// What the last `apply` added (or an earlier request of this id) was committed.
    fn committed(self, local: &Local, commit: Commit) -> Result<Self::Outcome>;
}

/// Begins a transaction of one verb.
pub(crate) fn run<V: Verb>(local: &Local, verb: V) -> Pending<V::Outcome> {
    if let Err(error) = Error::check_patience() {
        return Pending::ready(Err(error));
    }
    Pending::new(attempt(local.clone(), verb, 0, None))
}

/// What a verb would commit, for who commits it together with other changes.
pub(crate) fn plan<V: Verb>(local: &Local, verb: &mut V) -> Result<Batch> {
    begin(local, verb).map(|(txn, _, _)| txn.into_batch())
}

/// The next attempt of a verb that was refused.
fn again<V: Verb>(local: Local, verb: V, count: u32, turn: Option<Turn>) -> Step<V::Outcome> {
    let asked = match (&turn, verb.contended()) {
        (None, Some((bucket, key))) => local.turns().ask(bucket, key),
        _ => return attempt(local, verb, count, turn),
    };
    match asked {
        Asked::Mine(turn) => attempt(local, verb, count, Some(turn)),
        Asked::Wait(ticket, place) => Step::Wait(ticket, Box::new(move |_| attempt(local, verb, count, place.take()))),
    }
}

fn attempt<V: Verb>(local: Local, mut verb: V, count: u32, turn: Option<Turn>) -> Step<V::Outcome> {
    if count == ATTEMPTS_MAX {
        let message = "others changed the same thing again and again; try again";
        return Step::Done(Err(Error::new(ErrorKind::Conflict, message)));
    }
    let mut begun = begin(&local, &mut verb);
    // Nothing was asked for yet: what was read is read again where it was taken back, as with a connection that is lost.
    for _ in 1..READ_ATTEMPTS_MAX {
        if !begun.as_ref().is_err_and(is_taken_back) {
            break;
        }
        begun = begin(&local, &mut verb);
    }
    match begun {
        Err(error) => Step::Done(Err(error)),
        Ok((_, Applied::Done(outcome), _)) => Step::Done(Ok(outcome)),
        Ok((txn, Applied::Changed, removals)) => submit(local, (verb, removals), txn.into_batch(), (count, turn), None),
        Ok((_, Applied::MaybeReplayed(batch, error), _)) if count == 0 && verb.request().is_some() => {
            submit(local, (verb, Vec::new()), batch, (count, turn), Some(error))
        }
        Ok((_, Applied::MaybeReplayed(_, error), _)) => Step::Done(Err(error)),
    }
}

fn begin<V: Verb>(local: &Local, verb: &mut V) -> Result<(Transaction, Applied<V::Outcome>, Vec<Removal>)> {
    local.check_not_pinned()?;
    let mut txn = Transaction::begin(&**local.kv())?;
    let (applied, removals) = perform(local, &mut txn, verb)?;
    // The last moment to leave everything as it was; others may wait for a turn that is held here.
    if patience::is_known_over() {
        return Err(Error::interrupted());
    }
    Ok((txn, applied, removals))
}

/// Applies a verb in a transaction, once its caller was found to be allowed what it needs. What it takes away is told by
/// who commits.
pub(crate) fn perform<V: Verb>(
    local: &Local,
    txn: &mut Transaction,
    verb: &mut V,
) -> Result<(Applied<V::Outcome>, Vec<Removal>)> {
    ownership::check_expected(txn, local.circumstances())?;
    let allowed = RefCell::new(rights::ask(txn, local, |rights| verb.needs(rights))?);
    let (now, random, caller) = (local.now(), local.random(), local.caller());
    let context = CommandContext { now, random, caller, local, allowed, removals: RefCell::default() };
    let (mark, before) = (txn.mark(), txn.operations().len());
    let applied = verb.apply(txn, &context).and_then(|applied| {
        if matches!(applied, Applied::Changed) {
            quota::check(local, txn, before)?;
        }
        Ok(applied)
    });
    let removals = context.removals.into_inner();
    applied.map(|applied| (applied, removals)).map_err(|error| {
        txn.back_to(mark);
        rights::hide(txn, local, error, |rights| verb.needs(rights))
    })
}

fn submit<V: Verb>(
    local: Local,
    (verb, removals): (V, Vec<Removal>),
    mut batch: Batch,
    (count, turn): (u32, Option<Turn>),
    doubt: Option<Error>,
) -> Step<V::Outcome> {
    batch.request = verb.request().map(|request| request_of_attempt(request, count));
    let ticket = koine_kv::awaited(|| local.kv().submit(batch, local.durability(), koine_kv::Wait::Never));
    let then = move |outcome: koine_kv::Result<Commit>| match (outcome, doubt) {
        (Ok(commit), _) => {
            removals.into_iter().for_each(Removal::tell);
            Step::Done(verb.committed(&local, commit))
        }
        (Err(error), Some(doubt)) if error.kind() == KvErrorKind::Refused => Step::Done(Err(doubt)),
        (Err(error), None) if error.kind() == KvErrorKind::Refused => again(local, verb, count + 1, turn),
        (Err(error), _) => Step::Done(Err(error.into())),
    };
    Step::Wait(ticket, Box::new(then))
}
