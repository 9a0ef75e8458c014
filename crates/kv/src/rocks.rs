//! RocksDB as a back end: the library of the system, behind the feature `rocksdb`.
//!
//! Invariants:
//! - A folder that holds something else is looked at without being opened for writing, refused, and left as it was.
//! - RocksDB's own lock says which process has it. Closing gives it back, whatever views are left: they fail.
//! - A write is in RocksDB's log when it returns; it survives power loss once the log was synced.
//! - RocksDB is never let run into a full file system: where its library was built with assertions, as Debian's is, it ends
//!   the process there, and again at every open. What would leave too little room gets `Full` before.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use koine_engine::device::Process;
use koine_engine::{Error, ErrorKind, KeyRange, Result};
use parking_lot::{Mutex, RwLock};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, SnapshotWithThreadMode, WriteBatch,
};

use crate::emulate::{Spaces, SplitOptions};
use crate::ordered::{Ordered, Snapshot, Write, adds, check_format, full};
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
            _ if text.contains("Read-only file system") || text.contains("Permission denied") => {
                let message =
                    format!("RocksDB cannot {what}: it writes to its folder even to read; make that writable");
                return Error::new(ErrorKind::Device, message).with_source(error);
            }
            rocksdb::ErrorKind::IOError if text.contains("lock") && text.contains("LOCK") => {
                let here = text.contains("current process");
                let message = if here {
                    "this process has it open already"
                } else {
                    "another process has it open: stop it, or run `koine serve` on it in its place, and connect by the same path"
                };
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

/// What RocksDB needs for its own files, beside those of the data.
const OWN_LEN: u64 = 8 << 20;
/// So much is left beyond what deleting needs, so that a store that took no more can be emptied.
const DELETING_LEN: u64 = 24 << 20;
/// The most that merging its first tables writes before it deletes them.
const MERGE_LEN_MAX: u64 = 400 << 20;

/// How much of the file system RocksDB is left.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Bytes in memory that become a table.
    buffer_len: u64,
}

impl Room {
    /// So much must be free for a write of `length` bytes, where there are tables of so many.
    fn for_write(self, length: u64, adds: bool, tables_len: u64) -> u64 {
        // What is in its log becomes tables before the log goes.
        let held = 2 * self.buffer_len + OWN_LEN + 2 * length;
        if adds { held + DELETING_LEN + tables_len.min(MERGE_LEN_MAX) } else { held }
    }
}

/// Bytes that are free in the file system of a folder.
fn free_len(folder: &Path) -> Result<u64> {
    let medium = rustix::fs::statvfs(folder)
        .map_err(|error| Error::device("cannot ask how full the file system is", error.into()))?;
    Ok(medium.f_bavail.saturating_mul(medium.f_frsize))
}

/// Refuses what would leave RocksDB too little room.
fn check_room(free: u64, wanted: u64) -> Result<()> {
    if free >= wanted {
        return Ok(());
    }
    let (free, wanted) = (free >> 20, (wanted >> 20) + 1);
    let message = format!(
        "the file system has {free} MiB free, and RocksDB needs {wanted} MiB for this: delete something there, or give it more space"
    );
    Err(Error::new(ErrorKind::Full, message))
}

/// What opening writes: what is in the logs becomes tables, and the manifest is written anew.
fn opening_len(folder: &Path) -> Result<u64> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::device("cannot look into the folder", error))?;
    let is_read = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy();
        name.starts_with("MANIFEST") || name.ends_with(".log")
    };
    let read = entries.flatten().filter(|entry| is_read(&entry.file_name()));
    let lengths = read.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len());
    Ok(lengths.sum::<u64>() + OWN_LEN)
}

/// An open database.
struct RocksMap {
    /// A forked copy has none of its threads.
    process: Process,
    folder: PathBuf,
    room: Room,
    database: RwLock<Option<Arc<DB>>>,
    alive: Mutex<Alive>,
}

impl RocksMap {
    fn open(folder: &Path, options: &RocksOptions) -> Result<RocksMap> {
        let room = Room { buffer_len: buffer_len(options) as u64 };
        match look(folder)? {
            Found::Database => {
                check_room(free_len(folder)?, opening_len(folder)?)?;
                check_before_opening(folder)?;
            }
            Found::Nothing if options.create => {
                std::fs::create_dir_all(folder).map_err(|error| Error::device("cannot make the folder", error))?;
                check_room(free_len(folder)?, room.for_write(0, true, 0))?;
            }
            Found::Nothing => return Err(Error::new(ErrorKind::NotFound, "there is no store")),
            Found::Other => {
                let message = "it holds something that is no RocksDB; nothing was changed";
                return Err(Error::new(ErrorKind::Unknown, message));
            }
        }
        let database = DB::open(&database_options(options)?, folder).map_err(error("open the database"))?;
        let database = RwLock::new(Some(Arc::new(database)));
        Ok(RocksMap { process: Process::here(), folder: folder.to_owned(), room, database, alive: Mutex::default() })
    }

