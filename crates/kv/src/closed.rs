//! A store that nobody has: every call is refused.
//!
//! Invariant: nothing is read or changed through it. It stands where a store would give more than is to be given.

use std::sync::Arc;

use koine_engine::{Batch, Durability, Error, ErrorKind, KeyRange, Result, SpaceId, StageHint, Ticket, Version};

use crate::seam::{Kv, Lookup, Profile, Stage, Usage, View, Wait, Watch};

/// A store whose calls are all `Unsupported`.
#[derive(Debug)]
pub struct Closed {
    profile: Profile,
}

impl Closed {
    /// The only one.
    pub fn new() -> Closed {
        Closed {
            profile: Profile {
                name: "closed",
                key_len_max: 0,
                batch_operations_max: 0,
                batch_bytes_max: 0,
                inline_len_best: 0,
                durable: false,
                reads_at_once: false,
            },
        }
    }
}

impl Default for Closed {
    fn default() -> Closed {
        Closed::new()
    }
}

fn refused<T>() -> Result<T> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "keys and values are not reached this way: the store's owner alone has them",
    ))
}

impl Kv for Closed {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn view(&self) -> Result<Arc<dyn View>> {
        refused()
    }

    fn lookup(&self, _space: SpaceId, _key: &[u8], _offset: u64, _length: usize, _wait: Wait) -> Result<Lookup> {
        refused()
    }

    fn stage(&self, _hint: StageHint) -> Result<Box<dyn Stage>> {
        refused()
    }

    fn submit(&self, _batch: Batch, _durability: Durability, _wait: Wait) -> Ticket {
        let (ticket, completer) = Ticket::new();
        completer.complete(refused());
        ticket
    }

    fn watch(&self, _space: SpaceId, _range: KeyRange, _from: Version) -> Result<Box<dyn Watch>> {
        refused()
    }

    fn usage(&self) -> Result<Usage> {
        refused()
    }

    fn sync(&self) -> Result<()> {
        refused()
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
