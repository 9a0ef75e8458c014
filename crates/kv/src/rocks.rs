//! RocksDB as a back end: the library of the system, behind the feature `rocksdb`.
//!
//! Invariants:
//! - A folder that holds something else is looked at without being opened for writing, refused, and left as it was.
//! - RocksDB's own lock says which process has it. Closing gives it back, whatever views are left: they fail.
//! - A write is in RocksDB's log when it returns; it survives power loss once the log was synced.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use koine_engine::{Error, ErrorKind, KeyRange, Result};
use parking_lot::{Mutex, RwLock};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, SnapshotWithThreadMode, WriteBatch,
};

use crate::emulate::{Spaces, SplitOptions};
use crate::ordered::{Ordered, Snapshot, Write, check_format, full};
use crate::seam::{Direction, Usage};

/// How a store in RocksDB is opened.
#[derive(Clone, Debug)]
pub struct RocksOptions {
    /// Make it where the folder is missing or empty.
    pub create: bool,
    /// Memory for caches and buffers, in bytes.
    pub memory_len: u64,
}

impl Default for RocksOptions {
    fn default() -> Self {
        RocksOptions { create: false, memory_len: 128 << 20 }
    }
}

/// Opens the store in a folder.
pub fn open_rocks(folder: &Path, options: &RocksOptions) -> Result<Spaces> {
    let at = |error: Error| Error::new(error.kind(), format!("{}: {error}", folder.display()));
    let map = RocksMap::open(folder, options).map_err(at)?;
    full(map, "rocksdb", SplitOptions::default()).map_err(at)
}

/// What is in a folder.
enum Found {
    /// It is missing, or has nothing in it.
    Nothing,
    Database,
    Other,
}

fn look(folder: &Path) -> Result<Found> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(Found::Other),
        entries => entries.map_err(|error| Error::device("cannot look into the folder", error))?,
    };
    if folder.join("CURRENT").exists() {
        return Ok(Found::Database);
    }
    // What RocksDB leaves where it could not make a database.
    let left = |name: &std::ffi::OsStr| name == "LOCK" || name.to_string_lossy().starts_with("LOG");
    let has_other = entries.flatten().any(|entry| !left(&entry.file_name()));
    Ok(if has_other { Found::Other } else { Found::Nothing })
}

/// What RocksDB's own words mean here.
fn error(what: &'static str) -> impl Fn(rocksdb::Error) -> Error {
    move |error| {
        let text = error.as_ref();
        let kind = match error.kind() {
            rocksdb::ErrorKind::IOError if text.contains("lock") && text.contains("LOCK") => {
                let message = "another process has it open; use that one, or stop it";
                return Error::new(ErrorKind::Owned, message).with_source(error);
            }
            _ if text.contains("No space left") || text.contains("quota exceeded") => ErrorKind::Full,
            rocksdb::ErrorKind::Corruption => ErrorKind::Damaged,
            rocksdb::ErrorKind::Busy | rocksdb::ErrorKind::TryAgain => ErrorKind::Busy,
            _ => ErrorKind::Device,
        };
        Error::new(kind, format!("RocksDB cannot {what}")).with_source(error)
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Stopped, "the store was closed")
}

type DatabaseSnapshot<'a> = SnapshotWithThreadMode<'a, DB>;

self_cell::self_cell!(
    /// A snapshot and the database that it is of.
    struct Pinned {
        owner: Arc<DB>,
        #[covariant]
        dependent: DatabaseSnapshot,
    }
);

/// A snapshot that the end of the store takes away.
type Slot = RwLock<Option<Pinned>>;

/// Snapshots that may be alive; looked through as their number doubles.
#[derive(Default)]
struct Alive {
    slots: Vec<Weak<Slot>>,
    limit: usize,
}

/// An open database.
struct RocksMap {
    folder: PathBuf,
    database: RwLock<Option<Arc<DB>>>,
    alive: Mutex<Alive>,
}

impl RocksMap {
    fn open(folder: &Path, options: &RocksOptions) -> Result<RocksMap> {
        match look(folder)? {
            Found::Database => check_before_opening(folder)?,
            Found::Nothing if options.create => {
                std::fs::create_dir_all(folder).map_err(|error| Error::device("cannot make the folder", error))?;
            }
            Found::Nothing => return Err(Error::new(ErrorKind::NotFound, "there is no store")),
            Found::Other => {
                let message = "it holds something that is no RocksDB; nothing was changed";
                return Err(Error::new(ErrorKind::Unknown, message));
            }
        }
        let database = DB::open(&database_options(options)?, folder).map_err(error("open the database"))?;
        let database = RwLock::new(Some(Arc::new(database)));
        Ok(RocksMap { folder: folder.to_owned(), database, alive: Mutex::default() })
    }

    fn with<R>(&self, call: impl FnOnce(&Arc<DB>) -> Result<R>) -> Result<R> {
        call(self.database.read().as_ref().ok_or_else(stopped)?)
    }
}

