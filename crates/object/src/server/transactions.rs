//! Transactions of a connection: each is a transaction of the library on a thread of its own, which is told what to do.
//!
//! Invariants:
//! - What a verb of one does is what the call of the same name does in a transaction here; it commits whole or not at all.
//! - A connection has a few at most, and they end with it, unchanged.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};

use koine_kv::wire::Responder;
use koine_kv::{Bytes, RequestId};

use super::held::Held;
use super::{Request, tell_when_done};
use crate::calls::field::{malformed, message, whole};
use crate::calls::{ENTRIES_MAX, End, Ended, InTransaction, PIECE_LEN_MAX, Source, TransactionTold};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::{Objects, StagedBody, Transaction};
use crate::pending::Pending;
use crate::request::{ByteRange, ListQuery};

/// The most of a connection: each is a thread.
const TRANSACTIONS_MAX: usize = 8;

/// What the thread is told.
enum Step {
    /// A call.
    Do(Box<dyn FnOnce(&mut Transaction<'_>) + Send>),
    /// It is over: what it changed is committed, or it is done again, or dropped.
    End(End, Responder),
}

/// The transactions of a connection.
#[derive(Default)]
pub(super) struct Transactions {
    open: HashMap<u64, Sender<Step>>,
}

fn unknown(number: u64) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("there is no transaction {number} on this connection"))
}

impl Transactions {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// Begins one.
    pub fn begin(&mut self, objects: &Objects, number: u64, request: Option<RequestId>) -> Result<()> {
        if self.open.len() >= TRANSACTIONS_MAX {
            let message =
                format!("{TRANSACTIONS_MAX} transactions are open on this connection: end some and try again");
            return Err(Error::new(ErrorKind::Busy, message));
        }
        if self.open.contains_key(&number) {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("transaction {number} is open already")));
        }
        let (told, steps) = channel();
        let objects = objects.clone();
        let begun = std::thread::Builder::new()
            .name("koine-transaction".to_owned())
            .spawn(move || run(&objects, request, &steps));
        begun.map_err(|error| Error::new(ErrorKind::Busy, format!("cannot start a thread: {error}")))?;
        self.open.insert(number, told);
        Ok(())
    }

    /// The thread of one.
    fn of(&self, number: u64) -> Result<Sender<Step>> {
        self.open.get(&number).cloned().ok_or_else(|| unknown(number))
    }

    /// Ends one, or begins it anew.
    pub fn end(&mut self, request: Request) {
        match whole::<(u64, End)>(&request.message) {
            Ok((number, end)) => {
                // Until it is dropped it may be done again.
                let told = if end == End::Drop { self.open.remove(&number) } else { self.open.get(&number).cloned() };
                match told {
                    // Where the thread is gone the responder says so.
                    Some(told) => drop(told.send(Step::End(end, request.answer))),
                    None => request.refuse(&unknown(number)),
                }
            }
            Err(error) => request.refuse(&error),
        }
    }
}

fn told(answer: Responder, outcome: Result<Ended>) {
    tell_when_done(Pending::ready(outcome), answer);
}

/// What the thread of one does until it is over.
fn run(objects: &Objects, request: Option<RequestId>, steps: &Receiver<Step>) {
    // Who waits to hear of a commit: that it happened, or that all has to be done again.
    let mut waits: Option<Responder> = None;
    let outcome = objects.transact(request, |transaction| {
        if let Some(answer) = waits.take() {
            told(answer, Ok(Ended::Again));
        }
        loop {
            match steps.recv() {
                Ok(Step::Do(call)) => call(transaction),
                Ok(Step::End(end, answer)) => {
                    waits = Some(answer);
                    return match end {
                        End::Commit => Ok(()),
                        // What the library does again by itself.
                        End::Again => Err(Error::new(ErrorKind::Expired, "what was read is to be read again")),
                        End::Drop => Err(Error::new(ErrorKind::Stopped, "the transaction was dropped")),
                    };
                }
                Err(_) => return Err(Error::new(ErrorKind::Stopped, "the connection of the transaction is gone")),
            }
        }
    });
    if let Some(answer) = waits {
        told(answer, outcome.map(|((), commit)| Ended::Committed(commit)));
    }
}

/// Has the thread of a transaction make a call in it, and answer.
pub(super) fn forward(held: &Held, request: Request) {
    let ready = whole::<(u64, InTransaction)>(&request.message).and_then(|(number, call)| {
        let body = call.body().map(|number| held.body(number)).transpose()?;
        Ok((held.transactions.of(number)?, call, body))
    });
    let (thread, call, body) = match ready {
        Ok(ready) => ready,
        Err(error) => return request.refuse(&error),
    };
    let answer = request.answer;
    let step = Step::Do(Box::new(move |transaction| {
        let outcome = make(transaction, call, body.as_ref());
        let outcome = outcome.and_then(|(told, data)| Ok((super::short(message(&told))?, data)));
        answer.answer(outcome.map_err(|error| super::below(&error)));
    }));
    // Where the thread is gone the responder is dropped, and says that there is no answer.
    let _gone = thread.send(step);
}

/// The call of the same name in the library.
fn make(
    transaction: &mut Transaction<'_>,
    call: InTransaction,
    body: Option<&StagedBody>,
) -> Result<(TransactionTold, Bytes)> {
    use InTransaction as In;
    let staged = || body.ok_or_else(|| malformed("a call without its body"));
    match call {
        In::Head(name) => {
            return Ok((TransactionTold::Info(transaction.head(name.as_name())?.map(Box::new)), Bytes::new()));
        }
        In::Read(name, range) => {
            let range = ByteRange { length: range.length.min(PIECE_LEN_MAX as u64), ..range };
            return Ok((TransactionTold::Done, transaction.read(name.as_name(), range)?));
        }
        In::List(bucket, query) => {
            let query = ListQuery { limit: query.limit.min(ENTRIES_MAX), ..query };
            return Ok((TransactionTold::Page(transaction.list(&bucket, &query)?), Bytes::new()));
        }
        In::Delete(name, options) => {
            return Ok((TransactionTold::Deleted(transaction.delete(name.as_name(), &options)?), Bytes::new()));
        }
        In::DeleteVersion(name, version) => {
            let deleted = transaction.delete_version(name.as_name(), version)?;
            return Ok((TransactionTold::Deleted(deleted), Bytes::new()));
        }
        In::Put(name, _, options) => transaction.put(name.as_name(), staged()?, &options),
        In::WriteAt(name, offset, _, options) => transaction.write_at(name.as_name(), offset, staged()?, &options),
        In::Append(name, _, options) => transaction.append(name.as_name(), staged()?, &options),
        In::Truncate(name, length, options) => transaction.truncate(name.as_name(), length, &options),
        In::WriteCopy(from, range, to, offset, options) => {
            transaction.write_copy(from.as_name(), range, to.as_name(), offset, &options)
        }
        In::Compose(sources, to, options) => {
            let sources: Vec<_> = sources.iter().map(Source::segment).collect();
            transaction.compose(&sources, to.as_name(), &options)
        }
        In::Copy(from, to, options) => transaction.copy(from.as_name(), to.as_name(), &options),
        In::Rename(from, to, options) => transaction.rename(from.as_name(), to.as_name(), &options),
        In::Exchange(one, other) => transaction.exchange(one.as_name(), other.as_name()),
        In::SetAttributes(name, change, options) => transaction.set_attributes(name.as_name(), *change, &options),
    }
    .map(|()| (TransactionTold::Done, Bytes::new()))
}
