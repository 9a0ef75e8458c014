//! RocksDB: a log-structured merge tree, the library of the system.

use super::{Item, Key, Level, Memory, Outcome, Session, Store, failed};
use rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, Options, WriteBatch, WriteOptions};
use std::path::Path;

/// An open RocksDB database.
pub struct RocksDb {
    database: DB,
}

impl RocksDb {
    /// Opens it, made when it is missing.
    pub fn open(folder: &Path, memory: Memory) -> Outcome<RocksDb> {
        let mut blocks = BlockBasedOptions::default();
        let cache = Cache::new_lru_cache(memory.cache_len()).map_err(failed("make the cache"))?;
        blocks.set_block_cache(&cache);
        // As its tuning guide advises for point reads.
        blocks.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        options.set_block_based_table_factory(&blocks);
        options.set_write_buffer_size(memory.buffer_len());
        options.set_max_background_jobs(2);
        let database = DB::open(&options, folder).map_err(failed("open RocksDB"))?;
        Ok(RocksDb { database })
    }
}

impl Store for RocksDb {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(RocksDbSession(&self.database)))
    }

    fn put(&self, items: &[Item], level: Level) -> Outcome<()> {
        let mut options = WriteOptions::default();
        options.set_sync(level == Level::Sync);
        if let [item] = items {
            return self.database.put_opt(item.key, &item.value, &options).map_err(failed("put"));
        }
        let mut batch = WriteBatch::default();
        for item in items {
            batch.put(item.key, &item.value);
        }
        self.database.write_opt(batch, &options).map_err(failed("write"))
    }

    fn remove(&self, keys: &[Key], level: Level) -> Outcome<()> {
        let mut options = WriteOptions::default();
        options.set_sync(level == Level::Sync);
        let mut batch = WriteBatch::default();
        keys.iter().for_each(|key| batch.delete(key));
        self.database.write_opt(batch, &options).map_err(failed("delete"))
    }

    fn sync(&self) -> Outcome<()> {
        self.database.flush_wal(true).map_err(failed("sync"))
    }

    fn settle(&self) -> Outcome<()> {
        self.database.flush().map_err(failed("flush"))?;
        self.database.compact_range::<&[u8], &[u8]>(None, None);
        Ok(())
    }

    fn used_len(&self) -> Outcome<Option<u64>> {
        self.database.property_int_value("rocksdb.total-sst-files-size").map_err(failed("count"))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.sync()
    }
}

/// Reads without a snapshot: a snapshot makes none of them cheaper.
struct RocksDbSession<'a>(&'a DB);

impl Session for RocksDbSession<'_> {
    fn pin(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.0.get_pinned(key).map_err(failed("get"))?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn scan(&mut self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<()> {
        let mut entries = self.0.raw_iterator();
        entries.seek(from);
        while let (Some(key), Some(value)) = (entries.key(), entries.value()) {
            if !each(key, value) {
                break;
            }
            entries.next();
        }
        entries.status().map_err(failed("scan"))
    }
}
