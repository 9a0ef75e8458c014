//! The public face: buckets and objects of the store here, or of one elsewhere.
//!
//! Invariants:
//! - The calls of the table run in the local store or are asked of who has the store; here alone is decided which.
//! - Where the store is elsewhere, what only its owner can do is `Unsupported`.

mod calls;
mod file;
mod identities;
mod owner;
mod pin;
mod reader;
mod staged;
mod transaction;
mod transfer;
mod writer;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use koine_kv::Durability;

use crate::action::{Action, StandIns};
use crate::caller::{Caller, Circumstances};
use crate::calls::ObjectCalls;
use crate::client::{Remote, RemoteObjects};
use crate::error::{Error, ErrorKind, Result};
use crate::info::{BucketInfo, ObjectSummary};
use crate::local::Local;
use crate::pending::Pending;
use crate::request::{BucketQuery, ListQuery};
use crate::walk::PAGE;

pub use self::file::{FileMode, ObjectFile};
pub use self::identities::Identities;
pub use self::pin::Pinned;
pub use self::reader::ObjectReader;
pub use self::staged::{BodyWriter, StagedBody};
pub use self::transaction::Transaction;
pub use self::writer::{EditWriter, ObjectWriter, PartWriter};

/// Buckets and objects over a store, or asked of who has it ([`RemoteObjects`]). Cheap to clone; holds nothing that
/// correctness needs.
#[derive(Clone)]
pub struct Objects {
    store: Store,
}

/// What is not done for others than the store's owner.
fn owner_alone() -> Error {
    let message = "keys and values are not reached this way: the store's owner alone has them";
    Error::new(ErrorKind::Unsupported, message)
}

/// Where the calls run.
#[derive(Clone)]
enum Store {
    Here(Local),
    There(Arc<Remote>),
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.store {
            Store::Here(local) => local.kv().profile().name,
            Store::There(remote) => remote.place(),
        };
        write!(f, "Objects({name})")
    }
}

impl From<Local> for Objects {
    fn from(local: Local) -> Self {
        Objects { store: Store::Here(local) }
    }
}

impl From<Arc<Remote>> for Objects {
    fn from(remote: Arc<Remote>) -> Self {
        Objects { store: Store::There(remote) }
    }
}

impl RemoteObjects {
    /// The buckets and objects.
    pub fn objects(&self) -> Objects {
        Objects::from(Arc::clone(self.remote()))
    }
}

impl Objects {
    /// Where the calls of the table are made.
    pub(crate) fn calls(&self) -> &dyn ObjectCalls {
        match &self.store {
            Store::Here(local) => local,
            Store::There(remote) => remote.as_ref(),
        }
    }

    /// The store, where it is here.
    fn local(&self) -> Result<&Local> {
        match &self.store {
            Store::Here(local) => Ok(local),
            Store::There(_) => Err(owner_alone()),
        }
    }

    /// The same, otherwise seen, where the store is here.
    fn seen(&self, see: impl FnOnce(&Local) -> Local) -> Objects {
        match &self.store {
            Store::Here(local) => Objects::from(see(local)),
            Store::There(_) => self.clone(),
        }
    }

    /// Whether the calls run in another process, as who has logged in there.
    pub fn is_remote(&self) -> bool {
        matches!(self.store, Store::There(_))
    }

    /// The same store, for another caller. What opened the store is its owner. Where the calls run elsewhere they go on
    /// being made as who has logged in there.
    #[must_use]
    pub fn as_caller(&self, caller: Caller) -> Objects {
        self.seen(|local| local.as_caller(caller))
    }

    /// Who the calls of this are made by; everyone where they run elsewhere, which alone knows who has logged in.
    pub fn caller(&self) -> &Caller {
        match &self.store {
            Store::Here(local) => local.caller(),
            Store::There(_) => &Caller::Everyone,
        }
    }

