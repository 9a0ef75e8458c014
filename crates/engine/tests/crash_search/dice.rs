//! Choices that a seed decides.

use koine_env::{Random, SeededRandom};

/// A source of choices: the same seed makes the same ones.
pub struct Dice(SeededRandom);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(SeededRandom::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x006B_6F69_6E65))
    }

    pub fn number(&self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&self, end: usize) -> usize {
        (self.number() % (end.max(1) as u64)) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&self, low: usize, high: usize) -> usize {
        low + self.below(high + 1 - low)
    }

    /// True so many times of a hundred.
    pub fn percent(&self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}
