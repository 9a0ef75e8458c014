//! redb: a copy-on-write tree in one file, pure Rust.

use super::{Item, Key, Level, Memory, Outcome, Session, Store, failed};
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition, WriteTransaction};
use std::path::Path;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("items");

/// An open redb database.
pub struct Redb {
    database: Database,
}

impl Redb {
    /// Opens it, made when it is missing.
    pub fn open(path: &Path, memory: Memory) -> Outcome<Redb> {
        let database =
            Database::builder().set_cache_size(memory.total_len).create(path).map_err(failed("open redb"))?;
        let redb = Redb { database };
        redb.put(&[], Level::Sync)?;
        Ok(redb)
    }

    fn begin(&self, level: Level) -> Outcome<WriteTransaction> {
        let mut transaction = self.database.begin_write().map_err(failed("begin"))?;
        let durability = match level {
            Level::Written => Durability::None,
            Level::Sync => Durability::Immediate,
        };
        transaction.set_durability(durability).map_err(failed("set the durability"))?;
        Ok(transaction)
    }
}

impl Store for Redb {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession { database: &self.database, table: None }))
    }

    fn put(&self, items: &[Item], level: Level) -> Outcome<()> {
        let transaction = self.begin(level)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failed("open the table"))?;
            for item in items {
                table.insert(item.key.as_slice(), item.value.as_slice()).map_err(failed("insert"))?;
            }
        }
        transaction.commit().map_err(failed("commit"))
    }

    fn remove(&self, keys: &[Key], level: Level) -> Outcome<()> {
        let transaction = self.begin(level)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failed("open the table"))?;
            for key in keys {
                table.remove(key.as_slice()).map_err(failed("remove"))?;
            }
        }
        transaction.commit().map_err(failed("commit"))
    }

    fn sync(&self) -> Outcome<()> {
        self.put(&[], Level::Sync)
    }

    fn settle(&self) -> Outcome<()> {
        self.sync()
    }

    fn used_len(&self) -> Outcome<Option<u64>> {
        let transaction = self.database.begin_write().map_err(failed("begin"))?;
        let stats = transaction.stats().map_err(failed("count"))?;
        transaction.abort().map_err(failed("abort"))?;
        Ok(Some(stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes()))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.database.close().map_err(failed("close redb"))
    }
}

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

struct RedbSession<'a> {
    database: &'a Database,
    table: Option<Table>,
}

impl RedbSession<'_> {
    fn newest(&self) -> Outcome<Table> {
        let transaction = self.database.begin_read().map_err(failed("begin"))?;
        transaction.open_table(TABLE).map_err(failed("open the table"))
    }
}

fn get(table: &Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
    let value = table.get(key).map_err(failed("get"))?;
    Ok(value.map(|value| found(value.value())).is_some())
}

impl Session for RedbSession<'_> {
    fn pin(&mut self) -> Outcome<()> {
        self.table = Some(self.newest()?);
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        match &self.table {
            Some(table) => get(table, key, found),
            None => get(&self.newest()?, key, found),
        }
    }

    fn scan(&mut self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<()> {
        let table = self.newest()?;
        for entry in table.range(from..).map_err(failed("scan"))? {
            let (key, value) = entry.map_err(failed("scan"))?;
            if !each(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}
