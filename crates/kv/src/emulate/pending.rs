//! What a batch will do, worked out before it is done: each operation sees those before it, and is refused where the
//! seam says so.
//!
//! Invariants:
//! - Nothing here writes: a pending state is thrown away once the batch for the store below is made from it.
//! - Values are loaded when an operation needs their bytes or length, not before.
//! - Refusals are those of `MemoryKv`, in the same order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::batch::VALUE_LEN_MAX;
use koine_engine::{Error, KeyRange, Operation, Payload, Place, Refusal, Result, Sources, SpaceId};

use crate::sparse::{Piece, Sparse};

/// A wrapper's face before the batch, and what its values are made of.
pub(crate) trait BackingStore {
    type Piece: Piece;

    /// `None` where the space is absent, else whether it is a snapshot.
    fn space(&self, space: SpaceId) -> Result<Option<bool>>;

    /// Whether a key is there.
    fn has(&self, space: SpaceId, key: &[u8]) -> Result<bool>;

    /// The value of a key; `None` where it is absent.
    fn load(&self, space: SpaceId, key: &[u8]) -> Result<Option<Sparse<Self::Piece>>>;

    /// All keys of a range, in order.
    fn keys(&self, space: SpaceId, range: &KeyRange) -> Result<Vec<Bytes>>;

    /// A payload as a value.
    fn payload(&self, payload: &Payload) -> Result<Sparse<Self::Piece>>;

    /// The first bytes of a value, as many as the buffer has.
    fn read(&self, value: &Sparse<Self::Piece>, buffer: &mut [u8]) -> Result<()>;
}

/// What became of a key.
enum Slot<P> {
    Absent,
    /// As this place was before the batch, its version too.
    Kept(Place),
    /// The value that this place had before the batch.
    Moved(Place),
    Value(Arc<Sparse<P>>),
}

impl<P> Clone for Slot<P> {
    fn clone(&self) -> Self {
        match self {
            Slot::Absent => Slot::Absent,
            Slot::Kept(place) => Slot::Kept(place.clone()),
            Slot::Moved(place) => Slot::Moved(place.clone()),
            Slot::Value(value) => Slot::Value(Arc::clone(value)),
        }
    }
}

impl<P> Slot<P> {
    fn moved(self) -> Self {
        match self {
            Slot::Kept(place) => Slot::Moved(place),
            slot => slot,
        }
    }
}

/// A space as the batch has it so far.
struct Space<P> {
    read_only: bool,
    /// Whether what was there before the batch shows where nothing lies over it.
    shows: bool,
    slots: BTreeMap<Bytes, Slot<P>>,
    cleared: Vec<KeyRange>,
}

/// What an operation did, for who has to write it down.
pub(crate) enum Effect {
    /// Nothing at all.
    Nothing,
    /// The value of a key was set.
    Set(Place),
    /// A key that was there was removed.
    Removed(Place),
    /// The keys of a range were removed.
    Cleared(SpaceId, KeyRange),
    /// A value moved, over what was there.
    Moved { from: Place, to: Place },
    /// Values moved: from which key to which, over what was there.
    MovedPrefix { space: SpaceId, from: Bytes, to: Bytes, keys: Vec<(Bytes, Bytes)> },
    /// Keys were removed, then one was set.
    Joined { removed: Vec<Place>, target: Place },
    /// A space was made.
    Created(SpaceId),
    /// A space was made with the keys of another.
    Copied { from: SpaceId, to: SpaceId, read_only: bool, keys: Vec<Bytes> },
    /// A space was removed.
    Dropped(SpaceId),
}

/// The state that a batch makes, step by step.
pub(crate) struct PendingState<B: BackingStore> {
    backing: B,
    key_len_max: usize,
    spaces: BTreeMap<SpaceId, Option<Space<B::Piece>>>,
    index: u32,
}

impl<B: BackingStore> PendingState<B> {
    pub(crate) fn new(backing: B, key_len_max: usize) -> Self {
        PendingState { backing, key_len_max, spaces: BTreeMap::new(), index: 0 }
    }

