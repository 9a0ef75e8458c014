//! The bytes of a medium in memory, in blocks that copies share until one of them is written.
//!
//! Invariants:
//! - A copy costs a pointer a block; a block is copied when it is written while another image has it too.
//! - Blocks that were never written take no room and read as zeros.
//! - Equal bytes have equal fingerprints, however they came about.

use std::sync::{Arc, OnceLock};

use super::BLOCK_LEN;

/// What a medium holds.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// `None` is a block of zeros.
    blocks: Vec<Option<Arc<Block>>>,
    length: usize,
}

#[derive(Debug)]
struct Block {
    bytes: [u8; BLOCK_LEN],
    fingerprint: OnceLock<u64>,
}

impl Clone for Block {
    /// For a change: what was known of the bytes is forgotten.
    fn clone(&self) -> Block {
        Block { bytes: self.bytes, fingerprint: OnceLock::new() }
    }
}

impl Block {
    fn zeros() -> Block {
        Block { bytes: [0; BLOCK_LEN], fingerprint: OnceLock::new() }
    }

    /// 0 exactly for zeros.
    fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| match is_zero(&self.bytes) {
            true => 0,
            false => crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &self.bytes).max(1),
        })
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// The blocks that a range touches: the number of each, where in it the range begins, and how much of it is meant.
fn split(offset: usize, length: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let end = offset.saturating_add(length);
    let mut at = offset;
    std::iter::from_fn(move || {
        let within = at % BLOCK_LEN;
        let count = (BLOCK_LEN - within).min(end - at);
        let part = (at / BLOCK_LEN, within, count);
        at += count;
        (count > 0).then_some(part)
    })
}

impl Image {
    /// Zeros.
    pub fn zeros(length: usize) -> Image {
        Image { blocks: vec![None; length.div_ceil(BLOCK_LEN)], length }
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Makes it longer; new bytes are zeros.
    pub fn grow(&mut self, length: usize) {
        if length > self.length {
            self.length = length;
            self.blocks.resize(length.div_ceil(BLOCK_LEN), None);
        }
    }

    /// Copies bytes from `offset` as far as there are any; how many.
    pub fn read(&self, offset: usize, buffer: &mut [u8]) -> usize {
        let length = buffer.len().min(self.length.saturating_sub(offset));
        let mut rest = &mut buffer[..length];
        for (block, within, count) in split(offset, length) {
            let (part, after) = rest.split_at_mut(count);
            match self.blocks.get(block).and_then(Option::as_ref) {
                Some(block) => part.copy_from_slice(&block.bytes[within..within + count]),
                None => part.fill(0),
            }
            rest = after;
        }
        length
    }

    /// Puts bytes at `offset`; what lies past the end is left out.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        let mut rest = &data[..data.len().min(self.length.saturating_sub(offset))];
        for (block, within, count) in split(offset, rest.len()) {
            let (part, after) = rest.split_at(count);
            self.change(block)[within..within + count].copy_from_slice(part);
            rest = after;
        }
    }

    /// Makes a range zeros, as far as there is any.
    pub fn zero(&mut self, offset: usize, length: usize) {
        let length = length.min(self.length.saturating_sub(offset));
        for (block, within, count) in split(offset, length) {
            if count == BLOCK_LEN {
                self.blocks[block] = None;
            } else {
                self.change(block)[within..within + count].fill(0);
            }
        }
    }

    /// The bytes of a block, to be changed.
    fn change(&mut self, block: usize) -> &mut [u8; BLOCK_LEN] {
        let block = self.blocks[block].get_or_insert_with(|| Arc::new(Block::zeros()));
        let block = Arc::make_mut(block);
        block.fingerprint = OnceLock::new();
        &mut block.bytes
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.read(0, &mut bytes);
        bytes
    }

    /// A number that tells images apart. Blocks that images share are summed up once for all of them.
    pub fn fingerprint(&self) -> u64 {
        let written = self.blocks.iter().zip(1u64..).filter_map(|(block, number)| Some((number, block.as_ref()?)));
        written.fold(self.length as u64, |sum, (number, block)| {
            let mixed = (block.fingerprint() ^ number.rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            if block.fingerprint() == 0 { sum } else { sum.wrapping_add(mixed ^ (mixed >> 32)) }
        })
    }
}

impl From<&[u8]> for Image {
    fn from(bytes: &[u8]) -> Image {
        let of = |bytes: &[u8]| {
            (!is_zero(bytes)).then(|| {
                let mut block = Block::zeros();
                block.bytes[..bytes.len()].copy_from_slice(bytes);
                Arc::new(block)
            })
        };
        Image { blocks: bytes.chunks(BLOCK_LEN).map(of).collect(), length: bytes.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_written_as_a_vector_does() {
        let mut plain = vec![0u8; 3 * BLOCK_LEN + 100];
        let mut image = Image::zeros(plain.len());
        for (offset, length, byte) in [(0, 1, 1), (4_000, 5_000, 2), (8_192, 4_096, 3), (12_380, 8, 4)] {
            plain[offset..offset + length].fill(byte);
            image.write(offset, &vec![byte; length]);
            assert_eq!(image.to_vec(), plain);
        }
        let kept = image.clone();
        image.zero(100, 9_000);
        plain[100..9_100].fill(0);
        assert_eq!(image.to_vec(), plain);
        assert_ne!(kept.to_vec(), plain, "a copy does not follow");
        let mut part = [9; 300];
        assert_eq!(image.read(12_200, &mut part), 188);
        assert_eq!(part[..188], plain[12_200..]);
        image.write(12_380, &[5; 20]);
        assert_eq!(image.len(), plain.len(), "what lies past the end is left out");
        assert_eq!((image.read(50_000, &mut part), Image::default().is_empty()), (0, true));
    }

    #[test]
    fn fingerprints_tell_contents_not_histories() {
        let mut image = Image::zeros(2 * BLOCK_LEN);
        let empty = image.fingerprint();
        image.write(5, &[7]);
        let one = image.fingerprint();
        let copy = Image::from(&image.to_vec()[..]);
        assert_eq!(copy.fingerprint(), one);
        image.write(BLOCK_LEN + 5, &[7]);
        assert_ne!(image.fingerprint(), one);
        image.zero(0, BLOCK_LEN);
        assert_ne!(image.fingerprint(), one, "the same block at another place");
        image.write(BLOCK_LEN + 5, &[0]);
        assert_eq!(image.fingerprint(), empty);
        image.grow(3 * BLOCK_LEN);
        assert_ne!(image.fingerprint(), empty);
    }
}
