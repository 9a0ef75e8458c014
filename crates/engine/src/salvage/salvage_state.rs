//! The spaces as the stored trees say, and what the log changes of them: kept beside the trees, because a tree
//! with holes cannot be changed without guessing.
//!
//! Invariants:
//! - What a record of the log sets is known, whatever was damaged under it. What it takes from something unknown
//!   is unknown.
//! - The trees are only read.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::recovered::{Parts, RecoveredValue, fill_lost, pieces_of};
use crate::batch::{KeyRange, Operation, Payload, Place, Sources, SpaceId, after_prefix};
use crate::content::{Reading, as_record, record_key, record_range, user_key};
use crate::error::{Error, ErrorKind, Result};
use crate::extent::Extent;
use crate::log::record::{Outcome, Record, Step};
use crate::staged::Staged;
use crate::state::{FROZEN, STAGES};
use crate::tree::value::{BlobId, Piece, Value};
use crate::tree::{Gap, ScanVisitor, Tree};

/// What is known of a key.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// It is not there.
    Absent,
    /// It is there.
    Value(RecoveredValue),
    /// Whether it is there, and with what, cannot be told.
    Unknown,
}

/// What became of the untouched keys of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// They were deleted.
    Gone,
    /// What they are now cannot be told.
    Unknown,
}

/// A space.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    /// What the stored tree says.
    pub base: Tree,
    /// What happened to ranges of it since, in order.
    pub layers: Vec<(KeyRange, Layer)>,
    /// What the log says of single keys; it counts before all else.
    pub touched: BTreeMap<Bytes, Known>,
}

impl Space {
    /// What covers a key that the log does not name.
    pub fn layer(&self, key: &[u8]) -> Option<Layer> {
        self.layers.iter().rev().find(|(range, _)| range.contains(key)).map(|(_, layer)| *layer)
    }

    /// A space of which nothing is known.
    fn unknown() -> Space {
        Space { layers: vec![(KeyRange::all(), Layer::Unknown)], ..Space::default() }
    }
}

/// All spaces.
pub(super) struct SalvageState<'a> {
    pub reading: Reading<'a>,
    pub spaces: BTreeMap<SpaceId, Space>,
    /// Spaces that an unreadable part of the master tree may have named.
    pub spaces_lost: Vec<(SpaceId, Option<SpaceId>)>,
    /// Spaces that the log dropped although nothing else is known of them.
    dropped: BTreeSet<SpaceId>,
    /// What slabs have named of stages.
    stages: BTreeMap<u64, Parts>,
    /// The tree of stages, where there is one.
    stages_base: Tree,
    /// The tree of frozen blobs, where there is one.
    pub frozen: Tree,
}

fn not_there(what: &str) -> Error {
    Error::damaged(format!("the log names {what} that is not there"))
}

