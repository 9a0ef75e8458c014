//! What each operation does to a pending batch, and when a condition holds.
//!
//! Invariants:
//! - An operation that fails may leave the batch half applied: the caller rolls it back as a whole.
//! - Every change of a key is told to the pending batch, so that watchers and `RangeUnchanged` learn of it.

use std::sync::Arc;

use bytes::Bytes;
use koine_engine::batch::VALUE_LEN_MAX;
use koine_engine::{Condition, Error, KeyRange, Operation, Payload, Place, Result, Sources, SpaceId};

use super::history::History;
use super::stage::Staged;
use super::state::{PendingBatch, Space, State};
use crate::sparse::Value;

/// Whether a condition holds against a state and the changes that led to it.
pub(super) fn holds(condition: &Condition, state: &State, history: &History) -> bool {
    match condition {
        Condition::Absent { space, key } => state.slot(*space, key).is_none(),
        Condition::Present { space, key } => state.slot(*space, key).is_some(),
        Condition::VersionIs { space, key, version } => {
            state.slot(*space, key).is_some_and(|slot| slot.version == *version)
        }
        Condition::RangeEmpty { space, range } => {
            range.is_empty()
                || state
                    .spaces
                    .get(space)
                    .is_none_or(|space| space.slots.range::<[u8], _>(range.bounds()).next().is_none())
        }
        Condition::RangeUnchanged { space, range, since } => history.unchanged(*space, range, *since),
    }
}

/// Applies one operation.
pub(super) fn apply(pending: &mut PendingBatch<'_>, operation: &Operation) -> Result<()> {
    match operation {
        Operation::Put { at, value } => pending.set(at, Arc::new(payload(value)?)),
        Operation::WriteAt { at, offset, data } => {
            let mut value = pending.value(at)?;
            value.write_value(*offset, &payload(data)?);
            pending.set(at, Arc::new(value))
        }
        Operation::Append { at, data } => {
            let mut value = pending.value(at)?;
            check_length(pending, value.length(), data.len())?;
            value.write_value(value.length(), &payload(data)?);
            pending.set(at, Arc::new(value))
        }
        Operation::Truncate { at, length } => {
            let mut value = pending.value(at)?;
            value.truncate(*length);
            pending.set(at, Arc::new(value))
        }
        Operation::Delete { at } => pending.remove(at),
        Operation::DeleteRange { space, range } => delete_range(pending, *space, range),
        Operation::Rename { from, to } => {
            let value = Arc::clone(&pending.source(from)?.value);
            pending.remove(from)?;
            pending.set(to, value)
        }
        Operation::RenamePrefix { space, from, to } => rename_prefix(pending, *space, from, to),
        Operation::CloneRange { from, from_offset, length, to, to_offset } => {
            clone_range(pending, (from, *from_offset), *length, (to, *to_offset))
        }
        Operation::Concatenate { sources, target, fate } => concatenate(pending, sources, target, *fate),
        Operation::AddCounter { at, delta } => add_counter(pending, at, *delta),
        Operation::CreateSpace { space } => {
            must_be_new(pending, *space)?;
            pending.set_space(*space, Some(Arc::default()));
            Ok(())
        }
        Operation::CloneSpace { from, to } => copy_space(pending, *from, *to, false),
        Operation::SnapshotSpace { from, to } => copy_space(pending, *from, *to, true),
        Operation::DropSpace { space } => {
            let had_keys = !pending.space(*space)?.slots.is_empty();
            pending.set_space(*space, None);
            if had_keys {
                pending.changed(*space, KeyRange::all());
            }
            Ok(())
        }
    }
}

/// The bytes of a payload; a stage of another store was refused before.
fn payload(payload: &Payload) -> Result<Value> {
    match payload {
        Payload::Bytes(bytes) => Ok(Value::from_piece(bytes.clone())),
        Payload::Stage(token) => {
            let staged = token.content::<Staged>();
            staged.map(|staged| staged.value().clone()).ok_or_else(|| Error::invalid("a stage of another store"))
        }
    }
}

fn check_length(pending: &PendingBatch<'_>, offset: u64, added: u64) -> Result<()> {
    match offset.checked_add(added) {
        Some(end) if end <= VALUE_LEN_MAX => Ok(()),
        _ => Err(pending.refuse(format!("the value would be longer than {VALUE_LEN_MAX} bytes"))),
    }
}

fn keys_in(pending: &PendingBatch<'_>, space: SpaceId, range: &KeyRange) -> Result<Vec<Bytes>> {
    let space = pending.space(space)?;
    if range.is_empty() {
        return Ok(Vec::new());
    }
    Ok(space.slots.range::<[u8], _>(range.bounds()).map(|(key, _)| key.to_bytes()).collect())
}

