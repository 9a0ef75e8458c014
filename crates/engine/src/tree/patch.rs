//! A leaf as what has changed since it was stored.
//!
//! A commit that changes one entry of a stored leaf holds that entry in memory, not the leaf: what did not change
//! is read through the cache of nodes, and a checkpoint puts both together. Thirty changes spread over thirty leaves
//! so weigh thirty entries until then ([decision 0018](../../../../docs/decisions/0018-patches-over-stored-leaves.md)).
//!
//! Invariants:
//! - The stored leaf stays readable while a patch over it lives ([`Lease`]), also when nothing stored needs it.
//! - A key that is not in the patch holds what the stored leaf says. A key that neither has is not in the patch.

use std::sync::Arc;

use bytes::Bytes;

use super::node::Held as _;
use super::packed::Packed;
use super::run::Run;
use super::{Node, NodeRef, NodeSource, load, merged::Merged, node};
use crate::Result;
use crate::space::Lease;
use crate::value::Value;

/// What a key holds since the leaf was stored: nothing where it was taken away.
pub(super) type Change = Option<Value>;

/// What a change takes in memory beside its key and value, in bytes.
const CHANGE_LEN: usize = size_of::<(Bytes, Change)>();

/// The changes of a leaf.
#[derive(Clone)]
pub(super) struct Patch {
    base: NodeRef,
    _lease: Arc<Lease>,
    changes: Run<Change>,
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

impl super::node::Held for Change {
    fn held_len(&self) -> usize {
        self.as_ref().map_or(0, Value::encoded_len)
    }
    fn settles(&self) -> bool {
        self.as_ref().is_some_and(Value::settles)
    }
    fn settle(&mut self) {
        if let Some(value) = self {
            value.settle();
        }
    }
}

impl Patch {
    /// No change of the leaf at `base`.
    pub(super) fn new(base: NodeRef, lease: Arc<Lease>) -> Patch {
        Patch { base, _lease: lease, changes: Run::new(), memory_len: 0 }
    }

    /// The leaf that it changes.
    pub(super) fn base(&self) -> NodeRef {
        self.base
    }

    /// The changes, by key.
    pub(super) fn changes(&self) -> &Run<Change> {
        &self.changes
    }

    /// The changes, to forget what was written of them.
    pub(super) fn changes_mut(&mut self) -> &mut Run<Change> {
        &mut self.changes
    }

    /// What it takes in memory, in bytes.
    pub(super) fn memory_len(&self) -> usize {
        self.memory_len
    }

    /// Counts anew what it takes in memory.
    pub(super) fn measure(&mut self) {
        self.memory_len = self.changes.iter().map(|(key, change)| change_len(key, change.held_len())).sum();
    }

    /// The change of a key, if there is one.
    #[inline]
    pub(super) fn change(&self, key: &[u8]) -> Option<&Change> {
        let spot = self.changes.find(key).ok()?;
        self.changes.get(spot).map(|entry| &entry.1)
    }

    fn load(&self, source: &dyn NodeSource) -> Result<Arc<Node>> {
        load(source, &self.base, Some(0))
    }

    /// Sets a key.
    pub(super) fn put(&mut self, source: &dyn NodeSource, key: Bytes, value: Value) -> Result<Changed> {
        let added = change_len(&key, value.encoded_len());
        match self.changes.find(&key) {
            Ok(spot) => {
                let Some(entry) = self.changes.get_mut(spot) else { return Err(node::not_open()) };
                self.memory_len = (self.memory_len + added).saturating_sub(change_len(&key, entry.1.held_len()));
                Ok(Changed { old: entry.1.replace(value), is_last: false })
            }
            Err(spot) => {
                let base = self.load(source)?;
                let packed = base.packed()?;
                let (old, is_last) = match packed.find(&key) {
                    Ok(index) => (Some(packed.value(index)?), false),
                    Err(index) => (None, index == packed.len() && self.changes.is_end(spot)),
                };
                self.memory_len += added;
                self.changes.insert(spot, key, Some(value));
                Ok(Changed { old, is_last })
            }
        }
    }

    /// Takes a key away.
    pub(super) fn take(&mut self, source: &dyn NodeSource, key: &[u8]) -> Result<Option<Value>> {
        let base = self.load(source)?;
        let packed = base.packed()?;
        let stored = packed.find(key).ok();
        let old = match (self.changes.find(key), stored) {
            (Ok(spot), None) => {
                let Some((key, change)) = self.changes.remove(spot) else { return Err(node::not_open()) };
                self.memory_len = self.memory_len.saturating_sub(change_len(&key, change.held_len()));
                change
            }
            (Ok(spot), Some(_)) => {
                let Some(entry) = self.changes.get_mut(spot) else { return Err(node::not_open()) };
                let held_len = entry.1.held_len();
                self.memory_len = self.memory_len.saturating_sub(held_len);
                entry.1.take()
            }
            (Err(_), None) => None,
            (Err(spot), Some(index)) => {
                let old = packed.value(index)?;
                let key = Bytes::copy_from_slice(key);
                self.memory_len += change_len(&key, 0);
                self.changes.insert(spot, key, None);
                Some(old)
            }
        };
        Ok(old)
    }

    /// The leaf with its changes.
    pub(super) fn merged(&self, source: &dyn NodeSource) -> Result<Merged> {
        Merged::new(self.load(source)?, &self.changes)
    }
}

fn change_len(key: &Bytes, held_len: usize) -> usize {
    CHANGE_LEN + key.len() + held_len
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
