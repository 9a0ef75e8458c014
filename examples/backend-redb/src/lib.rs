//! Koine's key-value seam on [redb](https://docs.rs/redb), a copy-on-write tree in one file.
//!
//! redb is an ordered map with snapshots and atomic writes, so that [`Ordered`] is all there is to write: spaces, long
//! values, conditions, stages, outcomes of requests and watches are done over it by [`full`].
//!
//! Invariants:
//! - A write is one transaction of redb, flushed only when a sync asks for it. When the process is killed redb goes back
//!   to the last transaction that was flushed, never to a part of one: `Durability::Written` promises no more here than
//!   `Durability::Memory`, and what must stay is committed with `Durability::Sync`.
//! - Closing waits for nobody: the database goes with the last snapshot that somebody still reads.

use std::path::Path;
use std::sync::{Arc, RwLock};

use koine_kv::emulate::{Spaces, SplitOptions};
use koine_kv::ordered::{Ordered, Snapshot, Write, full};
use koine_kv::{Bytes, Direction, Error, ErrorKind, KeyRange, Result, Usage};
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("koine");

/// Opens the store in a file, which is made when it is missing.
pub fn open(path: &Path) -> Result<Spaces> {
    let database = Database::create(path).map_err(|error| match error {
        redb::DatabaseError::DatabaseAlreadyOpen => {
            Error::new(ErrorKind::Owned, format!("{} is open elsewhere; use that, or stop it", path.display()))
        }
        error => failed("open the database")(error),
    })?;
    let map = RedbMap { database: RwLock::new(Some(Arc::new(database))) };
    // The table has to be there before the first snapshot.
    map.commit(Durability::Immediate, Vec::new())?;
    full(map, "redb", SplitOptions::default())
}

/// What an error of redb means to the caller.
fn failed<E: Into<redb::Error>>(what: &'static str) -> impl Fn(E) -> Error {
    move |error| {
        let error = error.into();
        let kind = match &error {
            redb::Error::Corrupted(_) => ErrorKind::Damaged,
            redb::Error::Io(io) if io.kind() == std::io::ErrorKind::StorageFull => ErrorKind::Full,
            _ => ErrorKind::Device,
        };
        Error::new(kind, format!("redb cannot {what}")).with_source(error)
    }
}

struct RedbMap {
    /// `None` once it was closed.
    database: RwLock<Option<Arc<Database>>>,
}

impl RedbMap {
    fn database(&self) -> Result<Arc<Database>> {
        let database = self.database.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        database.clone().ok_or_else(|| Error::new(ErrorKind::Stopped, "the store was closed"))
    }

    fn commit(&self, durability: Durability, changes: Vec<Write>) -> Result<()> {
        let mut transaction = self.database()?.begin_write().map_err(failed("begin a transaction"))?;
        transaction.set_durability(durability).map_err(failed("set its durability"))?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failed("open its table"))?;
            for change in changes {
                match change {
                    Write::Put(key, value) => {
                        table.insert(key.as_ref(), value.as_ref()).map_err(failed("write"))?;
                    }
                    Write::Delete(key) => {
                        table.remove(key.as_ref()).map_err(failed("delete"))?;
                    }
                    Write::DeleteRange(start, end) if start < end => {
                        table.retain_in(start.as_ref()..end.as_ref(), |_, _| false).map_err(failed("delete"))?;
                    }
                    Write::DeleteRange(..) => {}
                }
            }
        }
        transaction.commit().map_err(failed("commit"))
    }
}

impl Ordered for RedbMap {
    type Snapshot = RedbSnapshot;

    fn snapshot(&self) -> Result<RedbSnapshot> {
        let transaction = self.database()?.begin_read().map_err(failed("begin to read"))?;
        Ok(RedbSnapshot { table: transaction.open_table(TABLE).map_err(failed("open its table"))? })
    }

    fn write(&self, changes: Vec<Write>) -> Result<()> {
        self.commit(Durability::None, changes)
    }

    fn sync(&self) -> Result<()> {
        // A transaction that is flushed takes those before it with it.
        self.commit(Durability::Immediate, Vec::new())
    }

    fn usage(&self) -> Result<Usage> {
        let transaction = self.database()?.begin_write().map_err(failed("begin a transaction"))?;
        let stats = transaction.stats().map_err(failed("count what it uses"))?;
        transaction.abort().map_err(failed("end a transaction"))?;
        let used = stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes();
        // How much room the file system has, redb does not know.
        let total = i64::MAX as u64;
        Ok(Usage { total, used, free: total - used, limit: None })
    }

    fn close(&self) -> Result<()> {
        let mut database = self.database.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        *database = None;
        Ok(())
    }
}

struct RedbSnapshot {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Snapshot for RedbSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.table.get(key).map_err(failed("read a key"))?;
        Ok(value.map(|value| Bytes::copy_from_slice(value.value())))
    }

    fn scan(&self, range: &KeyRange, direction: Direction, most: usize) -> Result<Vec<(Bytes, Bytes)>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let mut entries = self.table.range::<&[u8]>(range.bounds()).map_err(failed("read a range"))?;
        let mut found = Vec::new();
        while found.len() < most {
            let entry = match direction {
                Direction::Forward => entries.next(),
                Direction::Backward => entries.next_back(),
            };
            let Some(entry) = entry else { break };
            let (key, value) = entry.map_err(failed("read a range"))?;
            found.push((Bytes::copy_from_slice(key.value()), Bytes::copy_from_slice(value.value())));
        }
        Ok(found)
    }
}
