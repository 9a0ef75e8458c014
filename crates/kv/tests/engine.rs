//! The conformance suite on the engine: over memory, small and growing, and over a file.

use std::sync::Arc;

use koine_engine::device::{Device, FileDevice, MemoryDevice, OpenOptions};
use koine_engine::{Engine, FormatOptions, Options};
use koine_env::OsRandom;
use koine_kv::conformance::{Opened, Suite};
use koine_kv::{EngineKv, Kv};

fn format(device: &dyn Device) {
    Engine::format(device, FormatOptions::default(), &OsRandom).expect("format");
}

fn open(device: Arc<dyn Device>) -> Arc<dyn Kv> {
    Arc::new(EngineKv::open(device, Options::default()).expect("open"))
}

/// A store in memory that may grow.
mod memory {
    use super::*;

    const LENGTH: usize = 64 << 20;
    const LENGTH_MAX: u64 = 1 << 30;

    fn open_new() -> Opened {
        let medium = Arc::new(MemoryDevice::growable(LENGTH, LENGTH_MAX));
        format(medium.as_ref());
        let reopen = move || {
            medium.reopen();
            open(Arc::clone(&medium) as Arc<dyn Device>)
        };
        Opened { kv: reopen(), reopen: Some(Arc::new(reopen)) }
    }

    koine_kv::conformance_tests!(Suite { open: open_new });
}

/// A store in a file.
mod file {
    use super::*;

    const LENGTH: u64 = 64 << 20;

    fn open_new() -> Opened {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let device = FileDevice::open(&path, OpenOptions { create: true, ..OpenOptions::default() }).expect("a file");
        device.grow(LENGTH).expect("room");
        format(&device);
        let kv = open(Arc::new(device));
        let reopen = move || {
            let _ = &folder;
            open(Arc::new(FileDevice::open(&path, OpenOptions::default()).expect("the file again")))
        };
        Opened { kv, reopen: Some(Arc::new(reopen)) }
    }

    koine_kv::conformance_tests!(Suite { open: open_new });
}
