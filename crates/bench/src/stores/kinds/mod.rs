//! The stores that are compared, behind one interface: what their users call, with settings that are alike.
//!
//! Alike means: the same memory for caches, no compression (the values do not compress), and the durability that is
//! asked for, or where a store lacks it the next better one it has; redb has nothing between "lost with the process"
//! and "survives power loss" and uses the former for [`Level::Written`].

mod fjall;
mod koine;
mod lmdb;
mod redb;
mod redis;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use super::data::Key;
use std::fmt::Display;
use std::path::Path;

pub use self::koine::{Koine, SPACE, forget_cached, format_file, io_mode};

/// What went wrong in a store, for people.
pub type Outcome<T> = Result<T, String>;

/// What a commit is to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Level {
    /// The end of the process.
    Written,
    /// Power loss.
    Sync,
}

/// A key and its value, to be put.
#[derive(Debug, Clone)]
pub struct Item {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Vec<u8>,
}

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// Our engine, used directly.
    Koine,
    /// redb 4.
    Redb,
    /// fjall 3.
    Fjall,
    /// LMDB through heed.
    Lmdb,
    /// RocksDB, the library of the system; only in a build with the feature `rocksdb`.
    Rocksdb,
    /// A Redis server of its own, over loopback; only in `koine bench kv`.
    Redis,
}

impl StoreKind {
    /// The references, whether they are in this build or not.
    pub const REFERENCES: [StoreKind; 4] = [StoreKind::Lmdb, StoreKind::Redb, StoreKind::Fjall, StoreKind::Rocksdb];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Koine => "koine",
            StoreKind::Redb => "redb",
            StoreKind::Fjall => "fjall",
            StoreKind::Lmdb => "lmdb",
            StoreKind::Rocksdb => "rocksdb",
            StoreKind::Redis => "redis",
        }
    }

    /// Whether this build and this machine have it.
    pub fn is_built(self) -> bool {
        match self {
            StoreKind::Rocksdb => cfg!(feature = "rocksdb"),
            StoreKind::Redis => redis::is_installed(),
            _ => true,
        }
    }
}

/// How much memory a store may use: the same for all, cut as each of them wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Memory {
    /// All of it, in bytes.
    pub total_len: usize,
}

impl Memory {
    /// For caches where they are apart from what waits to be placed.
    fn cache_len(self) -> usize {
        self.total_len / 2
    }

    /// For one table of what waits to be placed; a store has up to four.
    fn buffer_len(self) -> usize {
        (self.total_len / 8).clamp(1 << 20, 64 << 20)
    }
}

/// An open store.
pub trait Store: Send + Sync {
    /// Called before a stretch of writes of one level, with no other call under way.
    fn prepare(&self, _level: Level) -> Outcome<()> {
        Ok(())
    }

    /// One thread's way to read.
    fn session(&self) -> Outcome<Box<dyn Session + '_>>;

    /// Puts all items in one commit.
    fn put(&self, items: &[Item], level: Level) -> Outcome<()>;

    /// Puts items that are not there yet, in one commit.
    fn insert(&self, items: &[Item], level: Level) -> Outcome<()> {
        self.put(items, level)
    }

    /// Takes keys away, in one commit.
    fn remove(&self, keys: &[Key], level: Level) -> Outcome<()>;

    /// Processes that do its work beside this one.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Asks for a commit and does not wait; `None` where a store cannot.
    fn submit(&self, _item: &Item, _level: Level) -> Option<Box<dyn Pending>> {
        None
    }

    /// Makes all commits durable.
    fn sync(&self) -> Outcome<()>;

    /// Places what waits in memory and in logs, so that what lies on the disk can be judged.
    fn settle(&self) -> Outcome<()>;

    /// Bytes of the disk that hold something, by the store's own count; free space inside of files is left out.
    fn used_len(&self) -> Outcome<Option<u64>>;

    /// Calls that made something durable, as seen from inside; `None` where it does not tell.
    fn flushes(&self) -> Option<u64> {
        None
    }

    /// Ends it.
    fn close(self: Box<Self>) -> Outcome<()>;
}

/// A commit that was asked for.
pub trait Pending {
    /// Waits for its end.
    fn wait(self: Box<Self>) -> Outcome<()>;
}

/// Reads of one thread: of the newest state each, or of one state from [`Session::pin`] on.
pub trait Session {
    /// All further reads are of the present state.
    fn pin(&mut self) -> Outcome<()>;

    /// Hands the value to `found`; false when the key is absent.
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool>;

    /// Hands keys and values in order to `each`, until it says false.
    fn scan(&mut self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<()>;
}

/// Opens a store below a folder, made when it is missing.
pub fn open(kind: StoreKind, folder: &Path, memory: Memory) -> Outcome<Box<dyn Store>> {
    std::fs::create_dir_all(folder).map_err(failed("make the folder"))?;
    match kind {
        StoreKind::Koine => Ok(Box::new(Koine::open(&folder.join("store.koine"), memory)?)),
        StoreKind::Redb => Ok(Box::new(redb::Redb::open(&folder.join("store.redb"), memory)?)),
        StoreKind::Fjall => Ok(Box::new(fjall::Fjall::open(folder, memory)?)),
        StoreKind::Lmdb => Ok(Box::new(lmdb::Lmdb::open(folder)?)),
        StoreKind::Redis => Ok(Box::new(redis::RedisStore::open(folder)?)),
        #[cfg(feature = "rocksdb")]
        StoreKind::Rocksdb => Ok(Box::new(rocksdb::RocksDb::open(folder, memory)?)),
        #[cfg(not(feature = "rocksdb"))]
        StoreKind::Rocksdb => Err("this build has no RocksDB; build with --features rocksdb".into()),
    }
}

/// For `map_err`: puts what was being done before what was said.
fn failed<E: Display>(doing: &str) -> impl Fn(E) -> String {
    move |error| format!("cannot {doing}: {error}")
}

#[cfg(test)]
mod tests;
