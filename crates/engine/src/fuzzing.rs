//! What the fuzz targets call: each parser of bytes that come from a medium, behind its checksum.
//!
//! Checksums are put right before parsing, so that a fuzzer reaches what they guard: a medium may return bytes that
//! a broken or hostile writer has sealed. Invariant: every function takes any bytes without a panic, and asserts that
//! what is read is written back the same.

use bytes::Bytes;

use crate::address::BlockRange;
use crate::allocator::free_list;
use crate::checksum::{crc64, crc64_with_hole};
use crate::codec::Reader;
use crate::content::{piece_bound, split_piece_key};
use crate::defrag::DefragPosition;
use crate::device::{BLOCK_LEN, MemoryDevice};
use crate::log::group;
use crate::log::record::Record;
use crate::scrub::ScrubPosition;
use crate::stream::{Frame, FrameReader, FrameWriter};
use crate::superblock::{FreeListRef, MAGIC, Superblock};
use crate::tree::UnverifiedHeader;
use crate::tree::value::Value;

/// The bytes in whole blocks, at least one and at most `most`.
fn blocks(bytes: &[u8], most: usize) -> Vec<u8> {
    let count = bytes.len().div_ceil(BLOCK_LEN).clamp(1, most);
    let mut out = bytes.get(..bytes.len().min(count * BLOCK_LEN)).unwrap_or_default().to_vec();
    out.resize(count * BLOCK_LEN, 0);
    out
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + field.len()) {
        place.copy_from_slice(field);
    }
}

/// A superblock.
pub fn superblock(bytes: &[u8]) {
    let _ = Superblock::decode(bytes);
    let mut block = blocks(bytes, 1);
    put(&mut block, 0, &MAGIC);
    put(&mut block, 8, &crate::FORMAT.to_le_bytes());
    put(&mut block, 12, &(BLOCK_LEN as u32).to_le_bytes());
    let checksum = crc64_with_hole(&block, 16);
    put(&mut block, 16, &checksum.to_le_bytes());
    if let Ok(superblock) = Superblock::decode(&block) {
        assert_eq!(Superblock::decode(&superblock.encode()).ok(), Some(superblock));
    }
}

/// A group of the log, with its records.
pub fn group(bytes: &[u8]) {
    let _ = group::decode(bytes);
    let mut whole = blocks(bytes, 64);
    let length = whole.len() as u32;
    put(&mut whole, 0, &group::MAGIC);
    put(&mut whole, 4, &length.to_le_bytes());
    let checksum = crc64_with_hole(&whole, 8);
    put(&mut whole, 8, &checksum.to_le_bytes());
    assert_eq!(group::claimed_len(&whole), Some(u64::from(length)));
    if let Ok((_, payload)) = group::decode(&whole) {
        records(payload);
    }
}

/// Records of commits, one after the other.
pub fn records(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    while reader.remaining() > 0 {
        let Ok(record) = Record::decode(&mut reader) else { return };
        let mut again = Vec::new();
        record.encode(&mut again);
        let read = Record::decode(&mut Reader::new(&again)).expect("what was written is read");
        let mut third = Vec::new();
        read.encode(&mut third);
        assert_eq!(again, third);
        let _ = record.extents().count();
    }
}

/// An index node.
pub fn node(bytes: &[u8]) {
    let mut whole = blocks(bytes, 4);
    put(&mut whole, 0, b"NODE\0");
    let Some(claim) = UnverifiedHeader::read(&whole, 7) else { return };
    whole.resize(claim.at.len_bytes(), 0);
    let checksum = crc64_with_hole(&whole, 32);
    put(&mut whole, 32, &checksum.to_le_bytes());
    let Some(claim) = UnverifiedHeader::read(&whole, 7) else { return };
    if let Ok(node) = claim.verify(Bytes::from(whole)) {
        let entries = node.entries().expect("what is verified can be taken out");
        let children = node.children().expect("what is verified can be taken out");
        assert_eq!(node.len(), entries.len() + children.len());
        for (key, _) in entries {
            let _ = (split_piece_key(&key), piece_bound(&key));
        }
    }
}

/// A value of a leaf.
pub fn value(bytes: &[u8]) {
    if let Ok(value) = Value::decode(Bytes::copy_from_slice(bytes)) {
        let mut again = Vec::new();
        value.encode(&mut again).expect("what was read can be written");
        assert_eq!(again, bytes);
        assert_eq!(again.len(), value.encoded_len());
    }
}

/// A page of the free list, and those that it names in the same bytes.
pub fn free_list(bytes: &[u8]) {
    let mut whole = blocks(bytes, 8);
    put(&mut whole, 0, b"KFRE");
    let count = (whole.len() / BLOCK_LEN) as u32;
    let first = FreeListRef { at: BlockRange { start: 0, count }, checksum: crc64(&whole) };
    let length = whole.len() as u64;
    let device = MemoryDevice::from_bytes(whole, length);
    if let Ok((runs, pages)) = free_list::read(&device, Some(first), u64::from(count)) {
        assert!(runs.blocks() <= u64::from(count) && !pages.is_empty());
    }
}

/// A stream of spaces, and the frames that these bytes make.
pub fn stream(bytes: &[u8]) {
    let mut input = bytes;
    if let Ok(mut frames) = FrameReader::begin(&mut input) {
        while let Ok(frame) = frames.next() {
            drop(frame);
        }
    }
    let (kind, payload) = bytes.split_first().map_or((0, bytes), |(kind, payload)| (*kind, payload));
    for kind in [kind, kind % 10] {
        let Ok(frame) = Frame::parse(kind, &Bytes::copy_from_slice(payload)) else { continue };
        assert_eq!((frame.kind(), frame.payload().as_slice()), (kind, payload));
        // Sealed, it is read as what it is.
        let mut sealed = Vec::new();
        FrameWriter::begin(7, &mut sealed).write(&frame, &mut sealed);
        let mut input = sealed.as_slice();
        let mut frames = FrameReader::begin(&mut input).expect("the header was sealed");
        assert_eq!(frames.next().ok(), Some(frame));
        assert!(frames.next().is_err());
    }
}

/// The positions of a scrub and of a defragmentation.
pub fn scrub_position(bytes: &[u8]) {
    if let Ok(position) = ScrubPosition::from_bytes(bytes) {
        assert_eq!(position.to_bytes(), bytes);
    }
    if let Ok(position) = DefragPosition::from_bytes(bytes) {
        assert_eq!(position.to_bytes(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop_oneof![Just(0u8), 0u8..20, any::<u8>()], 0..600)) {
            for parse in [superblock, group, records, node, value, free_list, stream, scrub_position] {
                parse(&bytes);
            }
        }
    }
}
