//! LMDB through heed: a copy-on-write tree that is read through a memory mapping.
//!
//! Its cache is the page cache, so no size is set; a memory control group bounds it. Opening it and switching its flush
//! off are unsafe calls of heed: the mapping must not be changed by others, and one thread alone may set flags.

#![allow(unsafe_code)]

use super::{Item, Key, Level, Outcome, Session, Store, failed};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, FlagSetMode, RoTxn, WithTls};
use std::path::Path;

/// Address space for the mapping; the file grows only as far as it is used.
const MAP_LEN: usize = 256 << 30;
/// More threads than any cell has.
const READERS: u32 = 256;

/// An open LMDB environment.
pub struct Lmdb {
    env: Env<WithTls>,
    items: Database<Bytes, Bytes>,
}

impl Lmdb {
    /// Opens it, made when it is missing.
    pub fn open(folder: &Path) -> Outcome<Lmdb> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_LEN).max_readers(READERS);
        // SAFETY: the folder was made for this run; nobody else opens or changes the file while it is mapped.
        let env = unsafe { options.open(folder) }.map_err(failed("open LMDB"))?;
        let mut transaction = env.write_txn().map_err(failed("begin"))?;
        let items = env.create_database(&mut transaction, None).map_err(failed("open the database"))?;
        transaction.commit().map_err(failed("commit"))?;
        Ok(Lmdb { env, items })
    }
}

impl Store for Lmdb {
    fn prepare(&self, level: Level) -> Outcome<()> {
        let mode = if level == Level::Sync { FlagSetMode::Disable } else { FlagSetMode::Enable };
        // SAFETY: `prepare` is called while no other call is under way. NO_SYNC gives up safety from power loss only.
        unsafe { self.env.set_flags(EnvFlags::NO_SYNC, mode) }.map_err(failed("set the flags"))
    }

    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(LmdbSession { lmdb: self, pinned: None }))
    }

    fn put(&self, items: &[Item], _level: Level) -> Outcome<()> {
        let mut transaction = self.env.write_txn().map_err(failed("begin"))?;
        for item in items {
            self.items.put(&mut transaction, &item.key, &item.value).map_err(failed("put"))?;
        }
        transaction.commit().map_err(failed("commit"))
    }

    fn remove(&self, keys: &[Key], _level: Level) -> Outcome<()> {
        let mut transaction = self.env.write_txn().map_err(failed("begin"))?;
        for key in keys {
            self.items.delete(&mut transaction, key).map_err(failed("delete"))?;
        }
        transaction.commit().map_err(failed("commit"))
    }

    fn sync(&self) -> Outcome<()> {
        self.env.force_sync().map_err(failed("sync"))
    }

    fn settle(&self) -> Outcome<()> {
        self.sync()
    }

    fn used_len(&self) -> Outcome<Option<u64>> {
        self.env.non_free_pages_size().map(Some).map_err(failed("count"))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbSession<'a> {
    lmdb: &'a Lmdb,
    pinned: Option<RoTxn<'a, WithTls>>,
}

impl<'a> LmdbSession<'a> {
    /// The pinned transaction, or a new one that `newest` keeps.
    fn transaction<'t>(&'t self, newest: &'t mut Option<RoTxn<'a, WithTls>>) -> Outcome<&'t RoTxn<'a, WithTls>> {
        match &self.pinned {
            Some(transaction) => Ok(transaction),
            None => Ok(newest.insert(self.lmdb.env.read_txn().map_err(failed("begin"))?)),
        }
    }
}

impl Session for LmdbSession<'_> {
    fn pin(&mut self) -> Outcome<()> {
        self.pinned = Some(self.lmdb.env.read_txn().map_err(failed("begin"))?);
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let mut newest = None;
        let transaction = self.transaction(&mut newest)?;
        let value = self.lmdb.items.get(transaction, key).map_err(failed("get"))?;
        Ok(value.map(found).is_some())
    }

    fn scan(&mut self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<()> {
        let mut newest = None;
        let transaction = self.transaction(&mut newest)?;
        let range = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        for entry in self.lmdb.items.range(transaction, &range).map_err(failed("scan"))? {
            let (key, value) = entry.map_err(failed("scan"))?;
            if !each(key, value) {
                break;
            }
        }
        Ok(())
    }
}
