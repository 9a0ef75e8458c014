//! What can be asked for. Numbers and layouts are those of docs/wire.md.
//!
//! Invariants:
//! - The five verbs of the NVMe key-value command set have its opcodes.
//! - Views, stages and watches have numbers that the client chooses; they mean something on their connection alone.

use std::time::Duration;

use koine_engine::{
    Access, Batch, Durability, KeyRange, Lifetime, Operation, Payload, Place, RequestId, Result, SpaceId, StageHint,
    StageToken, Version,
};

use super::batch::{
    Names, References, put_batch, put_durability, put_request, take_batch, take_durability, take_request,
};
use super::fields::{Fields, PutFields, malformed};
use crate::seam::Direction;

/// Verbs from this one on belong to whoever registered a handler for them.
pub const VERB_FOREIGN_FIRST: u16 = 0x8000;
/// Passes memory; descriptors come with it.
pub const VERB_SHARE: u16 = 0x44;
/// The view number that means the newest version at the moment the request is worked on.
pub const NEWEST: u64 = 0;
/// What both sides say of themselves first.
pub const PROTOCOL: u32 = 1;

/// What must be true of a key for `Store` and `Delete`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Nothing.
    #[default]
    Any,
    /// It is there.
    MustExist,
    /// It is not there.
    MustNotExist,
}

/// Something asked for.
#[derive(Clone, Debug)]
pub enum Request {
    /// The first of a connection: which protocol, and a number that nobody can foresee.
    Hello { protocol: u32, nonce: [u8; 32] },
    /// Shows that the client knows the key.
    Prove { proof: [u8; 32] },
    /// Stores a value: the data of the frame.
    Store { at: Place, rule: Rule, durability: Durability, request: Option<RequestId> },
    /// A part of a value, up to a frame's data; where in the shared memory there is room for it, if there is.
    Retrieve { view: u64, at: Place, offset: u64, length: u32, into: Option<u64> },
    /// Passes two files in memory: so long is the one for the server, and the one for the client.
    Share { to_server: u64, to_client: u64 },
    /// Removes a key.
    Delete { at: Place, rule: Rule, durability: Durability, request: Option<RequestId> },
    /// Version and size of a key.
    Exist { view: u64, at: Place },
    /// Entries of a range in order: at most so many, and about so many bytes.
    List { view: u64, space: SpaceId, range: KeyRange, direction: Direction, entries: u32, bytes: u32 },
    /// Pins the newest version.
    OpenView { view: u64 },
    /// Lets go of it.
    CloseView { view: u64 },
    /// Whether a space is there.
    HasSpace { view: u64, space: SpaceId },
    /// The spaces from an id on, at most so many.
    Spaces { view: u64, from: SpaceId, most: u32 },
    /// Begins a large value.
    OpenStage { stage: u64, hint: StageHint },
    /// Adds the data of the frame.
    WriteStage { stage: u64 },
    /// No more pieces.
    FinishStage { stage: u64 },
    /// Forgets it.
    DropStage { stage: u64 },
    /// A batch.
    Submit { batch: Batch, durability: Durability },
    /// Begins to tell changes.
    OpenWatch { watch: u64, space: SpaceId, range: KeyRange, from: Version },
    /// Waits for the next event, so long.
    NextEvent { watch: u64, timeout: Duration },
    /// Tells no more.
    CloseWatch { watch: u64 },
    /// How full the store is.
    Usage,
    /// Makes everything so far durable.
    Sync,
}

impl Request {
    /// Its verb.
    pub fn verb(&self) -> u16 {
        match self {
            Request::Store { .. } => 0x01,
            Request::Retrieve { into: None, .. } => 0x02,
            Request::Retrieve { into: Some(_), .. } => 0x03,
            Request::List { .. } => 0x06,
            Request::Delete { .. } => 0x10,
            Request::Exist { .. } => 0x14,
            Request::Hello { .. } => 0x40,
            Request::Prove { .. } => 0x41,
            Request::Share { .. } => VERB_SHARE,
            Request::Usage => 0x42,
            Request::Sync => 0x43,
            Request::OpenView { .. } => 0x50,
            Request::CloseView { .. } => 0x51,
            Request::HasSpace { .. } => 0x52,
            Request::Spaces { .. } => 0x53,
            Request::OpenStage { .. } => 0x60,
            Request::WriteStage { .. } => 0x61,
            Request::FinishStage { .. } => 0x62,
            Request::DropStage { .. } => 0x63,
            Request::Submit { .. } => 0x68,
            Request::OpenWatch { .. } => 0x70,
            Request::NextEvent { .. } => 0x71,
            Request::CloseWatch { .. } => 0x72,
        }
    }

