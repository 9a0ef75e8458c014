//! A leaf as what has changed since it was stored.
//!
//! A commit that changes one entry of a stored leaf holds that entry in memory, not the leaf: what did not change
//! is read through the cache of nodes, and a checkpoint puts both together. Thirty changes spread over thirty leaves
//! so weigh thirty entries until then ([decision 0018](../../../../docs/decisions/0018-patches-over-stored-leaves.md)).
//!
//! Invariants:
//! - The stored leaf stays readable while a delta over it lives ([`Lease`]), also when nothing stored needs it.
//! - A key holds what was put since; else what the stored leaf says, unless that entry is gone.
//! - What was taken away is a bit each: thousands of deletions spread over as many leaves copy no keys.

use std::sync::Arc;

use bytes::Bytes;

use super::chunked_array::ChunkedArray;
use super::packed::Packed;
use super::tombstones::Tombstones;
use super::value::{Held, Value};
use super::{Node, NodeSource, load, merged::Merged, node};
use crate::Result;
use crate::address::NodeRef;
use crate::allocator::Lease;

/// What a changed entry takes in memory beside its key and value, in bytes.
const CHANGE_LEN: usize = size_of::<(Bytes, Value)>();

/// The changes of a leaf.
#[derive(Clone)]
pub(super) struct DeltaLeaf {
    base: NodeRef,
    _lease: Arc<Lease>,
    /// What was put.
    changes: ChunkedArray<Value>,
    /// What of the stored leaf was taken away. An entry that was put since stays in here.
    tombstones: Tombstones,
    /// Bytes of keys and values, and what stands around them.
    memory_len: usize,
}

/// What putting or taking a key did.
pub(super) struct Changed {
    /// What it held before.
    pub old: Option<Value>,
    /// It is the last key of the leaf now.
    pub is_last: bool,
}

/// What became of an exchange.
#[derive(Debug)]
pub enum Exchanged {
    /// The value that was there.
    Old(Value),
    /// Nothing like it was there: the value that was given.
    Not(Value),
}

impl DeltaLeaf {
    /// No change of the leaf at `base`.
    pub(super) fn new(base: NodeRef, lease: Arc<Lease>) -> DeltaLeaf {
        DeltaLeaf {
            base,
            _lease: lease,
            changes: ChunkedArray::new(),
            tombstones: Tombstones::default(),
            memory_len: 0,
        }
    }

    /// The leaf that it changes.
    pub(super) fn base(&self) -> NodeRef {
        self.base
    }

    /// What was put, by key.
    pub(super) fn changes(&self) -> &ChunkedArray<Value> {
        &self.changes
    }

    /// What was put, to forget what was written of it.
    pub(super) fn changes_mut(&mut self) -> &mut ChunkedArray<Value> {
        &mut self.changes
    }

    /// What it takes in memory, in bytes.
    pub(super) fn memory_len(&self) -> usize {
        self.memory_len + self.tombstones.memory_len()
    }

    /// Counts anew what it takes in memory.
    pub(super) fn measure(&mut self) {
        self.memory_len = self.changes.iter().map(|(key, value)| change_len(key, value)).sum();
    }

    /// What was put for a key.
    #[inline]
    pub(super) fn change(&self, key: &[u8]) -> Option<&Value> {
        let spot = self.changes.find(key).ok()?;
        self.changes.get(spot).map(|entry| &entry.1)
    }

