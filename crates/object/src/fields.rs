//! The form that all records share: a version byte, then fields of tag, length and value.
//!
//! Invariants:
//! - Tags below [`TAG_FREE_MIN`] change what a record means: one that is not known is refused.
//! - Tags from there up may be passed over; who rewrites a record keeps them.
//! - Arbitrary bytes give an error, never a panic.

use crate::error::{Error, Result};

/// The version of all records.
pub(crate) const RECORD_VERSION: u8 = 1;
/// From this tag up a reader may pass over what it does not know.
pub(crate) const TAG_FREE_MIN: u64 = 64;

/// Builds a record.
pub(crate) struct FieldWriter {
    bytes: Vec<u8>,
}

impl FieldWriter {
    pub fn new() -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.push(RECORD_VERSION);
        FieldWriter { bytes }
    }

    pub fn put(&mut self, tag: u64, value: &[u8]) {
        put_varint(&mut self.bytes, tag);
        put_varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    pub fn put_u32(&mut self, tag: u64, value: u32) {
        self.put(tag, &value.to_le_bytes());
    }

    pub fn put_u64(&mut self, tag: u64, value: u64) {
        self.put(tag, &value.to_le_bytes());
    }

    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Adds a number in groups of seven bits, lowest first, the high bit set on all but the last.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Walks bytes that must not be trusted.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or_else(short)?;
        self.rest = rest;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| short())
    }

    pub fn byte(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::damaged("a number of a record is too large"))
    }

    /// Bytes after their length.
    pub fn counted(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.varint()?).map_err(|_| short())?;
        self.take(length)
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

fn short() -> Error {
    Error::damaged("a record ends inside a field")
}

/// The fields of a record, in order.
pub(crate) struct Fields<'a> {
    reader: Reader<'a>,
}

impl<'a> Fields<'a> {
    pub fn new(record: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(record);
        match reader.byte()? {
            RECORD_VERSION => Ok(Fields { reader }),
            version => Err(Error::damaged(format!(
                "a record has version {version}; this program knows {RECORD_VERSION}: use a newer one"
            ))),
        }
    }

    pub fn next(&mut self) -> Result<Option<(u64, &'a [u8])>> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        Ok(Some((self.reader.varint()?, self.reader.counted()?)))
    }
}

/// The whole value of a field as a number.
pub(crate) fn as_u64(value: &[u8]) -> Result<u64> {
    value.try_into().map(u64::from_le_bytes).map_err(|_| Error::damaged("a number of a record is not 8 bytes long"))
}

/// The whole value of a field as a number.
pub(crate) fn as_u32(value: &[u8]) -> Result<u32> {
    value.try_into().map(u32::from_le_bytes).map_err(|_| Error::damaged("a number of a record is not 4 bytes long"))
}

/// The whole value of a field as a code.
pub(crate) fn as_u8(value: &[u8]) -> Result<u8> {
    match value {
        [code] => Ok(*code),
        _ => Err(Error::damaged("a code of a record is not one byte long")),
    }
}

/// The whole value of a field as text.
pub(crate) fn as_text(value: &[u8]) -> Result<String> {
    String::from_utf8(value.to_vec()).map_err(|_| Error::damaged("a text of a record is not UTF-8"))
}

/// What a tag that is not known means.
pub(crate) fn unknown(tag: u64, value: &[u8], kept: &mut Vec<(u64, Vec<u8>)>) -> Result<()> {
    if tag < TAG_FREE_MIN {
        return Err(Error::damaged(format!(
            "a record has field {tag}, which this program does not know: use a newer one"
        )));
    }
    kept.push((tag, value.to_vec()));
    Ok(())
}

/// What a record without a field that it must have means.
pub(crate) fn missing(what: &str) -> Error {
    Error::damaged(format!("a record has no {what}"))
}