    /// Its message. `names` tells the numbers of stages.
    pub fn encode(&self, names: &dyn Names) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.message_len());
        self.encode_into(&mut out, names).map(|()| out)
    }

    /// Appends its message.
    pub fn encode_into(&self, out: &mut Vec<u8>, names: &dyn Names) -> Result<()> {
        match self {
            Request::Usage | Request::Sync => {}
            Request::Hello { protocol, nonce } => {
                out.put_u32(*protocol);
                out.extend_from_slice(nonce);
            }
            Request::Prove { proof } => out.extend_from_slice(proof),
            Request::Store { at, rule, durability, request } | Request::Delete { at, rule, durability, request } => {
                out.put_u8(*rule as u8);
                put_durability(out, *durability);
                put_request(out, *request);
                out.put_place(at);
            }
            Request::Retrieve { view, at, offset, length, into } => {
                put_part(out, *view, at, (*offset, *length));
                into.iter().for_each(|into| out.put_u64(*into));
            }
            Request::Share { to_server, to_client } => [to_server, to_client].iter().for_each(|len| out.put_u64(**len)),
            Request::Exist { view, at } => {
                out.put_u64(*view);
                out.put_place(at);
            }
            Request::List { view, space, range, direction, entries, bytes } => {
                out.put_u64(*view);
                out.put_u64(space.0);
                out.put_range(range);
                out.put_u8(u8::from(*direction == Direction::Backward));
                out.put_u32(*entries);
                out.put_u32(*bytes);
            }
            Request::HasSpace { view, space } => {
                out.put_u64(*view);
                out.put_u64(space.0);
            }
            Request::Spaces { view, from, most } => {
                out.put_u64(*view);
                out.put_u64(from.0);
                out.put_u32(*most);
            }
            Request::OpenStage { stage, hint } => {
                out.put_u64(*stage);
                put_hint(out, hint);
            }
            Request::OpenView { view: number }
            | Request::CloseView { view: number }
            | Request::WriteStage { stage: number }
            | Request::FinishStage { stage: number }
            | Request::DropStage { stage: number }
            | Request::CloseWatch { watch: number } => out.put_u64(*number),
            Request::Submit { batch, durability } => {
                put_durability(out, *durability);
                put_batch(out, batch, names)?;
            }
            Request::OpenWatch { watch, space, range, from } => {
                out.put_u64(*watch);
                out.put_u64(space.0);
                out.put_range(range);
                out.put_u64(from.0);
            }
            Request::NextEvent { watch, timeout } => {
                out.put_u64(*watch);
                out.put_u32(u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX));
            }
        }
        Ok(())
    }

    /// About how long its message is.
    fn message_len(&self) -> usize {
        match self {
            Request::Submit { batch, .. } => 64 + inline_len(batch),
            _ => 64,
        }
    }

    /// The request of a verb and a message; `None` for a verb that is not known. `found` finds stages by their numbers.
    pub fn decode(verb: u16, mut fields: Fields, found: &mut dyn References) -> Result<Option<Request>> {
        let request = match verb {
            0x01 | 0x10 => take_change(verb, &mut fields)?,
            0x02 | 0x03 => Request::Retrieve {
                view: fields.u64()?,
                at: fields.place()?,
                offset: fields.u64()?,
                length: fields.u32()?,
                into: if verb == 0x03 { Some(fields.u64()?) } else { None },
            },
            0x06 => Request::List {
                view: fields.u64()?,
                space: fields.space()?,
                range: fields.range()?,
                direction: if fields.flag()? { Direction::Backward } else { Direction::Forward },
                entries: fields.u32()?,
                bytes: fields.u32()?,
            },
            0x14 => Request::Exist { view: fields.u64()?, at: fields.place()? },
            0x40 => Request::Hello { protocol: fields.u32()?, nonce: fields.array()? },
            0x41 => Request::Prove { proof: fields.array()? },
            0x42 => Request::Usage,
            0x43 => Request::Sync,
            VERB_SHARE => Request::Share { to_server: fields.u64()?, to_client: fields.u64()? },
            0x50 => Request::OpenView { view: fields.u64()? },
            0x51 => Request::CloseView { view: fields.u64()? },
            0x52 => Request::HasSpace { view: fields.u64()?, space: fields.space()? },
            0x53 => Request::Spaces { view: fields.u64()?, from: fields.space()?, most: fields.u32()? },
            0x60 => Request::OpenStage { stage: fields.u64()?, hint: take_hint(&mut fields)? },
            0x61 => Request::WriteStage { stage: fields.u64()? },
            0x62 => Request::FinishStage { stage: fields.u64()? },
            0x63 => Request::DropStage { stage: fields.u64()? },
            0x68 => {
                let durability = take_durability(&mut fields)?;
                Request::Submit { batch: take_batch(&mut fields, found)?, durability }
            }
            0x70 => Request::OpenWatch {
                watch: fields.u64()?,
                space: fields.space()?,
                range: fields.range()?,
                from: Version(fields.u64()?),
            },
            0x71 => {
                Request::NextEvent { watch: fields.u64()?, timeout: Duration::from_millis(u64::from(fields.u32()?)) }
            }
            0x72 => Request::CloseWatch { watch: fields.u64()? },
            _ => return Ok(None),
        };
        fields.end().map(|()| Some(request))
    }
}

