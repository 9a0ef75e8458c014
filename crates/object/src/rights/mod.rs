//! Who may: asked by every call, inside the transaction or view that it is made from.
//!
//! Invariants:
//! - A verb tells what it needs in `Verb::needs`, which has no default, and is applied by `verb::perform` alone,
//!   which asks first. A read gets its view from `Objects::read` alone, which asks first too.
//! - What an answer rests on is read through the call's own transaction, so it is a condition of the batch: a
//!   right that was taken away holds for every commit after.
//! - The store's owner is asked nothing: for it no need is even told.
//! - What is refused says so without telling whether the name is there.

mod action;
mod caller;
mod list;
pub(crate) mod ownership;

use koine_kv::Transaction;

use crate::error::{Error, ErrorKind, Result};
use crate::info::UploadId;
use crate::keys;
use crate::lookup::Lookup;

pub use action::Action;
pub use caller::{Caller, Identity};
pub use list::{AccessList, GRANTS_MAX, Grant, Grantee};

/// Asks, for one call, whether its caller may do each thing that it needs.
pub(crate) struct Rights<'a> {
    from: &'a mut dyn Lookup,
    caller: &'a Caller,
    /// The buckets whose objects were asked for.
    buckets: Vec<String>,
}

impl<'a> Rights<'a> {
    pub fn new(from: &'a mut dyn Lookup, caller: &'a Caller) -> Self {
        Rights { from, caller, buckets: Vec::new() }
    }

    /// An action on an object, or on a name that may have one.
    pub fn object(&mut self, action: Action, bucket: &str, key: &str) -> Result<()> {
        if self.caller.is_owner() {
            return Ok(());
        }
        // Who may read a bucket may read its snapshots.
        let (bucket, _) = keys::bucket_and_snapshot(bucket);
        if !self.buckets.iter().any(|known| known == bucket) {
            self.buckets.push(bucket.to_owned());
        }
        self.decide(action, &format!("{bucket}/{key}"))
    }

    /// An action on every name that begins with `prefix`.
    pub fn prefix(&mut self, action: Action, bucket: &str, prefix: &str) -> Result<()> {
        self.object(action, bucket, prefix)
    }

    /// An action on a bucket, which need not be there.
    pub fn bucket(&mut self, action: Action, bucket: &str) -> Result<()> {
        if self.caller.is_owner() { Ok(()) } else { self.decide(action, keys::bucket_and_snapshot(bucket).0) }
    }

    /// An action on the store.
    pub fn store(&mut self, action: Action) -> Result<()> {
        if self.caller.is_owner() { Ok(()) } else { self.decide(action, "the store") }
    }

    /// An action on an upload: who began it may drop it and look at it.
    pub fn upload(&mut self, action: Action, bucket: &str, key: &str, _upload: UploadId) -> Result<()> {
        self.object(action, bucket, key)
    }

    /// An error as the caller may see it: that a name is absent is told to who may list the bucket alone.
    pub fn hide(mut self, error: Error) -> Error {
        if self.caller.is_owner() || error.kind() != ErrorKind::NoSuchKey {
            return error;
        }
        let buckets = std::mem::take(&mut self.buckets);
        let refused = buckets.iter().find_map(|bucket| self.bucket(Action::ListBucket, bucket).err());
        refused.unwrap_or(error)
    }

    fn decide(&mut self, action: Action, on: &str) -> Result<()> {
        // Until identities are built nobody but the owner may do anything.
        let _ = &mut self.from;
        let message = format!("{:?} may not do {} on {on}", self.caller, action.name());
        Err(Error::new(ErrorKind::AccessDenied, message))
    }
}

/// Asks what a verb needs, in its own transaction.
pub(crate) fn ask(
    txn: &mut Transaction,
    caller: &Caller,
    needs: impl FnOnce(&mut Rights<'_>) -> Result<()>,
) -> Result<()> {
    if caller.is_owner() { Ok(()) } else { needs(&mut Rights::new(txn, caller)) }
}

/// The error of a verb as its caller may see it.
pub(crate) fn hide(
    txn: &mut Transaction,
    caller: &Caller,
    error: Error,
    needs: impl FnOnce(&mut Rights<'_>) -> Result<()>,
) -> Error {
    if caller.is_owner() || error.kind() != ErrorKind::NoSuchKey {
        return error;
    }
    let mut rights = Rights::new(txn, caller);
    match needs(&mut rights) {
        Ok(()) => rights.hide(error),
        Err(refused) => refused,
    }
}
