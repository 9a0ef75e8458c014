//! Numbered objects: a store without names, for programs that keep names themselves.
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! use koine::numbered::{self, CreateStore, Durability};
//!
//! let store = numbered::create(&folder.path().join("objects.koine"), &CreateStore::default())?;
//! let object = store.create(0)?;
//! object.write(0, b"some bytes", Durability::Sync)?;
//! println!("object {} has {} bytes", object.number(), object.size()?);
//! object.close(Durability::Sync)?;
//! store.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants:
//! - Making a store overwrites nothing that was there, unless the caller insists.
//! - The objects share a file with buckets, should somebody make some, and touch none of them.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

pub use koine_engine::objects::{
    CREATE_MANY_MAX, CreateOptions, Executed, Hint, Lifetime, Object, ObjectBytes, ObjectStatus, Store, StoreOptions,
    StoreStatus, Transaction, TransactionOptions,
};
pub use koine_engine::{Access, Durability, Error, ErrorKind};

use koine_engine::device::{FileDevice, OpenOptions};
use koine_engine::{Engine, Options};

use crate::error::{Error as FacadeError, Result};
use crate::format::{FormatOptions, format};
use crate::inspect::refuse_other;
use crate::probe::{Found, probe};
use crate::stream::{ReceiveHow, Spaces};

/// What a new store of objects is like.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateStore {
    /// The most objects that there may ever be at once; `None`: as many as fit.
    pub object_limit: Option<u64>,
    /// Up to how many bytes a file grows; `None` is as far as the medium goes.
    pub size_max: Option<u64>,
    /// Its block size in bytes, for ever: a power of two from 4 KiB to 1 MiB; `None` is 4 KiB.
    pub block_size: Option<u64>,
    /// Overwrite what is there.
    pub force: bool,
    /// Memory for tables and caches, in bytes; `None` is 128 MiB.
    pub memory: Option<u64>,
}

/// Makes a store of objects in a file (made when missing) or on a block device, and opens it.
pub fn create(path: &Path, options: &CreateStore) -> Result<Store> {
    let CreateStore { size_max, block_size, force, .. } = *options;
    format(path, &FormatOptions { size_max, block_size, force })?;
    begin(path, options.object_limit, options.memory)
}

/// As [`create`], with what an export of a store holds: all of it, or no store is made.
pub fn receive(path: &Path, options: &CreateStore, input: &mut dyn Read) -> Result<Store> {
    let made = probe(path)? == Found::Missing;
    let CreateStore { size_max, block_size, force, .. } = *options;
    format(path, &FormatOptions { size_max, block_size, force })?;
    let filled = Spaces::open(path, false).and_then(|spaces| {
        spaces.receive(input, &ReceiveHow { raw: true, ..ReceiveHow::default() }, &mut |_| ())?;
        spaces.close()
    });
    if filled.is_err() && made {
        // A file that was only made for this: an error leaves things as they were.
        let _ = std::fs::remove_file(path);
    }
    filled?;
    begin(path, options.object_limit, options.memory)
}

/// Opens the store of objects in a file or on a block device.
pub fn open(path: &Path, memory: Option<u64>) -> Result<Store> {
    open_with(path, None, memory)
}

/// As [`open`], with the limit of objects that is fixed when no objects were used there yet; later it must be the same.
pub fn open_with(path: &Path, object_limit: Option<u64>, memory: Option<u64>) -> Result<Store> {
    refuse_other(path)?;
    begin(path, object_limit, memory)
}

fn begin(path: &Path, object_limit: Option<u64>, memory: Option<u64>) -> Result<Store> {
    let device = FileDevice::open(path, OpenOptions::default()).map_err(FacadeError::at(path))?;
    let options = Options { memory_len: memory.unwrap_or(Options::default().memory_len), ..Options::default() };
    let engine = Engine::open(Arc::new(device), options).map_err(FacadeError::at(path))?;
    let name = path.display().to_string();
    Store::own(engine, StoreOptions { name, object_limit }).map_err(FacadeError::at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_fixed_by_whoever_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        format(&path, &FormatOptions { size_max: Some(32 << 20), ..FormatOptions::default() }).unwrap();
        let store = open_with(&path, Some(2), None).unwrap();
        assert_eq!(store.create_many(3, 0, Durability::Sync).unwrap_err().kind(), ErrorKind::Full);
        store.create_many(2, 0, Durability::Sync).unwrap();
        store.close().unwrap();
        let store = open(&path, None).unwrap();
        assert_eq!(store.status().unwrap().possible, Some(0));
        assert_eq!(store.name(), path.display().to_string());
        store.close().unwrap();
        let other = open_with(&path, Some(3), None).map(drop).unwrap_err();
        assert_eq!(other.store_kind(), Some(ErrorKind::Invalid), "{other}");
    }

    #[test]
    fn a_store_is_made_of_a_stream_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let store = create(&folder.path().join("from"), &CreateStore::default()).unwrap();
        let object = store.create(0).unwrap();
        object.write(0, b"some bytes", Durability::Sync).unwrap();
        let mut stream = Vec::new();
        store.engine().export(&[]).unwrap().write_to(&mut stream, &mut |_| ()).unwrap();
        let to = folder.path().join("to");
        let options = CreateStore { block_size: Some(64 << 10), ..CreateStore::default() };
        assert!(receive(&to, &options, &mut &stream[..stream.len() - 9]).map(drop).is_err());
        assert!(!to.exists());
        let copy = receive(&to, &options, &mut stream.as_slice()).unwrap();
        let copied = copy.open_object(object.number()).unwrap();
        let mut bytes = [0; 10];
        assert_eq!((copied.read(0, &mut bytes).unwrap(), &bytes), (10, b"some bytes"));
        assert_eq!(copy.status().unwrap().block_len, 64 << 10);
    }

    #[test]
    fn nothing_is_overwritten_or_invented() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        assert!(matches!(open(&path, None).map(drop), Err(FacadeError::Missing(_))));
        create(&path, &CreateStore::default()).unwrap().close().unwrap();
        assert!(matches!(create(&path, &CreateStore::default()).map(drop), Err(FacadeError::Occupied { .. })));
        let block_size = Some(64 << 10);
        let forced = CreateStore { force: true, object_limit: Some(7), block_size, ..CreateStore::default() };
        let odd = CreateStore { block_size: Some(5000), ..forced };
        assert!(matches!(create(&path, &odd).map(drop), Err(FacadeError::BadSize(_))));
        let store = create(&path, &forced).unwrap();
        assert_eq!((store.status().unwrap().limit, store.status().unwrap().block_len), (Some(7), 64 << 10));
        let held = open(&path, None).map(drop).unwrap_err();
        assert!(held.is_held(), "{held}");
        // Buckets and objects by name may lie in the same file.
        store.close().unwrap();
        let named = crate::open(&path.display().to_string(), &crate::OpenOptions::default()).unwrap();
        named.objects().create_bucket("first").wait().unwrap();
        named.close().unwrap();
        let store = open(&path, None).unwrap();
        assert_eq!(store.status().unwrap().limit, Some(7));
    }
}