    /// Does the operation at this index of the batch.
    pub(crate) fn apply(&mut self, index: u32, operation: &Operation) -> Result<Effect> {
        self.index = index;
        match operation {
            Operation::Put { at, value } => {
                let value = self.backing.payload(value)?;
                self.set(at, Slot::Value(Arc::new(value)))
            }
            Operation::WriteAt { at, offset, data } => self.change(
                at,
                |value, data| {
                    value.write_value(*offset, data);
                    Ok(())
                },
                Some(data),
            ),
            Operation::Append { at, data } => {
                let refusal = self.too_long();
                self.change(
                    at,
                    |value, data| {
                        if data.length() > VALUE_LEN_MAX.saturating_sub(value.length()) {
                            return Err(refusal);
                        }
                        value.write_value(value.length(), data);
                        Ok(())
                    },
                    Some(data),
                )
            }
            Operation::Truncate { at, length } => self.change(
                at,
                |value, _| {
                    value.truncate(*length);
                    Ok(())
                },
                None,
            ),
            Operation::Delete { at } => {
                self.writable(at.space)?;
                if !self.has(at)? {
                    return Ok(Effect::Nothing);
                }
                self.put_slot(at, Slot::Absent);
                Ok(Effect::Removed(at.clone()))
            }
            Operation::DeleteRange { space, range } => {
                self.writable(*space)?;
                self.clear(*space, range);
                Ok(Effect::Cleared(*space, range.clone()))
            }
            Operation::Rename { from, to } => {
                let slot = self.source(from)?;
                self.writable(from.space)?;
                self.writable(to.space)?;
                self.put_slot(from, Slot::Absent);
                self.put_slot(to, slot.moved());
                Ok(Effect::Moved { from: from.clone(), to: to.clone() })
            }
            Operation::RenamePrefix { space, from, to } => self.rename_prefix(*space, from, to),
            Operation::CloneRange { from, from_offset, length, to, to_offset } => {
                self.clone_range((from, *from_offset), *length, (to, *to_offset))
            }
            Operation::Concatenate { sources, target, fate } => self.concatenate(sources, target, *fate),
            Operation::AddCounter { at, delta } => self.add(at, *delta),
            Operation::CreateSpace { space } => self.create_space(*space),
            Operation::CloneSpace { from, to } => self.copy_space(*from, *to, false),
            Operation::SnapshotSpace { from, to } => self.copy_space(*from, *to, true),
            Operation::DropSpace { space } => self.drop_space(*space),
        }
    }

    /// The value of a key as the batch has it so far.
    pub(crate) fn value(&mut self, at: &Place) -> Result<Option<Arc<Sparse<B::Piece>>>> {
        let slot = self.slot(at)?;
        self.loaded(slot)
    }

    /// The place whose value and version a key still has from before the batch.
    pub(crate) fn origin(&mut self, at: &Place) -> Result<Option<Place>> {
        Ok(match self.slot(at)? {
            Slot::Kept(place) => Some(place),
            Slot::Absent | Slot::Moved(_) | Slot::Value(_) => None,
        })
    }

