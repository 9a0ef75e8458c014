//! Letting a store grow: a device that became longer, a file whose limit is raised.

use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{Engine, GrowTo, Grown, Options};

use crate::error::{Error, Result};
use crate::inspect::refuse_other;
use crate::store::Store;

/// Lets the store at a path grow. Nobody may have it open; a process that has it calls [`Store::grow`].
pub fn grow(path: &Path, to: GrowTo) -> Result<Grown> {
    refuse_other(path)?;
    let device = FileDevice::open(path, OpenOptions::default()).map_err(Error::at(path))?;
    let engine = Engine::open(Arc::new(device), Options::default()).map_err(Error::at(path))?;
    let grown = engine.grow(to).map_err(Error::at(path))?;
    engine.close().map_err(Error::at(path))?;
    Ok(grown)
}

impl Store {
    /// Lets the store grow while it is in use; `None` for one in memory.
    pub fn grow(&self, to: GrowTo) -> Result<Option<Grown>> {
        match self.engine() {
            None => Ok(None),
            Some(engine) => Ok(Some(engine.grow(to)?)),
        }
    }
}
