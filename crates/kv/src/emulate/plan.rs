//! From what operations do to what the store below is asked for, for stores of one space.
//!
//! Invariants:
//! - A value that several operations change is written once, when the batch ends or when the store below must move it.
//! - What the seam counts as a change is one below: a key that was set and then removed is put and deleted there.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use koine_engine::{Error, ErrorKind, KeyRange, Operation, Payload, Place, Result, SpaceId};

use super::SOLE;
use super::pending::{BackingStore, Effect, PendingState};
use crate::seam::{Direction, View};

/// How a wrapper writes values down.
pub(super) trait ValueWriter {
    type BackingStore: BackingStore;

    /// The key below.
    fn key(&self, key: &[u8]) -> Bytes;

    /// An operation is about to show what a key has in another place too.
    fn shares(&mut self, pending: &mut PendingState<Self::BackingStore>, source: &Place) -> Result<()>;

    /// Writes the value of a key as the pending state has it.
    fn put(
        &mut self,
        pending: &mut PendingState<Self::BackingStore>,
        key: &Bytes,
        out: &mut Vec<Operation>,
    ) -> Result<()>;

    /// What the store below has at a key goes: it is removed or replaced.
    fn gone(&mut self, key: &Bytes) -> Result<()>;

    /// As `gone`, for every key of a range.
    fn cleared(&mut self, range: &KeyRange) -> Result<()>;

    /// What the store below has moves, all at once, to keys where nothing is left.
    fn moved(&mut self, keys: &[(Bytes, Bytes)]) -> Result<()>;

    /// A value for a key that will be removed again.
    fn placeholder(&self) -> Bytes;

    /// Writes what has to be written once a batch.
    fn finish(&mut self, out: &mut Vec<Operation>) -> Result<()>;
}

/// The operations for the store below.
pub(super) fn plan<W: ValueWriter>(
    pending: PendingState<W::BackingStore>,
    writer: W,
    operations: &[Operation],
) -> Result<Vec<Operation>> {
    let mut plan = Plan { pending, writer, out: Vec::new(), dirty: Dirty::default() };
    for (index, operation) in (0u32..).zip(operations) {
        plan.prepare(operation)?;
        let effect = plan.pending.apply(index, operation)?;
        plan.follow(effect)?;
    }
    for key in plan.dirty.take_all() {
        plan.writer.put(&mut plan.pending, &key, &mut plan.out)?;
    }
    plan.writer.finish(&mut plan.out)?;
    Ok(plan.out)
}

/// That a store has but one space.
pub(crate) fn one_space() -> Error {
    let message = format!("this store has one space, {}; put `Spaces` over it to have more", SOLE.0);
    Error::new(ErrorKind::Unsupported, message)
}

/// A range of keys that all begin with the same bytes, below.
pub(crate) fn prefixed(prefix: &[u8], range: &KeyRange) -> KeyRange {
    let start = Bytes::from([prefix, range.start.as_ref()].concat());
    let end = match &range.end {
        Some(end) => Some(Bytes::from([prefix, end.as_ref()].concat())),
        None => koine_engine::batch::after_prefix(prefix),
    };
    KeyRange { start, end }
}

/// What of a range below is one of keys with this prefix, without it.
pub(super) fn unprefixed(prefix: &[u8], range: &KeyRange) -> KeyRange {
    let start = match range.start.strip_prefix(prefix) {
        Some(start) => range.start.slice_ref(start),
        None => Bytes::new(),
    };
    let end = range.end.as_ref().and_then(|end| Some(end.slice_ref(end.strip_prefix(prefix)?)));
    KeyRange { start, end }
}

/// Keys that are to be written, in the order in which they were first set.
#[derive(Default)]
struct Dirty {
    order: BTreeMap<u64, Bytes>,
    numbers: HashMap<Bytes, u64>,
    next: u64,
}

impl Dirty {
    fn add(&mut self, key: &Bytes) {
        if !self.numbers.contains_key(key) {
            self.numbers.insert(key.clone(), self.next);
            self.order.insert(self.next, key.clone());
            self.next += 1;
        }
    }

    fn remove(&mut self, key: &Bytes) -> bool {
        let number = self.numbers.remove(key);
        number.is_some_and(|number| self.order.remove(&number).is_some())
    }

    fn take_within(&mut self, range: &KeyRange) -> Vec<Bytes> {
        if let Some(key) = range.as_single() {
            let key = key.clone();
            return if self.remove(&key) { vec![key] } else { Vec::new() };
        }
        let within: Vec<Bytes> = self.order.values().filter(|key| range.contains(key)).cloned().collect();
        within.iter().for_each(|key| _ = self.remove(key));
        within
    }

