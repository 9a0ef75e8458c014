//! Memory that direct I/O takes: buffers that start at a multiple of [`BLOCK_LEN`].
//!
//! Invariants:
//! - The first byte of an [`AlignedBuffer`] stays where it is for the buffer's life, moves included.
//! - Memory of streams lies in huge pages where the system has them: what a virtual disk is handed in small pages it moves
//!   at a third of the speed.
//! - A [`BouncePool`] never holds more than its number of pieces; who finds none waits for one.

use std::array;
use std::fmt;
use std::ops::{Deref, DerefMut};

use bytes::BytesMut;
use parking_lot::{Condvar, Mutex};

use super::BLOCK_LEN;
use super::huge::{HUGE_LEN, Half};

/// Bytes that start at a multiple of [`BLOCK_LEN`].
///
/// Fill one of these at once where data goes to a device: it is then written without a copy.
pub struct AlignedBuffer {
    memory: Memory,
    start: usize,
    length: usize,
}

enum Memory {
    /// Longer than asked for by what the alignment may skip; never resized, so it never moves.
    Heap(BytesMut),
    Huge(Half),
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Memory::Heap(memory) => memory,
            Memory::Huge(half) => half,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Heap(memory) => memory,
            Memory::Huge(half) => half,
        }
    }
}

impl AlignedBuffer {
    /// `length` zeros.
    pub fn zeroed(length: usize) -> Self {
        let memory = BytesMut::zeroed(length + BLOCK_LEN - 1);
        let start = memory.as_ptr().align_offset(BLOCK_LEN);
        // The standard library allows itself to answer "impossible"; outside of constant evaluation it never does.
        assert!(start < BLOCK_LEN, "byte memory can always be aligned");
        AlignedBuffer { memory: Memory::Heap(memory), start, length }
    }

    /// Two of [`HUGE_LEN`]` / 2` zeros in one huge page, where the system has such. The memory is given back with the second.
    pub fn pair() -> [Self; 2] {
        let huge = |half| AlignedBuffer { memory: Memory::Huge(half), start: 0, length: HUGE_LEN / 2 };
        // Where the system gives none, the allocator may still have some.
        Half::pair().map_or_else(|_| array::from_fn(|_| AlignedBuffer::zeroed(HUGE_LEN / 2)), |halves| halves.map(huge))
    }

    /// A copy of `data`, with zeros up to the next multiple of [`BLOCK_LEN`].
    pub fn padded(data: &[u8]) -> Self {
        let mut buffer = AlignedBuffer::zeroed(data.len().next_multiple_of(BLOCK_LEN));
        buffer[..data.len()].copy_from_slice(data);
        buffer
    }

    /// Whether its memory has room for `length` bytes: then it is so long from now on, and what it held before stays.
    pub fn resize(&mut self, length: usize) -> bool {
        let fits = self.start + length <= self.memory.len();
        if fits {
            self.length = length;
        }
        fits
    }

    /// Keeps the first `length` bytes; does nothing when there are fewer.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// For `bytes::Bytes::from_owner`.
impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.length)
    }
}

/// Whether direct I/O takes this memory as it is.
pub fn is_aligned(memory: &[u8]) -> bool {
    memory.as_ptr().align_offset(BLOCK_LEN) == 0
}

/// Whether this may be one of a [`AlignedBuffer::pair`]: nothing else is likely to lie so.
pub(super) fn is_in_huge_page(memory: &[u8]) -> bool {
    memory.as_ptr().align_offset(HUGE_LEN / 2) == 0
}

/// The length of a piece of a bounce pool, in bytes.
pub(super) const BOUNCE_LEN: usize = HUGE_LEN / 2;
/// The most pieces alive at once, so the most memory is this times [`BOUNCE_LEN`].
const BOUNCE_COUNT_MAX: usize = 4;

/// A few aligned pieces, made when first needed, through which unaligned memory goes to the device.
#[derive(Default)]
pub(super) struct BouncePool {
    pieces: Mutex<Pieces>,
    returned: Condvar,
}

#[derive(Default)]
struct Pieces {
    idle: Vec<AlignedBuffer>,
    alive: usize,
}

impl BouncePool {
    /// Lends a piece for the time of `work`, which must not ask for another.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut lease = Lease { pool: self, piece: Some(self.take()) };
        work(lease.piece.as_deref_mut().unwrap_or_default())
    }

    fn take(&self) -> AlignedBuffer {
        let mut pieces = self.pieces.lock();
        loop {
            if let Some(piece) = pieces.idle.pop() {
                return piece;
            }
            if pieces.alive < BOUNCE_COUNT_MAX {
                let [piece, other] = AlignedBuffer::pair();
                pieces.alive += 2;
                pieces.idle.push(other);
                return piece;
            }
            self.returned.wait(&mut pieces);
        }
    }
}

/// Brings the piece back, also when the work panics.
struct Lease<'a> {
    pool: &'a BouncePool,
    piece: Option<AlignedBuffer>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.pool.pieces.lock().idle.push(piece);
            self.pool.returned.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_stay_so_when_moved() {
        for length in [0, 1, 511, 4096, 4097, 1 << 20] {
            let mut buffer = AlignedBuffer::zeroed(length);
            assert!(is_aligned(&buffer) && buffer.len() == length && buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
            let moved = Box::new(buffer);
            assert!(is_aligned(&moved) && moved.iter().all(|byte| *byte == 7));
        }
        for (first, mut buffer) in AlignedBuffer::pair().into_iter().enumerate() {
            assert!(is_in_huge_page(&buffer) && buffer.len() == HUGE_LEN / 2 && buffer.iter().all(|byte| *byte == 0));
            assert_eq!(buffer.as_ptr().align_offset(HUGE_LEN) == 0, first == 0);
            assert!(!buffer.resize(HUGE_LEN / 2 + 1) && buffer.resize(HUGE_LEN / 2));
            buffer.fill(7);
        }
        let padded = AlignedBuffer::padded(b"abc");
        assert_eq!((padded.len(), &padded[..4]), (BLOCK_LEN, &b"abc\0"[..]));
        assert!(!is_aligned(&padded[1..]));
    }

    #[test]
    fn the_pool_is_bounded_and_reused_by_many_threads() {
        let pool = BouncePool::default();
        std::thread::scope(|scope| {
            for _ in 0..4 * BOUNCE_COUNT_MAX {
                scope.spawn(|| {
                    for _ in 0..50 {
                        pool.with(|piece| {
                            assert!(is_aligned(piece) && piece.len() == BOUNCE_LEN);
                            std::thread::yield_now();
                        });
                    }
                });
            }
        });
        let pieces = pool.pieces.lock();
        assert!(pieces.alive <= BOUNCE_COUNT_MAX && pieces.idle.len() == pieces.alive);
    }
}
