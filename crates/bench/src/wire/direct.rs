//! The same store in this process, called directly: what the wire adds is what lies between the two.

use super::contestant::{Contestant, Durability, Outcome, StoreSetup, Transport, WireOperation, failed, is_same};
use crate::Error;
use bytes::Bytes;
use koine_engine::device::{Device, FileDevice, OpenOptions};
use koine_engine::{Batch, Engine, FormatOptions, Operation, Options, SpaceId, Ticket};
use koine_env::OsRandom;
use koine_kv::{EngineKv, Kv, MemoryKv, Wait};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Where all keys lie.
pub const SPACE: SpaceId = SpaceId::FIRST;
/// The length of a new file.
const FILE_LEN: u64 = 1 << 30;

/// The engine's word for a durability.
pub fn level(durability: Durability) -> koine_engine::Durability {
    match durability {
        Durability::Memory => koine_engine::Durability::Memory,
        Durability::Written => koine_engine::Durability::Written,
        Durability::Sync => koine_engine::Durability::Sync,
    }
}

/// Opens a store in memory, or makes one in a new file, with the space that keys lie in.
pub fn open(file: Option<&Path>) -> Outcome<Arc<dyn Kv>> {
    let kv: Arc<dyn Kv> = match file {
        None => Arc::new(MemoryKv::default()),
        Some(path) => {
            let options = OpenOptions { create: true, read_only: false };
            let device = FileDevice::open(path, options).map_err(failed("make the store's file"))?;
            device.grow(FILE_LEN).map_err(failed("make room in the store"))?;
            Engine::format(&device, FormatOptions::default(), &OsRandom).map_err(failed("format"))?;
            Arc::new(EngineKv::open(Arc::new(device), Options::default()).map_err(failed("open"))?)
        }
    };
    let batch = Batch::new().then(Operation::CreateSpace { space: SPACE });
    kv.commit(batch, koine_engine::Durability::Sync).map_err(failed("make the space"))?;
    Ok(kv)
}

enum DirectRequest {
    Put(Ticket),
    Got(Option<Bytes>),
}

/// A store in this process.
pub struct Direct {
    kv: Arc<dyn Kv>,
    durability: koine_engine::Durability,
    begun: VecDeque<DirectRequest>,
    _folder: TempDir,
}

impl Direct {
    /// Makes one.
    pub fn open(store: StoreSetup, dir: &Path) -> Result<Direct, Error> {
        let folder = tempfile::Builder::new()
            .prefix("koine-bench-")
            .tempdir_in(dir)
            .map_err(Error::io("cannot make a folder"))?;
        let path = folder.path().join("store.koine");
        let kv = open(store.is_file.then_some(path.as_path())).map_err(Error::Worker)?;
        Ok(Direct { kv, durability: level(store.durability), begun: VecDeque::new(), _folder: folder })
    }
}

impl Contestant for Direct {
    fn way(&self) -> Transport {
        Transport::Direct
    }

    fn begin(&mut self, work: WireOperation, keys: &[&Bytes], value: &Bytes) -> Outcome<()> {
        for key in keys {
            self.begun.push_back(match work {
                WireOperation::Put => {
                    let batch = Batch::new().put(SPACE, Bytes::clone(key), value.clone());
                    DirectRequest::Put(self.kv.submit(batch, self.durability, Wait::Never))
                }
                WireOperation::Get => DirectRequest::Got(self.kv.get(SPACE, key).map_err(failed("get"))?),
            });
        }
        Ok(())
    }

    fn finish(&mut self, value: &Bytes) -> Outcome<()> {
        match self.begun.pop_front().ok_or("nothing is under way")? {
            DirectRequest::Put(ticket) => ticket.wait().map(drop).map_err(failed("put")),
            DirectRequest::Got(Some(got)) if is_same(&got, value) => Ok(()),
            DirectRequest::Got(_) => Err("a value is missing or wrong".into()),
        }
    }

    fn is_ready(&mut self) -> Outcome<bool> {
        Ok(match self.begun.front() {
            Some(DirectRequest::Put(ticket)) => ticket.peek().is_some(),
            Some(DirectRequest::Got(_)) => true,
            None => false,
        })
    }

    fn server_cpu(&self) -> Option<Duration> {
        None
    }
}
