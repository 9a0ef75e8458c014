//! Keys of the trees: short ones lie in the tree's own nodes, so that looking for one goes from node to node and no further.
//!
//! Invariant: keys are ordered as their bytes are, short or long.

use std::borrow::Borrow;
use std::cmp::Ordering;

use bytes::Bytes;

/// Up to here a key is short.
const SHORT_LEN_MAX: usize = 30;

/// A key.
#[derive(Clone)]
pub(super) enum Key {
    /// So many of the bytes.
    Short(u8, [u8; SHORT_LEN_MAX]),
    Long(Bytes),
}

impl Key {
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Key::Short(length, bytes) => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Key::Long(bytes) => bytes,
        }
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        match self {
            Key::Short(..) => Bytes::copy_from_slice(self.as_slice()),
            Key::Long(bytes) => bytes.clone(),
        }
    }
}

impl From<&Bytes> for Key {
    fn from(bytes: &Bytes) -> Key {
        let mut held = [0; SHORT_LEN_MAX];
        match (held.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(bytes);
                Key::Short(length, held)
            }
            _ => Key::Long(bytes.clone()),
        }
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Key {}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.to_bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_keys_are_in_the_order_of_their_bytes() {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for length in [0, 1, SHORT_LEN_MAX - 1, SHORT_LEN_MAX, SHORT_LEN_MAX + 1, 1000] {
            all.extend([0, 7, 255].map(|byte| vec![byte; length]));
        }
        let key = |bytes: &[u8]| Key::from(&Bytes::copy_from_slice(bytes));
        for one in &all {
            assert_eq!(key(one).as_slice(), &one[..]);
            assert_eq!(key(one).to_bytes(), one);
            for other in &all {
                assert_eq!(key(one).cmp(&key(other)), one.cmp(other));
                assert_eq!(key(one) == key(other), one == other);
            }
        }
    }
}