    fn take_all(&mut self) -> Vec<Bytes> {
        self.numbers.clear();
        std::mem::take(&mut self.order).into_values().collect()
    }
}

struct Plan<W: ValueWriter> {
    pending: PendingState<W::BackingStore>,
    writer: W,
    out: Vec<Operation>,
    dirty: Dirty,
}

impl<W: ValueWriter> Plan<W> {
    /// What the store below will move must be there before.
    fn prepare(&mut self, operation: &Operation) -> Result<()> {
        let moving = match operation {
            Operation::Rename { from, .. } => KeyRange::single(from.key.clone()),
            Operation::RenamePrefix { from, .. } => KeyRange::prefix(from.clone()),
            Operation::CloneRange { from, .. } => return self.writer.shares(&mut self.pending, from),
            Operation::Concatenate { sources, .. } => {
                return sources.iter().try_for_each(|source| self.writer.shares(&mut self.pending, source));
            }
            _ => return Ok(()),
        };
        for key in self.dirty.take_within(&moving) {
            self.writer.put(&mut self.pending, &key, &mut self.out)?;
        }
        Ok(())
    }

    fn follow(&mut self, effect: Effect) -> Result<()> {
        match effect {
            Effect::Nothing => Ok(()),
            Effect::Set(at) => {
                self.dirty.add(&at.key);
                Ok(())
            }
            Effect::Removed(at) => self.remove(&at.key),
            Effect::Cleared(_, range) => {
                for key in self.dirty.take_within(&range) {
                    self.hold_place(&key)?;
                }
                self.writer.cleared(&range)?;
                self.out.push(Operation::DeleteRange { space: SOLE, range: self.range(&range) });
                Ok(())
            }
            Effect::Moved { from, to } => {
                if from != to {
                    self.dirty.remove(&to.key);
                    self.writer.gone(&to.key)?;
                    self.writer.moved(&[(from.key.clone(), to.key.clone())])?;
                }
                self.out.push(Operation::Rename { from: self.place(&from.key), to: self.place(&to.key) });
                Ok(())
            }
            Effect::MovedPrefix { from, to, keys, .. } => self.move_prefix(&from, &to, &keys),
            Effect::Joined { removed, target } => {
                removed.iter().try_for_each(|at| self.remove(&at.key))?;
                self.dirty.add(&target.key);
                Ok(())
            }
            Effect::Created(_) | Effect::Copied { .. } | Effect::Dropped(_) => Err(one_space()),
        }
    }

    fn place(&self, key: &[u8]) -> Place {
        Place::new(SOLE, self.writer.key(key))
    }

    fn range(&self, range: &KeyRange) -> KeyRange {
        prefixed(&self.writer.key(b""), range)
    }

    fn remove(&mut self, key: &Bytes) -> Result<()> {
        if self.dirty.remove(key) {
            self.hold_place(key)?;
        }
        self.writer.gone(key)?;
        self.out.push(Operation::Delete { at: self.place(key) });
        Ok(())
    }

    /// Puts something at a key that was set and is removed now, so that it counts as changed.
    fn hold_place(&mut self, key: &Bytes) -> Result<()> {
        self.writer.gone(key)?;
        let value = Payload::Bytes(self.writer.placeholder());
        self.out.push(Operation::Put { at: self.place(key), value });
        Ok(())
    }

    fn move_prefix(&mut self, from: &Bytes, to: &Bytes, keys: &[(Bytes, Bytes)]) -> Result<()> {
        for (_, renamed) in keys.iter().filter(|(_, renamed)| !renamed.starts_with(from)) {
            self.dirty.remove(renamed);
            self.writer.gone(renamed)?;
        }
        self.writer.moved(keys)?;
        let operation = Operation::RenamePrefix { space: SOLE, from: self.writer.key(from), to: self.writer.key(to) };
        self.out.push(operation);
        Ok(())
    }
}

/// All keys of a range, in order.
pub(crate) fn keys(view: &dyn View, space: SpaceId, range: &KeyRange) -> Result<Vec<Bytes>> {
    let mut cursor = view.cursor(space, range.clone(), Direction::Forward)?;
    let mut keys = Vec::new();
    while let Some(entry) = cursor.next()? {
        keys.push(entry.key);
    }
    Ok(keys)
}
