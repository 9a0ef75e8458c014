//! Streams of spaces: export, send, receive; and the spaces that they are made of.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{Batch, Durability, Engine, Operation, Options, ReceiveOptions, Received, SpaceId, SpaceInfo};

use crate::error::{Error, Result};
use crate::inspect::refuse_other;

/// Where `snapshot` and `clone_space` look for a free id: far above those of buckets.
const FIRST_ID: u64 = 1 << 32;

/// A store opened for work on its spaces.
pub struct Spaces {
    engine: Engine,
    path: std::path::PathBuf,
}

impl Spaces {
    /// Opens the store at a path; to look only, or to change it.
    pub fn open(path: &Path, read_only: bool) -> Result<Spaces> {
        refuse_other(path)?;
        let device = FileDevice::open(path, OpenOptions { read_only, create: false }).map_err(Error::at(path))?;
        let options = Options { read_only, ..Options::default() };
        let engine = Engine::open(Arc::new(device), options).map_err(Error::at(path))?;
        Ok(Spaces { engine, path: path.to_owned() })
    }

    /// Every space that users made.
    pub fn list(&self) -> Result<Vec<SpaceInfo>> {
        self.engine.view().spaces().map_err(Error::at(&self.path))
    }

    /// Makes a snapshot of a space, or with `writable` a clone; gives its id.
    pub fn branch(&self, from: SpaceId, to: Option<SpaceId>, writable: bool) -> Result<SpaceId> {
        let highest = self.list()?.iter().map(|space| space.space.0 + 1).max().unwrap_or(0);
        let to = to.unwrap_or(SpaceId(highest.max(FIRST_ID)));
        let operation =
            if writable { Operation::CloneSpace { from, to } } else { Operation::SnapshotSpace { from, to } };
        self.submit(operation)?;
        Ok(to)
    }

    /// Drops a space and everything in it.
    pub fn drop_space(&self, space: SpaceId) -> Result<()> {
        self.submit(Operation::DropSpace { space })
    }

    fn submit(&self, operation: Operation) -> Result<()> {
        let done = self.engine.submit(Batch::new().then(operation), Durability::Sync).wait();
        done.map(drop).map_err(Error::at(&self.path))
    }

    /// Writes a stream of one space, against a snapshot that it comes from if one is given; gives its length.
    pub fn send(
        &self,
        space: SpaceId,
        base: Option<SpaceId>,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let sent = self.engine.send(space, base).and_then(|mut sending| sending.write_to(out, progress));
        sent.map_err(Error::at(&self.path))
    }

    /// Writes a stream of several spaces as they are in one version; without any, of all; gives its length.
    pub fn export(&self, spaces: &[SpaceId], out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> Result<u64> {
        let sent = self.engine.export(spaces).and_then(|mut sending| sending.write_to(out, progress));
        sent.map_err(Error::at(&self.path))
    }

    /// Makes spaces of a stream: all of them, or nothing.
    pub fn receive(
        &self,
        input: &mut dyn Read,
        options: ReceiveOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Received> {
        self.engine.receive(input, options, progress).map_err(Error::at(&self.path))
    }

    /// Closes the store with everything durable.
    pub fn close(&self) -> Result<()> {
        self.engine.close().map_err(Error::at(&self.path))
    }
}
