//! An ordered map in memory with snapshots, and with a power cut.
//!
//! Invariants:
//! - A key has its values by the number of the write; a snapshot is such a number.
//! - Values that no snapshot can see are dropped as writes go on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use koine_kv::ordered::{Ordered, Snapshot, Write};
use koine_kv::{Direction, KeyRange, Result, Usage};
use parking_lot::Mutex;

#[derive(Clone, Default)]
pub struct Map {
    content: Arc<Mutex<Content>>,
}

#[derive(Default)]
struct Content {
    newest: u64,
    synced: u64,
    values: BTreeMap<Bytes, Vec<(u64, Option<Bytes>)>>,
    /// Snapshots, and how many there are of each.
    pinned: BTreeMap<u64, usize>,
    /// Keys that were written, to be looked at once no snapshot is older.
    written: VecDeque<(u64, Bytes)>,
}

impl Content {
    fn set(&mut self, key: Bytes, value: Option<Bytes>) {
        let number = self.newest;
        self.written.push_back((number, key.clone()));
        self.values.entry(key).or_default().push((number, value));
    }

    /// Drops what nobody can see: a power cut goes back to what was synced.
    fn prune(&mut self) {
        let oldest = self.pinned.keys().next().copied().unwrap_or(u64::MAX).min(self.synced);
        while let Some((number, _)) = self.written.front()
            && *number <= oldest
        {
            let Some((_, key)) = self.written.pop_front() else { return };
            let Some(values) = self.values.get_mut(&key) else { continue };
            let hidden = values.iter().rposition(|(number, _)| *number <= oldest).unwrap_or(0);
            values.drain(..hidden);
            if let [(number, None)] = values.as_slice()
                && *number <= oldest
            {
                self.values.remove(&key);
            }
        }
    }
}

impl Map {
    /// What a power cut leaves.
    pub fn cut_power(&self) {
        let content = &mut *self.content.lock();
        let synced = content.synced;
        for values in content.values.values_mut() {
            values.retain(|(number, _)| *number <= synced);
        }
        content.values.retain(|_, values| !values.is_empty());
    }

    pub fn dump(&self) -> Vec<(Bytes, Bytes)> {
        let snapshot = self.snapshot().expect("a snapshot");
        snapshot.scan(&KeyRange::all(), Direction::Forward, usize::MAX).expect("entries")
    }
}

impl Ordered for Map {
    type Snapshot = MapSnapshot;

    fn snapshot(&self) -> Result<MapSnapshot> {
        let mut content = self.content.lock();
        let number = content.newest;
        *content.pinned.entry(number).or_default() += 1;
        Ok(MapSnapshot { content: Arc::clone(&self.content), number })
    }

    fn write(&self, changes: Vec<Write>) -> Result<()> {
        let mut content = self.content.lock();
        content.newest += 1;
        for change in changes {
            match change {
                Write::Put(key, value) => content.set(key, Some(value)),
                Write::Delete(key) => content.set(key, None),
                Write::DeleteRange(start, end) => {
                    let keys: Vec<Bytes> = content.values.range(start..end).map(|(key, _)| key.clone()).collect();
                    keys.into_iter().for_each(|key| content.set(key, None));
                }
            }
        }
        content.prune();
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let mut content = self.content.lock();
        content.synced = content.newest;
        Ok(())
    }

    fn usage(&self) -> Result<Usage> {
        let stored = |values: &Vec<(u64, Option<Bytes>)>| {
            values.iter().map(|(_, value)| value.as_ref().map_or(0, Bytes::len) as u64).sum::<u64>()
        };
        let used = self.content.lock().values.values().map(stored).sum();
        Ok(Usage { total: 1 << 50, used, free: (1 << 50) - used, limit: None })
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

pub struct MapSnapshot {
    content: Arc<Mutex<Content>>,
    number: u64,
}

impl MapSnapshot {
    fn seen(&self, values: &[(u64, Option<Bytes>)]) -> Option<Bytes> {
        values.iter().rfind(|(number, _)| *number <= self.number)?.1.clone()
    }
}

impl Drop for MapSnapshot {
    fn drop(&mut self) {
        let mut content = self.content.lock();
        let number = self.number;
        if let Some(count) = content.pinned.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                content.pinned.remove(&number);
            }
        }
    }
}

impl Snapshot for MapSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.content.lock().values.get(key).and_then(|values| self.seen(values)))
    }

    fn scan(&self, range: &KeyRange, direction: Direction, most: usize) -> Result<Vec<(Bytes, Bytes)>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let content = self.content.lock();
        let within = content.values.range::<[u8], _>(range.bounds());
        let entry = |(key, values): (&Bytes, &Vec<_>)| Some((key.clone(), self.seen(values)?));
        Ok(match direction {
            Direction::Forward => within.filter_map(entry).take(most).collect(),
            Direction::Backward => within.rev().filter_map(entry).take(most).collect(),
        })
    }
}
