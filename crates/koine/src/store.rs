//! An open store: the engine (or another back end), and the objects in it.

use std::sync::Arc;

use koine_env::{OsRandom, SystemClock};
use koine_kv::{Kv, MemoryKv, MemoryOptions};
use koine_object::Objects;

use crate::error::Result;
use crate::place::Place;

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Make the store when the file is missing or empty.
    pub create: bool,
    /// Up to how many bytes a file grows; `None` is no end of its own.
    pub size_max: Option<u64>,
    /// Memory for tables and caches, in bytes; `None` is 128 MiB.
    pub memory: Option<u64>,
}

/// An open store. Dropped without `close`, it is recovered at the next start.
pub struct Store {
    place: Place,
    kv: Arc<dyn Kv>,
    objects: Objects,
}

/// Opens the store at a path or URL.
pub fn open(place: &str, options: &OpenOptions) -> Result<Store> {
    let place = Place::parse(place)?;
    let kv: Arc<dyn Kv> = match &place {
        Place::Memory => {
            Arc::new(MemoryKv::new(MemoryOptions { capacity: options.size_max, ..MemoryOptions::default() }))
        }
        Place::Path(path) => return Err(crate::Error::Missing(path.clone())),
    };
    let objects = Objects::open(Arc::clone(&kv), Arc::new(SystemClock::new()), Arc::new(OsRandom))?;
    Ok(Store { place, kv, objects })
}

impl Store {
    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Its keys and values.
    pub fn kv(&self) -> &Arc<dyn Kv> {
        &self.kv
    }

    /// Its buckets and objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Finishes what is under way, makes it durable and gives the medium back.
    pub fn close(&self) -> Result<()> {
        Ok(self.kv.close()?)
    }
}
