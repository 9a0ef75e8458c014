//! Looking at a store without changing a byte of it: `check` and `stat`.

use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{Engine, Info, Options, Progress, Report, Usage};

use crate::error::{Error, Result};
use crate::probe::{Found, probe};

/// A store opened to look at it; nobody can write to it meanwhile.
pub struct Inspection {
    engine: Engine,
    path: std::path::PathBuf,
}

/// Opens the store at a path for reading only.
pub fn inspect(path: &Path) -> Result<Inspection> {
    refuse_other(path)?;
    let device = FileDevice::open(path, OpenOptions { read_only: true, create: false }).map_err(Error::at(path))?;
    let options = Options { read_only: true, ..Options::default() };
    let engine = Engine::open(Arc::new(device), options).map_err(Error::at(path))?;
    Ok(Inspection { engine, path: path.to_owned() })
}

impl Inspection {
    /// How full the store is.
    pub fn usage(&self) -> Usage {
        self.engine.usage()
    }

    /// What it is, and what opening it found.
    pub fn info(&self) -> Info {
        self.engine.info()
    }

    /// Reads and verifies everything.
    pub fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
        self.engine.check(progress).map_err(Error::at(&self.path))
    }
}

/// Refuses a path where no store is. A damaged store is left to the engine, which says what is wrong.
pub(crate) fn refuse_other(path: &Path) -> Result<()> {
    match probe(path)? {
        Found::Missing => Err(Error::Missing(path.to_owned())),
        Found::Empty => Err(Error::Occupied { path: path.to_owned(), found: "nothing (an empty file)".to_owned() }),
        Found::Zeros => Err(Error::Occupied { path: path.to_owned(), found: "zeros".to_owned() }),
        Found::Other(found) => Err(Error::Occupied { path: path.to_owned(), found }),
        Found::Store => Ok(()),
    }
}
