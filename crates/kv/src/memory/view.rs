//! Views and cursors over one version of the state in memory.
//!
//! Invariants:
//! - A view shares the state of its version; commits copy what it shares before they change it.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{KeyRange, LOOKUP_COPY_MAX, Result, SpaceId, Version};

use super::state::{Record, Space, State};
use crate::seam::{Cursor, Direction, ENTRY_VALUE_LEN_MAX, Entry, Lookup, SpaceEntry, Stat, View, Wait, absent};

/// One version, pinned.
pub(super) struct MemoryView {
    state: Arc<State>,
}

impl MemoryView {
    pub(super) fn new(state: Arc<State>) -> Self {
        MemoryView { state }
    }
}

impl View for MemoryView {
    fn version(&self) -> Version {
        self.state.version
    }

    fn keep(&self) -> Result<()> {
        Ok(())
    }

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        let entry = |(space, held): (&SpaceId, &Arc<Space>)| SpaceEntry { space: *space, is_snapshot: held.read_only };
        Ok(self.state.spaces.range(from..).take(most).map(entry).collect())
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        let slot = self.state.slot(space, key);
        Ok(slot.map_or(Lookup::Absent, |slot| slot.lookup(offset, length, wait)))
    }

    fn read_into(
        &self,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        _wait: Wait,
    ) -> Result<Option<usize>> {
        let slot = self.state.slot(space, key).ok_or_else(absent)?;
        Ok(Some(slot.value.read(offset, buffer)))
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        let space = self.state.spaces.get(&space).cloned().unwrap_or_default();
        let rest = range.clone();
        Ok(Box::new(MemoryCursor { space, range, direction, lower: Bound::Included(rest.start), upper: end(rest.end) }))
    }
}

fn stat(slot: &Record) -> Stat {
    Stat { version: slot.version, size: slot.value.length() }
}

impl Record {
    /// What a look-up of it tells.
    pub(super) fn lookup(&self, offset: u64, length: usize, wait: Wait) -> Lookup {
        let count = self.value.length().saturating_sub(offset).min(length as u64);
        if wait == Wait::Never && count > LOOKUP_COPY_MAX as u64 && !self.value.is_whole() {
            return Lookup::WouldWait;
        }
        Lookup::Found(stat(self), self.value.bytes(offset, length))
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
