//! Views and cursors over one version of the state in memory.
//!
//! Invariants:
//! - A view shares the state of its version; commits copy what it shares before they change it.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Error, ErrorKind, GLANCE_LEN_MAX, KeyRange, Result, SpaceId, Version};

use super::state::{Slot, Space, State};
use crate::seam::{Cursor, Direction, ENTRY_VALUE_LEN_MAX, Entry, Glance, ReadNow, SpaceEntry, Stat, View};

/// One version, pinned.
pub(super) struct MemoryView {
    state: Arc<State>,
}

impl MemoryView {
    pub(super) fn new(state: Arc<State>) -> Self {
        MemoryView { state }
    }

    fn slot(&self, space: SpaceId, key: &[u8]) -> Result<&Slot> {
        let slot = self.state.slot(space, key);
        slot.ok_or_else(|| Error::new(ErrorKind::NotFound, "the key is not there"))
    }
}

impl View for MemoryView {
    fn version(&self) -> Version {
        self.state.version
    }

    fn keep(&self) -> Result<()> {
        Ok(())
    }

    fn has_space(&self, space: SpaceId) -> Result<bool> {
        Ok(self.state.spaces.contains_key(&space))
    }

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        let entry = |(space, held): (&SpaceId, &Arc<Space>)| SpaceEntry { space: *space, is_snapshot: held.read_only };
        Ok(self.state.spaces.range(from..).take(most).map(entry).collect())
    }

    fn stat(&self, space: SpaceId, key: &[u8]) -> Result<Option<Stat>> {
        Ok(self.state.slot(space, key).map(stat))
    }

    fn read(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Ok(self.slot(space, key)?.value.read(offset, buffer))
    }

    fn read_now(&self, space: SpaceId, key: &[u8], offset: u64, buffer: &mut [u8]) -> Result<ReadNow> {
        self.read(space, key, offset, buffer).map(ReadNow::Read)
    }

    fn glance(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Glance> {
        Ok(match self.state.slot(space, key) {
            None => Glance::Absent,
            Some(slot) => slot.glance(offset, length),
        })
    }

    fn bytes(&self, space: SpaceId, key: &[u8], offset: u64, length: usize) -> Result<Bytes> {
        Ok(self.slot(space, key)?.value.bytes(offset, length))
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        let space = self.state.spaces.get(&space).cloned().unwrap_or_default();
        let rest = range.clone();
        Ok(Box::new(MemoryCursor { space, range, direction, lower: Bound::Included(rest.start), upper: end(rest.end) }))
    }
}

fn stat(slot: &Slot) -> Stat {
    Stat { version: slot.version, size: slot.value.length() }
}

impl Slot {
    /// What a glance at it tells.
    pub(super) fn glance(&self, offset: u64, length: usize) -> Glance {
        let count = self.value.length().saturating_sub(offset).min(length as u64);
        if count > GLANCE_LEN_MAX as u64 && !self.value.is_whole() {
            return Glance::Unknown;
        }
        Glance::Part(stat(self), self.value.bytes(offset, length))
    }
}

fn end(key: Option<Bytes>) -> Bound<Bytes> {
    key.map_or(Bound::Unbounded, Bound::Excluded)
}

/// Walks a range of a space; what is left lies from `lower` to `upper`.
struct MemoryCursor {
    space: Arc<Space>,
    range: KeyRange,
    direction: Direction,
    lower: Bound<Bytes>,
    upper: Bound<Bytes>,
}

impl MemoryCursor {
    /// Whether nothing can be left; such bounds must not be given to a map.
    fn is_done(&self) -> bool {
        match (&self.lower, &self.upper) {
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (Bound::Included(lower) | Bound::Excluded(lower), Bound::Included(upper) | Bound::Excluded(upper)) => {
                lower >= upper
            }
            _ => false,
        }
    }
}

impl Cursor for MemoryCursor {
    fn next(&mut self) -> Result<Option<Entry>> {
        if self.is_done() {
            return Ok(None);
        }
        let bounds = (self.lower.as_ref().map(Bytes::as_ref), self.upper.as_ref().map(Bytes::as_ref));
        let mut rest = self.space.slots.range::<[u8], _>(bounds);
        let found = match self.direction {
            Direction::Forward => rest.next(),
            Direction::Backward => rest.next_back(),
        };
        let Some((key, slot)) = found else {
            return Ok(None);
        };
        let key = key.to_bytes();
        match self.direction {
            Direction::Forward => self.lower = Bound::Excluded(key.clone()),
            Direction::Backward => self.upper = Bound::Excluded(key.clone()),
        }
        let length = slot.value.length();
        let value = (length <= ENTRY_VALUE_LEN_MAX).then(|| slot.value.bytes(0, length as usize));
        Ok(Some(Entry { key, stat: stat(slot), value }))
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let key = Bytes::copy_from_slice(key);
        match self.direction {
            Direction::Forward => self.lower = Bound::Included(key.max(self.range.start.clone())),
            Direction::Backward => {
                let inside = self.range.end.as_ref().is_none_or(|end| key < *end);
                self.upper = if inside { Bound::Included(key) } else { end(self.range.end.clone()) };
            }
        }
        Ok(())
    }
}
