//! The conformance suite on the engine: over memory, small and growing, and over a file.

use std::io;
use std::sync::Arc;

use koine_engine::device::{Device, FileDevice, MemoryDevice, OpenOptions, ReadMode};
use koine_engine::{Engine, FormatOptions, Options};
use koine_env::OsRandom;
use koine_kv::conformance::{Capability, Opened, Suite};
use koine_kv::{EngineKv, Kv};

/// What the engine does not offer yet.
const LACKS: &[Capability] = &[Capability::CloneSpace, Capability::SnapshotSpace, Capability::RenamePrefix];

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

    /// A handle of a medium that outlives it: closing ends only the handle.
    struct Handle(Arc<MemoryDevice>);

    impl Device for Handle {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn grow(&self, length: u64) -> io::Result<()> {
            self.0.grow(length)
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64, mode: ReadMode) -> io::Result<()> {
            self.0.read_at(buffer, offset, mode)
        }

        fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
            self.0.write_at(data, offset)
        }

        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }

        fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
            self.0.discard(offset, length)
        }

        fn close(&self) -> io::Result<()> {
            Ok(())
        }

        fn is_fixed(&self) -> bool {
            self.0.is_fixed()
        }
    }

    fn open_new() -> Opened {
        let medium = Arc::new(MemoryDevice::growable(LENGTH, LENGTH_MAX));
        format(medium.as_ref());
        let reopen = move || open(Arc::new(Handle(Arc::clone(&medium))));
        Opened { kv: reopen(), reopen: Some(Arc::new(reopen)) }
    }

    koine_kv::conformance_tests!(Suite { open: open_new, lacks: LACKS });
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

    koine_kv::conformance_tests!(Suite { open: open_new, lacks: LACKS });
}
