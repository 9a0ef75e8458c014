//! Where groups lie in the ring.
//!
//! A [`Position`] counts bytes since the store was made and never goes back; its remainder by the
//! ring's length is the place on the device. A group never wraps: one that does not fit before the
//! ring's end begins at its start, and the bytes between count as passed.

use crate::address::BlockRange;
use crate::device::BLOCK_LEN;

/// Bytes ever passed in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// The ring's place and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    start: u64,
    length: u64,
}

impl Ring {
    /// The ring that fills these blocks.
    pub fn new(blocks: BlockRange) -> Self {
        Ring { start: blocks.start * BLOCK_LEN as u64, length: u64::from(blocks.count) * BLOCK_LEN as u64 }
    }

    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where it begins on the device, in bytes.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Where a position lies on the device, in bytes.
    pub fn offset(&self, at: Position) -> u64 {
        self.start + at.0 % self.length
    }

    /// Where a group of `length` bytes goes that follows position `at`.
    pub fn place(&self, at: Position, length: u64) -> Position {
        let left = self.length - at.0 % self.length;
        if length <= left { at } else { Position(at.0 + left) }
    }

    /// The start of the next turn: where a group may lie that did not fit at `at`.
    pub fn next_turn(&self, at: Position) -> Position {
        Position(at.0 + self.length - at.0 % self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_never_wrap() {
        let ring = Ring::new(BlockRange { start: 129, count: 16 });
        let end = ring.length();
        assert_eq!(ring.place(Position(0), 4096), Position(0));
        assert_eq!(ring.place(Position(end - 4096), 4096), Position(end - 4096));
        assert_eq!(ring.place(Position(end - 4096), 8192), Position(end));
        assert_eq!(ring.offset(Position(end)), ring.start());
        assert_eq!(ring.next_turn(Position(end - 4096)), Position(end));
    }
}
