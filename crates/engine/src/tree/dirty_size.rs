//! What changes take until a checkpoint has placed them.
//!
//! Two sums that differ: a delta over a leaf of 16 KiB takes little memory and, at the checkpoint, a leaf's blocks.
//!
//! Inner nodes are bounded apart: in a large store changes anywhere open all of them, which a checkpoint ends for a moment only.

use std::ops::{Add, AddAssign};

/// What nodes and values without a place take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtySize {
    /// In memory, about.
    pub memory_len: u64,
    /// What of that inner nodes take; of a bound, so much of them as is not counted.
    pub inner_len: u64,
    /// On the device at most, in whole blocks.
    pub device_len: u64,
}

impl DirtySize {
    /// Without what the other one takes; never below nothing.
    pub fn without(self, other: DirtySize) -> DirtySize {
        DirtySize {
            memory_len: self.memory_len.saturating_sub(other.memory_len),
            inner_len: self.inner_len.saturating_sub(other.inner_len),
            device_len: self.device_len.saturating_sub(other.device_len),
        }
    }

    /// Whether either sum is above that of a bound.
    pub fn exceeds(&self, bound: DirtySize) -> bool {
        self.counted_len(bound) > bound.memory_len || self.device_len > bound.device_len
    }

    /// What of the memory counts against a bound.
    pub fn counted_len(&self, bound: DirtySize) -> u64 {
        self.memory_len.saturating_sub(self.inner_len.min(bound.inner_len))
    }

    /// Half as much again; no more inner nodes.
    pub fn with_half(self) -> DirtySize {
        DirtySize { memory_len: self.memory_len / 2 * 3, device_len: self.device_len / 2 * 3, ..self }
    }
}

impl Add for DirtySize {
    type Output = DirtySize;
    fn add(self, other: DirtySize) -> DirtySize {
        DirtySize {
            memory_len: self.memory_len.saturating_add(other.memory_len),
            inner_len: self.inner_len.saturating_add(other.inner_len),
            device_len: self.device_len.saturating_add(other.device_len),
        }
    }
}

impl AddAssign for DirtySize {
    fn add_assign(&mut self, other: DirtySize) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_nodes_count_above_a_bound_of_their_own() {
        let bound = DirtySize { memory_len: 100, inner_len: 50, device_len: 1000 };
        let dirty_size = |memory_len, inner_len| DirtySize { memory_len, inner_len, device_len: 7 };
        assert!(!dirty_size(150, 50).exceeds(bound) && dirty_size(151, 50).exceeds(bound));
        assert!(!dirty_size(100, 0).exceeds(bound) && dirty_size(101, 0).exceeds(bound));
        assert!(dirty_size(170, 170).exceeds(bound), "all of them are inner nodes, and too many");
        assert!(!dirty_size(200, 60).exceeds(bound.with_half()) && dirty_size(201, 60).exceeds(bound.with_half()));
        let rest = (dirty_size(150, 50) + dirty_size(10, 5)).without(dirty_size(20, 20));
        assert_eq!(rest, DirtySize { memory_len: 140, inner_len: 35, device_len: 7 });
    }
}
