//! A transaction that runs elsewhere.
//!
//! Invariant: it is dropped there when it is dropped here, unless it was committed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use koine_kv::wire::{Answer, Channel};
use koine_kv::{Commit, RequestId};

use super::{Remote, above, lost, message, told};
use crate::calls::field::malformed;
use crate::calls::verbs::{BeginTransaction, DropWriter, EndTransaction, StepInTransaction};
use crate::calls::{Call, End, Ended, InTransaction, PIECE_LEN_MAX, TransactionTold};
use crate::error::{Error, ErrorKind, Result};
use crate::info::ObjectInfo;
use crate::object_name::Name;
use crate::request::{ByteRange, Deleted, ListPage, ListQuery};

/// A transaction of the other side.
pub(crate) struct RemoteTransaction {
    /// Where it runs.
    channel: Channel,
    number: u64,
}

impl RemoteTransaction {
    /// Begins one.
    pub fn begin(remote: &Arc<Remote>, request: Option<RequestId>) -> Result<Self> {
        let number = remote.next_number();
        let (channel, (), _) = remote.open::<BeginTransaction>((number, request))?;
        Ok(RemoteTransaction { channel, number })
    }

    fn step(&self, call: InTransaction) -> Result<(TransactionTold, Bytes)> {
        let asked = self.channel.ask(StepInTransaction::VERB, &message(&(self.number, call)), &[]);
        told(Ok(asked.and_then(Answer::wait).map_err(|error| self.lost(error))?))
    }

    fn lost(&self, error: koine_kv::Error) -> Error {
        let what = "the transaction went with it: nothing of it was changed; begin it again";
        lost(&self.channel, error, ErrorKind::Disconnected, what)
    }

    /// A call that tells nothing.
    pub fn change(&self, call: InTransaction) -> Result<()> {
        self.step(call).map(drop)
    }

    /// A deletion.
    pub fn delete(&self, call: InTransaction) -> Result<Deleted> {
        match self.step(call)?.0 {
            TransactionTold::Deleted(deleted) => Ok(deleted),
            _ => Err(malformed("an answer to something else")),
        }
    }

    /// What is known of an object.
    pub fn head(&self, name: Name) -> Result<Option<ObjectInfo>> {
        match self.step(InTransaction::Head(name))?.0 {
            TransactionTold::Info(info) => Ok(info.map(|info| *info)),
            _ => Err(malformed("an answer to something else")),
        }
    }

    /// Bytes of an object; fewer only at its end.
    pub fn read(&self, name: &Name, range: ByteRange) -> Result<Bytes> {
        let mut whole = BytesMut::new();
        loop {
            let left = range.length - whole.len() as u64;
            let piece = ByteRange { offset: range.offset.saturating_add(whole.len() as u64), length: left };
            let (_, bytes) = self.step(InTransaction::Read(name.clone(), piece))?;
            let is_last = bytes.len() < PIECE_LEN_MAX || bytes.len() as u64 >= left;
            if is_last && whole.is_empty() {
                return Ok(bytes);
            }
            whole.extend_from_slice(&bytes);
            if is_last {
                return Ok(whole.freeze());
            }
        }
    }

    /// A page of a bucket.
    pub fn list(&self, bucket: &str, query: &ListQuery) -> Result<ListPage> {
        let (mut whole, mut next) = (ListPage::default(), query.clone());
        loop {
            let TransactionTold::Page(page) = self.step(InTransaction::List(bucket.to_owned(), next.clone()))?.0 else {
                return Err(malformed("an answer to something else"));
            };
            let is_empty = page.objects.is_empty() && page.common_prefixes.is_empty();
            whole.objects.extend(page.objects);
            whole.common_prefixes.extend(page.common_prefixes);
            whole.next = page.next;
            let told = whole.objects.len() + whole.common_prefixes.len();
            if whole.next.is_none() || is_empty || told >= query.limit {
                return Ok(whole);
            }
            next.limit = query.limit - told;
            next.after.clone_from(&whole.next);
        }
    }

    /// Commits, or begins anew; `None` where all has to be done again.
    pub fn end(&self, end: End) -> Result<Option<Commit>> {
        let asked = self.channel.ask(EndTransaction::VERB, &message(&(self.number, end)), &[]);
        let answer = asked.map_err(|error| self.lost(error))?.wait();
        // Of a commit that was asked for it is not known.
        let answer = if end == End::Commit { answer.map_err(above) } else { answer.map_err(|error| self.lost(error)) };
        Ok(match told(Ok(answer?))?.0 {
            Ended::Committed(commit) => Some(commit),
            Ended::Again => None,
        })
    }
}

impl Drop for RemoteTransaction {
    fn drop(&mut self) {
        let _over = self.channel.ask(EndTransaction::VERB, &message(&(self.number, End::Drop)), &[]);
    }
}

/// A body that waits there; dropped there with the last that has it.
pub(crate) struct RemoteBody {
    /// Where it waits.
    pub channel: Channel,
    pub number: u64,
}

impl RemoteBody {
    /// Its number, unless it went with its connection.
    pub fn number(&self) -> Result<u64> {
        if !self.channel.is_lost() {
            return Ok(self.number);
        }
        let message = format!(
            "the connection to the server at {} was lost, and the body that waited there went with it: stage it again",
            self.channel.place()
        );
        Err(Error::new(ErrorKind::Disconnected, message))
    }
}

impl Drop for RemoteBody {
    fn drop(&mut self) {
        let _gone = self.channel.ask(DropWriter::VERB, &message(&self.number), &[]);
    }
}
