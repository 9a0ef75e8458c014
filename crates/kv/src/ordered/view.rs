//! Views of a map.
//!
//! Invariant: a cursor reads ahead, a few entries first and more as it goes on, and holds nothing of the map between.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Error, KeyRange, Payload, Result, SpaceId, Version};

use super::Snapshot;
use super::format::{KEYS, map_key};
use crate::emulate::SOLE;
use crate::emulate::pending::BackingStore;
use crate::emulate::plan::{keys, one_space, prefixed};
use crate::seam::{Cursor, Direction, ENTRY_VALUE_LEN_MAX, Entry, Lookup, SpaceEntry, Stat, View, Wait, absent};
use crate::sparse::Value;

/// A value begins after its version.
const VERSION_LEN: usize = 8;
/// How many entries a cursor reads at first, and at most.
const AHEAD_FIRST: usize = 4;
const AHEAD_MAX: usize = 256;

/// Copies what a value has from an offset on.
fn copy_part(value: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| value.get(offset..)).unwrap_or_default();
    let count = rest.len().min(buffer.len());
    if let (Some(target), Some(source)) = (buffer.get_mut(..count), rest.get(..count)) {
        target.copy_from_slice(source);
    }
    count
}

fn damaged() -> Error {
    Error::damaged("the record of a key is too short")
}

fn split(record: Bytes) -> Result<(Version, Bytes)> {
    let (version, _) = record.split_first_chunk::<VERSION_LEN>().ok_or_else(damaged)?;
    Ok((Version(u64::from_le_bytes(*version)), record.slice(VERSION_LEN..)))
}

/// What a key has, and since which commit.
pub(super) fn record_of(snapshot: &impl Snapshot, key: &[u8]) -> Result<Option<(Version, Bytes)>> {
    snapshot.get(&map_key(key))?.map(split).transpose()
}

/// One version of a map.
pub(super) struct OrderedView<S> {
    snapshot: Arc<S>,
    version: Version,
}

impl<S: Snapshot> OrderedView<S> {
    pub(super) fn new(snapshot: S, version: Version) -> Self {
        OrderedView { snapshot: Arc::new(snapshot), version }
    }

    pub(super) fn snapshot(&self) -> &S {
        &self.snapshot
    }

    fn record(&self, space: SpaceId, key: &[u8]) -> Result<Option<(Version, Bytes)>> {
        if space == SOLE { record_of(&*self.snapshot, key) } else { Ok(None) }
    }
}

impl<S: Snapshot> View for OrderedView<S> {
    fn version(&self) -> Version {
        self.version
    }

    fn keep(&self) -> Result<()> {
        Ok(())
    }

    fn spaces(&self, from: SpaceId, most: usize) -> Result<Vec<SpaceEntry>> {
        let sole = SpaceEntry { space: SOLE, is_snapshot: false };
        Ok(Some(sole).into_iter().filter(|entry| entry.space >= from).take(most).collect())
    }

    fn lookup(&self, space: SpaceId, key: &[u8], offset: u64, length: usize, wait: Wait) -> Result<Lookup> {
        // Maps cannot say what they have in memory.
        if wait == Wait::Never {
            return Ok(Lookup::WouldWait);
        }
        let Some((version, value)) = self.record(space, key)? else {
            return Ok(Lookup::Absent);
        };
        let stat = Stat { version, size: value.len() as u64 };
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(value.len());
        Ok(Lookup::Found(stat, value.slice(start..start.saturating_add(length).min(value.len()))))
    }

