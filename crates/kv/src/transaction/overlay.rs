//! What a transaction wrote, laid over its view.
//!
//! Invariants:
//! - It tells for every key: written here, absent by what was done here, or as the view has it.
//! - A written value names every key of the view that it was made of (`bases`): who reads it depends
//!   on those.
//! - An operation that will be refused changes nothing here: its commit fails anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{Error, ErrorKind, KeyRange, Operation, Payload, Place, Result, Sources, SpaceId};

use super::{Reads, read_written};
use crate::seam::{Direction, View};
use crate::sparse::{Piece, Sparse};

/// Where bytes of a written value are.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Inline(Bytes),
    View { place: Place, offset: u64, length: u64 },
    Staged { length: u64 },
}

impl Piece for Source {
    fn length(&self) -> u64 {
        match self {
            Source::Inline(bytes) => bytes.len() as u64,
            Source::View { length, .. } | Source::Staged { length } => *length,
        }
    }

    fn part(&self, start: u64, end: u64) -> Self {
        match self {
            Source::Inline(bytes) => Source::Inline(bytes.part(start, end)),
            Source::View { place, offset, .. } => {
                Source::View { place: place.clone(), offset: offset + start, length: end - start }
            }
            Source::Staged { .. } => Source::Staged { length: end - start },
        }
    }
}

pub(super) type Written = Sparse<Source>;

/// A key's value and the keys of the view that it depends on.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub(super) value: Written,
    pub(super) bases: BTreeSet<Place>,
}

/// What the overlay says of a key.
pub(super) enum Buffered<'a> {
    /// Nothing: it is as the view has it.
    InView,
    Absent,
    Written(&'a Slot),
}

/// What became of a space.
enum SpaceChange {
    Created,
    Dropped,
    /// Copied from another: its content is not known here.
    Copied,
}

/// The effect of the operations so far.
#[derive(Default)]
pub(super) struct Overlay {
    /// Written keys, and `None` for deleted ones.
    slots: BTreeMap<Place, Option<Slot>>,
    /// Ranges of the view that were deleted; what was written there later is in `slots`.
    cleared: Vec<(SpaceId, KeyRange)>,
    spaces: BTreeMap<SpaceId, SpaceChange>,
}

impl Overlay {
    /// Whether a space is there; `None` as the view has it.
    pub(super) fn has_space(&self, space: SpaceId) -> Option<bool> {
        self.spaces.get(&space).map(|change| !matches!(change, SpaceChange::Dropped))
    }

