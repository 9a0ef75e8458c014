//! A record: what one commit did, in the operations it was given as.
//!
//! Records are logical: recovery applies them again with the code that applied them first. Inline
//! bytes stand in the record; staged bytes lie on the device already, and the record names their
//! extents with their checksums. Layout in docs/format.md.
//!
//! Invariants:
//! - Applying the records after a checkpoint's cut, in order, gives the same content as the first time
//!   (not necessarily in the same pieces).
//! - A record never names anything that only the tree's shape decides (blob numbers, nodes).

use std::sync::Arc;

use bytes::Bytes;

use crate::batch::{KeyRange, Operation, Payload, Place, RequestId, Sources, SpaceId, Version};
use crate::codec::{Reader, Writer};
use crate::error::{Error, Refusal, Result};
use crate::extent::Extent;
use crate::stage::StageToken;
use crate::staged::Staged;

/// A step of a commit: an operation of its batch, or the engine's own bookkeeping of stages.
#[derive(Clone, Debug)]
pub enum Step {
    /// An operation of the batch.
    Operation(Operation),
    /// A long stage logs the extents it has so far, so that no record must name them all.
    StageSlab {
        /// The stage.
        stage: u64,
        /// Where the first extent belongs in the stage, in bytes.
        offset: u64,
        /// The extents, one after the other.
        extents: Vec<Extent>,
    },
    /// Bytes of a value were written elsewhere: its pieces there are exchanged, and nothing else.
    Relocate {
        /// The value.
        at: Place,
        /// Where in it.
        offset: u64,
        /// The same bytes that it has there.
        data: Payload,
    },
    /// A part of what was dropped is taken down.
    Reclaim {
        /// About so many leaves.
        leaves: u32,
    },
    /// A stage with slabs was given up.
    StageDrop {
        /// The stage.
        stage: u64,
    },
}

/// What became of a batch.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was applied.
    Applied(Vec<Step>),
    /// It was refused (remembered for batches with a request id only).
    Refused(Refusal),
}

/// One commit in the log.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its log number.
    pub version: Version,
    /// The request it answers.
    pub request: Option<RequestId>,
    /// What became of it.
    pub outcome: Outcome,
}

const REQUEST: u8 = 1;
const REFUSED: u8 = 2;

impl Record {
    /// Appends the record to a group's payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.version.0);
        let refused = matches!(self.outcome, Outcome::Refused(_));
        out.push(if self.request.is_some() { REQUEST } else { 0 } | if refused { REFUSED } else { 0 });
        if let Some(request) = &self.request {
            out.extend_from_slice(&request.0);
        }
        match &self.outcome {
            Outcome::Refused(Refusal::Condition(index)) => put_refusal(out, 0, *index),
            Outcome::Refused(Refusal::Operation(index)) => put_refusal(out, 1, *index),
            Outcome::Applied(steps) => {
                out.put_u32(steps.len() as u32);
                steps.iter().for_each(|step| encode_step(step, out));
            }
        }
    }

    /// Takes a record from the front of a group's payload.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Record> {
        let version = Version(reader.u64()?);
        let flags = reader.u8()?;
        if flags & !(REQUEST | REFUSED) != 0 {
            return Err(Error::damaged("a record has flags that this program does not know"));
        }
        let request = if flags & REQUEST != 0 { Some(RequestId(reader.array()?)) } else { None };
        let outcome = if flags & REFUSED != 0 {
            let kind = reader.u8()?;
            let index = reader.u32()?;
            Outcome::Refused(if kind == 0 { Refusal::Condition(index) } else { Refusal::Operation(index) })
        } else {
            let count = reader.u32()?;
            let mut steps = Vec::with_capacity((count as usize).min(reader.remaining()));
            for _ in 0..count {
                steps.push(decode_step(reader)?);
            }
            Outcome::Applied(steps)
        };
        Ok(Record { version, request, outcome })
    }

    /// The extents on the device that the record names.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        let steps = match &self.outcome {
            Outcome::Applied(steps) => steps.as_slice(),
            Outcome::Refused(_) => &[],
        };
        steps.iter().flat_map(step_extents)
    }
}

