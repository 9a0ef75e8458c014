//! Which record an operation takes: as YCSB's generators choose.
//!
//! Invariant: the same seed gives the same choices, in every store.

use super::super::data::{Numbers, mix};
use serde::{Deserialize, Serialize};

/// YCSB's constant: the larger, the fewer records take most of the operations.
const THETA: f64 = 0.99;

/// How records are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Distribution {
    /// Few are chosen often; they lie anywhere.
    Zipfian,
    /// All alike.
    Uniform,
    /// The younger a record, the more often.
    Latest,
}

/// Chooses among the records of a store.
#[derive(Debug, Clone)]
pub struct Chooser {
    distribution: Distribution,
    zipf: Zipf,
}

impl Chooser {
    /// For a store with so many records at first.
    pub fn new(distribution: Distribution, records: u64) -> Chooser {
        Chooser { distribution, zipf: Zipf::new(records) }
    }

    /// The number of a record below `records`, of which there may be more by now.
    pub fn choose(&self, numbers: &mut Numbers, records: u64) -> u64 {
        match self.distribution {
            Distribution::Uniform => numbers.below(records),
            // Ranks are scattered, so that records that are chosen often are no neighbours.
            Distribution::Zipfian => mix(self.zipf.rank(numbers)) % records.max(1),
            Distribution::Latest => records.saturating_sub(1).saturating_sub(self.zipf.rank(numbers)),
        }
    }
}

/// Ranks by Zipf's law (Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994, as YCSB has it).
#[derive(Debug, Clone)]
struct Zipf {
    count: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    half: f64,
}

impl Zipf {
    fn new(count: u64) -> Zipf {
        let count = count.max(2);
        let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum();
        let zeta_two = 1.0 + 0.5_f64.powf(THETA);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - zeta_two / zeta);
        Zipf { count: count as f64, alpha: 1.0 / (1.0 - THETA), zeta, eta, half: 0.5_f64.powf(THETA) }
    }

    /// From 0, which is the likeliest.
    fn rank(&self, numbers: &mut Numbers) -> u64 {
        const STEPS: u64 = 1 << 53;
        let drawn = numbers.below(STEPS) as f64 / STEPS as f64;
        let scaled = drawn * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + self.half {
            return 1;
        }
        let rank = self.count * (self.eta * drawn - self.eta + 1.0).powf(self.alpha);
        rank.min(self.count - 1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: Distribution, records: u64) -> Vec<u64> {
        let chooser = Chooser::new(distribution, records);
        let mut numbers = Numbers::new(7);
        let mut counts = vec![0; records as usize];
        for _ in 0..200_000 {
            counts[chooser.choose(&mut numbers, records) as usize] += 1;
        }
        counts
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        let zipf = Zipf::new(1000);
        let mut numbers = Numbers::new(3);
        let mut counts = vec![0_u64; 1000];
        for _ in 0..1_000_000 {
            counts[zipf.rank(&mut numbers) as usize] += 1;
        }
        for rank in [0_usize, 1, 9, 99] {
            let expected = 1_000_000.0 / ((rank + 1) as f64).powf(THETA) / zipf.zeta;
            let ratio = counts[rank] as f64 / expected;
            assert!((0.8..1.25).contains(&ratio), "rank {rank}: {ratio}");
        }
        assert!(counts.iter().all(|count| *count > 0));
    }

    #[test]
    fn all_alike_or_few_often_or_the_youngest() {
        let uniform = counts(Distribution::Uniform, 100);
        assert!(uniform.iter().all(|count| (1500..2500).contains(count)), "{uniform:?}");
        let mut zipfian = counts(Distribution::Zipfian, 1000);
        let hottest = zipfian.iter().enumerate().max_by_key(|(_, count)| **count).unwrap().0;
        assert_ne!(hottest, 0, "the likeliest rank lies anywhere");
        zipfian.sort_unstable();
        assert!(zipfian[900..].iter().sum::<u64>() > 100_000, "a tenth takes more than half");
        let latest = counts(Distribution::Latest, 1000);
        assert!(latest[900..].iter().sum::<u64>() > 100_000 && latest[999] > latest[990]);
    }

    #[test]
    fn choices_stay_below_what_is_there_however_it_grew() {
        for distribution in [Distribution::Zipfian, Distribution::Uniform, Distribution::Latest] {
            let chooser = Chooser::new(distribution, 10);
            let mut numbers = Numbers::new(1);
            for records in 1..2000 {
                assert!(chooser.choose(&mut numbers, records) < records);
            }
        }
    }
}
