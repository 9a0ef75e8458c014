//! fjall: a log-structured merge tree in a folder, pure Rust.

use super::{Item, Key, Level, Memory, Outcome, Session, Store, failed};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use std::path::Path;

/// An open fjall database.
pub struct Fjall {
    database: Database,
    items: Keyspace,
}

impl Fjall {
    /// Opens it, made when it is missing.
    pub fn open(folder: &Path, memory: Memory) -> Outcome<Fjall> {
        let database =
            Database::builder(folder).cache_size(memory.cache_len() as u64).open().map_err(failed("open fjall"))?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(memory.buffer_len() as u64);
        let items = database.keyspace("items", options).map_err(failed("open the keyspace"))?;
        Ok(Fjall { database, items })
    }
}

impl Store for Fjall {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(FjallSession { fjall: self, snapshot: None }))
    }

    fn put(&self, items: &[Item], level: Level) -> Outcome<()> {
        if let [item] = items {
            self.items.insert(item.key, item.value.as_slice()).map_err(failed("insert"))?;
            return if level == Level::Sync { self.persist(PersistMode::SyncData) } else { Ok(()) };
        }
        let mode = if level == Level::Sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.database.batch().durability(Some(mode));
        for item in items {
            batch.insert(&self.items, item.key, item.value.as_slice());
        }
        batch.commit().map_err(failed("commit"))
    }

    fn remove(&self, keys: &[Key], level: Level) -> Outcome<()> {
        if let [key] = keys {
            self.items.remove(key.as_slice()).map_err(failed("remove"))?;
            return if level == Level::Sync { self.persist(PersistMode::SyncData) } else { Ok(()) };
        }
        let mode = if level == Level::Sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.database.batch().durability(Some(mode));
        for key in keys {
            batch.remove(&self.items, key.as_slice());
        }
        batch.commit().map_err(failed("commit"))
    }

    fn sync(&self) -> Outcome<()> {
        self.persist(PersistMode::SyncAll)
    }

    fn settle(&self) -> Outcome<()> {
        self.items.rotate_memtable_and_wait().map_err(failed("write the memtable"))?;
        self.items.major_compact().map_err(failed("compact"))?;
        self.sync()
    }

    fn used_len(&self) -> Outcome<Option<u64>> {
        Ok(Some(self.items.disk_space()))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.sync()
    }
}

impl Fjall {
    fn persist(&self, mode: PersistMode) -> Outcome<()> {
        self.database.persist(mode).map_err(failed("make durable"))
    }
}

struct FjallSession<'a> {
    fjall: &'a Fjall,
    snapshot: Option<Snapshot>,
}

impl Session for FjallSession<'_> {
    fn pin(&mut self) -> Outcome<()> {
        self.snapshot = Some(self.fjall.database.snapshot());
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = match &self.snapshot {
            Some(snapshot) => snapshot.get(&self.fjall.items, key),
            None => self.fjall.items.get(key),
        };
        Ok(value.map_err(failed("get"))?.map(|value| found(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<()> {
        for guard in self.fjall.items.range(from..) {
            let (key, value) = guard.into_inner().map_err(failed("scan"))?;
            if !each(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}