fn put_refusal(out: &mut Vec<u8>, kind: u8, index: u32) {
    out.push(kind);
    out.put_u32(index);
}

fn step_extents(step: &Step) -> &[Extent] {
    let payload = match step {
        Step::StageSlab { extents, .. } => return extents,
        Step::Operation(Operation::Put { value: payload, .. }) | Step::Relocate { data: payload, .. } => payload,
        Step::Operation(Operation::WriteAt { data: payload, .. } | Operation::Append { data: payload, .. }) => payload,
        _ => return &[],
    };
    match payload {
        Payload::Bytes(_) => &[],
        Payload::Stage(token) => token.content_ref::<Staged>().map_or(&[], |staged| staged.extents()),
    }
}

mod tag {
    pub const PUT: u8 = 1;
    pub const WRITE_AT: u8 = 2;
    pub const APPEND: u8 = 3;
    pub const TRUNCATE: u8 = 4;
    pub const DELETE: u8 = 5;
    pub const DELETE_RANGE: u8 = 6;
    pub const RENAME: u8 = 7;
    pub const CLONE_RANGE: u8 = 8;
    pub const CONCATENATE: u8 = 9;
    pub const ADD_COUNTER: u8 = 10;
    pub const CREATE_SPACE: u8 = 11;
    pub const DROP_SPACE: u8 = 12;
    pub const STAGE_SLAB: u8 = 13;
    pub const STAGE_DROP: u8 = 14;
    pub const REAP: u8 = 15;
    pub const RENAME_PREFIX: u8 = 16;
    pub const CLONE_SPACE: u8 = 17;
    pub const SNAPSHOT_SPACE: u8 = 18;
    pub const RELOCATE: u8 = 19;
}

fn encode_step(step: &Step, out: &mut Vec<u8>) {
    match step {
        Step::Operation(operation) => encode_operation(operation, out),
        Step::StageSlab { stage, offset, extents } => {
            out.push(tag::STAGE_SLAB);
            out.put_u64(*stage);
            out.put_u64(*offset);
            put_extents(extents, out);
        }
        Step::StageDrop { stage } => {
            out.push(tag::STAGE_DROP);
            out.put_u64(*stage);
        }
        Step::Relocate { at, offset, data } => {
            put_place(tag::RELOCATE, at, out);
            out.put_u64(*offset);
            put_payload(data, out);
        }
        Step::Reclaim { leaves } => {
            out.push(tag::REAP);
            out.put_u32(*leaves);
        }
    }
}

fn encode_operation(operation: &Operation, out: &mut Vec<u8>) {
    match operation {
        Operation::Put { at, value } => {
            put_place(tag::PUT, at, out);
            put_payload(value, out);
        }
        Operation::WriteAt { at, offset, data } => {
            put_place(tag::WRITE_AT, at, out);
            out.put_u64(*offset);
            put_payload(data, out);
        }
        Operation::Append { at, data } => {
            put_place(tag::APPEND, at, out);
            put_payload(data, out);
        }
        Operation::Truncate { at, length } => {
            put_place(tag::TRUNCATE, at, out);
            out.put_u64(*length);
        }
        Operation::Delete { at } => put_place(tag::DELETE, at, out),
        Operation::DeleteRange { space, range } => {
            out.push(tag::DELETE_RANGE);
            out.put_u64(space.0);
            put_range(range, out);
        }
        Operation::Rename { from, to } => {
            put_place(tag::RENAME, from, out);
            put_bare_place(to, out);
        }
        Operation::CloneRange { from, from_offset, length, to, to_offset } => {
            put_place(tag::CLONE_RANGE, from, out);
            out.put_u64(*from_offset);
            out.put_u64(*length);
            put_bare_place(to, out);
            out.put_u64(*to_offset);
        }
        Operation::Concatenate { sources, target, fate } => {
            put_place(tag::CONCATENATE, target, out);
            out.push(u8::from(*fate == Sources::Delete));
            out.put_u32(sources.len() as u32);
            sources.iter().for_each(|source| put_bare_place(source, out));
        }
        Operation::AddCounter { at, delta } => {
            put_place(tag::ADD_COUNTER, at, out);
            out.extend_from_slice(&delta.to_le_bytes());
        }
        Operation::CreateSpace { space } => put_space(tag::CREATE_SPACE, *space, out),
        Operation::DropSpace { space } => put_space(tag::DROP_SPACE, *space, out),
        Operation::RenamePrefix { space, from, to } => {
            put_space(tag::RENAME_PREFIX, *space, out);
            out.put_bytes(from);
            out.put_bytes(to);
        }
        Operation::CloneSpace { from, to } => {
            put_space(tag::CLONE_SPACE, *from, out);
            out.put_u64(to.0);
        }
        Operation::SnapshotSpace { from, to } => {
            put_space(tag::SNAPSHOT_SPACE, *from, out);
            out.put_u64(to.0);
        }
    }
}

