//! Reading and writing of little-endian bytes without panics.
//!
//! Invariant: a [`Reader`] never reads past its end and never allocates more than its input holds,
//! whatever the bytes say.

use bytes::Bytes;

use crate::error::{Error, Result};

/// Takes fields from the front of a slice.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(*head)
    }

    /// An unsigned byte.
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

    /// Bytes preceded by their length in four bytes.
    pub fn bytes(&mut self) -> Result<Bytes> {
        let length = self.u32()? as usize;
        self.take(length).map(Bytes::copy_from_slice)
    }

    /// Up to `length` bytes of what is left, which stay there.
    pub fn peek(&self, length: usize) -> &'a [u8] {
        self.rest.get(..length.min(self.rest.len())).unwrap_or_default()
    }

    /// Fails unless everything was read.
    pub fn end(self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::damaged("bytes left over after the last field")) }
    }
}

fn cut_short() -> Error {
    Error::damaged("a field reaches past the end of its structure")
}

/// The error for a value that ends too early.
pub(crate) fn truncated() -> Error {
    Error::damaged("a stored value ends too early")
}

/// The same, of a read of the crate `bytes`.
pub(crate) fn short(_: bytes::TryGetError) -> Error {
    truncated()
}

/// Appends fields to a vector.
pub trait Writer {
    /// Four bytes.
    fn put_u32(&mut self, value: u32);
    /// Eight bytes.
    fn put_u64(&mut self, value: u64);
    /// Bytes preceded by their length in four bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Writer for Vec<u8> {
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        // Every length written here is bounded by the batch limits, far below 4 GiB.
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }
}