    /// What a key holds for which nothing was put; `packed` is what is stored of the leaf.
    #[inline]
    pub(super) fn stored<'p>(&self, packed: &'p Packed, key: &[u8]) -> Option<Held<'p>> {
        let index = packed.find(key).ok().filter(|index| !self.tombstones.contains(*index))?;
        Some(Held::Stored(packed.held(index)))
    }

    /// The leaf as it is stored.
    pub(super) fn load(&self, source: &dyn NodeSource) -> Result<Arc<Node>> {
        load(source, &self.base, Some(0))
    }

    /// Sets a key.
    pub(super) fn put(&mut self, source: &dyn NodeSource, key: Bytes, value: Value) -> Result<Changed> {
        let added = change_len(&key, &value);
        match self.changes.find(&key) {
            Ok(spot) => {
                let Some(entry) = self.changes.get_mut(spot) else { return Err(node::not_open()) };
                self.memory_len = (self.memory_len + added).saturating_sub(change_len(&key, &entry.1));
                Ok(Changed { old: Some(std::mem::replace(&mut entry.1, value)), is_last: false })
            }
            Err(spot) => {
                let base = self.load(source)?;
                let packed = base.packed()?;
                let (old, is_last) = match packed.find(&key) {
                    Ok(index) if self.tombstones.contains(index) => (None, false),
                    Ok(index) => (Some(packed.value(index)?), false),
                    Err(index) => (None, index == packed.len() && self.changes.is_end(spot)),
                };
                self.memory_len += added;
                self.changes.insert(spot, key, value);
                Ok(Changed { old, is_last })
            }
        }
    }

    /// Sets a key where it holds a value that is like the new one.
    pub(super) fn exchange(
        &mut self,
        source: &dyn NodeSource,
        key: &Bytes,
        value: Value,
        is_like: &dyn Fn(&Value) -> bool,
    ) -> Result<Exchanged> {
        let added = change_len(key, &value);
        match self.changes.find(key) {
            Ok(spot) => {
                let Some(entry) = self.changes.get_mut(spot) else { return Err(node::not_open()) };
                if !is_like(&entry.1) {
                    return Ok(Exchanged::Not(value));
                }
                self.memory_len = (self.memory_len + added).saturating_sub(change_len(key, &entry.1));
                Ok(Exchanged::Old(std::mem::replace(&mut entry.1, value)))
            }
            Err(spot) => {
                let base = self.load(source)?;
                let packed = base.packed()?;
                let Some(index) = packed.find(key).ok().filter(|index| !self.tombstones.contains(*index)) else {
                    return Ok(Exchanged::Not(value));
                };
                let old = packed.value(index)?;
                if !is_like(&old) {
                    return Ok(Exchanged::Not(value));
                }
                self.memory_len += added;
                self.changes.insert(spot, key.clone(), value);
                Ok(Exchanged::Old(old))
            }
        }
    }

    /// Takes a key away; `packed` is what is stored of the leaf.
    pub(super) fn take(&mut self, packed: &Packed, key: &[u8]) -> Result<Option<Value>> {
        let stored = packed.find(key).ok();
        let old = match (self.changes.find(key), stored) {
            (Ok(spot), _) => {
                let Some((key, value)) = self.changes.remove(spot) else { return Err(node::not_open()) };
                self.memory_len = self.memory_len.saturating_sub(change_len(&key, &value));
                Some(value)
            }
            (Err(_), Some(index)) if !self.tombstones.contains(index) => Some(packed.value(index)?),
            (Err(_), _) => None,
        };
        stored.iter().for_each(|index| self.tombstones.add(*index, packed.len()));
        Ok(old)
    }

    /// Whether the leaf holds a key; `packed` is what is stored of it.
    pub(super) fn holds(&self, packed: &Packed, key: &[u8]) -> bool {
        self.stored(packed, key).is_some() || self.change(key).is_some()
    }

    /// The leaf with its changes.
    pub(super) fn merged(&self, source: &dyn NodeSource) -> Result<Merged> {
        Merged::new(self.load(source)?, &self.changes, &self.tombstones)
    }
}

fn change_len(key: &Bytes, value: &Value) -> usize {
    CHANGE_LEN + key.len() + value.encoded_len()
}

impl Node {
    /// The entries as they were stored.
    pub(super) fn packed(&self) -> Result<&Packed> {
        match &self.body {
            super::node::Body::Packed(packed) => Ok(packed),
            _ => Err(node::not_open()),
        }
    }
}
