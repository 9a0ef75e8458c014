//! Random bytes: the operating system's for identities and secrets, seeded ones for replay.
//!
//! Invariant: secrets (keys, passwords) come from [`OsRandom`] in production; [`SeededRandom`] is
//! predictable by design and is for tests and simulation only.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where randomness comes from.
pub trait Random: Send + Sync + std::fmt::Debug {
    /// Fills the buffer with random bytes.
    fn fill(&self, buffer: &mut [u8]);

    /// A random 64-bit number.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// The operating system's generator, fit for secrets.
#[derive(Debug, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    /// # Panics
    /// If the operating system has no randomness to give: nothing safe can go on without it.
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system gives no random bytes");
    }
}

/// A predictable generator (SplitMix64): the same seed gives the same bytes.
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        SeededRandom { state: AtomicU64::new(seed) }
    }
}

impl Random for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.state.fetch_add(STEP, Ordering::SeqCst).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let draw = |seed| SeededRandom::new(seed).next_u64();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn the_system_fills_every_length() {
        for length in [0, 1, 7, 8, 9, 64] {
            let mut bytes = vec![0; length];
            OsRandom.fill(&mut bytes);
            assert!(length < 8 || bytes.iter().any(|b| *b != 0));
        }
    }
}
