//! What only who has the store can do: opening it, its root key, its care, its keys and values.
//!
//! Invariant: where the store is elsewhere each is `Unsupported`, and nothing is asked there.

use std::path::PathBuf;
use std::sync::Arc;

use koine_env::{Clock, Random};
use koine_kv::{KeyRange, Kv, SpaceId};

use super::{Objects, Store};
use crate::bucket::{BucketToReceive, BucketToSend, ReceiveBucket, only_the_owner};
use crate::collect::{CollectEvent, CollectOptions, Collected};
use crate::error::Result;
use crate::local::{Local, RootKey};
use crate::sealing::SealingKeys;
use crate::upgrade::{self, CatalogueUpgrade};

impl Objects {
    /// Opens the objects of a store; makes the catalogue when the store is new. One of an older format is
    /// `Unsupported`, until [`Objects::upgrade`] was called.
    pub fn open(kv: Arc<dyn Kv>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<Self> {
        Local::open(kv, clock, random).map(Objects::from)
    }

    /// Those of a store, of any format, that is looked at and not changed (`koine check`, `koine stat`). The store below
    /// is one that can be read only, or the caller changes nothing.
    pub fn inspect(kv: Arc<dyn Kv>) -> Self {
        Objects::from(Local::inspect(kv))
    }

    /// Gives the catalogue of a store, which nobody else has open, the format of this program, and tells what was done;
    /// `None` where the store has no catalogue. With `dry_run` nothing is written.
    ///
    /// Format 0 had no counts of objects and bytes, no lists of the buckets of an owner and of a group, and a root key in
    /// a record of its own. A snapshot that was made in format 0 stays without counts: a bucket that is restored from it
    /// is counted by [`Objects::collect`].
    pub fn upgrade(
        kv: Arc<dyn Kv>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        dry_run: bool,
    ) -> Result<Option<CatalogueUpgrade>> {
        upgrade::upgrade(kv, clock, random, dry_run)
    }

    /// The keys that belong to a store itself and not to its buckets: a store without buckets has no others.
    pub fn founding_keys() -> Vec<(SpaceId, KeyRange)> {
        Local::founding_keys()
    }

    /// The store below.
    pub fn kv(&self) -> Result<&Arc<dyn Kv>> {
        self.local().map(Local::kv)
    }

    /// The root key, when one was set, or made by a reset: the first of root's access keys that is live and for ever.
    pub fn root_key(&self) -> Result<Option<RootKey>> {
        self.local()?.root_key()
    }

    /// Sets the root key unless there is one; gives the one that stands. Its secret is sealed where the store was given
    /// sealing keys.
    pub fn set_root_key_if_absent(&self, key: &RootKey) -> Result<RootKey> {
        self.local()?.set_root_key_if_absent(key)
    }

    /// The same store, whose secrets of access keys are sealed with these keys. Without, new ones are kept as they are
    /// and sealed ones do not open. What another process changes in their file is taken when a secret needs it.
    #[must_use]
    pub fn with_sealing_keys(&self, keys: SealingKeys) -> Objects {
        self.seen(|local| local.with_sealing_keys(keys))
    }

    /// The file of the sealing keys, where there is one.
    pub fn sealing_file(&self) -> Option<PathBuf> {
        self.local().ok().and_then(Local::sealing_file)
    }

    /// Writes down when objects were last read, as far as this process knows it and has not done so: before a store is
    /// closed. Nothing is lost without but those times.
    pub fn write_access_times(&self) -> Result<()> {
        match &self.store {
            Store::Here(local) => local.write_access_times(),
            // Who has the store knows them.
            Store::There(_) => Ok(()),
        }
    }

    /// Looks for what no name leads to and, where it is asked to, removes it: while the store is in use, and never
    /// anything live.
    pub fn collect(&self, options: &CollectOptions) -> Result<Collected> {
        self.collect_telling(options, &mut |_| {})
    }

    /// The same, and tells what it does: each thing that it found before it is removed.
    pub fn collect_telling(
        &self,
        options: &CollectOptions,
        tell: &mut dyn FnMut(CollectEvent<'_>),
    ) -> Result<Collected> {
        self.local()?.collect(options, tell)
    }

    /// What a stream of a bucket is made of: its content and all its snapshots; or, of `BUCKET@SNAPSHOT`, that snapshot alone,
    /// with `base` what differs from an older one of the same bucket.
    pub fn bucket_to_send(&self, bucket: &str, base: Option<&str>) -> Result<BucketToSend> {
        match &self.store {
            Store::Here(local) => local.bucket_to_send(bucket, base),
            Store::There(_) => Err(only_the_owner()),
        }
    }

    /// What makes a bucket of a stream with this note. Only the store's owner may.
    pub fn bucket_to_receive(&self, note: &[u8], how: &ReceiveBucket) -> Result<BucketToReceive> {
        match &self.store {
            Store::Here(local) => local.bucket_to_receive(note, how),
            Store::There(_) => Err(only_the_owner()),
        }
    }
}
