//! A group: the unit in which the log is written.
//!
//! Layout in docs/format.md: a header of [`HEADER_LEN`] bytes, the records one after the other, zeros up to
//! a multiple of the block. The checksum covers all of it.
//!
//! Invariants:
//! - A group is part of the log only when it verifies by its own checksum, has the superblock's store
//!   id and epoch, names the checksum of the group before it, and its first log number is the next one.
//! - `flushed` is the highest log number known durable when the group was built: recovery never ends
//!   the log at or below the highest `flushed` it finds anywhere in the ring.

use crate::batch::Version;
use crate::checksum::crc64_with_hole;
use crate::codec::{Reader, Writer};
use crate::device::BLOCK_LEN;
use crate::error::{Error, Result};

/// The first bytes of a group.
pub const MAGIC: [u8; 4] = *b"KGRP";
/// Bytes before the first record.
pub const HEADER_LEN: usize = 72;
const CHECKSUM_AT: usize = 8;

/// What stands before the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// Covers header, records and padding.
    pub checksum: u64,
    /// The whole group in bytes, padding included.
    pub length: u32,
    /// The records in bytes.
    pub payload: u32,
    /// How many records.
    pub records: u32,
    /// The store.
    pub store_id: u64,
    /// The epoch.
    pub epoch: u64,
    /// The log number of the first record (of the next group's first, when there is none).
    pub first: Version,
    /// The checksum of the group before.
    pub previous: u64,
    /// The highest log number known durable when this was built.
    pub flushed: Version,
}

/// The length of a group with so many bytes of records, padding included.
pub fn length_with(payload: usize) -> usize {
    (HEADER_LEN + payload).next_multiple_of(BLOCK_LEN)
}

/// Makes a group of `bytes`, which hold `payload` bytes of records from [`HEADER_LEN`] on and are
/// [`length_with`] of them long; the header's `checksum`, `length` and `payload` are filled in here.
pub fn seal(header: GroupHeader, payload: usize, bytes: &mut [u8]) -> GroupHeader {
    debug_assert_eq!(bytes.len(), length_with(payload));
    let header = GroupHeader { length: bytes.len() as u32, payload: payload as u32, ..header };
    let mut front = Vec::with_capacity(HEADER_LEN);
    front.extend_from_slice(&MAGIC);
    front.put_u32(header.length);
    front.put_u64(0); // the checksum's place
    front.put_u32(header.payload);
    front.put_u32(header.records);
    for word in [header.store_id, header.epoch, header.first.0, header.previous, header.flushed.0, 0] {
        front.put_u64(word);
    }
    debug_assert_eq!(front.len(), HEADER_LEN);
    bytes[..HEADER_LEN].copy_from_slice(&front);
    bytes[HEADER_LEN + payload..].fill(0);
    let checksum = crc64_with_hole(bytes, CHECKSUM_AT);
    bytes[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&checksum.to_le_bytes());
    GroupHeader { checksum, ..header }
}

/// Reads the group that begins at the front of `bytes` and gives its header and records.
pub fn decode(bytes: &[u8]) -> Result<(GroupHeader, &[u8])> {
    let mut reader = Reader::new(bytes);
    if reader.array::<4>()? != MAGIC {
        return Err(Error::damaged("no group begins here"));
    }
    let length = reader.u32()?;
    let checksum = reader.u64()?;
    let payload = reader.u32()?;
    let records = reader.u32()?;
    let header = GroupHeader {
        checksum,
        length,
        payload,
        records,
        store_id: reader.u64()?,
        epoch: reader.u64()?,
        first: Version(reader.u64()?),
        previous: reader.u64()?,
        flushed: Version(reader.u64()?),
    };
    let whole = bytes.get(..length as usize).ok_or_else(|| Error::damaged("the group is longer than the ring"))?;
    if !(length as usize).is_multiple_of(BLOCK_LEN) || crc64_with_hole(whole, CHECKSUM_AT) != checksum {
        return Err(Error::damaged("the group does not match its checksum"));
    }
    let records = whole
        .get(HEADER_LEN..HEADER_LEN.saturating_add(payload as usize))
        .ok_or_else(|| Error::damaged("the group's records reach past its end"))?;
    Ok((header, records))
}

/// How long the group says that it is that begins at the front of `block`; `None` where none begins.
pub fn claimed_len(block: &[u8]) -> Option<u64> {
    let mut reader = Reader::new(block);
    (reader.array::<4>().ok()? == MAGIC).then_some(())?;
    reader.u32().ok().map(u64::from).filter(|length| *length >= HEADER_LEN as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (GroupHeader, Vec<u8>) {
        let header = GroupHeader {
            checksum: 0,
            length: 0,
            payload: 0,
            records: 2,
            store_id: 1,
            epoch: 2,
            first: Version(3),
            previous: 4,
            flushed: Version(2),
        };
        let mut bytes = vec![7; BLOCK_LEN];
        bytes[HEADER_LEN..HEADER_LEN + 7].copy_from_slice(b"records");
        (seal(header, 7, &mut bytes), bytes)
    }

    #[test]
    fn survives_a_round_trip() {
        let (header, bytes) = sample();
        assert_eq!(bytes.len(), BLOCK_LEN);
        let (again, payload) = decode(&bytes).unwrap();
        assert_eq!(again, header);
        assert_eq!(payload, b"records");
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let (_, good) = sample();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(decode(&bad).is_err(), "byte {at}");
        }
    }
}