impl<'a> SalvageState<'a> {
    pub fn new(reading: Reading<'a>) -> SalvageState<'a> {
        SalvageState {
            reading,
            spaces: BTreeMap::new(),
            spaces_lost: Vec::new(),
            dropped: BTreeSet::new(),
            stages: BTreeMap::new(),
            stages_base: Tree::new(),
            frozen: Tree::new(),
        }
    }

    /// Adds a space as it is stored.
    pub fn add(&mut self, space: SpaceId, base: Tree) {
        if space == STAGES {
            self.stages_base = base;
        } else if space == FROZEN {
            self.frozen = base;
        } else if space >= SpaceId::FIRST {
            self.spaces.insert(space, Space { base, ..Space::default() });
        }
    }

    fn space(&mut self, space: SpaceId) -> Result<&mut Space> {
        if !self.spaces.contains_key(&space) {
            let hidden = |(from, end): &(SpaceId, Option<SpaceId>)| *from <= space && end.is_none_or(|end| space < end);
            if self.dropped.contains(&space) || !self.spaces_lost.iter().any(hidden) {
                return Err(not_there(&format!("space {}", space.0)));
            }
            self.spaces.insert(space, Space::unknown());
        }
        self.spaces.get_mut(&space).ok_or_else(|| not_there("a space"))
    }

    fn set(&mut self, at: &Place, known: Known) -> Result<()> {
        self.space(at.space)?.touched.insert(at.key.clone(), known);
        Ok(())
    }

    /// What is known of a key.
    fn get(&mut self, at: &Place) -> Result<Known> {
        let (reading, frozen) = (self.reading, self.frozen.clone());
        let space = self.space(at.space)?;
        if let Some(known) = space.touched.get(&at.key) {
            return Ok(known.clone());
        }
        match space.layer(&at.key) {
            Some(Layer::Gone) => return Ok(Known::Absent),
            Some(Layer::Unknown) => return Ok(Known::Unknown),
            None => {}
        }
        match space.base.get(reading.source, &record_key(&at.key)).map(|found| found.map(as_record)) {
            Ok(None) => Ok(Known::Absent),
            Ok(Some(Ok(record))) => {
                Ok(Known::Value(RecoveredValue::of_record(&record, &space.base, &frozen, reading.source)?))
            }
            Ok(Some(Err(error))) | Err(error) => unreadable(error).map(|()| Known::Unknown),
        }
    }

    /// Applies a commit of the log.
    pub fn apply(&mut self, record: &Record) -> Result<()> {
        let Outcome::Applied(steps) = &record.outcome else { return Ok(()) };
        steps.iter().try_for_each(|step| match step {
            Step::Operation(operation) => self.operation(operation),
            Step::StageSlab { stage, offset, extents } => {
                self.slab(*stage, *offset, extents);
                Ok(())
            }
            // Nothing that a reader sees has changed; where the old pieces are gone the new ones are what there is.
            Step::Relocate { at, offset, data } => self.relocate(at, *offset, data),
            // What was dropped is gone already.
            Step::Reclaim { .. } => Ok(()),
            Step::StageDrop { stage } => {
                self.stages.insert(*stage, Parts::new());
                Ok(())
            }
        })
    }

    fn relocate(&mut self, at: &Place, offset: u64, data: &Payload) -> Result<()> {
        let data = self.payload(data)?;
        self.change(at, |recovered| recovered.write_at(offset, &data))
    }

    fn slab(&mut self, stage: u64, offset: u64, extents: &[Extent]) {
        let mut parts = self.stage(stage);
        add_extents(&mut parts, offset, extents);
        self.stages.insert(stage, parts);
    }

    fn stage(&self, stage: u64) -> Parts {
        match self.stages.get(&stage) {
            Some(parts) => parts.clone(),
            None => pieces_of(BlobId(stage), &self.stages_base, self.reading.source).unwrap_or_default(),
        }
    }

    /// The bytes that a commit brought.
    fn payload(&self, payload: &Payload) -> Result<RecoveredValue> {
        match payload {
            Payload::Bytes(bytes) => Ok(RecoveredValue::of_bytes(bytes)),
            Payload::Stage(token) => {
                let staged = token.content_ref::<Staged>().ok_or_else(|| not_there("a stage"))?;
                let mut parts = if staged.spilled() > 0 { self.stage(staged.id()) } else { Parts::new() };
                // Stages have no holes: what no slab tells of is lost.
                fill_lost(&mut parts, 0, staged.spilled());
                add_extents(&mut parts, staged.spilled(), staged.extents());
                Ok(RecoveredValue { size: token.length(), parts })
            }
        }
    }

    /// Changes a value; an unknown one stays unknown.
    fn change(&mut self, at: &Place, act: impl FnOnce(&mut RecoveredValue)) -> Result<()> {
        if let Some(Known::Value(recovered)) = self.space(at.space)?.touched.get_mut(&at.key) {
            act(recovered);
            return Ok(());
        }
        let mut recovered = match self.get(at)? {
            Known::Unknown => return self.set(at, Known::Unknown),
            Known::Absent => RecoveredValue::default(),
            Known::Value(recovered) => recovered,
        };
        act(&mut recovered);
        self.set(at, Known::Value(recovered))
    }

    fn operation(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Put { at, value } => {
                let value = self.payload(value)?;
                self.set(at, Known::Value(value))
            }
            Operation::WriteAt { at, offset, data } => {
                let data = self.payload(data)?;
                self.change(at, |recovered| recovered.write_at(*offset, &data))
            }
            Operation::Append { at, data } => {
                let data = self.payload(data)?;
                self.change(at, |recovered| recovered.write_at(recovered.size, &data))
            }
            Operation::Truncate { at, length } => match self.get(at)? {
                // Its length is known now, its bytes are not.
                Known::Unknown => self.set(at, Known::Value(RecoveredValue::lost(*length))),
                _ => self.change(at, |recovered| recovered.truncate(*length)),
            },
            Operation::Delete { at } => self.set(at, Known::Absent),
            Operation::DeleteRange { space, range } => self.delete_range(*space, range),
            Operation::Rename { from, to } => {
                let known = self.get(from)?;
                self.set(from, Known::Absent)?;
                self.set(to, present(known)?)
            }
            Operation::RenamePrefix { space, from, to } => self.rename_prefix(*space, from, to),
            Operation::CloneRange { from, from_offset, length, to, to_offset } => {
                self.clone_range((from, *from_offset, *length), (to, *to_offset))
            }
            Operation::Concatenate { sources, target, fate } => self.concatenate(sources, target, *fate),
            Operation::AddCounter { at, delta } => self.add_counter(at, *delta),
            Operation::CreateSpace { space } => {
                self.dropped.remove(space);
                self.spaces.insert(*space, Space::default());
                Ok(())
            }
            Operation::CloneSpace { from, to } | Operation::SnapshotSpace { from, to } => {
                let copy = self.space(*from)?.clone();
                self.spaces.insert(*to, copy);
                Ok(())
            }
            Operation::DropSpace { space } => {
                self.spaces.remove(space);
                self.dropped.insert(*space);
                Ok(())
            }
        }
    }

