//! Batches as messages.
//!
//! Invariant: a batch comes out as it went in; the stages that it names go by the number that its session gave them.

use bytes::Bytes;
use koine_engine::{
    Batch, Condition, Durability, KeyRange, Operation, Payload, Place, RequestId, Result, Sources, SpaceId, StageToken,
    Version,
};

use super::fields::{Fields, PutFields, malformed};
use crate::copies;

/// The shortest condition and the shortest operation, in bytes.
const CONDITION_LEN_MIN: usize = 13;
const OPERATION_LEN_MIN: usize = 9;

/// Tells what the other side calls what a batch names.
pub trait Names {
    /// The number of a stage.
    fn stage(&self, token: &StageToken) -> Result<u64>;

    /// Where bytes lie in shared memory, if they are to be taken from there.
    fn shared(&self, _bytes: &Bytes) -> Option<u64> {
        None
    }
}

impl<F: Fn(&StageToken) -> Result<u64>> Names for F {
    fn stage(&self, token: &StageToken) -> Result<u64> {
        self(token)
    }
}

/// Finds what a batch names.
pub trait References {
    /// The stage of a number.
    fn stage(&mut self, number: u64) -> Result<StageToken>;

    /// A copy of bytes in shared memory.
    fn shared(&mut self, _offset: u64, _length: u32) -> Result<Bytes> {
        Err(malformed("shared memory where there is none"))
    }
}

impl<F: FnMut(u64) -> Result<StageToken>> References for F {
    fn stage(&mut self, number: u64) -> Result<StageToken> {
        self(number)
    }
}

/// Appends a batch: what names its request, its conditions, its operations.
pub fn put_batch(out: &mut Vec<u8>, batch: &Batch, names: &dyn Names) -> Result<()> {
    put_request(out, batch.request);
    out.put_u32(count(batch.conditions.len()));
    batch.conditions.iter().for_each(|condition| put_condition(out, condition));
    out.put_u32(count(batch.operations.len()));
    batch.operations.iter().try_for_each(|operation| put_operation(out, operation, names))
}

