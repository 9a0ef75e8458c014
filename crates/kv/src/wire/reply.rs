//! What is answered. Layouts are those of docs/wire.md.

use koine_engine::{Commit, Error, ErrorKind, KeyRange, Refusal, Result, Version};

use super::fields::{Fields, PutFields, malformed};
use super::message::Message;
use crate::seam::{Change, Entry, Profile, SpaceEntry, Stat, Usage, WatchEvent};

/// The shortest entry, in bytes.
const ENTRY_LEN_MIN: usize = 21;

/// A space in a list, in bytes.
const SPACE_LEN: usize = 9;

/// The server of a connection, as it greets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Its protocol.
    pub protocol: u32,
    /// A number that nobody can foresee.
    pub nonce: [u8; 32],
    /// It wants to see that the client knows the key.
    pub wants_proof: bool,
    /// So many requests may wait for their answers at once.
    pub in_flight_max: u32,
    /// So many views, stages and watches may be open at once, of each.
    pub handles_max: u32,
}

impl Greeting {
    /// As a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        out.put_u32(self.protocol);
        out.extend_from_slice(&self.nonce);
        out.put_u8(u8::from(self.wants_proof));
        out.put_u32(self.in_flight_max);
        out.put_u32(self.handles_max);
        out
    }

    /// Of a message.
    pub fn decode(message: impl Into<Message>) -> Result<Greeting> {
        let mut fields = Fields::new(message);
        let greeting = Greeting {
            protocol: fields.u32()?,
            nonce: fields.array()?,
            wants_proof: fields.flag()?,
            in_flight_max: fields.u32()?,
            handles_max: fields.u32()?,
        };
        // A later protocol may have more to say.
        Ok(greeting)
    }
}

/// The store does everything of the seam. 0 and 1 were kept for stores that do less, of which there are none.
const LEVEL_FULL: u8 = 2;

/// The answer to a proof, or to a greeting that wants none: what the store takes, and the server's own proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// That the server knows the key too; zeros where no key is used.
    pub proof: [u8; 32],
    /// Of the store behind it. Its name is `wire`.
    pub profile: Profile,
}

impl Welcome {
    /// As a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(80);
        out.extend_from_slice(&self.proof);
        out.put_u8(LEVEL_FULL);
        for limit in [
            self.profile.key_len_max,
            self.profile.batch_operations_max,
            self.profile.batch_bytes_max,
            self.profile.inline_len_best,
        ] {
            out.put_u64(limit as u64);
        }
        out.put_u8(u8::from(self.profile.durable));
        out
    }

    /// Of a message.
    pub fn decode(message: impl Into<Message>) -> Result<Welcome> {
        let mut fields = Fields::new(message);
        let proof = fields.array()?;
        let level = fields.u8()?;
        if level != LEVEL_FULL {
            return Err(malformed(format!("level {level}")));
        }
        let mut limit = || usize::try_from(fields.u64()?).map_err(|_| malformed("a limit beyond this machine"));
        let (key_len_max, batch_operations_max) = (limit()?, limit()?);
        let (batch_bytes_max, inline_len_best) = (limit()?, limit()?);
        let durable = fields.flag()?;
        let profile = Profile {
            name: "wire",
            key_len_max,
            batch_operations_max,
            batch_bytes_max,
            inline_len_best,
            durable,
            // They are told by the other side, after a while.
            reads_at_once: false,
        };
        Ok(Welcome { proof, profile })
    }
}

/// Every kind of error with its number.
const KINDS: [(ErrorKind, u8); 15] = [
    (ErrorKind::Refused, 1),
    (ErrorKind::Invalid, 2),
    (ErrorKind::NotFound, 3),
    (ErrorKind::Full, 4),
    (ErrorKind::Expired, 5),
    (ErrorKind::Owned, 6),
    (ErrorKind::Damaged, 7),
    (ErrorKind::Unknown, 8),
    (ErrorKind::Device, 9),
    (ErrorKind::Stopped, 10),
    (ErrorKind::Unsupported, 11),
    (ErrorKind::Busy, 12),
    (ErrorKind::Disconnected, 13),
    (ErrorKind::TimedOut, 14),
    (ErrorKind::Interrupted, 15),
];

/// An error as a message: kind, what of a batch was refused, text.
pub fn put_error(error: &Error) -> Vec<u8> {
    let number = KINDS.iter().find(|(kind, _)| *kind == error.kind()).map_or(0, |(_, number)| *number);
    let mut out = Vec::with_capacity(64);
    out.put_u8(number);
    let (part, index) = match error.refusal() {
        None => (0, 0),
        Some(Refusal::Condition(index)) => (1, index),
        Some(Refusal::Operation(index)) => (2, index),
    };
    out.put_u8(part);
    out.put_u32(index);
    // With its cause, which has no place of its own on the wire.
    let text = error.to_string();
    let end = text.floor_char_boundary(TEXT_LEN_MAX);
    out.put_bytes(text.get(..end).unwrap_or_default().as_bytes());
    out
}

/// The longest text of an error, in bytes.
const TEXT_LEN_MAX: usize = 4096;

/// The error that a message tells.
pub fn take_error(message: impl Into<Message>) -> Error {
    let told = || -> Result<Error> {
        let mut fields = Fields::new(message);
        let (number, part, index) = (fields.u8()?, fields.u8()?, fields.u32()?);
        let text = fields.text()?;
        let kind = KINDS.iter().find(|(_, known)| *known == number).map_or(ErrorKind::Stopped, |(kind, _)| *kind);
        match (kind, part) {
            (ErrorKind::Refused, 1) => Ok(Error::refused(Refusal::Condition(index), text)),
            (ErrorKind::Refused, 2) => Ok(Error::refused(Refusal::Operation(index), text)),
            _ => Ok(Error::new(kind, text)),
        }
    };
    told().unwrap_or_else(|error| error)
}