    fn delete_range(&mut self, space: SpaceId, range: &KeyRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let space = self.space(space)?;
        space.touched.retain(|key, _| !range.contains(key));
        space.layers.push((range.clone(), Layer::Gone));
        Ok(())
    }

    fn clone_range(&mut self, from: (&Place, u64, u64), to: (&Place, u64)) -> Result<()> {
        let (from, start, length) = from;
        let part = match present(self.get(from)?)? {
            Known::Value(source) => {
                let length = if length == u64::MAX { source.size.saturating_sub(start) } else { length };
                Some(source.range(start, start.saturating_add(length)))
            }
            // So much is known of the source: it was long enough.
            _ if length != u64::MAX => Some(RecoveredValue::lost(length)),
            _ => None,
        };
        match part {
            Some(part) => self.change(to.0, |recovered| recovered.write_at(to.1, &part)),
            None => self.set(to.0, Known::Unknown),
        }
    }

    fn concatenate(&mut self, sources: &[Place], target: &Place, fate: Sources) -> Result<()> {
        let mut whole = Some(RecoveredValue::default());
        for source in sources {
            match (present(self.get(source)?)?, &mut whole) {
                (Known::Value(value), Some(whole)) => whole.write_at(whole.size, &value),
                // Where the bytes behind it begin is not known.
                _ => whole = None,
            }
            if fate == Sources::Delete {
                self.set(source, Known::Absent)?;
            }
        }
        self.set(target, whole.map_or(Known::Unknown, Known::Value))
    }

    fn add_counter(&mut self, at: &Place, delta: i64) -> Result<()> {
        let before = match self.get(at)? {
            Known::Absent => Some(0),
            Known::Value(recovered) => recovered.number(&self.reading),
            Known::Unknown => None,
        };
        let after = before.and_then(|before| before.checked_add(delta));
        let value = match after {
            Some(after) => RecoveredValue::of_bytes(&Bytes::copy_from_slice(&after.to_le_bytes())),
            None => RecoveredValue::lost(8),
        };
        self.set(at, Known::Value(value))
    }

    fn rename_prefix(&mut self, id: SpaceId, from: &Bytes, to: &Bytes) -> Result<()> {
        let range = KeyRange { start: from.clone(), end: after_prefix(from) };
        let target = KeyRange { start: to.clone(), end: after_prefix(to) };
        let reading = self.reading;
        let space = self.space(id)?;
        let mut keys = Keys { keys: Vec::new(), gaps: false };
        let stored = record_range(&range);
        space.base.scan(reading.source, &stored.start, stored.end.as_deref(), &mut keys)?;
        let unknown = space.layers.iter().any(|(other, layer)| *layer == Layer::Unknown && other.overlaps(&range));
        let Keys { keys, gaps } = keys;
        let touched: Vec<Bytes> = space.touched.keys().filter(|key| range.contains(key)).cloned().collect();
        let all: BTreeSet<Bytes> = keys.into_iter().chain(touched).collect();
        let mut moved = Vec::new();
        for key in all {
            let known = self.get(&Place { space: id, key: key.clone() })?;
            let mut name = to.to_vec();
            name.extend_from_slice(key.get(from.len()..).unwrap_or_default());
            moved.push((Bytes::from(name), known));
        }
        let space = self.space(id)?;
        space.touched.retain(|key, _| !range.contains(key));
        space.layers.push((range, Layer::Gone));
        if gaps || unknown {
            // Keys that nobody can read have come here, perhaps over what was known.
            space.touched.retain(|key, _| !target.contains(key));
            space.layers.push((target, Layer::Unknown));
        }
        for (key, known) in moved {
            match known {
                Known::Absent => {}
                known => {
                    space.touched.insert(key, known);
                }
            }
        }
        Ok(())
    }
}

fn add_extents(parts: &mut Parts, offset: u64, extents: &[Extent]) {
    let mut recovered = RecoveredValue { size: u64::MAX, parts: std::mem::take(parts) };
    let mut at = offset;
    for extent in extents {
        let piece = Piece::Disk(extent.clone());
        at += recovered.put_piece(at, piece);
    }
    *parts = recovered.parts;
}

/// A source that a commit of the log has used must have been there.
fn present(known: Known) -> Result<Known> {
    match known {
        Known::Absent => Err(not_there("a source")),
        known => Ok(known),
    }
}

/// What the device cannot give or gives wrongly is unknown; other errors are the caller's.
pub(super) fn unreadable(error: Error) -> Result<()> {
    match error.kind() {
        ErrorKind::Damaged | ErrorKind::Device => Ok(()),
        _ => Err(error),
    }
}

/// Gathers the keys of records.
struct Keys {
    keys: Vec<Bytes>,
    gaps: bool,
}

impl ScanVisitor for Keys {
    fn entry(&mut self, key: &Bytes, _: &Value) -> Result<bool> {
        self.keys.push(user_key(key));
        Ok(true)
    }

    fn gap(&mut self, _: Gap) -> Result<bool> {
        self.gaps = true;
        Ok(true)
    }
}