    fn read_into(
        &self,
        space: SpaceId,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> Result<Option<usize>> {
        if wait == Wait::Never {
            return Ok(None);
        }
        let (_, value) = self.record(space, key)?.ok_or_else(absent)?;
        Ok(Some(copy_part(&value, offset, buffer)))
    }

    fn cursor(&self, space: SpaceId, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        let nothing = KeyRange::new(Bytes::new(), Bytes::new());
        let range = if space == SOLE { prefixed(KEYS, &range) } else { nothing };
        let (left, ahead) = (range.clone(), VecDeque::new());
        let snapshot = Arc::clone(&self.snapshot);
        Ok(Box::new(OrderedCursor { snapshot, range, left, direction, ahead, step: AHEAD_FIRST }))
    }
}

/// Walks a range of the map.
struct OrderedCursor<S> {
    snapshot: Arc<S>,
    /// In the map.
    range: KeyRange,
    /// What is not read yet.
    left: KeyRange,
    direction: Direction,
    ahead: VecDeque<(Bytes, Bytes)>,
    step: usize,
}

impl<S: Snapshot> OrderedCursor<S> {
    fn read_ahead(&mut self) -> Result<()> {
        if self.left.is_empty() {
            return Ok(());
        }
        let entries = self.snapshot.scan(&self.left, self.direction, self.step)?;
        match (entries.last(), self.direction) {
            (Some((last, _)), Direction::Forward) => self.left.start = Bytes::from([last.as_ref(), &[0]].concat()),
            (Some((last, _)), Direction::Backward) => self.left.end = Some(last.clone()),
            (None, _) => self.left = KeyRange::new(Bytes::new(), Bytes::new()),
        }
        self.step = (self.step * 2).min(AHEAD_MAX);
        self.ahead = entries.into();
        Ok(())
    }
}

impl<S: Snapshot> Cursor for OrderedCursor<S> {
    fn next(&mut self) -> Result<Option<Entry>> {
        if self.ahead.is_empty() {
            self.read_ahead()?;
        }
        let Some((key, record)) = self.ahead.pop_front() else {
            return Ok(None);
        };
        let (version, value) = split(record)?;
        let size = value.len() as u64;
        let value = (size <= ENTRY_VALUE_LEN_MAX).then_some(value);
        Ok(Some(Entry { key: key.slice(KEYS.len()..), stat: Stat { version, size }, value }))
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let key = map_key(key);
        self.ahead.clear();
        self.step = AHEAD_FIRST;
        self.left = self.range.clone();
        match self.direction {
            Direction::Forward => self.left.start = key.max(self.range.start.clone()),
            Direction::Backward => {
                let after = KeyRange::single(key).end;
                if let (Some(after), Some(end)) = (&after, &self.range.end)
                    && after < end
                {
                    self.left.end = Some(after.clone());
                } else if self.range.end.is_none() {
                    self.left.end = after;
                }
            }
        }
        Ok(())
    }
}

/// The values before a batch.
pub(super) struct Values<S>(pub(super) Arc<OrderedView<S>>);

impl<S: Snapshot> BackingStore for Values<S> {
    type Piece = Bytes;

    fn space(&self, space: SpaceId) -> Result<Option<bool>> {
        if space == SOLE { Ok(Some(false)) } else { Err(one_space()) }
    }

    fn has(&self, _space: SpaceId, key: &[u8]) -> Result<bool> {
        Ok(self.0.snapshot.get(&map_key(key))?.is_some())
    }

    fn load(&self, _space: SpaceId, key: &[u8]) -> Result<Option<Value>> {
        Ok(record_of(&*self.0.snapshot, key)?.map(|(_, value)| Value::from_piece(value)))
    }

    fn keys(&self, space: SpaceId, range: &KeyRange) -> Result<Vec<Bytes>> {
        keys(&*self.0, space, range)
    }

    fn payload(&self, payload: &Payload) -> Result<Value> {
        match payload {
            Payload::Bytes(bytes) => Ok(Value::from_piece(bytes.clone())),
            Payload::Stage(_) => Err(Error::invalid("a stage of another store")),
        }
    }

    fn read(&self, value: &Value, buffer: &mut [u8]) -> Result<()> {
        value.read(0, buffer);
        Ok(())
    }
}
