//! Giving a store of an older format the one of this program.

use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{Engine, FORMAT, Options, Upgrade};
use koine_env::{OsRandom, SystemClock};
use koine_kv::{EngineKv, Kv};
use koine_object::{CatalogueUpgrade, Objects};

use crate::error::{Error, Result};
use crate::inspect::refuse_other;

/// What an upgrade did, or would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upgraded {
    /// To the store itself.
    pub store: Upgrade,
    /// To the catalogue of buckets and what it leads to; `None` where there is none, or where nobody can look before the
    /// store itself is upgraded (a dry run).
    pub catalogue: Option<CatalogueUpgrade>,
}

/// Upgrades the store at a path, and then its catalogue; with `dry_run` nothing is written. Nobody may have it open.
pub fn upgrade(path: &Path, dry_run: bool) -> Result<Upgraded> {
    refuse_other(path)?;
    let device = FileDevice::open(path, OpenOptions { read_only: dry_run, create: false }).map_err(Error::at(path))?;
    let store = Engine::upgrade(Arc::new(device), dry_run).map_err(Error::at(path))?;
    if dry_run && store.from != FORMAT {
        return Ok(Upgraded { store, catalogue: None });
    }
    // Looked at first: where there is nothing to do, opening changes nothing either.
    let mut catalogue = upgrade_catalogue(path, true)?;
    if !dry_run && catalogue.is_some_and(|found| found.from != found.to) {
        catalogue = upgrade_catalogue(path, false)?;
    }
    Ok(Upgraded { store, catalogue })
}

fn upgrade_catalogue(path: &Path, dry_run: bool) -> Result<Option<CatalogueUpgrade>> {
    let device = FileDevice::open(path, OpenOptions { read_only: dry_run, create: false }).map_err(Error::at(path))?;
    let options = Options { read_only: dry_run, ..Options::default() };
    let kv = Arc::new(EngineKv::new(Engine::open(Arc::new(device), options).map_err(Error::at(path))?));
    let below = Arc::clone(&kv) as Arc<dyn Kv>;
    let upgraded = Objects::upgrade(below, Arc::new(SystemClock::new()), Arc::new(OsRandom), dry_run);
    let closed = kv.engine().close().map_err(Error::at(path));
    let upgraded = upgraded.map_err(Error::from)?;
    closed.map(|()| upgraded)
}
