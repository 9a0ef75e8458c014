//! Where the store's keys lie in its space.
//!
//! Invariants:
//! - A key of 8 bytes is an object: its number, big-endian. All other keys begin with nine bytes 0xFF, which no
//!   object's key does, and so sort after every object: the counter of objects shares a leaf with the newest ones.
//! - Numbers begin at 1.

use bytes::Bytes;

use crate::batch::{KeyRange, Place, SpaceId};
use crate::error::{Error, Result};

/// The space of numbered objects, by convention: space 16 is the catalogue of buckets.
pub const SPACE: SpaceId = SpaceId(17);

/// What every key begins with that is not an object's.
const APART: [u8; 9] = [0xFF; 9];

/// The layout that this module reads and writes.
pub const LAYOUT: &[u8] = b"koine objects 1";

/// What is kept beside the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// How many objects there are: a counter.
    Count,
    /// [`LAYOUT`].
    Layout,
    /// The most objects that there may be: 8 bytes, big-endian; absent without a limit.
    Limit,
    /// The first number that was never reserved: 8 bytes, big-endian.
    Next,
}

impl Setting {
    /// Its key.
    pub fn key(self) -> Bytes {
        let tag = match self {
            Setting::Count => b'c',
            Setting::Layout => b'l',
            Setting::Limit => b'm',
            Setting::Next => b'n',
        };
        Bytes::from([&APART[..], &[tag]].concat())
    }

    /// Where it lies.
    pub fn place(self) -> Place {
        Place::new(SPACE, self.key())
    }
}

/// The key of an object.
pub fn object_key(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Where an object lies.
pub fn object_place(number: u64) -> Place {
    Place::new(SPACE, object_key(number))
}

/// The keys of all objects from a number on.
pub fn objects_from(number: u64) -> KeyRange {
    KeyRange::new(object_key(number), Bytes::copy_from_slice(&APART))
}

/// The number in an object's key.
pub fn number_of(key: &[u8]) -> Result<u64> {
    let bytes = <[u8; 8]>::try_from(key).map_err(|_| {
        Error::damaged(format!("a key of {} bytes lies among the objects, where keys have 8", key.len()))
    })?;
    Ok(u64::from_be_bytes(bytes))
}

/// The key of what a transaction keeps until it is executed: its place, or a new state of an object.
pub fn scratch_key(transaction: u64, object: u64) -> Bytes {
    Bytes::from([&APART[..], b"t", &transaction.to_be_bytes(), &object.to_be_bytes()].concat())
}

/// The keys of what transactions keep.
pub fn scratch_range() -> KeyRange {
    KeyRange::prefix([&APART[..], b"t"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_sort_after_every_object() {
        let settings = [Setting::Count, Setting::Layout, Setting::Limit, Setting::Next].map(Setting::key);
        for key in settings.iter().chain([&scratch_key(0, 0)]) {
            assert!(*key > object_key(u64::MAX) && !objects_from(0).contains(key));
        }
        assert!(objects_from(7).contains(&object_key(u64::MAX)) && !objects_from(7).contains(&object_key(6)));
        assert!(scratch_range().contains(&scratch_key(u64::MAX, u64::MAX)));
        assert!(settings.iter().all(|key| !scratch_range().contains(key)));
        assert_eq!(number_of(&object_key(258)).unwrap(), 258);
        assert!(number_of(b"short").is_err());
    }
}
