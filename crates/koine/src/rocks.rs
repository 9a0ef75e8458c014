//! Stores in RocksDB, where this program was built with it.
//!
//! Invariant: without the feature every place in RocksDB is refused with what to build, and nothing is touched.

use std::path::Path;
use std::sync::Arc;

use koine_kv::Kv;

use crate::error::{Error, Result};
use crate::place::Place;
use crate::store::OpenOptions;

/// Opens the store in a folder.
#[cfg(feature = "rocksdb")]
pub(crate) fn open(folder: &Path, options: &OpenOptions) -> Result<Arc<dyn Kv>> {
    use koine_kv::{ErrorKind, RocksOptions, open_rocks};

    if options.size_max.is_some() {
        let message = format!("{}: RocksDB has no limit of its size; leave --size out", folder.display());
        return Err(Error::BadSize(message));
    }
    let memory_len = options.memory.unwrap_or(RocksOptions::default().memory_len);
    match open_rocks(folder, &RocksOptions { create: options.create, memory_len }) {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::MissingAt(Place::Rocks(folder.to_owned()))),
        Err(error) => Err(Error::Store(error)),
    }
}

/// This program cannot.
#[cfg(not(feature = "rocksdb"))]
pub(crate) fn open(folder: &Path, _options: &OpenOptions) -> Result<Arc<dyn Kv>> {
    Err(refusal(folder))
}

/// What a program without RocksDB says.
#[cfg(any(test, not(feature = "rocksdb")))]
fn refusal(folder: &Path) -> Error {
    let place = Place::Rocks(folder.to_owned());
    let message = format!(
        "{place}: this program was built without RocksDB; build it with `cargo build --features rocksdb` (Debian: librocksdb-dev, libclang-dev)"
    );
    Error::BadPlace(message)
}

#[cfg(test)]
mod tests {
    use crate::{Error, OpenOptions, open};

    #[cfg(feature = "rocksdb")]
    #[test]
    fn a_store_in_rocksdb_is_made_kept_and_held() {
        let folder = tempfile::tempdir().unwrap();
        let place = format!("rocksdb:{}", folder.path().join("store").display());
        let error = open(&place, &OpenOptions::default()).err().unwrap();
        assert!(matches!(&error, Error::MissingAt(_)) && error.to_string().contains("koine serve rocksdb:"), "{error}");
        let create = OpenOptions { create: true, ..OpenOptions::default() };
        let store = open(&place, &create).unwrap();
        store.objects().create_bucket("first").wait().unwrap();
        let error = open(&place, &create).err().unwrap();
        assert!(error.is_held(), "{error}");
        store.close().unwrap();
        let store = open(&place, &OpenOptions::default()).unwrap();
        assert!(store.objects().create_bucket("first").wait().is_err(), "it is there");
        store.close().unwrap();
        let limited = OpenOptions { size_max: Some(1 << 30), ..create };
        assert!(matches!(open(&place, &limited), Err(Error::BadSize(_))));
    }

    #[test]
    fn a_program_without_rocksdb_says_so_and_touches_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let told = [
            super::refusal(&path),
            #[cfg(not(feature = "rocksdb"))]
            {
                let create = OpenOptions { create: true, ..OpenOptions::default() };
                open(&format!("rocksdb:{}", path.display()), &create).err().unwrap()
            },
        ];
        for error in told {
            assert!(
                matches!(&error, Error::BadPlace(_)) && error.to_string().contains("--features rocksdb"),
                "{error}"
            );
        }
        assert!(!path.exists());
    }
}
