//! Keys and values that can be recognised: every read is checked against them, so that a broken engine cannot win.
//!
//! Invariants:
//! - A key is made of its number alone, and sorts as its number does.
//! - A value names its key and its generation, and its last bytes depend on both; what lies between does not compress.

/// Length of a key in bytes.
pub const KEY_LEN: usize = 16;
/// The shortest value that can hold its marks.
pub const VALUE_LEN_MIN: usize = 32;
/// Loaded items have numbers that are multiples of this; the numbers between are free for items inserted later.
pub const SPREAD: u64 = 1 << 10;

const POOL_LEN: usize = 1 << 20;

/// A key.
pub type Key = [u8; KEY_LEN];

/// Mixes the bits of a number (the finisher of SplitMix64).
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The key of a number.
pub fn key(number: u64) -> Key {
    let mut key = [0; KEY_LEN];
    let (head, tail) = key.split_at_mut(8);
    head.copy_from_slice(&number.to_be_bytes());
    tail.copy_from_slice(&mix(number).to_be_bytes());
    key
}

/// Numbers as if drawn, the same in every run.
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(mix(seed))
    }

    /// The next number below `end`; 0 when there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mix(self.0)) * u128::from(end)) >> 64) as u64
    }
}

/// The place of `index` in a shuffle of `0..count`: every place once, by a Feistel network that is walked until it
/// meets a number below `count`.
pub fn shuffled(index: u64, count: u64, seed: u64) -> u64 {
    let bits = (64 - count.saturating_sub(1).leading_zeros()).max(2).next_multiple_of(2);
    let half = bits / 2;
    let mask = (1_u64 << half) - 1;
    let mut place = index;
    loop {
        let (mut left, mut right) = (place >> half, place & mask);
        for turn in 0..4_u64 {
            (left, right) = (right, left ^ (mix(right ^ mix(seed ^ turn)) & mask));
        }
        place = left << half | right;
        if place < count {
            return place;
        }
    }
}

/// Makes and recognises values of one length.
#[derive(Debug, Clone)]
pub struct Values {
    pool: Vec<u8>,
    length: usize,
}

impl Values {
    /// For values of `length` bytes; shorter ones than [`VALUE_LEN_MIN`] cannot be told apart.
    pub fn new(length: usize) -> Values {
        let length = length.max(VALUE_LEN_MIN);
        let mut pool = Vec::with_capacity(POOL_LEN + length);
        let mut state = 0;
        while pool.len() < POOL_LEN + length {
            state += 1;
            pool.extend_from_slice(&mix(state).to_le_bytes());
        }
        Values { pool, length }
    }

    /// Writes the value of a key's number at a generation over `value`.
    pub fn fill(&self, number: u64, generation: u64, value: &mut Vec<u8>) {
        let seal = mix(number ^ mix(generation));
        let start = seal as usize % POOL_LEN;
        value.clear();
        value.extend_from_slice(&number.to_le_bytes());
        value.extend_from_slice(&generation.to_le_bytes());
        value.extend_from_slice(self.pool.get(start..start + self.length - 24).unwrap_or_default());
        value.extend_from_slice(&seal.to_le_bytes());
    }

    /// Whether `value` is one that was made for `key`, whole.
    pub fn verify(&self, key: &[u8], value: &[u8]) -> bool {
        let word = |bytes: Option<&[u8]>| bytes.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        let number = word(key.get(..8)).map(u64::from_be_bytes);
        let named = word(value.get(..8)).map(u64::from_le_bytes);
        let generation = word(value.get(8..16)).map(u64::from_le_bytes);
        let seal = word(value.get(self.length - 8..)).map(u64::from_le_bytes);
        match (number, generation) {
            (Some(number), Some(generation)) => {
                value.len() == self.length && named == Some(number) && seal == Some(mix(number ^ mix(generation)))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_numbers() {
        let mut keys: Vec<Key> = [7, 0, 1 << 40, 255, 256].map(key).to_vec();
        keys.sort_unstable();
        assert_eq!(keys, [0, 7, 255, 256, 1 << 40].map(key));
    }

    #[test]
    fn a_shuffle_names_every_place_once_and_is_no_order() {
        for count in [1, 2, 3, 10, 1000, 4096, 5000] {
            let mut places: Vec<u64> = (0..count).map(|index| shuffled(index, count, 9)).collect();
            let in_order = places.windows(2).filter(|pair| pair[0] < pair[1]).count() as u64;
            assert!(count < 1000 || in_order < count * 6 / 10, "{in_order} of {count} ascend");
            places.sort_unstable();
            assert_eq!(places, (0..count).collect::<Vec<_>>(), "{count}");
        }
    }

    #[test]
    fn numbers_stay_below_their_end_and_reach_all_of_it() {
        let mut numbers = Numbers::new(1);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[numbers.below(10) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(numbers.below(0), 0);
    }

    #[test]
    fn values_are_recognised_and_others_are_not() {
        for length in [VALUE_LEN_MIN, 100, 1024] {
            let values = Values::new(length);
            let mut value = Vec::new();
            values.fill(5, 2, &mut value);
            assert_eq!(value.len(), length);
            assert!(values.verify(&key(5), &value));
            assert!(!values.verify(&key(6), &value), "another key's");
            assert!(!values.verify(&key(5), &value[..length - 1]), "cut");
            assert!(!values.verify(&[], &value) && !values.verify(&key(5), &[]));
            for at in [0, 8, length - 1] {
                let mut wrong = value.clone();
                wrong[at] ^= 1;
                assert!(!values.verify(&key(5), &wrong), "byte {at}");
            }
        }
    }
}
