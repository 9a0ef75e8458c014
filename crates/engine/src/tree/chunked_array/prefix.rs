//! What the keys of a sorted list begin with, and the eight bytes behind it.
//!
//! Invariant: of two keys that begin alike, the one with the smaller prefix is the smaller one; equal prefixes tell nothing.

use std::cmp::Ordering;

/// So many of the common bytes are kept beside the list.
const KEPT: usize = 22;

/// Bytes that all keys of a list begin with, but for an empty one at its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Common {
    len: u16,
    kept: [u8; KEPT],
}

impl Common {
    /// Of a list from its first to its last key.
    pub(super) fn between(first: &[u8], last: &[u8]) -> Common {
        let len = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let mut kept = [0; KEPT];
        kept.iter_mut().zip(first.iter().take(len)).for_each(|(to, from)| *to = *from);
        Common { len: len as u16, kept }
    }

    /// Where a key lies beside those that begin like this; `sample` gives one of them.
    #[inline]
    pub(super) fn side<'a>(&self, key: &[u8], sample: impl FnOnce() -> &'a [u8]) -> Ordering {
        let len = usize::from(self.len);
        let head = key.get(..len).unwrap_or(key);
        match self.kept.get(..len) {
            Some(kept) => head.cmp(kept),
            None => head.cmp(sample().get(..len).unwrap_or_default()),
        }
    }

    /// Whether a key begins like this, as far as that can be told without another one.
    pub(super) fn surely_begins(&self, key: &[u8]) -> bool {
        self.kept.get(..usize::from(self.len)).is_some_and(|kept| key.starts_with(kept))
    }

    /// The eight bytes that follow in a key that begins like this, as a number that sorts as they do.
    #[inline]
    pub(super) fn prefix(&self, key: &[u8]) -> u64 {
        let rest = key.get(usize::from(self.len)..).unwrap_or_default();
        match rest.first_chunk::<8>() {
            Some(chunk) => u64::from_be_bytes(*chunk),
            None => rest.iter().enumerate().fold(0, |sum, (index, byte)| sum | u64::from(*byte) << (56 - 8 * index)),
        }
    }
}
