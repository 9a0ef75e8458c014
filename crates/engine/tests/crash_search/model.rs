//! What the engine should hold: maps in memory, and the same batches applied to them.
//!
//! Written from the documentation of the batches alone, so that an error has to be made twice to stay hidden.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use koine_engine::{Batch, Condition, KeyRange, Operation, Payload, Place, Sources, SpaceId};

/// A value and the commit that last changed it.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    pub data: Bytes,
    /// `None` where a commit's number never became known: any number fits.
    pub version: Option<u64>,
}

pub type Space = BTreeMap<Bytes, Value>;

/// Everything in a store; and which spaces are snapshots, as far as is known.
#[derive(Clone, Default)]
pub struct Content(pub BTreeMap<SpaceId, Space>, pub BTreeSet<SpaceId>);

/// Why a batch has no effect.
#[derive(Debug, PartialEq, Eq)]
pub enum No {
    /// Refused; where by a condition that may be refused falsely, that is not modelled.
    Refused(String),
}

type Answer<T = ()> = Result<T, No>;

fn no<T>(why: impl Into<String>) -> Answer<T> {
    Err(No::Refused(why.into()))
}

impl Content {
    pub fn get(&self, space: SpaceId, key: &[u8]) -> Option<&Value> {
        self.0.get(&space)?.get(key)
    }

    /// All bytes of all values.
    pub fn live_bytes(&self) -> usize {
        self.0.values().flat_map(|space| space.values()).map(|value| value.data.len()).sum()
    }

    /// Whether `found`, which was read from a store, is this.
    pub fn fits(&self, found: &Content) -> bool {
        self.difference(found).is_none()
    }

    /// The first thing in which `found` is not this.
    pub fn difference(&self, found: &Content) -> Option<String> {
        if !self.0.keys().eq(found.0.keys()) {
            return Some(format!("spaces {:?}, found {:?}", self.0.keys(), found.0.keys()));
        }
        for (space, keys) in &self.0 {
            let other = &found.0[space];
            for (key, value) in keys {
                let Some(there) = other.get(key) else { return Some(format!("{} is missing", name(*space, key))) };
                if value.version.is_some() && value.version != there.version {
                    let versions = (value.version, there.version);
                    return Some(format!("{} should have version {versions:?}(found)", name(*space, key)));
                }
                if value.data != there.data {
                    return Some(format!("{}: {}", name(*space, key), bytes_differ(&value.data, &there.data)));
                }
            }
            if let Some(key) = other.keys().find(|key| !keys.contains_key(*key)) {
                return Some(format!("{} should not be there", name(*space, key)));
            }
        }
        None
    }

    /// The state after `batch`, or why there is none.
    pub fn after(&self, batch: &Batch, version: Option<u64>) -> Answer<Content> {
        for condition in &batch.conditions {
            self.must_hold(condition)?;
        }
        let mut next = self.clone();
        for operation in &batch.operations {
            next.apply(operation, version)?;
        }
        Ok(next)
    }

    fn must_hold(&self, condition: &Condition) -> Answer {
        let holds = match condition {
            Condition::Absent { space, key } => self.get(*space, key).is_none(),
            Condition::Present { space, key } => self.get(*space, key).is_some(),
            Condition::VersionIs { space, key, version } => {
                self.get(*space, key).is_some_and(|value| value.version == Some(version.0))
            }
            Condition::RangeEmpty { space, range } => {
                self.0.get(space).is_none_or(|keys| !keys.keys().any(|key| range.contains(key)))
            }
            // Made only with the newest version, by callers that know that nothing is pending.
            Condition::RangeUnchanged { .. } => true,
        };
        if holds { Ok(()) } else { no(format!("{condition:?}")) }
    }

    fn space(&mut self, space: SpaceId) -> Answer<&mut Space> {
        self.0.get_mut(&space).map_or_else(|| no(format!("no space {}", space.0)), Ok)
    }

    /// A space that may be changed.
    fn open(&mut self, space: SpaceId) -> Answer<&mut Space> {
        if self.1.contains(&space) { no(format!("{} is a snapshot", space.0)) } else { self.space(space) }
    }

    fn source(&mut self, at: &Place) -> Answer<Bytes> {
        let value = self.space(at.space)?.get(&at.key);
        value.map_or_else(|| no(format!("no {}", name(at.space, &at.key))), |value| Ok(value.data.clone()))
    }

    fn change(&mut self, at: &Place, version: Option<u64>, edit: impl FnOnce(&mut Vec<u8>)) -> Answer {
        let space = self.open(at.space)?;
        let mut data = space.get(&at.key).map(|value| value.data.to_vec()).unwrap_or_default();
        edit(&mut data);
        space.insert(at.key.clone(), Value { data: data.into(), version });
        Ok(())
    }

