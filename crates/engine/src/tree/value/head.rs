//! Records, looked at where they lie in a leaf: nothing is taken out of the node for a read of a small value.
//!
//! Invariant: what a [`RecordHead`] says is what [`Value::decode`] would say of the same bytes.

use bytes::Bytes;

use super::{Content, INLINE_LEN_MAX, Piece, Record, Value};
use crate::tree::slice::Stored;
use crate::{Error, Result, Version};

/// What a leaf holds for a key, where it lies.
#[derive(Clone, Debug)]
pub enum Held<'a> {
    /// In memory.
    Value(&'a Value),
    /// In the bytes of a stored node.
    Stored(Stored<'a>),
}

impl Held<'_> {
    /// The value, taken out.
    pub fn to_value(&self) -> Result<Value> {
        match self {
            Held::Value(value) => Ok((*value).clone()),
            Held::Stored(stored) => Value::decode(stored.to_bytes()),
        }
    }
}

/// What a leaf says of a record, looked at where it lies.
#[derive(Debug)]
pub struct RecordHead<'a> {
    /// The commit that changed it last.
    pub version: Version,
    /// The length of the value in bytes.
    pub size: u64,
    /// Its bytes, if all of them are in memory.
    pub bytes: Option<HeldBytes<'a>>,
}

/// Bytes of a value in memory.
#[derive(Clone, Debug)]
pub enum HeldBytes<'a> {
    /// On their own.
    Alone(&'a Bytes),
    /// Among those of a node.
    InNode(Stored<'a>),
}

impl<'a> HeldBytes<'a> {
    /// The bytes.
    pub fn as_slice(&self) -> &'a [u8] {
        match self {
            HeldBytes::Alone(bytes) => bytes,
            HeldBytes::InNode(stored) => stored.as_slice(),
        }
    }

    /// Up to `count` of the bytes from `offset` on, shared.
    pub fn share(&self, offset: u64, count: usize) -> Bytes {
        match self {
            HeldBytes::Alone(bytes) => {
                let start = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
                bytes.slice(start..start.saturating_add(count).min(bytes.len()))
            }
            HeldBytes::InNode(stored) => {
                stored.tail(usize::try_from(offset).unwrap_or(usize::MAX)).head(count).to_bytes()
            }
        }
    }
}

impl Value {
    /// Whether these bytes are a value.
    pub(crate) fn check(stored: &Stored<'_>) -> Result<()> {
        match RecordHead::of_stored(stored) {
            Some(_) => Ok(()),
            None => Value::decode(stored.to_bytes()).map(drop),
        }
    }
}

/// Bytes of a stored record before its piece, and of that before the bytes in it.
const RECORD_HEAD_LEN: usize = 1 + 8 + 8;

impl<'a> RecordHead<'a> {
    /// Of what a leaf holds; an error where that is no record.
    pub fn of(held: &Held<'a>) -> Result<RecordHead<'a>> {
        match held {
            Held::Value(Value::Record(record)) => Ok(RecordHead::of_record(record)),
            Held::Value(_) => Err(no_record()),
            Held::Stored(stored) => match RecordHead::of_stored(stored) {
                Some(head) => Ok(head),
                None => match Value::decode(stored.to_bytes())? {
                    Value::Record(record) => Ok(RecordHead { version: record.version, size: record.size, bytes: None }),
                    _ => Err(no_record()),
                },
            },
        }
    }

    fn of_record(record: &'a Record) -> RecordHead<'a> {
        let bytes = match &record.content {
            Content::Single(Piece::Inline(bytes)) => Some(bytes),
            Content::Single(Piece::Pending(pending)) => Some(&pending.bytes),
            _ => None,
        };
        // What lies beyond a piece reads as zeros.
        let bytes = bytes.filter(|bytes| bytes.len() as u64 == record.size).map(HeldBytes::Alone);
        RecordHead { version: record.version, size: record.size, bytes }
    }

    /// Of the stored forms that can be told without decoding: without bytes, with bytes inline, or in pieces.
    fn of_stored(stored: &Stored<'a>) -> Option<RecordHead<'a>> {
        let bytes = stored.as_slice();
        let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let (version, size) = (Version(word(1)?), word(9)?);
        let inline = match (bytes.first()?, bytes.get(RECORD_HEAD_LEN)) {
            (2, None) => None,
            (4, Some(_)) if bytes.len() == RECORD_HEAD_LEN + 8 => None,
            (3, Some(1)) if bytes.len() - RECORD_HEAD_LEN - 1 <= INLINE_LEN_MAX => {
                Some(stored.tail(RECORD_HEAD_LEN + 1)).filter(|inline| inline.as_slice().len() as u64 == size)
            }
            _ => return None,
        };
        Some(RecordHead { version, size, bytes: inline.map(HeldBytes::InNode) })
    }
}

fn no_record() -> Error {
    Error::damaged("a leaf holds something else where a record should be")
}