/// Takes a batch.
pub fn take_batch(fields: &mut Fields, found: &mut dyn References) -> Result<Batch> {
    let mut batch = Batch::new();
    batch.request = take_request(fields)?;
    batch.conditions = fields.list(CONDITION_LEN_MIN, take_condition)?;
    batch.operations = fields.list(OPERATION_LEN_MIN, |fields| take_operation(fields, found))?;
    Ok(batch)
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// Appends what names a request, where something does.
pub fn put_request(out: &mut Vec<u8>, request: Option<RequestId>) {
    match request {
        None => out.put_u8(0),
        Some(request) => {
            out.put_u8(1);
            out.extend_from_slice(&request.0);
        }
    }
}

/// Takes what names a request.
pub fn take_request(fields: &mut Fields) -> Result<Option<RequestId>> {
    fields.optional(|fields| fields.array().map(RequestId))
}

/// Appends a durability.
pub fn put_durability(out: &mut Vec<u8>, durability: Durability) {
    out.put_u8(match durability {
        Durability::Memory => 0,
        Durability::Written => 1,
        Durability::Sync => 2,
    });
}

/// Takes a durability.
pub fn take_durability(fields: &mut Fields) -> Result<Durability> {
    match fields.u8()? {
        0 => Ok(Durability::Memory),
        1 => Ok(Durability::Written),
        2 => Ok(Durability::Sync),
        other => Err(malformed(format!("durability {other}"))),
    }
}

fn put_condition(out: &mut Vec<u8>, condition: &Condition) {
    let mut of_key = |tag: u8, space: &SpaceId, key: &Bytes| {
        out.put_u8(tag);
        out.put_u64(space.0);
        out.put_bytes(key);
    };
    match condition {
        Condition::Absent { space, key } => of_key(0, space, key),
        Condition::Present { space, key } => of_key(1, space, key),
        Condition::VersionIs { space, key, version } => {
            of_key(2, space, key);
            out.put_u64(version.0);
        }
        Condition::RangeEmpty { space, range } => put_ranged(out, 3, *space, range),
        Condition::RangeUnchanged { space, range, since } => {
            put_ranged(out, 4, *space, range);
            out.put_u64(since.0);
        }
    }
}

fn put_ranged(out: &mut Vec<u8>, tag: u8, space: SpaceId, range: &KeyRange) {
    out.put_u8(tag);
    out.put_u64(space.0);
    out.put_range(range);
}

fn take_condition(fields: &mut Fields) -> Result<Condition> {
    let (tag, space) = (fields.u8()?, fields.space()?);
    Ok(match tag {
        0 => Condition::Absent { space, key: fields.bytes()? },
        1 => Condition::Present { space, key: fields.bytes()? },
        2 => Condition::VersionIs { space, key: fields.bytes()?, version: Version(fields.u64()?) },
        3 => Condition::RangeEmpty { space, range: fields.range()? },
        4 => Condition::RangeUnchanged { space, range: fields.range()?, since: Version(fields.u64()?) },
        other => return Err(malformed(format!("condition {other}"))),
    })
}

fn put_payload(out: &mut Vec<u8>, payload: &Payload, names: &dyn Names) -> Result<()> {
    match payload {
        Payload::Bytes(bytes) => match names.shared(bytes) {
            Some(offset) => {
                out.put_u8(2);
                out.put_u64(offset);
                out.put_u32(count(bytes.len()));
            }
            None => {
                copies::copied(bytes.len());
                out.put_u8(0);
                out.put_bytes(bytes);
            }
        },
        Payload::Stage(token) => {
            out.put_u8(1);
            out.put_u64(names.stage(token)?);
        }
    }
    Ok(())
}

fn take_payload(fields: &mut Fields, found: &mut dyn References) -> Result<Payload> {
    match fields.u8()? {
        0 => fields.bytes().map(Payload::Bytes),
        1 => found.stage(fields.u64()?).map(Payload::Stage),
        2 => found.shared(fields.u64()?, fields.u32()?).map(Payload::Bytes),
        other => Err(malformed(format!("payload {other}"))),
    }
}

fn put_operation(out: &mut Vec<u8>, operation: &Operation, names: &dyn Names) -> Result<()> {
    let at = |out: &mut Vec<u8>, tag: u8, at: &Place| {
        out.put_u8(tag);
        out.put_place(at);
    };
    match operation {
        Operation::Put { at: place, value } => {
            at(out, 0, place);
            put_payload(out, value, names)?;
        }
        Operation::WriteAt { at: place, offset, data } => {
            at(out, 1, place);
            out.put_u64(*offset);
            put_payload(out, data, names)?;
        }
        Operation::Append { at: place, data } => {
            at(out, 2, place);
            put_payload(out, data, names)?;
        }
        Operation::Truncate { at: place, length } => {
            at(out, 3, place);
            out.put_u64(*length);
        }
        Operation::Delete { at: place } => at(out, 4, place),
        Operation::DeleteRange { space, range } => put_ranged(out, 5, *space, range),
        Operation::Rename { from, to } => {
            at(out, 6, from);
            out.put_place(to);
        }
        Operation::RenamePrefix { space, from, to } => {
            out.put_u8(7);
            out.put_u64(space.0);
            out.put_bytes(from);
            out.put_bytes(to);
        }
        Operation::CloneRange { from, from_offset, length, to, to_offset } => {
            at(out, 8, from);
            out.put_u64(*from_offset);
            out.put_u64(*length);
            out.put_place(to);
            out.put_u64(*to_offset);
        }
        Operation::Concatenate { sources, target, fate } => {
            at(out, 9, target);
            out.put_u8(u8::from(*fate == Sources::Delete));
            out.put_u32(count(sources.len()));
            sources.iter().for_each(|source| out.put_place(source));
        }
        Operation::AddCounter { at: place, delta } => {
            at(out, 10, place);
            out.put_u64(delta.cast_unsigned());
        }
        Operation::CreateSpace { space } => put_spaces(out, 11, &[*space]),
        Operation::DropSpace { space } => put_spaces(out, 12, &[*space]),
        Operation::CloneSpace { from, to } => put_spaces(out, 13, &[*from, *to]),
        Operation::SnapshotSpace { from, to } => put_spaces(out, 14, &[*from, *to]),
    }
    Ok(())
}

fn put_spaces(out: &mut Vec<u8>, tag: u8, spaces: &[SpaceId]) {
    out.put_u8(tag);
    spaces.iter().for_each(|space| out.put_u64(space.0));
}

fn take_operation(fields: &mut Fields, found: &mut dyn References) -> Result<Operation> {
    Ok(match fields.u8()? {
        0 => Operation::Put { at: fields.place()?, value: take_payload(fields, found)? },
        1 => Operation::WriteAt { at: fields.place()?, offset: fields.u64()?, data: take_payload(fields, found)? },
        2 => Operation::Append { at: fields.place()?, data: take_payload(fields, found)? },
        3 => Operation::Truncate { at: fields.place()?, length: fields.u64()? },
        4 => Operation::Delete { at: fields.place()? },
        5 => Operation::DeleteRange { space: fields.space()?, range: fields.range()? },
        6 => Operation::Rename { from: fields.place()?, to: fields.place()? },
        7 => Operation::RenamePrefix { space: fields.space()?, from: fields.bytes()?, to: fields.bytes()? },
        8 => Operation::CloneRange {
            from: fields.place()?,
            from_offset: fields.u64()?,
            length: fields.u64()?,
            to: fields.place()?,
            to_offset: fields.u64()?,
        },
        9 => {
            let target = fields.place()?;
            let fate = if fields.flag()? { Sources::Delete } else { Sources::Keep };
            Operation::Concatenate { sources: fields.list(12, Fields::place)?, target, fate }
        }
        10 => Operation::AddCounter { at: fields.place()?, delta: fields.u64()?.cast_signed() },
        11 => Operation::CreateSpace { space: fields.space()? },
        12 => Operation::DropSpace { space: fields.space()? },
        13 => Operation::CloneSpace { from: fields.space()?, to: fields.space()? },
        14 => Operation::SnapshotSpace { from: fields.space()?, to: fields.space()? },
        other => return Err(malformed(format!("operation {other}"))),
    })
}