    /// The keys of a range as the batch has them so far, in order.
    pub(crate) fn keys(&mut self, space: SpaceId, range: &KeyRange) -> Result<Vec<Bytes>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let shows = self.space(space)?.shows;
        let backing = if shows { self.backing.keys(space, range)? } else { Vec::new() };
        let known = self.space(space)?;
        let mut keys: BTreeSet<Bytes> = backing.into_iter().filter(|key| !known.is_cleared(key)).collect();
        for (key, slot) in known.slots.range::<[u8], _>(range.bounds()) {
            match slot {
                Slot::Absent => keys.remove(key),
                Slot::Kept(_) | Slot::Moved(_) | Slot::Value(_) => keys.insert(key.clone()),
            };
        }
        Ok(keys.into_iter().collect())
    }

    fn refuse(&self, why: impl std::fmt::Display) -> Error {
        Error::refused(Refusal::Operation(self.index), format!("operation {}: {why}", self.index))
    }

    fn too_long(&self) -> Error {
        self.refuse(format_args!("the value would be longer than {VALUE_LEN_MAX} bytes"))
    }

    /// A space, which must be there.
    fn space(&mut self, space: SpaceId) -> Result<&mut Space<B::Piece>> {
        if !self.spaces.contains_key(&space) {
            let found = self.backing.space(space)?;
            let shown = found.map(|read_only| Space { shows: true, ..Space::empty(read_only) });
            self.spaces.insert(space, shown);
        }
        let absent = self.refuse(format_args!("space {} is absent", space.0));
        self.spaces.get_mut(&space).and_then(Option::as_mut).ok_or(absent)
    }

    fn writable(&mut self, space: SpaceId) -> Result<()> {
        if self.space(space)?.read_only {
            return Err(self.refuse(format_args!("space {} is a snapshot", space.0)));
        }
        Ok(())
    }

    fn must_be_new(&mut self, space: SpaceId) -> Result<()> {
        match self.space(space) {
            Ok(_) => Err(self.refuse(format_args!("space {} exists", space.0))),
            Err(error) if error.refusal().is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What a key is; its space must be there.
    fn slot(&mut self, at: &Place) -> Result<Slot<B::Piece>> {
        let space = self.space(at.space)?;
        if let Some(slot) = space.slots.get(&at.key) {
            return Ok(slot.clone());
        }
        if !space.shows || space.is_cleared(&at.key) || !self.backing.has(at.space, &at.key)? {
            return Ok(Slot::Absent);
        }
        Ok(Slot::Kept(at.clone()))
    }

    /// Whether a key is there as the batch has it so far.
    pub(crate) fn has(&mut self, at: &Place) -> Result<bool> {
        Ok(!matches!(self.slot(at)?, Slot::Absent))
    }

    /// A key that must be there.
    fn source(&mut self, at: &Place) -> Result<Slot<B::Piece>> {
        match self.slot(at)? {
            Slot::Absent => Err(self.refuse("the source is absent")),
            slot => Ok(slot),
        }
    }

    fn loaded(&self, slot: Slot<B::Piece>) -> Result<Option<Arc<Sparse<B::Piece>>>> {
        Ok(match slot {
            Slot::Absent => None,
            Slot::Value(value) => Some(value),
            Slot::Kept(place) | Slot::Moved(place) => self.backing.load(place.space, &place.key)?.map(Arc::new),
        })
    }

    /// The value of a key that must be there.
    fn source_value(&mut self, at: &Place) -> Result<Arc<Sparse<B::Piece>>> {
        let slot = self.source(at)?;
        self.loaded(slot)?.ok_or_else(|| Error::damaged("a key is there, and its value is not"))
    }

    fn put_slot(&mut self, at: &Place, slot: Slot<B::Piece>) {
        if let Some(Some(space)) = self.spaces.get_mut(&at.space) {
            space.slots.insert(at.key.clone(), slot);
        }
    }

    fn set(&mut self, at: &Place, slot: Slot<B::Piece>) -> Result<Effect> {
        self.writable(at.space)?;
        self.put_slot(at, slot);
        Ok(Effect::Set(at.clone()))
    }

    /// Changes a value that is empty where the key is absent.
    fn change(
        &mut self,
        at: &Place,
        how: impl FnOnce(&mut Sparse<B::Piece>, &Sparse<B::Piece>) -> Result<()>,
        data: Option<&Payload>,
    ) -> Result<Effect> {
        let mut value = self.value(at)?.unwrap_or_default();
        let data = data.map(|data| self.backing.payload(data)).transpose()?.unwrap_or_default();
        how(Arc::make_mut(&mut value), &data)?;
        self.set(at, Slot::Value(value))
    }

    fn clear(&mut self, space: SpaceId, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        if let Some(Some(space)) = self.spaces.get_mut(&space) {
            space.slots.retain(|key, _| !range.contains(key));
            space.cleared.push(range.clone());
        }
    }

    fn rename_prefix(&mut self, space: SpaceId, from: &Bytes, to: &Bytes) -> Result<Effect> {
        self.writable(space)?;
        let found = self.keys(space, &KeyRange::prefix(from.clone()))?;
        let mut moved = Vec::with_capacity(found.len());
        for key in found {
            let renamed = Bytes::from([to.as_ref(), key.get(from.len()..).unwrap_or_default()].concat());
            if renamed.len() > self.key_len_max {
                let most = self.key_len_max;
                return Err(self.refuse(format_args!("a renamed key would be longer than {most} bytes")));
            }
            let slot = self.slot(&Place { space, key: key.clone() })?;
            moved.push((key, renamed, slot));
        }
        if moved.is_empty() {
            return Ok(Effect::Nothing);
        }
        self.clear(space, &KeyRange::prefix(from.clone()));
        let mut keys = Vec::with_capacity(moved.len());
        for (key, renamed, slot) in moved {
            self.put_slot(&Place { space, key: renamed.clone() }, slot.moved());
            keys.push((key, renamed));
        }
        Ok(Effect::MovedPrefix { space, from: from.clone(), to: to.clone(), keys })
    }

    fn clone_range(
        &mut self,
        (from, from_offset): (&Place, u64),
        length: u64,
        (to, to_offset): (&Place, u64),
    ) -> Result<Effect> {
        let source = self.source_value(from)?;
        let length = if length == u64::MAX { source.length().saturating_sub(from_offset) } else { length };
        if from_offset.checked_add(length).is_none_or(|end| end > source.length()) {
            return Err(self.refuse(format_args!("the source is shorter than the range: {} bytes", source.length())));
        }
        if to_offset.checked_add(length).is_none_or(|end| end > VALUE_LEN_MAX) {
            return Err(self.too_long());
        }
        if from == to && from_offset < to_offset + length && to_offset < from_offset + length {
            return Err(self.refuse("the ranges of one key overlap"));
        }
        let mut value = self.value(to)?.unwrap_or_default();
        Arc::make_mut(&mut value).write_value(to_offset, &source.slice(from_offset, length));
        self.set(to, Slot::Value(value))
    }

    fn concatenate(&mut self, sources: &[Place], target: &Place, fate: Sources) -> Result<Effect> {
        let mut joined = Sparse::default();
        for source in sources {
            let part = self.source_value(source)?;
            if part.length() > VALUE_LEN_MAX - joined.length() {
                return Err(self.too_long());
            }
            joined.write_value(joined.length(), &part);
        }
        let mut removed = Vec::new();
        if fate == Sources::Delete {
            for source in sources {
                self.writable(source.space)?;
                self.put_slot(source, Slot::Absent);
                removed.push(source.clone());
            }
        }
        self.set(target, Slot::Value(Arc::new(joined)))?;
        Ok(Effect::Joined { removed, target: target.clone() })
    }

    fn add(&mut self, at: &Place, delta: i64) -> Result<Effect> {
        let before = match self.value(at)? {
            None => 0,
            Some(value) if value.length() == 8 => {
                let mut number = [0; 8];
                self.backing.read(&value, &mut number)?;
                i64::from_le_bytes(number)
            }
            Some(_) => return Err(self.refuse("a counter is a value of 8 bytes")),
        };
        let Some(after) = before.checked_add(delta) else {
            return Err(self.refuse(format_args!("{before} + {delta} overflows the counter")));
        };
        let bytes = Payload::Bytes(Bytes::copy_from_slice(&after.to_le_bytes()));
        let value = self.backing.payload(&bytes)?;
        self.set(at, Slot::Value(Arc::new(value)))
    }

    fn create_space(&mut self, space: SpaceId) -> Result<Effect> {
        self.must_be_new(space)?;
        self.spaces.insert(space, Some(Space::empty(false)));
        Ok(Effect::Created(space))
    }

    fn drop_space(&mut self, space: SpaceId) -> Result<Effect> {
        self.space(space)?;
        self.spaces.insert(space, None);
        Ok(Effect::Dropped(space))
    }

    fn copy_space(&mut self, from: SpaceId, to: SpaceId, read_only: bool) -> Result<Effect> {
        self.space(from)?;
        self.must_be_new(to)?;
        let keys = self.keys(from, &KeyRange::all())?;
        let mut copy = Space::empty(read_only);
        for key in &keys {
            let slot = self.slot(&Place { space: from, key: key.clone() })?;
            copy.slots.insert(key.clone(), slot);
        }
        self.spaces.insert(to, Some(copy));
        Ok(Effect::Copied { from, to, read_only, keys })
    }
}

impl<P> Space<P> {
    fn empty(read_only: bool) -> Self {
        Space { read_only, shows: false, slots: BTreeMap::new(), cleared: Vec::new() }
    }

    fn is_cleared(&self, key: &[u8]) -> bool {
        self.cleared.iter().any(|range| range.contains(key))
    }
}