    /// Whether this caller may do something to a bucket or to an object in it, by the rules of this moment. For doors, which
    /// ask before they take in what belongs to a call; the call asks again. Where the calls run elsewhere only they ask.
    pub fn may(&self, action: Action, bucket: &str, key: Option<&str>) -> Result<()> {
        match &self.store {
            Store::Here(local) => local.may(action, bucket, key),
            Store::There(_) => Ok(()),
        }
    }

    /// The same store and caller, for requests of which a door knows this.
    #[must_use]
    pub fn under(&self, circumstances: Circumstances) -> Objects {
        self.seen(|local| local.under(circumstances))
    }

    /// The same store and caller, whose calls need these rights in the place of their own. For doors, whose calls are made of
    /// those of the library and have names of their own in policies.
    #[must_use]
    pub fn with_stand_ins(&self, stand_ins: StandIns) -> Objects {
        self.seen(|local| local.with_stand_ins(stand_ins))
    }

    /// The same store and caller, whose changes are answered as soon as they survive this: with [`Durability::Written`] the
    /// end of the process, with [`Durability::Memory`] nothing yet. What is synced later, by whomever, makes them survive a
    /// power cut, as everything does unless it is asked for otherwise here. A power cut before that leaves each whole or not
    /// there. Where the calls run elsewhere nothing changes: S3, the socket and the command line sync.
    #[must_use]
    pub fn with_durability(&self, durability: Durability) -> Objects {
        self.seen(|local| local.with_durability(durability))
    }

    /// Makes calls that read, where they need not wait for the device or for another process; `None` where they would, or
    /// where they would change something: nothing was done then, and the same calls may be made where waiting is allowed.
    ///
    /// An [`ObjectReader`] that was opened in `call` is of no use after it.
    pub fn at_once<T>(&self, call: impl FnOnce(&Objects) -> Result<T>) -> Result<Option<T>> {
        match &self.store {
            Store::Here(local) => local.at_once(|local| call(&Objects::from(local))),
            Store::There(_) => Ok(None),
        }
    }

    /// Removes a bucket that holds no objects and has no snapshots; its unfinished uploads go with it.
    pub fn delete_bucket(&self, bucket: &str) -> Pending<()> {
        self.delete_bucket_with(bucket, false)
    }

    /// Removes a bucket that holds no objects, and its snapshots with what they hold.
    pub fn delete_bucket_and_snapshots(&self, bucket: &str) -> Pending<()> {
        self.delete_bucket_with(bucket, true)
    }

    /// Whether an object has this name.
    pub fn exists(&self, bucket: &str, key: &str) -> Result<bool> {
        match self.head(bucket, key) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NoSuchKey => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Calls `each` for every object of a bucket that begins with `prefix`, in the order of names, until it breaks.
    /// A walk over pages: what stays is told once, what comes or goes meanwhile at most once.
    pub fn for_each(
        &self,
        bucket: &str,
        prefix: &str,
        mut each: impl FnMut(ObjectSummary) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut query = ListQuery { prefix: prefix.to_owned(), limit: PAGE, ..ListQuery::default() };
        loop {
            let page = self.list(bucket, &query)?;
            if page.objects.into_iter().try_for_each(&mut each).is_break() || page.next.is_none() {
                return Ok(());
            }
            query.after = page.next;
        }
    }

    /// Calls `each` for every bucket whose name begins with `prefix`, in the order of names, until it breaks.
    pub fn for_each_bucket(&self, prefix: &str, mut each: impl FnMut(BucketInfo) -> ControlFlow<()>) -> Result<()> {
        let mut query = BucketQuery { prefix: prefix.to_owned(), limit: PAGE, ..BucketQuery::default() };
        loop {
            let page = self.list_buckets(&query)?;
            if page.buckets.into_iter().try_for_each(&mut each).is_break() || page.next.is_none() {
                return Ok(());
            }
            query.after = page.next;
        }
    }
}