fn database_options(options: &RocksOptions) -> Result<Options> {
    let memory = usize::try_from(options.memory_len).unwrap_or(usize::MAX / 2);
    let mut blocks = BlockBasedOptions::default();
    let cache = Cache::new_lru_cache(memory / 2).map_err(error("make its cache"))?;
    blocks.set_block_cache(&cache);
    // As its tuning guide advises for point reads.
    blocks.set_bloom_filter(10.0, false);
    let mut database = Options::default();
    database.create_if_missing(true);
    database.set_compression_type(DBCompressionType::None);
    database.set_block_based_table_factory(&blocks);
    database.set_write_buffer_size((memory / 4).max(1 << 20));
    database.set_max_background_jobs(2);
    database.set_keep_log_file_num(2);
    Ok(database)
}

/// Reads a database without a change of it: somebody else's is refused before it would be recovered.
fn check_before_opening(folder: &Path) -> Result<()> {
    let opened = DB::open_for_read_only(&Options::default(), folder, false);
    let database = Arc::new(opened.map_err(error("read the database"))?);
    let pinned = Pinned::new(database, |database| DatabaseSnapshot::new(database));
    check_format(&RocksSnapshot { slot: Arc::new(RwLock::new(Some(pinned))) })
}

impl Ordered for RocksMap {
    type Snapshot = RocksSnapshot;

    fn snapshot(&self) -> Result<RocksSnapshot> {
        let pinned =
            self.with(|database| Ok(Pinned::new(Arc::clone(database), |database| DatabaseSnapshot::new(database))))?;
        let slot = Arc::new(RwLock::new(Some(pinned)));
        let mut alive = self.alive.lock();
        if alive.slots.len() >= alive.limit {
            alive.slots.retain(|slot| slot.strong_count() > 0);
            alive.limit = (alive.slots.len() * 2).max(64);
        }
        alive.slots.push(Arc::downgrade(&slot));
        Ok(RocksSnapshot { slot })
    }

    fn write(&self, changes: Vec<Write>) -> Result<()> {
        let mut batch = WriteBatch::default();
        for change in changes {
            match change {
                Write::Put(key, value) => batch.put(key, value),
                Write::Delete(key) => batch.delete(key),
                Write::DeleteRange(start, end) => batch.delete_range(start, end),
            }
        }
        self.with(|database| database.write(batch).map_err(error("write")))
    }

    fn sync(&self) -> Result<()> {
        self.with(|database| database.flush_wal(true).map_err(error("sync its log")))
    }

    fn usage(&self) -> Result<Usage> {
        let used = self.with(|database| {
            let count = |name: &str| database.property_int_value(name).map_err(error("count what it uses"));
            let tables = count("rocksdb.total-sst-files-size")?.unwrap_or(0);
            Ok(tables + count("rocksdb.cur-size-all-mem-tables")?.unwrap_or(0))
        })?;
        let medium = rustix::fs::statvfs(&self.folder)
            .map_err(|error| Error::device("cannot ask how full the file system is", error.into()))?;
        let free = medium.f_bavail.saturating_mul(medium.f_frsize);
        Ok(Usage { total: used.saturating_add(free), used, free, limit: None })
    }

    fn close(&self) -> Result<()> {
        let database = self.database.write().take();
        for slot in std::mem::take(&mut self.alive.lock().slots) {
            if let Some(slot) = slot.upgrade() {
                *slot.write() = None;
            }
        }
        if let Some(database) = &database {
            database.cancel_all_background_work(true);
        }
        Ok(())
    }
}

/// One state of the database.
struct RocksSnapshot {
    slot: Arc<Slot>,
}

impl RocksSnapshot {
    fn with<R>(&self, call: impl FnOnce(&DB, &DatabaseSnapshot<'_>) -> Result<R>) -> Result<R> {
        let slot = self.slot.read();
        let pinned = slot.as_ref().ok_or_else(stopped)?;
        pinned.with_dependent(|database, snapshot| call(database, snapshot))
    }
}

impl Snapshot for RocksSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.with(|_, snapshot| snapshot.get(key).map_err(error("read a key")))?;
        Ok(value.map(Bytes::from))
    }

    fn scan(&self, range: &KeyRange, direction: Direction, most: usize) -> Result<Vec<(Bytes, Bytes)>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        self.with(|_, snapshot| {
            let mut options = ReadOptions::default();
            options.set_iterate_lower_bound(range.start.as_ref());
            if let Some(end) = &range.end {
                options.set_iterate_upper_bound(end.as_ref());
            }
            let mut entries = snapshot.raw_iterator_opt(options);
            match direction {
                Direction::Forward => entries.seek_to_first(),
                Direction::Backward => entries.seek_to_last(),
            }
            let mut found = Vec::new();
            while found.len() < most
                && let (Some(key), Some(value)) = (entries.key(), entries.value())
            {
                found.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
                match direction {
                    Direction::Forward => entries.next(),
                    Direction::Backward => entries.prev(),
                }
            }
            entries.status().map_err(error("read a range"))?;
            Ok(found)
        })
    }
}
