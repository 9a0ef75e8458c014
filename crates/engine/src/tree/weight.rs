//! What changes take until a checkpoint has placed them.
//!
//! Two sums that differ: a patch over a leaf of 16 KiB takes little memory and, at the checkpoint, a leaf's blocks.

use std::ops::{Add, AddAssign};

/// What nodes and values without a place take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// In memory, about.
    pub memory_len: u64,
    /// On the device at most, in whole blocks.
    pub device_len: u64,
}

impl Weight {
    /// Without what the other one takes; never below nothing.
    pub fn without(self, other: Weight) -> Weight {
        Weight {
            memory_len: self.memory_len.saturating_sub(other.memory_len),
            device_len: self.device_len.saturating_sub(other.device_len),
        }
    }

    /// Whether either sum is above that of a bound.
    pub fn exceeds(&self, bound: Weight) -> bool {
        self.memory_len > bound.memory_len || self.device_len > bound.device_len
    }

    /// Half as much again.
    pub fn and_half(self) -> Weight {
        Weight { memory_len: self.memory_len / 2 * 3, device_len: self.device_len / 2 * 3 }
    }
}

impl Add for Weight {
    type Output = Weight;
    fn add(self, other: Weight) -> Weight {
        Weight {
            memory_len: self.memory_len.saturating_add(other.memory_len),
            device_len: self.device_len.saturating_add(other.device_len),
        }
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Weight) {
        *self = *self + other;
    }
}
