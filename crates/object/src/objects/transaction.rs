//! A transaction of the store here, or of one elsewhere.
//!
//! Invariant: a call does the same in either; where the transaction runs says nothing else about it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use koine_kv::{Commit, RequestId};

use super::{Objects, StagedBody, Store};
use crate::calls::{End, InTransaction as In, Source};
use crate::client::{Remote, RemoteTransaction};
use crate::error::{Error, ErrorKind, Result};
use crate::info::ObjectInfo;
use crate::object_name::{Name, ObjectName};
use crate::request::{
    AttributeChange, ByteRange, ComposeOptions, CopyOptions, DeleteOptions, Deleted, EditOptions, ListPage, ListQuery,
    PutOptions, RenameOptions, Segment,
};
use crate::transaction::LocalTransaction;
use crate::version_id::VersionId;

/// Calls that are committed together.
pub struct Transaction<'a> {
    objects: &'a Objects,
    work: Work<'a>,
}

enum Work<'a> {
    Here(&'a mut LocalTransaction),
    There(&'a RemoteTransaction),
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transaction({:?})", self.objects)
    }
}

impl Objects {
    /// Runs `body` and commits all that it changes at once, durably; again, at most
    /// [`ATTEMPTS_MAX`](koine_kv::ATTEMPTS_MAX) times in all, where
    /// others changed what it read (then `Busy`). An error of `body` ends it, and nothing is changed. Where nothing
    /// is changed nothing is committed, and what was read is one version of everything; its number is told.
    ///
    /// `request` names it, so that a repeat after a lost answer gets the first one's commit (told as repeated) and
    /// changes nothing more. What `body` gives is then of the repeat.
    ///
    /// Errors: those of the calls made, `TransactionTooLarge` beyond
    /// [`TRANSACTION_CHANGES_MAX`](crate::TRANSACTION_CHANGES_MAX) changes or as many
    /// conditions.
    pub fn transact<T>(
        &self,
        request: Option<RequestId>,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<(T, Commit)> {
        match &self.store {
            Store::Here(local) => local.transact(request, |local| {
                let mut transaction = Transaction { objects: self, work: Work::Here(local) };
                body(&mut transaction)
            }),
            Store::There(remote) => self.transact_there(remote, request, body),
        }
    }

    /// The same where the store is elsewhere: it says how often this is done.
    fn transact_there<T>(
        &self,
        remote: &Arc<Remote>,
        request: Option<RequestId>,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<(T, Commit)> {
        let there = RemoteTransaction::begin(remote, request)?;
        loop {
            let outcome = body(&mut Transaction { objects: self, work: Work::There(&there) });
            let end = match &outcome {
                Ok(_) => End::Commit,
                Err(error) if error.kind() == ErrorKind::Expired => End::Again,
                Err(_) => End::Drop,
            };
            let ended = if end == End::Drop { None } else { there.end(end)? };
            match (outcome, ended) {
                (Ok(value), Some(commit)) => return Ok((value, commit)),
                (Err(error), _) if end == End::Drop => return Err(error),
                _ => {}
            }
        }
    }
}

impl Transaction<'_> {
    /// Puts an object. Of the options, length and checksums were those of the body.
    pub fn put(&mut self, name: ObjectName<'_>, body: &StagedBody, options: &PutOptions) -> Result<()> {
        match &mut self.work {
            Work::Here(here) => here.put(name, body.here()?, options),
            Work::There(there) => {
                there.change(In::Put(Name::new(name), body.number_there()?, Box::new(options.clone())))
            }
        }
    }

    /// Writes into an object at an offset, in bytes.
    pub fn write_at(
        &mut self,
        name: ObjectName<'_>,
        offset: u64,
        body: &StagedBody,
        options: &EditOptions,
    ) -> Result<()> {
        match &mut self.work {
            Work::Here(here) => here.write_at(name, offset, body.here()?, options),
            Work::There(there) => {
                there.change(In::WriteAt(Name::new(name), offset, body.number_there()?, Box::new(options.clone())))
            }
        }
    }

    /// Writes at the end of an object. Its checksums stay where the body was staged with the same ones.
    pub fn append(&mut self, name: ObjectName<'_>, body: &StagedBody, options: &EditOptions) -> Result<()> {
        match &mut self.work {
            Work::Here(here) => here.append(name, body.here()?, options),
            Work::There(there) => {
                there.change(In::Append(Name::new(name), body.number_there()?, Box::new(options.clone())))
            }
        }
    }

    /// Gives an object another length, in bytes.
    pub fn truncate(&mut self, name: ObjectName<'_>, length: u64, options: &EditOptions) -> Result<()> {
        match &mut self.work {
            Work::Here(here) => here.truncate(name, length, options),
            Work::There(there) => there.change(In::Truncate(Name::new(name), length, Box::new(options.clone()))),
        }
    }

    /// Writes a range of one object into another without copying data.
    pub fn write_copy(
        &mut self,
        from: ObjectName<'_>,
        range: ByteRange,
        to: ObjectName<'_>,
        offset: u64,
        options: &EditOptions,
    ) -> Result<()> {
        match &mut self.work {
            Work::Here(here) => here.write_copy(from, range, to, offset, options),
            Work::There(there) => {
                let (from, to, options) = (Name::new(from), Name::new(to), Box::new(options.clone()));
                there.change(In::WriteCopy(from, range, to, offset, options))
            }
        }
    }

    /// Makes an object of others, without copying data.
    pub fn compose(&mut self, sources: &[Segment<'_>], to: ObjectName<'_>, options: &ComposeOptions) -> Result<()> {
        match &mut self.work {
            Work::Here(here) => here.compose(sources, to, options),
            Work::There(there) => {
                let sources = sources.iter().map(Source::new).collect();
                there.change(In::Compose(sources, Name::new(to), Box::new(options.clone())))
            }
        }
    }

    /// Copies an object without copying its data. A checksum that nobody has stored is computed by reading, from the
    /// newest version: a source that this transaction has changed is a `Conflict` then.
    pub fn copy(&mut self, from: ObjectName<'_>, to: ObjectName<'_>, options: &CopyOptions) -> Result<()> {
        match &mut self.work {
            Work::Here(here) => here.copy(from, to, options),
            Work::There(there) => there.change(In::Copy(Name::new(from), Name::new(to), Box::new(options.clone()))),
        }
    }

    /// Gives an object another name.
    pub fn rename(&mut self, from: ObjectName<'_>, to: ObjectName<'_>, options: &RenameOptions) -> Result<()> {
        match &mut self.work {
            Work::Here(here) => here.rename(from, to, options),
            Work::There(there) => there.change(In::Rename(Name::new(from), Name::new(to), Box::new(options.clone()))),
        }
    }

    /// Swaps what two names stand for.
    pub fn exchange(&mut self, one: ObjectName<'_>, other: ObjectName<'_>) -> Result<()> {
        match &mut self.work {
            Work::Here(here) => here.exchange(one, other),
            Work::There(there) => there.change(In::Exchange(Name::new(one), Name::new(other))),
        }
    }

    /// Deletes an object; one that is absent is deleted already.
    pub fn delete(&mut self, name: ObjectName<'_>, options: &DeleteOptions) -> Result<Deleted> {
        match &mut self.work {
            Work::Here(here) => here.delete(name, options),
            Work::There(there) => there.delete(In::Delete(Name::new(name), options.clone())),
        }
    }

    /// Deletes a version of an object, or a delete marker, for good.
    pub fn delete_version(&mut self, name: ObjectName<'_>, version: VersionId) -> Result<Deleted> {
        match &mut self.work {
            Work::Here(here) => here.delete_version(name, version),
            Work::There(there) => there.delete(In::DeleteVersion(Name::new(name), version)),
        }
    }

    /// Changes what is known of an object beside its bytes.
    pub fn set_attributes(
        &mut self,
        name: ObjectName<'_>,
        change: AttributeChange,
        options: &EditOptions,
    ) -> Result<()> {
        match &mut self.work {
            Work::Here(here) => here.set_attributes(name, change, options),
            Work::There(there) => {
                there.change(In::SetAttributes(Name::new(name), Box::new(change), Box::new(options.clone())))
            }
        }
    }

    /// What is known of an object; `None` where the name has none. One that the transaction itself has changed has
    /// version 0.
    pub fn head(&mut self, name: ObjectName<'_>) -> Result<Option<ObjectInfo>> {
        match &mut self.work {
            Work::Here(here) => here.head(name),
            Work::There(there) => there.head(Name::new(name)),
        }
    }

    /// Bytes of an object; fewer only at its end. Those of a body that this transaction has put cannot be read in it.
    pub fn read(&mut self, name: ObjectName<'_>, range: ByteRange) -> Result<Bytes> {
        match &mut self.work {
            Work::Here(here) => here.read(name, range),
            Work::There(there) => there.read(&Name::new(name), range),
        }
    }

    /// A page of a bucket. That its names are still these, and no others, is a condition of the commit.
    pub fn list(&mut self, bucket: &str, query: &ListQuery) -> Result<ListPage> {
        match &mut self.work {
            Work::Here(here) => here.list(bucket, query),
            Work::There(there) => there.list(bucket, query),
        }
    }

    /// Keys and values of the store below, for its owner alone: others are refused (`AccessDenied`).
    pub fn keys(&mut self) -> Result<&mut koine_kv::Transaction> {
        match &mut self.work {
            Work::Here(here) => here.keys(),
            Work::There(_) => {
                Err(Error::new(ErrorKind::AccessDenied, "keys and values are for the store's owner alone"))
            }
        }
    }
}
