//! Times of operations, counted in classes: small however many there are.
//!
//! Invariant: a class is at most an eighth of its times wide.

use std::time::Duration;

/// Classes for each doubling.
const PARTS: u32 = 8;
const CLASSES: usize = 64 * PARTS as usize;

/// How many operations took how long.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; CLASSES] }
    }
}

fn class(nanoseconds: u64) -> usize {
    let bits = 63 - nanoseconds.max(PARTS as u64).leading_zeros();
    let part = (nanoseconds.max(PARTS as u64) >> (bits - PARTS.trailing_zeros())) & (PARTS as u64 - 1);
    (bits * PARTS) as usize + part as usize
}

/// The middle of a class.
fn middle(class: usize) -> u64 {
    let (bits, part) = (class as u32 / PARTS, class as u64 % PARTS as u64);
    let step = 1_u64 << (bits - PARTS.trailing_zeros());
    (PARTS as u64 + part) * step + step / 2
}

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(class(nanoseconds)) {
            *count += 1;
        }
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
    }

    /// The time that so many of a hundred did not exceed, in milliseconds; `None` when nothing was counted.
    pub fn percentile_ms(&self, percent: f64) -> Option<f64> {
        let all: u64 = self.counts.iter().sum();
        let wanted = (all as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        reached.filter(|_| all > 0).map(|class| middle(class) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_an_eighth() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile_ms(50.0), None);
        for microseconds in 1..=1000 {
            histogram.add(Duration::from_micros(microseconds));
        }
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        for (percent, expected) in [(50.0, 0.5), (99.0, 0.99), (100.0, 1.0)] {
            let found = twice.percentile_ms(percent).unwrap();
            assert!((found / expected - 1.0).abs() < 0.13, "{percent}: {found}");
        }
    }

    #[test]
    fn every_time_has_a_class_that_holds_it() {
        for shift in 0..64 {
            for nanoseconds in [1_u64 << shift, (1 << shift) + 1, (1_u64 << shift).wrapping_mul(3)] {
                let middle = middle(class(nanoseconds)) as f64;
                assert!(nanoseconds < 8 || (middle / nanoseconds as f64 - 1.0).abs() < 0.13, "{nanoseconds}: {middle}");
            }
        }
        Histogram::default().add(Duration::MAX);
    }
}
