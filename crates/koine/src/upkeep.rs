//! Work on the space of a store: giving it back to the medium, and putting scattered values together.

use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{Defrag, DefragOptions, DefragPosition, Engine, Options, SpaceReport};
use koine_env::SystemClock;

use crate::error::{Error, Result};
use crate::inspect::refuse_other;

/// A store opened for such work; nobody else has it meanwhile.
pub struct Upkeep {
    engine: Engine,
    path: std::path::PathBuf,
}

impl Upkeep {
    /// Opens the store at a path.
    pub fn open(path: &Path) -> Result<Upkeep> {
        refuse_other(path)?;
        let device = FileDevice::open(path, OpenOptions::default()).map_err(Error::at(path))?;
        let engine = Engine::open(Arc::new(device), Options::default()).map_err(Error::at(path))?;
        Ok(Upkeep { engine, path: path.to_owned() })
    }

    /// Gives all free space back to the medium; gives its bytes.
    pub fn trim(&self, progress: &mut dyn FnMut(u64)) -> Result<u64> {
        self.engine.trim(progress).map_err(Error::at(&self.path))
    }

    /// Begins to write scattered values anew, from a position on.
    pub fn defrag(&self, options: DefragOptions, from: DefragPosition) -> Result<Defrag> {
        self.engine.defrag(options, Arc::new(SystemClock::new()), from).map_err(Error::at(&self.path))
    }

    /// Where the space goes.
    pub fn space_report(&self) -> Result<SpaceReport> {
        self.engine.space_report().map_err(Error::at(&self.path))
    }

    /// Closes the store with everything durable, so that what was freed can be used again.
    pub fn close(&self) -> Result<()> {
        self.engine.close().map_err(Error::at(&self.path))
    }
}
