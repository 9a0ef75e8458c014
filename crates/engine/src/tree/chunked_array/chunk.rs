//! A chunk of an array: some entries, and what a search looks at first.
//!
//! Invariant: `common` holds for all keys but an empty one, and the prefix of each slot is what it gives.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use super::prefix::Common;

/// A key and what it holds.
pub(in crate::tree) type Entry<T> = (Bytes, T);

/// Some entries that follow each other.
#[derive(Clone)]
pub(super) struct Chunk<T> {
    pub(super) common: Common,
    pub(super) slots: Vec<Slot<T>>,
}

/// An entry and the prefix of its key.
#[derive(Clone)]
pub(super) struct Slot<T> {
    pub(super) prefix: u64,
    pub(super) entry: Entry<T>,
}

impl<T> Chunk<T> {
    pub(super) fn of(entries: impl Iterator<Item = Entry<T>>) -> Chunk<T> {
        let slots = entries.map(|entry| Slot { prefix: 0, entry }).collect();
        let mut chunk = Chunk { common: Common::default(), slots };
        chunk.note();
        chunk
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Entry<T>> {
        self.slots.get(index).map(|slot| &slot.entry)
    }

    pub(super) fn first_key(&self) -> &[u8] {
        self.slots.first().map_or(&[], |slot| &slot.entry.0)
    }

    pub(super) fn last_key(&self) -> &[u8] {
        self.slots.last().map_or(&[], |slot| &slot.entry.0)
    }

    /// Fills in what searches look at first.
    pub(super) fn note(&mut self) {
        let first = self.slots.iter().map(|slot| &slot.entry.0).find(|key| !key.is_empty());
        self.common = first.map_or_else(Common::default, |first| Common::between(first, self.last_key()));
        let common = self.common;
        self.slots.iter_mut().for_each(|slot| slot.prefix = common.prefix(&slot.entry.0));
    }

    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        match self.common.side(key, || self.last_key()) {
            // Before all but an empty one.
            Ordering::Less => match self.first_key() {
                [] if key.is_empty() => Ok(0),
                [] => Err(1),
                _ => Err(0),
            },
            Ordering::Greater => Err(self.len()),
            Ordering::Equal => {
                let prefix = self.common.prefix(key);
                let order = |slot: &Slot<T>| slot.prefix.cmp(&prefix).then_with(|| slot.entry.0.as_ref().cmp(key));
                self.slots.binary_search_by(order)
            }
        }
    }

    pub(super) fn insert(&mut self, index: usize, key: Bytes, value: T) {
        let fits = key.is_empty() || self.common.side(&key, || self.last_key()) == Ordering::Equal;
        let prefix = self.common.prefix(&key);
        self.slots.insert(index, Slot { prefix, entry: (key, value) });
        if !fits {
            self.note();
        }
    }

    pub(super) fn append(&mut self, slots: impl Iterator<Item = Slot<T>>) {
        self.slots.extend(slots);
        self.note();
    }

    pub(super) fn split_off(&mut self, at: usize) -> Chunk<T> {
        Chunk { common: self.common, slots: self.slots.split_off(at) }
    }
}

/// The chunk itself where nobody shares it, else a copy with room for one more.
pub(super) fn writable<T: Clone>(chunk: &mut Arc<Chunk<T>>) -> &mut Chunk<T> {
    if Arc::get_mut(chunk).is_none() {
        let mut slots = Vec::with_capacity(chunk.len() + 1);
        slots.extend(chunk.slots.iter().cloned());
        *chunk = Arc::new(Chunk { common: chunk.common, slots });
    }
    Arc::make_mut(chunk)
}

/// Takes the entries away whose bits are set: in place where nobody shares the chunk.
pub(super) fn leave_out<T: Clone>(chunk: &mut Arc<Chunk<T>>, gone: u64) {
    let stays = |index: usize| gone & (1 << index) == 0;
    match Arc::get_mut(chunk) {
        Some(own) => {
            let mut index = 0;
            own.slots.retain(|_| {
                index += 1;
                stays(index - 1)
            });
        }
        None => {
            let left = chunk.slots.iter().enumerate().filter(|(index, _)| stays(*index)).map(|(_, slot)| slot.clone());
            *chunk = Arc::new(Chunk { common: chunk.common, slots: left.collect() });
        }
    }
}