    pub(super) fn check_readable(&self, space: SpaceId) -> Result<()> {
        if let Some(SpaceChange::Copied) = self.spaces.get(&space) {
            let message = format!("space {} is copied by this transaction: read it after the commit", space.0);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    pub(super) fn find(&self, place: &Place) -> Result<Buffered<'_>> {
        self.check_readable(place.space)?;
        Ok(match self.slots.get(place) {
            Some(Some(slot)) => Buffered::Written(slot),
            Some(None) => Buffered::Absent,
            None if self.is_cleared(place.space, &place.key) => Buffered::Absent,
            None => Buffered::InView,
        })
    }

    pub(super) fn is_cleared(&self, space: SpaceId, key: &[u8]) -> bool {
        self.cleared.iter().any(|(cleared, range)| *cleared == space && range.contains(key))
    }

    /// Whether a key was written or deleted by name.
    pub(super) fn has_slot(&self, space: SpaceId, key: &Bytes) -> bool {
        self.slots.contains_key(&Place { space, key: key.clone() })
    }

    /// The next key that was written and is there, after `lower` and before `upper`.
    pub(super) fn next_written(
        &self,
        space: SpaceId,
        lower: Bound<&Bytes>,
        upper: Bound<&Bytes>,
        direction: Direction,
    ) -> Option<(&Bytes, &Slot)> {
        let place = |key: &Bytes| Place { space, key: key.clone() };
        let first = match lower {
            Bound::Unbounded => Bound::Included(Place { space, key: Bytes::new() }),
            bound => bound.map(place),
        };
        let last = match upper {
            // No key lies past the space's end, which is before the next space's first key.
            Bound::Unbounded if space.0 == u64::MAX => Bound::Unbounded,
            Bound::Unbounded => Bound::Excluded(Place { space: SpaceId(space.0 + 1), key: Bytes::new() }),
            bound => bound.map(place),
        };
        let mut within = self.slots.range((first, last)).filter_map(|(place, slot)| Some((&place.key, slot.as_ref()?)));
        match direction {
            Direction::Forward => within.next(),
            Direction::Backward => within.next_back(),
        }
    }

    /// The value of a key for making another: nothing when it is absent.
    fn slot(&self, view: &dyn View, place: &Place) -> Result<Option<Slot>> {
        match self.find(place)? {
            Buffered::Written(slot) => Ok(Some(slot.clone())),
            Buffered::Absent => Ok(None),
            Buffered::InView => Ok(view.stat(place.space, &place.key)?.map(|stat| {
                let whole = Source::View { place: place.clone(), offset: 0, length: stat.size };
                Slot { value: Written::from_piece(whole), bases: BTreeSet::from([place.clone()]) }
            })),
        }
    }

    /// The value of a key for changing it: empty when it is absent, and then that matters too.
    fn slot_or_empty(&self, view: &dyn View, place: &Place) -> Result<Slot> {
        if let Some(slot) = self.slot(view, place)? {
            return Ok(slot);
        }
        let mut slot = Slot::default();
        if let Buffered::InView = self.find(place)? {
            slot.bases.insert(place.clone());
        }
        Ok(slot)
    }

    fn set(&mut self, place: &Place, slot: Option<Slot>) {
        self.slots.insert(place.clone(), slot);
    }

    fn clear(&mut self, space: SpaceId, range: &KeyRange) {
        if !range.is_empty() {
            self.slots.retain(|place, _| place.space != space || !range.contains(&place.key));
            self.cleared.push((space, range.clone()));
        }
    }

    /// Adds an operation's effect.
    pub(super) fn apply(&mut self, view: &Arc<dyn View>, reads: &mut Reads, operation: &Operation) -> Result<()> {
        let beneath = &**view;
        match operation {
            Operation::Put { at, value } => {
                self.set(at, Some(Slot { value: payload(value), bases: BTreeSet::new() }));
            }
            Operation::WriteAt { at, offset, data } => {
                let mut slot = self.slot_or_empty(beneath, at)?;
                slot.value.write_value(*offset, &payload(data));
                self.set(at, Some(slot));
            }
            Operation::Append { at, data } => {
                let mut slot = self.slot_or_empty(beneath, at)?;
                slot.value.write_value(slot.value.length(), &payload(data));
                self.set(at, Some(slot));
            }
            Operation::Truncate { at, length } => {
                let mut slot = self.slot_or_empty(beneath, at)?;
                slot.value.truncate(*length);
                self.set(at, Some(slot));
            }
            Operation::Delete { at } => self.set(at, None),
            Operation::DeleteRange { space, range } => self.clear(*space, range),
            Operation::Rename { from, to } => {
                if let Some(slot) = self.slot(beneath, from)? {
                    self.set(from, None);
                    self.set(to, Some(slot));
                }
            }
            Operation::RenamePrefix { space, from, to } => self.rename_prefix(view, reads, *space, from, to)?,
            Operation::CloneRange { from, from_offset, length, to, to_offset } => {
                if let Some(source) = self.slot(beneath, from)? {
                    let mut slot = self.slot_or_empty(beneath, to)?;
                    slot.value.write_value(*to_offset, &source.value.slice(*from_offset, *length));
                    slot.bases.extend(source.bases);
                    self.set(to, Some(slot));
                }
            }
            Operation::Concatenate { sources, target, fate } => self.concatenate(beneath, sources, target, *fate)?,
            Operation::AddCounter { at, delta } => self.add(beneath, at, *delta)?,
            Operation::CreateSpace { space } => self.change_space(*space, SpaceChange::Created),
            Operation::DropSpace { space } => self.change_space(*space, SpaceChange::Dropped),
            Operation::CloneSpace { to, .. } | Operation::SnapshotSpace { to, .. } => {
                self.change_space(*to, SpaceChange::Copied);
            }
        }
        Ok(())
    }

    fn change_space(&mut self, space: SpaceId, change: SpaceChange) {
        self.clear(space, &KeyRange::all());
        self.spaces.insert(space, change);
    }

    fn concatenate(&mut self, view: &dyn View, sources: &[Place], target: &Place, fate: Sources) -> Result<()> {
        let mut joined = Slot::default();
        for source in sources {
            let Some(part) = self.slot(view, source)? else {
                return Ok(());
            };
            joined.value.write_value(joined.value.length(), &part.value);
            joined.bases.extend(part.bases);
        }
        if fate == Sources::Delete {
            sources.iter().for_each(|source| self.set(source, None));
        }
        self.set(target, Some(joined));
        Ok(())
    }

    fn add(&mut self, view: &dyn View, at: &Place, delta: i64) -> Result<()> {
        let slot = self.slot_or_empty(view, at)?;
        let mut number = [0; 8];
        if slot.value.length() != 0 {
            read_written(view, &slot.value, 0, &mut number)?;
        }
        let sum = i64::from_le_bytes(number).wrapping_add(delta);
        let value = Written::from_piece(Source::Inline(Bytes::copy_from_slice(&sum.to_le_bytes())));
        self.set(at, Some(Slot { value, bases: slot.bases }));
        Ok(())
    }

    /// Which keys move depends on the whole range, so it is noted as read.
    fn rename_prefix(
        &mut self,
        view: &Arc<dyn View>,
        reads: &mut Reads,
        space: SpaceId,
        from: &Bytes,
        to: &Bytes,
    ) -> Result<()> {
        let range = KeyRange::prefix(from.clone());
        let mut moved = Vec::new();
        let mut cursor = super::TransactionCursor::new(reads, self, view, space, range.clone(), Direction::Forward)?;
        while let Some(key) = cursor.next_key()? {
            moved.push(key);
        }
        drop(cursor);
        let mut slots = Vec::with_capacity(moved.len());
        for key in moved {
            let renamed = [to.as_ref(), key.get(from.len()..).unwrap_or_default()].concat();
            slots.push((Place::new(space, renamed), self.slot(&**view, &Place { space, key })?));
        }
        self.clear(space, &range);
        for (place, slot) in slots {
            self.set(&place, slot);
        }
        Ok(())
    }
}

fn payload(payload: &Payload) -> Written {
    Written::from_piece(match payload {
        Payload::Bytes(bytes) => Source::Inline(bytes.clone()),
        Payload::Stage(token) => Source::Staged { length: token.length() },
    })
}