    fn apply(&mut self, operation: &Operation, version: Option<u64>) -> Answer {
        match operation {
            Operation::Put { at, value } => self.change(at, version, |data| *data = payload(value).to_vec()),
            Operation::WriteAt { at, offset, data: new } => {
                let new = payload(new);
                self.change(at, version, |data| write(data, *offset as usize, &new))
            }
            Operation::Append { at, data: new } => {
                self.change(at, version, |data| data.extend_from_slice(&payload(new)))
            }
            Operation::Truncate { at, length } => self.change(at, version, |data| data.resize(*length as usize, 0)),
            Operation::Delete { at } => {
                self.open(at.space)?.remove(&at.key);
                Ok(())
            }
            Operation::DeleteRange { space, range } => {
                self.open(*space)?.retain(|key, _| !inside(range, key));
                Ok(())
            }
            Operation::Rename { from, to } => {
                let data = self.source(from)?;
                self.open(from.space)?.remove(&from.key);
                self.change(to, version, |old| *old = data.to_vec())
            }
            Operation::CloneRange { from, from_offset, length, to, to_offset } => {
                self.clone_range((from, *from_offset), *length, (to, *to_offset), version)
            }
            Operation::Concatenate { sources, target, fate } => self.concatenate(sources, target, *fate, version),
            Operation::AddCounter { at, delta } => {
                let before = match self.space(at.space)?.get(&at.key).map(|value| <[u8; 8]>::try_from(&value.data[..]))
                {
                    None => 0,
                    Some(Ok(bytes)) => i64::from_le_bytes(bytes),
                    Some(Err(_)) => return no("not a counter"),
                };
                let Some(sum) = before.checked_add(*delta) else { return no("overflow") };
                self.change(at, version, |data| *data = sum.to_le_bytes().to_vec())
            }
            Operation::CreateSpace { space } => {
                if self.0.contains_key(space) {
                    return no("the space exists");
                }
                self.0.insert(*space, Space::new());
                Ok(())
            }
            Operation::DropSpace { space } => {
                self.1.remove(space);
                if self.0.remove(space).is_some() { Ok(()) } else { no("no such space") }
            }
            Operation::RenamePrefix { space, from, to } => self.rename_prefix(*space, from, to, version),
            Operation::CloneSpace { from, to } => self.copy_space(*from, *to),
            Operation::SnapshotSpace { from, to } => {
                self.copy_space(*from, *to)?;
                self.1.insert(*to);
                Ok(())
            }
        }
    }

    fn rename_prefix(&mut self, space: SpaceId, from: &[u8], to: &[u8], version: Option<u64>) -> Answer {
        let keys = self.open(space)?;
        let (moved, mut rest): (Space, Space) =
            std::mem::take(keys).into_iter().partition(|(key, _)| key.starts_with(from));
        for (key, value) in moved {
            let renamed = [to, &key[from.len()..]].concat();
            if renamed.len() > 2048 {
                return no("a key would be too long");
            }
            rest.insert(renamed.into(), Value { version, ..value });
        }
        *self.space(space)? = rest;
        Ok(())
    }

    fn copy_space(&mut self, from: SpaceId, to: SpaceId) -> Answer {
        let keys = self.space(from)?.clone();
        if self.0.contains_key(&to) {
            return no("the space exists");
        }
        self.0.insert(to, keys);
        Ok(())
    }

    fn clone_range(
        &mut self,
        (from, from_offset): (&Place, u64),
        length: u64,
        (to, to_offset): (&Place, u64),
        version: Option<u64>,
    ) -> Answer {
        let data = self.source(from)?;
        let length = if length == u64::MAX { (data.len() as u64).saturating_sub(from_offset) } else { length };
        let Some(part) = data.get(from_offset as usize..(from_offset + length) as usize) else {
            return no("the source is shorter than the range");
        };
        if from == to && from_offset < to_offset + length && to_offset < from_offset + length {
            return no("the ranges overlap");
        }
        self.change(to, version, |old| write(old, to_offset as usize, part))
    }

    fn concatenate(&mut self, sources: &[Place], target: &Place, fate: Sources, version: Option<u64>) -> Answer {
        let mut joined = Vec::new();
        for source in sources {
            joined.extend_from_slice(&self.source(source)?);
        }
        if fate == Sources::Delete {
            for source in sources {
                self.open(source.space)?.remove(&source.key);
            }
        }
        self.change(target, version, |data| *data = joined)
    }
}

fn inside(range: &KeyRange, key: &[u8]) -> bool {
    key >= range.start.as_ref() && range.end.as_ref().is_none_or(|end| key < end.as_ref())
}

fn payload(payload: &Payload) -> Bytes {
    match payload {
        Payload::Bytes(bytes) => bytes.clone(),
        Payload::Stage(_) => panic!("the model gets its bytes from the batch before staging"),
    }
}

fn write(data: &mut Vec<u8>, offset: usize, new: &[u8]) {
    if new.is_empty() {
        return;
    }
    if data.len() < offset + new.len() {
        data.resize(offset + new.len(), 0);
    }
    data[offset..offset + new.len()].copy_from_slice(new);
}

fn name(space: SpaceId, key: &[u8]) -> String {
    format!("{}/{} ", space.0, key.escape_ascii())
}

fn bytes_differ(wanted: &[u8], found: &[u8]) -> String {
    if wanted.len() != found.len() {
        return format!("{} bytes, found {}", wanted.len(), found.len());
    }
    let count = wanted.iter().zip(found).filter(|(a, b)| a != b).count();
    let at = wanted.iter().zip(found).position(|(a, b)| a != b).unwrap_or_default();
    format!("{count} of {} bytes differ, first at {at}", wanted.len())
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: usize = self.0.values().map(|space| space.len()).sum();
        write!(f, "{} spaces, {keys} keys, {} bytes", self.0.len(), self.live_bytes())
    }
}
