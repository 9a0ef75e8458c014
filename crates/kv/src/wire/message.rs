//! The message of a frame: most are short, and lie where their frame does.
//!
//! Invariant: what is short takes no memory of its own, and keeps none of somebody else's.

use std::ops::{Deref, Range};

use bytes::Bytes;

/// Up to here a message is short: what is asked about one key of the usual length is.
pub const SHORT_LEN_MAX: usize = 78;

/// Fields, as they go over the wire.
#[derive(Clone)]
pub struct Message(Held);

#[derive(Clone)]
enum Held {
    /// So many of the bytes.
    Short(u8, [u8; SHORT_LEN_MAX]),
    Long(Bytes),
}

impl Message {
    /// A copy of these bytes.
    pub fn copy_of(bytes: &[u8]) -> Message {
        Message::short(bytes).unwrap_or_else(|| Message(Held::Long(Bytes::copy_from_slice(bytes))))
    }

    fn short(bytes: &[u8]) -> Option<Message> {
        let mut held = [0; SHORT_LEN_MAX];
        held.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Message(Held::Short(u8::try_from(bytes.len()).ok()?, held)))
    }

    /// A part of it: shared of a long one.
    pub fn part(&self, range: Range<usize>) -> Bytes {
        match &self.0 {
            Held::Short(..) => Bytes::copy_from_slice(self.get(range).unwrap_or_default()),
            Held::Long(bytes) if range.start <= range.end && range.end <= bytes.len() => bytes.slice(range),
            Held::Long(_) => Bytes::new(),
        }
    }

    /// All of it.
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Held::Short(..) => Bytes::copy_from_slice(&self),
            Held::Long(bytes) => bytes,
        }
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Short(length, bytes) => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Held::Long(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Message {
        Message::short(&bytes).unwrap_or_else(|| Message(Held::Long(bytes.into())))
    }
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Message {
        Message::short(&bytes).unwrap_or(Message(Held::Long(bytes)))
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Message) -> bool {
        **self == **other
    }
}

impl Eq for Message {}

impl PartialEq<[u8]> for Message {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_ones_are_alike() {
        for length in [0, 1, SHORT_LEN_MAX - 1, SHORT_LEN_MAX, SHORT_LEN_MAX + 1, 5000] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            for message in [Message::copy_of(&bytes), bytes.clone().into(), Bytes::from(bytes.clone()).into()] {
                assert_eq!(message, bytes[..]);
                assert_eq!(message.part(0..length / 2), bytes[..length / 2]);
                assert_eq!(message.part(length..length + 1), Bytes::new());
                assert_eq!(message.clone().into_bytes(), bytes);
            }
        }
    }
}