    /// Refuses a write that would leave RocksDB too little room.
    fn check_room(&self, length: u64, adds: bool) -> Result<()> {
        let free = free_len(&self.folder)?;
        if free >= self.room.for_write(length, adds, MERGE_LEN_MAX) {
            return Ok(());
        }
        check_room(free, self.room.for_write(length, adds, self.tables_len()?))
    }

    fn tables_len(&self) -> Result<u64> {
        self.count("rocksdb.total-sst-files-size")
    }

    fn count(&self, property: &str) -> Result<u64> {
        let counted = |database: &Arc<DB>| database.property_int_value(property).map_err(error("count what it uses"));
        Ok(self.with(counted)?.unwrap_or(0))
    }

    fn with<R>(&self, call: impl FnOnce(&Arc<DB>) -> Result<R>) -> Result<R> {
        self.process.check()?;
        call(self.database.read().as_ref().ok_or_else(stopped)?)
    }
}

/// Bytes of changes that it keeps in memory, twice at most.
fn buffer_len(options: &RocksOptions) -> usize {
    let memory = usize::try_from(options.memory_len).unwrap_or(usize::MAX / 2);
    (memory / 4).max(1 << 20)
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
    database.set_write_buffer_size(buffer_len(options));
    database.set_max_background_jobs(2);
    database.set_keep_log_file_num(2);
    Ok(database)
}

/// Reads a database without a change of it: somebody else's is refused before it would be recovered.
fn check_before_opening(folder: &Path) -> Result<()> {
    let opened = DB::open_for_read_only(&Options::default(), folder, false);
    let database = Arc::new(opened.map_err(error("read the database"))?);
    let pinned = Pinned::new(database, |database| DatabaseSnapshot::new(database));
    check_format(&RocksSnapshot { process: Process::here(), slot: Arc::new(RwLock::new(Some(pinned))) })
}

impl Drop for RocksMap {
    fn drop(&mut self) {
        self.process.leave(|| (self.database.get_mut().take(), std::mem::take(self.alive.get_mut())));
    }
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
        Ok(RocksSnapshot { process: Process::here(), slot })
    }

    fn write(&self, changes: Vec<Write>) -> Result<()> {
        let mut batch = WriteBatch::default();
        let adds = adds(&changes);
        for change in changes {
            match change {
                Write::Put(key, value) => batch.put(key, value),
                Write::Delete(key) => batch.delete(key),
                Write::DeleteRange(start, end) => batch.delete_range(start, end),
            }
        }
        self.check_room(batch.size_in_bytes() as u64, adds)?;
        self.with(|database| database.write(batch).map_err(error("write")))
    }

    fn sync(&self) -> Result<()> {
        self.with(|database| database.flush_wal(true).map_err(error("sync its log")))
    }

    fn usage(&self) -> Result<Usage> {
        let used = self.tables_len()? + self.count("rocksdb.cur-size-all-mem-tables")?;
        let free = free_len(&self.folder)?.saturating_sub(self.room.for_write(0, true, self.tables_len()?));
        Ok(Usage { total: used.saturating_add(free), used, free, limit: None })
    }

    fn close(&self) -> Result<()> {
        if !self.process.is_here() {
            return Ok(());
        }
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
    process: Process,
    slot: Arc<Slot>,
}

impl Drop for RocksSnapshot {
    fn drop(&mut self) {
        self.process.leave(|| Arc::clone(&self.slot));
    }
}

impl RocksSnapshot {
    fn with<R>(&self, call: impl FnOnce(&DB, &DatabaseSnapshot<'_>) -> Result<R>) -> Result<R> {
        self.process.check()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_takes_no_more_can_be_emptied() {
        let room = Room { buffer_len: 32 << 20 };
        let most = room.for_write(4096, true, u64::MAX);
        assert!(room.for_write(4096, true, 10 << 20) < most && most < 600 << 20);
        assert!(room.for_write(4096, false, u64::MAX) + DELETING_LEN <= room.for_write(4096, true, 0));
        assert!(room.for_write(256 << 20, true, 0) > 512 << 20);
        let error = check_room(50 << 20, 100 << 20).unwrap_err();
        assert!(error.kind() == ErrorKind::Full && error.message().contains("has 50 MiB free"), "{error}");
        check_room(100 << 20, 100 << 20).unwrap();
    }

    #[test]
    fn removing_is_told_from_adding() {
        let put = |key: &'static str| Write::Put(key.into(), Bytes::new());
        let delete = |key: &'static str| Write::Delete(key.into());
        assert!(adds(&[put("ka"), put("q1"), delete("q0")]));
        assert!(!adds(&[delete("ka"), put("q1"), put("mreserve"), delete("q0")]));
        assert!(!adds(&[Write::DeleteRange("ka".into(), "kb".into()), put("kc")]));
    }
}
