//! What lies in the map.
//!
//! | key | value |
//! |---|---|
//! | `k`, key | version (8 bytes), value |
//! | `mformat` | `koine`, version of this format (4 bytes) |
//! | `mreserve` | versions up to this one may have been given (8 bytes) |
//! | `q`, number (8 bytes, big-endian) | an outcome of a request |
//!
//! Numbers in values are little-endian.
//!
//! Invariant: a map that is not empty and has no format of ours is not touched.

use bytes::Bytes;
use koine_engine::{Error, ErrorKind, KeyRange, Result};

use super::{Snapshot, Write};
use crate::seam::Direction;

/// Before every key of the store.
pub(super) const KEYS: &[u8] = b"k";
/// Before the number of an outcome.
pub(super) const OUTCOMES: &[u8] = b"q";
const FORMAT: &[u8] = b"mformat";
const RESERVE: &[u8] = b"mreserve";
const MAGIC: &[u8] = b"koine";
/// The version of this format.
const FORMAT_VERSION: u32 = 1;

/// What was found in a map.
pub(super) struct StoreFormat {
    /// It is empty.
    pub(super) is_new: bool,
    /// Versions up to this one may have been given.
    pub(super) reserved: u64,
}

/// Whether a map is ours, and from where its versions go on.
pub(super) fn read(snapshot: &impl Snapshot) -> Result<StoreFormat> {
    let Some(format) = snapshot.get(FORMAT)? else {
        if snapshot.scan(&KeyRange::all(), Direction::Forward, 1)?.is_empty() {
            return Ok(StoreFormat { is_new: true, reserved: 0 });
        }
        let message = "it holds keys of another program, not a Koine store; nothing was changed";
        return Err(Error::new(ErrorKind::Unknown, message));
    };
    let version = format.strip_prefix(MAGIC).and_then(|version| version.try_into().ok()).map(u32::from_le_bytes);
    match version {
        Some(FORMAT_VERSION) => {}
        Some(version) => {
            let message = format!(
                "it is a store of format {version}, and this program knows format {FORMAT_VERSION}; nothing was changed: use a newer program"
            );
            return Err(Error::new(ErrorKind::Unknown, message));
        }
        None => return Err(Error::damaged("the record of the store's format is not readable")),
    }
    let reserve = snapshot.get(RESERVE)?;
    let reserved = reserve.as_deref().and_then(|reserve| reserve.try_into().ok()).map(u64::from_le_bytes);
    let reserved = reserved.ok_or_else(|| Error::damaged("the record of the store's versions is not readable"))?;
    Ok(StoreFormat { is_new: false, reserved })
}

/// What makes an empty map a store.
pub(super) fn first_writes() -> Vec<Write> {
    let format = [MAGIC, &FORMAT_VERSION.to_le_bytes()].concat();
    vec![Write::Put(Bytes::from_static(FORMAT), Bytes::from(format)), reserve(0)]
}

/// Notes that versions up to this one may be given.
pub(super) fn reserve(version: u64) -> Write {
    Write::Put(Bytes::from_static(RESERVE), Bytes::copy_from_slice(&version.to_le_bytes()))
}

/// A key of the store, in the map.
pub(super) fn map_key(key: &[u8]) -> Bytes {
    Bytes::from([KEYS, key].concat())
}