/// Which part of a value is wanted.
fn put_part(out: &mut Vec<u8>, view: u64, at: &Place, (offset, length): (u64, u32)) {
    out.put_u64(view);
    out.put_place(at);
    out.put_u64(offset);
    out.put_u32(length);
}

/// About how many bytes a batch has inline.
fn inline_len(batch: &Batch) -> usize {
    let payload = |payload: &Payload| match payload {
        Payload::Bytes(bytes) => bytes.len(),
        Payload::Stage(_) => 8,
    };
    let operation = |operation: &Operation| match operation {
        Operation::Put { value: data, .. } | Operation::WriteAt { data, .. } | Operation::Append { data, .. } => {
            payload(data) + 64
        }
        _ => 64,
    };
    batch.operations.iter().map(operation).sum()
}

fn take_change(verb: u16, fields: &mut Fields) -> Result<Request> {
    let rule = match fields.u8()? {
        0 => Rule::Any,
        1 => Rule::MustExist,
        2 => Rule::MustNotExist,
        other => return Err(malformed(format!("rule {other}"))),
    };
    let (durability, request, at) = (take_durability(fields)?, take_request(fields)?, fields.place()?);
    Ok(match verb {
        0x01 => Request::Store { at, rule, durability, request },
        _ => Request::Delete { at, rule, durability, request },
    })
}

fn put_hint(out: &mut Vec<u8>, hint: &StageHint) {
    match hint.length {
        None => out.put_u8(0),
        Some(length) => {
            out.put_u8(1);
            out.put_u64(length);
        }
    }
    out.put_u8(u8::from(hint.access == Access::Random));
    out.put_u8(u8::from(hint.reserved));
    out.put_u8(match hint.lifetime {
        Lifetime::Unknown => 0,
        Lifetime::Short => 1,
        Lifetime::Long => 2,
    });
}

fn take_hint(fields: &mut Fields) -> Result<StageHint> {
    Ok(StageHint {
        length: fields.optional(Fields::u64)?,
        access: if fields.flag()? { Access::Random } else { Access::Sequential },
        reserved: fields.flag()?,
        lifetime: match fields.u8()? {
            0 => Lifetime::Unknown,
            1 => Lifetime::Short,
            2 => Lifetime::Long,
            other => return Err(malformed(format!("lifetime {other}"))),
        },
    })
}

/// For requests in which no stage is named.
pub fn without_stages(_token: &StageToken) -> Result<u64> {
    Err(koine_engine::Error::invalid("the stage belongs to another store"))
}
