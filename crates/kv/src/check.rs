//! Whether a batch has a form that a back end takes; nothing here looks at stored state.
//!
//! Invariants:
//! - Every fault found here is `Invalid`: the same batch would fail for ever.
//! - No outcome is remembered for a batch that fails here.

use std::collections::HashSet;

use koine_engine::batch::VALUE_LEN_MAX;
use koine_engine::{Batch, Condition, Error, KeyRange, Operation, Payload, Place, Result, Sources, SpaceId};

use crate::seam::Profile;

/// Checks keys, spaces, lengths and counts against the limits of `profile`.
pub fn check_batch(profile: &Profile, batch: &Batch) -> Result<()> {
    let most = profile.batch_operations_max;
    if batch.operations.len() > most {
        let message = format!("a batch of {} operations; at most {most} are taken: split it", batch.operations.len());
        return Err(Error::invalid(message));
    }
    if batch.conditions.len() > most {
        let message = format!("a batch of {} conditions; at most {most} are taken: split it", batch.conditions.len());
        return Err(Error::invalid(message));
    }
    let mut form = Form { profile, bytes: 0 };
    batch.conditions.iter().try_for_each(|condition| form.condition(condition))?;
    batch.operations.iter().try_for_each(|operation| form.operation(operation))?;
    if form.bytes > profile.batch_bytes_max as u64 {
        let message = format!(
            "a batch of {} inline bytes; at most {} are taken: stage large values, or split it",
            form.bytes, profile.batch_bytes_max
        );
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Checks parts of a batch and counts its inline bytes.
struct Form<'a> {
    profile: &'a Profile,
    bytes: u64,
}

impl Form<'_> {
    fn condition(&mut self, condition: &Condition) -> Result<()> {
        match condition {
            Condition::Absent { space, key }
            | Condition::Present { space, key }
            | Condition::VersionIs { space, key, .. } => self.key(*space, key),
            Condition::RangeEmpty { space, range } | Condition::RangeUnchanged { space, range, .. } => {
                self.range(*space, range)
            }
        }
    }

    fn operation(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Put { at, value } => {
                self.place(at)?;
                self.payload(value);
                length(0, value.len())
            }
            Operation::WriteAt { at, offset, data } => {
                self.place(at)?;
                self.payload(data);
                length(*offset, data.len())
            }
            Operation::Append { at, data } => {
                self.place(at)?;
                self.payload(data);
                length(0, data.len())
            }
            Operation::Truncate { at, length: to } => {
                self.place(at)?;
                length(0, *to)
            }
            Operation::Delete { at } | Operation::AddCounter { at, .. } => self.place(at),
            Operation::DeleteRange { space, range } => self.range(*space, range),
            Operation::Rename { from, to } | Operation::CloneRange { from, to, .. } => {
                self.place(from)?;
                self.place(to)
            }
            Operation::RenamePrefix { space, from, to } => {
                self.key(*space, from)?;
                self.key(*space, to)
            }
            Operation::Concatenate { sources, target, fate } => self.concatenate(sources, target, *fate),
            Operation::CreateSpace { space } | Operation::DropSpace { space } => space_id(*space),
            Operation::CloneSpace { from, to } | Operation::SnapshotSpace { from, to } => {
                space_id(*from)?;
                space_id(*to)
            }
        }
    }

    fn concatenate(&mut self, sources: &[Place], target: &Place, fate: Sources) -> Result<()> {
        self.place(target)?;
        sources.iter().try_for_each(|source| self.place(source))?;
        if sources.contains(target) {
            return Err(Error::invalid("the target of a concatenation is one of its sources"));
        }
        let mut seen = HashSet::new();
        if fate == Sources::Delete && !sources.iter().all(|source| seen.insert(source)) {
            return Err(Error::invalid("a concatenation that deletes its sources names one twice"));
        }
        Ok(())
    }

    fn payload(&mut self, payload: &Payload) {
        if let Payload::Bytes(bytes) = payload {
            self.bytes += bytes.len() as u64;
        }
    }

    fn place(&mut self, place: &Place) -> Result<()> {
        self.key(place.space, &place.key)
    }

    fn key(&mut self, space: SpaceId, key: &[u8]) -> Result<()> {
        self.bounded(space, key, self.profile.key_len_max)
    }

    fn range(&mut self, space: SpaceId, range: &KeyRange) -> Result<()> {
        // One byte more than a key: the end of a range may be the key right after the longest.
        let most = self.profile.key_len_max + 1;
        self.bounded(space, &range.start, most)?;
        range.end.as_ref().map_or(Ok(()), |end| self.bounded(space, end, most))
    }

    fn bounded(&mut self, space: SpaceId, key: &[u8], most: usize) -> Result<()> {
        space_id(space)?;
        if key.len() > most {
            return Err(Error::invalid(format!("a key of {} bytes; at most {most} are taken", key.len())));
        }
        self.bytes += key.len() as u64;
        Ok(())
    }
}

fn space_id(space: SpaceId) -> Result<()> {
    if space < SpaceId::FIRST {
        let message = format!("space {} is reserved; the first free id is {}", space.0, SpaceId::FIRST.0);
        return Err(Error::invalid(message));
    }
    Ok(())
}

fn length(offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= VALUE_LEN_MAX => Ok(()),
        _ => Err(Error::invalid(format!("the value would be longer than {VALUE_LEN_MAX} bytes"))),
    }
}
