//! Giving a store of an older format the one of this program.

use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{Engine, Upgrade};

use crate::error::{Error, Result};
use crate::inspect::refuse_other;

/// Upgrades the store at a path; with `dry_run` nothing is written. Nobody may have it open.
pub fn upgrade(path: &Path, dry_run: bool) -> Result<Upgrade> {
    refuse_other(path)?;
    let device = FileDevice::open(path, OpenOptions { read_only: dry_run, create: false }).map_err(Error::at(path))?;
    Engine::upgrade(Arc::new(device), dry_run).map_err(Error::at(path))
}
