//! One version of the store for many reads.
//!
//! Invariants:
//! - All that is read is of the version at which it was pinned, until that view expires (`Expired`, never a mixture).
//! - Who may read is decided by the rules of the moment of each call, not by those of the pinned version.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use koine_kv::Version;

use super::{Objects, Store};
use crate::error::Result;

/// Reads at one version of the store: the calls are those of [`Objects`]. Those that would change something are
/// `ReadOnly`.
///
/// While it is kept, so is what was deleted since, unless the store takes the view back. Of a store that another process
/// has, a connection may keep 64 at once; beyond that it is `Busy`.
#[derive(Clone)]
pub struct Pinned {
    objects: Objects,
    version: Version,
}

impl Objects {
    /// Pins the newest version of the store, for several reads that are to fit together.
    pub fn pin(&self) -> Result<Pinned> {
        match &self.store {
            Store::Here(local) => {
                let view = local.kv().view()?;
                view.keep()?;
                Ok(Pinned { version: view.version(), objects: Objects::from(local.at(view)) })
            }
            Store::There(remote) => {
                let (remote, version) = remote.pin()?;
                Ok(Pinned { version, objects: Objects::from(Arc::new(remote)) })
            }
        }
    }
}

impl Pinned {
    /// All calls, at this version.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The last commit that is seen.
    pub fn version(&self) -> Version {
        self.version
    }
}

impl Deref for Pinned {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({:?} at {})", self.objects, self.version.0)
    }
}
