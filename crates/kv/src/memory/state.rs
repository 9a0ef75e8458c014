//! One version of everything, and the batch that makes the next one.
//!
//! Invariants:
//! - Whatever a view shares is copied before it is changed; what nobody shares is changed in place.
//! - A batch that is rolled back leaves the state exactly as it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Error, KeyRange, Place, Refusal, Result, SpaceId, Version};

use super::key::Key;
use crate::sparse::Value;

/// A key's value and the commit that last changed it.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) value: Arc<Value>,
    pub(super) version: Version,
}

impl Record {
    fn bytes(&self, key: &Bytes) -> u64 {
        key.len() as u64 + self.value.stored()
    }
}

/// An ordered tree of keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    pub(super) slots: BTreeMap<Key, Record>,
    pub(super) read_only: bool,
    /// Keys and stored values, in bytes.
    pub(super) bytes: u64,
}

impl Space {
    /// Sets or removes a key; gives back what was there.
    fn replace(&mut self, key: &Bytes, slot: Option<Record>) -> Option<Record> {
        if let Some(slot) = &slot {
            self.bytes += slot.bytes(key);
        }
        let before = match slot {
            Some(slot) => self.slots.insert(key.into(), slot),
            None => self.slots.remove(key.as_ref()),
        };
        if let Some(before) = &before {
            self.bytes -= before.bytes(key);
        }
        before
    }
}

/// Everything at one version.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) version: Version,
    pub(super) spaces: BTreeMap<SpaceId, Arc<Space>>,
}

impl State {
    pub(super) fn slot(&self, space: SpaceId, key: &[u8]) -> Option<&Record> {
        self.spaces.get(&space)?.slots.get(key)
    }

    /// Keys and stored values of all spaces, in bytes; shared data counts once for each key.
    pub(super) fn bytes(&self) -> u64 {
        self.spaces.values().map(|space| space.bytes).sum()
    }
}

enum Undo {
    Key { at: Place, before: Option<Record> },
    Space { space: SpaceId, before: Option<Arc<Space>> },
}

/// Changes under way: visible to later operations of the batch, and to be kept or taken back as a whole.
pub(super) struct PendingBatch<'a> {
    state: &'a mut State,
    version: Version,
    key_len_max: usize,
    /// The operation being applied, for refusals.
    index: u32,
    undo: Vec<Undo>,
    changes: Vec<(SpaceId, KeyRange)>,
}

impl<'a> PendingBatch<'a> {
    pub(super) fn new(state: &'a mut State, version: Version, key_len_max: usize) -> Self {
        PendingBatch { state, version, key_len_max, index: 0, undo: Vec::new(), changes: Vec::new() }
    }

    /// The longest key that an operation may make.
    pub(super) fn key_len_max(&self) -> usize {
        self.key_len_max
    }

    /// The next calls belong to this operation.
    pub(super) fn begin(&mut self, index: u32) {
        self.index = index;
    }

    pub(super) fn refuse(&self, message: impl Into<String>) -> Error {
        Error::refused(Refusal::Operation(self.index), message)
    }

    pub(super) fn state(&self) -> &State {
        self.state
    }

    /// A space to read from.
    pub(super) fn space(&self, space: SpaceId) -> Result<&Arc<Space>> {
        let found = self.state.spaces.get(&space);
        found.ok_or_else(|| self.refuse(format!("operation {}: space {} is absent", self.index, space.0)))
    }

    /// A key to read from; its space must be there.
    pub(super) fn slot(&self, at: &Place) -> Result<Option<&Record>> {
        Ok(self.space(at.space)?.slots.get(at.key.as_ref()))
    }

    /// A key that must be there.
    pub(super) fn source(&self, at: &Place) -> Result<&Record> {
        self.slot(at)?.ok_or_else(|| self.refuse(format!("operation {}: the source is absent", self.index)))
    }

    /// The value of a key for changing; empty when it is absent.
    pub(super) fn value(&self, at: &Place) -> Result<Value> {
        Ok(self.slot(at)?.map(|slot| Value::clone(&slot.value)).unwrap_or_default())
    }

    /// Fails unless the space is there and may be written.
    pub(super) fn writable(&self, space: SpaceId) -> Result<()> {
        if self.space(space)?.read_only {
            return Err(self.refuse(format!("operation {}: space {} is a snapshot", self.index, space.0)));
        }
        Ok(())
    }

    /// Sets a key and tells of it.
    pub(super) fn set(&mut self, at: &Place, value: Arc<Value>) -> Result<()> {
        self.replace(at, Some(value))?;
        self.changed(at.space, KeyRange::single(at.key.clone()));
        Ok(())
    }

    /// Removes a key and tells of it; nothing happens when it is absent.
    pub(super) fn remove(&mut self, at: &Place) -> Result<()> {
        if self.replace(at, None)? {
            self.changed(at.space, KeyRange::single(at.key.clone()));
        }
        Ok(())
    }

    /// Sets or removes a key without telling; whether it was there.
    pub(super) fn replace(&mut self, at: &Place, value: Option<Arc<Value>>) -> Result<bool> {
        self.writable(at.space)?;
        let version = self.version;
        let Some(space) = self.state.spaces.get_mut(&at.space) else {
            return Err(self.refuse("the space is absent"));
        };
        let before = Arc::make_mut(space).replace(&at.key, value.map(|value| Record { value, version }));
        let was_there = before.is_some();
        self.undo.push(Undo::Key { at: at.clone(), before });
        Ok(was_there)
    }

    /// Tells of a change of keys.
    pub(super) fn changed(&mut self, space: SpaceId, keys: KeyRange) {
        self.changes.push((space, keys));
    }

    /// Makes, replaces or drops a whole space.
    pub(super) fn set_space(&mut self, space: SpaceId, content: Option<Arc<Space>>) {
        let before = match content {
            Some(content) => self.state.spaces.insert(space, content),
            None => self.state.spaces.remove(&space),
        };
        self.undo.push(Undo::Space { space, before });
    }

    /// Makes what was changed the state; gives the changes in order.
    pub(super) fn keep(self) -> Vec<(SpaceId, KeyRange)> {
        self.state.version = self.version;
        self.changes
    }

    /// Takes everything back, latest first.
    pub(super) fn roll_back(self) {
        for undo in self.undo.into_iter().rev() {
            match undo {
                Undo::Key { at, before } => {
                    if let Some(space) = self.state.spaces.get_mut(&at.space) {
                        Arc::make_mut(space).replace(&at.key, before);
                    }
                }
                Undo::Space { space, before: Some(content) } => {
                    self.state.spaces.insert(space, content);
                }
                Undo::Space { space, before: None } => {
                    self.state.spaces.remove(&space);
                }
            }
        }
    }
}