/// A commit as a message.
pub fn put_commit(commit: Commit) -> Message {
    let mut out = [0; 9];
    out[..8].copy_from_slice(&commit.version.0.to_le_bytes());
    out[8] = u8::from(commit.repeated);
    Message::copy_of(&out)
}

/// The commit that a message tells.
pub fn take_commit(message: impl Into<Message>) -> Result<Commit> {
    let mut fields = Fields::new(message);
    let commit = Commit { version: Version(fields.u64()?), repeated: fields.flag()? };
    fields.end().map(|()| commit)
}

/// Version and size of a key, or that it is not there.
pub fn put_stat(stat: Option<Stat>) -> Message {
    let Some(stat) = stat else { return Message::copy_of(&[0]) };
    let mut out = [1; 17];
    out[1..9].copy_from_slice(&stat.version.0.to_le_bytes());
    out[9..].copy_from_slice(&stat.size.to_le_bytes());
    Message::copy_of(&out)
}

/// Version and size of a key, where it is there.
pub fn take_stat(message: impl Into<Message>) -> Result<Option<Stat>> {
    let mut fields = Fields::new(message);
    let stat = fields.optional(|fields| Ok(Stat { version: Version(fields.u64()?), size: fields.u64()? }))?;
    fields.end().map(|()| stat)
}

/// A page of a listing: its entries, and whether the range has no more.
pub fn put_page(entries: &[Entry], is_last: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + entries.len() * 64);
    out.put_u8(u8::from(is_last));
    out.put_u32(u32::try_from(entries.len()).unwrap_or(u32::MAX));
    for entry in entries {
        out.put_bytes(&entry.key);
        out.put_u64(entry.stat.version.0);
        out.put_u64(entry.stat.size);
        match &entry.value {
            None => out.put_u8(0),
            Some(value) => {
                out.put_u8(1);
                out.put_bytes(value);
            }
        }
    }
    out
}

/// The entries of a page, and whether the range has no more.
pub fn take_page(message: impl Into<Message>) -> Result<(Vec<Entry>, bool)> {
    let mut fields = Fields::new(message);
    let is_last = fields.flag()?;
    let entries = fields.list(ENTRY_LEN_MIN, |fields| {
        let key = fields.bytes()?;
        let stat = Stat { version: Version(fields.u64()?), size: fields.u64()? };
        Ok(Entry { key, stat, value: fields.optional(Fields::bytes)? })
    })?;
    fields.end().map(|()| (entries, is_last))
}

/// Spaces as a message.
pub fn put_spaces(spaces: &[SpaceEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + spaces.len() * SPACE_LEN);
    out.put_u32(u32::try_from(spaces.len()).unwrap_or(u32::MAX));
    for entry in spaces {
        out.put_u64(entry.space.0);
        out.put_u8(u8::from(entry.is_snapshot));
    }
    out
}

/// The spaces that a message tells.
pub fn take_spaces(message: impl Into<Message>) -> Result<Vec<SpaceEntry>> {
    let mut fields = Fields::new(message);
    let spaces =
        fields.list(SPACE_LEN, |fields| Ok(SpaceEntry { space: fields.space()?, is_snapshot: fields.flag()? }))?;
    fields.end().map(|()| spaces)
}

/// How full a store is, as a message.
pub fn put_usage(usage: &Usage) -> Vec<u8> {
    let mut out = Vec::with_capacity(33);
    [usage.total, usage.used, usage.free].iter().for_each(|bytes| out.put_u64(*bytes));
    match usage.limit {
        None => out.put_u8(0),
        Some(limit) => {
            out.put_u8(1);
            out.put_u64(limit);
        }
    }
    out
}

/// How full a store is.
pub fn take_usage(message: impl Into<Message>) -> Result<Usage> {
    let mut fields = Fields::new(message);
    let (total, used, free) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let usage = Usage { total, used, free, limit: fields.optional(Fields::u64)? };
    fields.end().map(|()| usage)
}

/// An event of a watch, or that none came.
pub fn put_event(event: Option<&WatchEvent>) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    match event {
        None => out.put_u8(0),
        Some(WatchEvent::Changed(change)) => {
            out.put_u8(1);
            out.put_u64(change.version.0);
            out.put_range(&change.keys);
        }
        Some(WatchEvent::LostSince(version)) => {
            out.put_u8(2);
            out.put_u64(version.0);
        }
    }
    out
}

/// An event of a watch, where one came.
pub fn take_event(message: impl Into<Message>) -> Result<Option<WatchEvent>> {
    let mut fields = Fields::new(message);
    let event = match fields.u8()? {
        0 => None,
        1 => {
            let (version, keys): (Version, KeyRange) = (Version(fields.u64()?), fields.range()?);
            Some(WatchEvent::Changed(Change { version, keys }))
        }
        2 => Some(WatchEvent::LostSince(Version(fields.u64()?))),
        other => return Err(malformed(format!("event {other}"))),
    };
    fields.end().map(|()| event)
}

/// One number as a message.
pub fn put_number(number: u64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

/// The number that a message is.
pub fn take_number(message: impl Into<Message>) -> Result<u64> {
    let mut fields = Fields::new(message);
    let number = fields.u64()?;
    fields.end().map(|()| number)
}