fn delete_range(pending: &mut PendingBatch<'_>, space: SpaceId, range: &KeyRange) -> Result<()> {
    pending.writable(space)?;
    let keys = keys_in(pending, space, range)?;
    if keys.is_empty() {
        return Ok(());
    }
    for key in keys {
        pending.replace(&Place { space, key }, None)?;
    }
    pending.changed(space, range.clone());
    Ok(())
}

fn rename_prefix(pending: &mut PendingBatch<'_>, space: SpaceId, from: &Bytes, to: &Bytes) -> Result<()> {
    pending.writable(space)?;
    let keys = keys_in(pending, space, &KeyRange::prefix(from.clone()))?;
    if keys.is_empty() {
        return Ok(());
    }
    let mut moved = Vec::with_capacity(keys.len());
    for key in keys {
        let renamed = [to.as_ref(), key.get(from.len()..).unwrap_or_default()].concat();
        let most = pending.key_len_max();
        if renamed.len() > most {
            return Err(pending.refuse(format!("a renamed key would be longer than {most} bytes")));
        }
        let at = Place { space, key };
        moved.push((Place::new(space, renamed), Arc::clone(&pending.source(&at)?.value)));
        pending.replace(&at, None)?;
    }
    for (at, value) in moved {
        pending.replace(&at, Some(value))?;
    }
    pending.changed(space, KeyRange::prefix(from.clone()));
    pending.changed(space, KeyRange::prefix(to.clone()));
    Ok(())
}

fn clone_range(
    pending: &mut PendingBatch<'_>,
    (from, from_offset): (&Place, u64),
    length: u64,
    (to, to_offset): (&Place, u64),
) -> Result<()> {
    let source = &pending.source(from)?.value;
    let length = if length == u64::MAX { source.length().saturating_sub(from_offset) } else { length };
    if from_offset.checked_add(length).is_none_or(|end| end > source.length()) {
        return Err(pending.refuse(format!("the source is shorter than the range: {} bytes", source.length())));
    }
    check_length(pending, to_offset, length)?;
    if from == to && from_offset < to_offset + length && to_offset < from_offset + length {
        return Err(pending.refuse("the ranges of one key overlap"));
    }
    let part = source.slice(from_offset, length);
    let mut value = pending.value(to)?;
    value.write_value(to_offset, &part);
    pending.set(to, Arc::new(value))
}

fn concatenate(pending: &mut PendingBatch<'_>, sources: &[Place], target: &Place, fate: Sources) -> Result<()> {
    let mut joined = Value::default();
    for source in sources {
        let part = Arc::clone(&pending.source(source)?.value);
        check_length(pending, joined.length(), part.length())?;
        joined.write_value(joined.length(), &part);
    }
    if fate == Sources::Delete {
        for source in sources {
            pending.remove(source)?;
        }
    }
    pending.set(target, Arc::new(joined))
}

fn add_counter(pending: &mut PendingBatch<'_>, at: &Place, delta: i64) -> Result<()> {
    let before = match pending.slot(at)? {
        None => 0,
        Some(slot) => {
            let number = slot.value.bytes(0, 9);
            let number = <[u8; 8]>::try_from(number.as_ref());
            i64::from_le_bytes(number.map_err(|_| pending.refuse("a counter is a value of 8 bytes"))?)
        }
    };
    let after =
        before.checked_add(delta).ok_or_else(|| pending.refuse(format!("{before} + {delta} overflows the counter")))?;
    let value = Value::from_piece(Bytes::copy_from_slice(&after.to_le_bytes()));
    pending.set(at, Arc::new(value))
}

fn must_be_new(pending: &PendingBatch<'_>, space: SpaceId) -> Result<()> {
    if pending.state().spaces.contains_key(&space) {
        return Err(pending.refuse(format!("space {} exists", space.0)));
    }
    Ok(())
}

fn copy_space(pending: &mut PendingBatch<'_>, from: SpaceId, to: SpaceId, read_only: bool) -> Result<()> {
    let content = Arc::clone(pending.space(from)?);
    must_be_new(pending, to)?;
    let has_keys = !content.slots.is_empty();
    // Where the flag is the same the tree is shared until one of the two changes.
    let content =
        if content.read_only == read_only { content } else { Arc::new(Space { read_only, ..Space::clone(&content) }) };
    pending.set_space(to, Some(content));
    if has_keys {
        pending.changed(to, KeyRange::all());
    }
    Ok(())
}
