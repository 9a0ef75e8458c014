//! Bytes of a stored node, where they lie in it.
//!
//! Invariant: a slice never reaches beyond the node's bytes.

use bytes::Bytes;

/// What an entry holds, where it lies in its node.
#[derive(Clone, Debug)]
pub struct Stored<'a> {
    node: &'a Bytes,
    range: std::ops::Range<usize>,
}

impl<'a> Stored<'a> {
    /// A range of a node's bytes.
    #[inline]
    pub(super) fn new(node: &'a Bytes, range: std::ops::Range<usize>) -> Stored<'a> {
        Stored { node, range }
    }

    /// All of a node's bytes.
    #[cfg(test)]
    pub(crate) fn of(node: &'a Bytes) -> Stored<'a> {
        Stored { node, range: 0..node.len() }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &'a [u8] {
        self.node.get(self.range.clone()).unwrap_or_default()
    }

    /// The bytes, sharing those of the node.
    pub fn to_bytes(&self) -> Bytes {
        self.node.slice(self.range.clone())
    }

    /// The first bytes.
    #[inline]
    pub fn head(&self, count: usize) -> Stored<'a> {
        let end = self.range.start.saturating_add(count).min(self.range.end);
        Stored { node: self.node, range: self.range.start..end }
    }

    /// The bytes from an offset on.
    #[inline]
    pub fn tail(&self, from: usize) -> Stored<'a> {
        let start = self.range.start.saturating_add(from).min(self.range.end);
        Stored { node: self.node, range: start..self.range.end }
    }
}