fn put_space(tag: u8, space: SpaceId, out: &mut Vec<u8>) {
    out.push(tag);
    out.put_u64(space.0);
}

fn put_place(tag: u8, place: &Place, out: &mut Vec<u8>) {
    out.push(tag);
    put_bare_place(place, out);
}

fn put_bare_place(place: &Place, out: &mut Vec<u8>) {
    out.put_u64(place.space.0);
    out.put_bytes(&place.key);
}

fn put_range(range: &KeyRange, out: &mut Vec<u8>) {
    out.put_bytes(&range.start);
    out.push(u8::from(range.end.is_some()));
    if let Some(end) = &range.end {
        out.put_bytes(end);
    }
}

fn put_payload(payload: &Payload, out: &mut Vec<u8>) {
    match payload {
        Payload::Bytes(bytes) => {
            out.push(0);
            out.put_bytes(bytes);
        }
        Payload::Stage(token) => {
            out.push(1);
            out.put_u64(token.length());
            let staged = token.content_ref::<Staged>().expect("checked at submit");
            out.put_u64(staged.id());
            out.put_u64(staged.spilled());
            put_extents(staged.extents(), out);
        }
    }
}

fn put_extents(extents: &[Extent], out: &mut Vec<u8>) {
    out.put_u32(extents.len() as u32);
    extents.iter().for_each(|extent| extent.encode(out));
}

fn decode_step(reader: &mut Reader<'_>) -> Result<Step> {
    let tag = reader.u8()?;
    match tag {
        tag::STAGE_SLAB => {
            Ok(Step::StageSlab { stage: reader.u64()?, offset: reader.u64()?, extents: extents(reader)? })
        }
        tag::RELOCATE => Ok(Step::Relocate { at: place(reader)?, offset: reader.u64()?, data: payload(reader)? }),
        tag::STAGE_DROP => Ok(Step::StageDrop { stage: reader.u64()? }),
        tag::REAP => Ok(Step::Reclaim { leaves: reader.u32()? }),
        _ => decode_operation(tag, reader).map(Step::Operation),
    }
}

