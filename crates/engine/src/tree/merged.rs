//! A stored leaf and its changes, to be read as one leaf: made for who goes through a delta leaf, or writes it.
//!
//! Invariant: `order` names every entry that is there once, in the order of keys.

use std::sync::Arc;

use bytes::Bytes;

use super::chunked_array::ChunkedArray;
use super::entry::encode_entry;
use super::tombstones::Tombstones;
use super::value::{Held, Value};
use super::{Node, node};
use crate::Result;

/// Set where an entry is a changed one; a node has fewer entries than this.
const CHANGED: u16 = 1 << 15;

/// A leaf in two parts.
pub(super) struct Merged {
    /// The stored leaf: packed.
    base: Arc<Node>,
    /// What was put since.
    put: Vec<(Bytes, Value)>,
    /// Numbers of entries of `base`, or of `put` with [`CHANGED`].
    order: Box<[u16]>,
}

impl Merged {
    /// Puts the two together; `base` is as it was stored.
    pub(super) fn new(base: Arc<Node>, changes: &ChunkedArray<Value>, tombstones: &Tombstones) -> Result<Merged> {
        let packed = base.packed()?;
        let is_left = |number: &u16| !tombstones.contains((*number).into());
        let count = packed.len() as u16;
        let mut order = Vec::with_capacity(packed.len() + changes.len());
        let mut put: Vec<(Bytes, Value)> = Vec::with_capacity(changes.len());
        let mut next = 0u16;
        for (key, value) in changes.iter() {
            let (at, after) = match packed.find(key) {
                Ok(index) => (index as u16, index as u16 + 1),
                Err(index) => (index as u16, index as u16),
            };
            order.extend((next..at).filter(is_left));
            next = after;
            order.push(CHANGED | put.len() as u16);
            put.push((key.clone(), value.clone()));
        }
        order.extend((next..count).filter(is_left));
        Ok(Merged { base, put, order: order.into() })
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// What it takes in memory beside the stored leaf, in bytes, about.
    pub(super) fn memory_len(&self) -> usize {
        let put = |(key, value): &(Bytes, Value)| size_of::<(Bytes, Value)>() + key.len() + value.encoded_len();
        self.order.len() * size_of::<u16>() + self.put.iter().map(put).sum::<usize>()
    }

    fn entry(&self, index: usize) -> Option<Entry<'_>> {
        let number = *self.order.get(index)?;
        if number & CHANGED == 0 {
            return Some(Entry::Stored(number.into()));
        }
        self.put.get(usize::from(number & !CHANGED)).map(|(key, value)| Entry::Put(key, value))
    }

    /// The key of an entry; empty where there is no such entry.
    pub(super) fn key(&self, index: usize) -> &[u8] {
        match (self.entry(index), self.base.packed()) {
            (Some(Entry::Put(key, _)), _) => key,
            (Some(Entry::Stored(number)), Ok(packed)) => packed.key(number),
            _ => &[],
        }
    }

    /// The key of an entry, sharing the memory that it is in.
    pub(super) fn key_bytes(&self, index: usize) -> Bytes {
        match (self.entry(index), self.base.packed()) {
            (Some(Entry::Put(key, _)), _) => key.clone(),
            (Some(Entry::Stored(number)), Ok(packed)) => packed.key_bytes(number),
            _ => Bytes::new(),
        }
    }

    /// What an entry holds.
    pub(super) fn held(&self, index: usize) -> Option<Held<'_>> {
        match (self.entry(index)?, self.base.packed()) {
            (Entry::Put(_, value), _) => Some(Held::Value(value)),
            (Entry::Stored(number), Ok(packed)) => Some(Held::Stored(packed.held(number))),
            _ => None,
        }
    }

    /// The entry of this key, or the place where it would go.
    pub(super) fn find(&self, key: &[u8]) -> std::result::Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// All entries, to be changed.
    pub(super) fn open(&self) -> Result<ChunkedArray<Value>> {
        let packed = self.base.packed()?;
        let entries = (0..self.len()).map(|index| match self.entry(index) {
            Some(Entry::Put(key, value)) => Ok((key.clone(), value.clone())),
            Some(Entry::Stored(number)) => Ok((packed.key_bytes(number), packed.value(number)?)),
            None => Err(node::not_open()),
        });
        Ok(ChunkedArray::from_sorted(entries.collect::<Result<_>>()?))
    }

    /// Appends the stored form of all entries.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let packed = self.base.packed()?;
        for number in self.order.iter() {
            if number & CHANGED == 0 {
                out.extend_from_slice(packed.entry_bytes(usize::from(*number)));
            } else if let Some((key, value)) = self.put.get(usize::from(number & !CHANGED)) {
                encode_entry(key, value, out, Value::encode)?;
            }
        }
        Ok(())
    }
}

enum Entry<'a> {
    Stored(usize),
    Put(&'a Bytes, &'a Value),
}
