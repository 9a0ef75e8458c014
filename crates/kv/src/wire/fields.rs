//! Fields of a message: little-endian numbers, byte strings with their length in front.
//!
//! Invariant: [`Fields`] never reads past its end and never allocates more than the message holds, whatever it says.

use std::ops::Range;

use bytes::Bytes;
use koine_engine::{Error, KeyRange, Place, Result, SpaceId};

use super::message::Message;

/// Takes fields from the front of a message.
pub struct Fields {
    message: Message,
    /// Where the next field begins.
    at: usize,
}

impl Fields {
    /// Of this message.
    pub fn new(message: impl Into<Message>) -> Fields {
        Fields { message: message.into(), at: 0 }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.message.len() - self.at
    }

    /// The next bytes, where they lie.
    fn take(&mut self, length: usize) -> Result<Range<usize>> {
        if length > self.remaining() {
            return Err(malformed("a field reaches past the end of its message"));
        }
        let start = self.at;
        self.at += length;
        Ok(start..self.at)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        let bytes = self.message.get(taken).and_then(|bytes| bytes.first_chunk::<N>());
        bytes.copied().ok_or_else(|| malformed("a field is too short"))
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Zero or one.
    pub fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(malformed(format!("{other} where 0 or 1 is wanted"))),
        }
    }

    /// A byte string: its length in four bytes, and its bytes.
    pub fn bytes(&mut self) -> Result<Bytes> {
        let length = self.u32()? as usize;
        let taken = self.take(length)?;
        // Who keeps a short key shall not keep a long message with it.
        if length >= self.message.len() / 2 {
            return Ok(self.message.part(taken));
        }
        Ok(Bytes::copy_from_slice(self.message.get(taken).unwrap_or_default()))
    }

    /// A text in UTF-8, as a byte string.
    pub fn text(&mut self) -> Result<String> {
        let bytes = self.bytes()?;
        std::str::from_utf8(&bytes).map(str::to_owned).map_err(|_| malformed("a text that is not UTF-8"))
    }

    /// A field that is there (1 and the field) or not (0).
    pub fn optional<T>(&mut self, field: impl FnOnce(&mut Fields) -> Result<T>) -> Result<Option<T>> {
        if self.flag()? { field(self).map(Some) } else { Ok(None) }
    }

    /// As many as a number of four bytes says; each takes at least `least` bytes, so that a number that cannot be right
    /// is refused before anything is made for it.
    pub fn list<T>(&mut self, least: usize, mut item: impl FnMut(&mut Fields) -> Result<T>) -> Result<Vec<T>> {
        let count = self.u32()? as usize;
        if count.saturating_mul(least.max(1)) > self.remaining() {
            return Err(malformed(format!("{count} items where there is no room for so many")));
        }
        (0..count).map(|_| item(self)).collect()
    }

    /// A space.
    pub fn space(&mut self) -> Result<SpaceId> {
        self.u64().map(SpaceId)
    }

    /// A space and a key.
    pub fn place(&mut self) -> Result<Place> {
        Ok(Place { space: self.space()?, key: self.bytes()? })
    }

    /// First key, and end where there is one.
    pub fn range(&mut self) -> Result<KeyRange> {
        Ok(KeyRange { start: self.bytes()?, end: self.optional(Fields::bytes)? })
    }

    /// Fails unless everything was read.
    pub fn end(self) -> Result<()> {
        if self.remaining() == 0 { Ok(()) } else { Err(malformed("bytes left over after the last field")) }
    }
}

/// What the other side sent is not of the protocol.
pub fn malformed(what: impl std::fmt::Display) -> Error {
    Error::invalid(format!("the other side does not speak this protocol, or not this version of it: {what}"))
}

/// Appends fields to a message.
pub trait PutFields {
    /// One byte.
    fn put_u8(&mut self, value: u8);
    /// Four bytes.
    fn put_u32(&mut self, value: u32);
    /// Eight bytes.
    fn put_u64(&mut self, value: u64);
    /// A byte string.
    fn put_bytes(&mut self, bytes: &[u8]);
    /// A space and a key.
    fn put_place(&mut self, place: &Place);
    /// First key, and end where there is one.
    fn put_range(&mut self, range: &KeyRange);
}

impl PutFields for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        // Messages are bounded far below 4 GiB; what is too long is refused as a whole.
        self.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.extend_from_slice(bytes);
    }

    fn put_place(&mut self, place: &Place) {
        self.put_u64(place.space.0);
        self.put_bytes(&place.key);
    }

    fn put_range(&mut self, range: &KeyRange) {
        self.put_bytes(&range.start);
        match &range.end {
            None => self.put_u8(0),
            Some(end) => {
                self.put_u8(1);
                self.put_bytes(end);
            }
        }
    }
}