fn decode_operation(tag: u8, reader: &mut Reader<'_>) -> Result<Operation> {
    Ok(match tag {
        tag::PUT => Operation::Put { at: place(reader)?, value: payload(reader)? },
        tag::WRITE_AT => Operation::WriteAt { at: place(reader)?, offset: reader.u64()?, data: payload(reader)? },
        tag::APPEND => Operation::Append { at: place(reader)?, data: payload(reader)? },
        tag::TRUNCATE => Operation::Truncate { at: place(reader)?, length: reader.u64()? },
        tag::DELETE => Operation::Delete { at: place(reader)? },
        tag::DELETE_RANGE => Operation::DeleteRange { space: SpaceId(reader.u64()?), range: range(reader)? },
        tag::RENAME => Operation::Rename { from: place(reader)?, to: place(reader)? },
        tag::CLONE_RANGE => Operation::CloneRange {
            from: place(reader)?,
            from_offset: reader.u64()?,
            length: reader.u64()?,
            to: place(reader)?,
            to_offset: reader.u64()?,
        },
        tag::CONCATENATE => {
            let target = place(reader)?;
            let fate = if reader.u8()? == 1 { Sources::Delete } else { Sources::Keep };
            let count = reader.u32()?;
            let mut sources = Vec::with_capacity((count as usize).min(reader.remaining()));
            for _ in 0..count {
                sources.push(place(reader)?);
            }
            Operation::Concatenate { sources, target, fate }
        }
        tag::ADD_COUNTER => Operation::AddCounter { at: place(reader)?, delta: i64::from_le_bytes(reader.array()?) },
        tag::CREATE_SPACE => Operation::CreateSpace { space: SpaceId(reader.u64()?) },
        tag::DROP_SPACE => Operation::DropSpace { space: SpaceId(reader.u64()?) },
        tag::RENAME_PREFIX => {
            Operation::RenamePrefix { space: SpaceId(reader.u64()?), from: reader.bytes()?, to: reader.bytes()? }
        }
        tag::CLONE_SPACE => Operation::CloneSpace { from: SpaceId(reader.u64()?), to: SpaceId(reader.u64()?) },
        tag::SNAPSHOT_SPACE => Operation::SnapshotSpace { from: SpaceId(reader.u64()?), to: SpaceId(reader.u64()?) },
        unknown => return Err(Error::damaged(format!("a record has an operation of unknown kind {unknown}"))),
    })
}

fn place(reader: &mut Reader<'_>) -> Result<Place> {
    Ok(Place { space: SpaceId(reader.u64()?), key: reader.bytes()? })
}

fn range(reader: &mut Reader<'_>) -> Result<KeyRange> {
    let start = reader.bytes()?;
    let end = if reader.u8()? == 1 { Some(reader.bytes()?) } else { None };
    Ok(KeyRange { start, end })
}

fn payload(reader: &mut Reader<'_>) -> Result<Payload> {
    if reader.u8()? == 0 {
        return reader.bytes().map(Payload::Bytes);
    }
    let length = reader.u64()?;
    let (id, spilled) = (reader.u64()?, reader.u64()?);
    let staged = Staged::logged(id, spilled, extents(reader)?);
    Ok(Payload::Stage(StageToken::new(length, Arc::new(staged))))
}

fn extents(reader: &mut Reader<'_>) -> Result<Vec<Extent>> {
    let count = reader.u32()?;
    let mut extents = Vec::with_capacity((count as usize).min(reader.remaining() / 16));
    for _ in 0..count {
        extents.push(Extent::read(reader)?);
    }
    Ok(extents)
}

/// The inline bytes of a batch: what it takes in a group, at least.
pub fn inline_len(operation: &Operation) -> usize {
    let bytes = |payload: &Payload| match payload {
        Payload::Bytes(bytes) => bytes.len(),
        Payload::Stage(_) => 0,
    };
    match operation {
        Operation::Put { at, value: data } | Operation::WriteAt { at, data, .. } | Operation::Append { at, data } => {
            at.key.len() + bytes(data)
        }
        Operation::Truncate { at, .. } | Operation::Delete { at } | Operation::AddCounter { at, .. } => at.key.len(),
        Operation::DeleteRange { range, .. } => range.start.len() + range.end.as_ref().map_or(0, Bytes::len),
        Operation::Rename { from, to } | Operation::CloneRange { from, to, .. } => from.key.len() + to.key.len(),
        Operation::Concatenate { sources, target, .. } => {
            target.key.len() + sources.iter().map(|source| source.key.len() + 12).sum::<usize>()
        }
        Operation::RenamePrefix { from, to, .. } => from.len() + to.len(),
        Operation::CreateSpace { .. }
        | Operation::CloneSpace { .. }
        | Operation::SnapshotSpace { .. }
        | Operation::DropSpace { .. } => 0,
    }
}

#[cfg(test)]
mod tests;
