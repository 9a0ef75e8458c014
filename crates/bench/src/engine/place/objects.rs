//! Our numbered objects, on a loop device or in a file, through `koine_engine::objects`.

use super::{Handle, Outcome, Place, failed};
use crate::stores::kinds::{forget_cached, io_mode};
use koine_engine::device::{Device, FileDevice, OpenOptions};
use koine_engine::objects::{Object, Store, StoreOptions};
use koine_engine::{Durability, Engine, FormatOptions, Options};
use koine_env::OsRandom;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open store.
pub struct Objects {
    name: String,
    path: PathBuf,
    /// `None` between two opens.
    store: Option<Store>,
}

/// Opens the store in the way that was asked for.
fn open(path: &Path) -> Outcome<Store> {
    let device = FileDevice::open_with(path, OpenOptions::default(), io_mode()).map_err(failed("open"))?;
    let engine = Engine::open(Arc::new(device), Options::default()).map_err(failed("open"))?;
    let options = StoreOptions { name: path.display().to_string(), object_limit: None };
    Store::own(engine, options).map_err(failed("open"))
}

impl Objects {
    /// Formats what is at `path`, with blocks of this length; 0: those that a store has by itself.
    pub fn make(path: &Path, block_len: u64) -> Outcome<Objects> {
        let device = FileDevice::open(path, OpenOptions::default()).map_err(failed("open"))?;
        let format = FormatOptions { block_len, ..FormatOptions::default() };
        Engine::format(&device, format, &OsRandom).map_err(failed("format"))?;
        device.close().map_err(failed("close"))?;
        let store = Some(open(path)?);
        Ok(Objects { name: super::name_of_ours(block_len), path: path.to_owned(), store })
    }

    fn store(&self) -> Outcome<&Store> {
        self.store.as_ref().ok_or_else(|| "the store is not open".to_owned())
    }
}

impl Place for Objects {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self) -> Outcome<u64> {
        let object = self.store()?.create(0).map_err(failed("create"))?;
        let number = object.number();
        object.close(Durability::Memory).map_err(failed("close"))?;
        Ok(number)
    }

    fn open(&self, number: u64) -> Outcome<Box<dyn Handle>> {
        Ok(Box::new(OpenObject(self.store()?.open_object(number).map_err(failed("open"))?)))
    }

    fn delete(&self, number: u64) -> Outcome<()> {
        self.store()?.delete(number, Durability::Memory).map_err(failed("delete"))
    }

    fn settle(&self) -> Outcome<()> {
        self.store()?.sync().map_err(failed("sync"))
    }

    fn forget(&mut self) -> Outcome<()> {
        if let Some(store) = self.store.take() {
            store.close().map_err(failed("close"))?;
        }
        forget_cached(&self.path);
        self.store = Some(open(&self.path)?);
        Ok(())
    }
}

struct OpenObject(Object);

impl Handle for OpenObject {
    fn write(&self, offset: u64, data: &[u8], synced: bool) -> Outcome<()> {
        let durability = if synced { Durability::Sync } else { Durability::Memory };
        self.0.write(offset, data, durability).map_err(failed("write"))
    }

    fn transact(&self, writes: &[(u64, &[u8])]) -> Outcome<bool> {
        let mut transaction = self.0.transaction().map_err(failed("begin a transaction"))?;
        for (offset, data) in writes {
            transaction.write(&self.0, *offset, data).map_err(failed("write in a transaction"))?;
        }
        transaction.execute(Durability::Sync).map(|_| true).map_err(failed("execute a transaction"))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Outcome<usize> {
        self.0.read(offset, buffer).map_err(failed("read"))
    }

    fn status(&self) -> Outcome<u64> {
        self.0.status().map(|status| status.size).map_err(failed("status"))
    }
}
