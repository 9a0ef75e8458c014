//! A set that forgets what its members were: a cuckoo filter (Fan et al., CoNEXT 2014), in tables that are added as it grows.
//!
//! Invariants:
//! - What was added and not taken away is said to be perhaps there, always; of what is absent one in some thousands is.
//! - Only what was added may be taken away, as many times as it was added. Where two tables might hold it nothing
//!   is taken away: the wrong one would be another member's.

/// Prints of one bucket.
const SLOTS: usize = 4;
/// Buckets of the first table: 512 bytes.
const BUCKETS_MIN: usize = 64;
/// So many members are moved to make room for one before a table counts as full.
const MOVES_MAX: usize = 128;

/// Of a hash, what is kept; never 0, which is an empty slot.
fn print(hash: u64) -> u16 {
    ((hash >> 48) as u16).max(1)
}

struct Table {
    slots: Box<[u16]>,
    count: usize,
}

impl Table {
    fn new(buckets: usize) -> Table {
        Table { slots: vec![0; buckets * SLOTS].into(), count: 0 }
    }

    fn mask(&self) -> usize {
        self.slots.len() / SLOTS - 1
    }

    /// The other bucket of a print: the other of that one is this again.
    fn other(&self, bucket: usize, print: u16) -> usize {
        (bucket ^ (usize::from(print).wrapping_mul(0x5bd1_e995) | 1)) & self.mask()
    }

    fn buckets(&self, hash: u64) -> [usize; 2] {
        let first = hash as usize & self.mask();
        [first, self.other(first, print(hash))]
    }

    fn bucket(&self, bucket: usize) -> &[u16] {
        self.slots.get(bucket * SLOTS..(bucket + 1) * SLOTS).unwrap_or_default()
    }

    fn holds(&self, hash: u64) -> bool {
        self.buckets(hash).into_iter().any(|bucket| self.bucket(bucket).contains(&print(hash)))
    }

    /// Puts `to` where `from` is in a bucket.
    fn exchange(&mut self, bucket: usize, from: u16, to: u16) -> bool {
        let slots = self.slots.get_mut(bucket * SLOTS..(bucket + 1) * SLOTS).unwrap_or_default();
        let slot = slots.iter_mut().find(|slot| **slot == from);
        slot.map(|slot| *slot = to).is_some()
    }

    /// Adds a member; false when the table is full, and then nothing is changed.
    fn add(&mut self, hash: u64) -> bool {
        let print = print(hash);
        let [first, second] = self.buckets(hash);
        if self.exchange(first, 0, print) || self.exchange(second, 0, print) {
            self.count += 1;
            return true;
        }
        let (mut bucket, mut homeless) = (second, print);
        let mut moved: Vec<(usize, u16, u16)> = Vec::new();
        for turn in 0..MOVES_MAX {
            let Some(&victim) = self.bucket(bucket).get((hash as usize >> 8).wrapping_add(turn) % SLOTS) else { break };
            self.exchange(bucket, victim, homeless);
            moved.push((bucket, victim, homeless));
            bucket = self.other(bucket, victim);
            homeless = victim;
            if self.exchange(bucket, 0, homeless) {
                self.count += 1;
                return true;
            }
        }
        for (bucket, before, after) in moved.into_iter().rev() {
            self.exchange(bucket, after, before);
        }
        false
    }

    fn take(&mut self, hash: u64) {
        let print = print(hash);
        let [first, second] = self.buckets(hash);
        if self.exchange(first, print, 0) || self.exchange(second, print, 0) {
            self.count -= 1;
        }
    }
}

/// The set, by hashes of its members.
#[derive(Default)]
pub(crate) struct Cuckoo {
    /// From the smallest to the largest.
    tables: Vec<Table>,
}

impl Cuckoo {
    /// What it takes in memory, in bytes.
    pub fn memory_len(&self) -> usize {
        self.tables.iter().map(|table| size_of_val(table.slots.as_ref())).sum()
    }

    /// What it would take with one member more.
    pub fn memory_len_next(&self) -> usize {
        // A table is hardly ever full below nine tenths.
        let is_near = self.tables.last().is_none_or(|last| last.count * 10 > last.slots.len() * 9);
        self.memory_len() + if is_near { self.buckets_next() * SLOTS * size_of::<u16>() } else { 0 }
    }

    fn buckets_next(&self) -> usize {
        self.tables.last().map_or(BUCKETS_MIN, |last| last.slots.len() / SLOTS * 2)
    }

    /// Whether a member has this hash; never wrongly no.
    pub fn may_hold(&self, hash: u64) -> bool {
        self.tables.iter().rev().any(|table| table.holds(hash))
    }

    /// Adds a member.
    pub fn add(&mut self, hash: u64) {
        if self.tables.last_mut().is_some_and(|last| last.add(hash)) {
            return;
        }
        let mut table = Table::new(self.buckets_next());
        table.add(hash);
        self.tables.push(table);
    }

    /// Takes a member away.
    pub fn take(&mut self, hash: u64) {
        let mut holding = self.tables.iter_mut().filter(|table| table.holds(hash));
        if let (Some(table), None) = (holding.next(), holding.next()) {
            table.take(hash);
        }
        let last = self.tables.len().saturating_sub(1);
        let mut index = 0;
        self.tables.retain(|table| {
            index += 1;
            index > last || table.count > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use koine_env::{Random, SeededRandom};
    use proptest::prelude::*;

    use super::*;

    fn hash(number: u64) -> u64 {
        number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ number.rotate_left(32).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Few numbers, so that prints and buckets of different members meet often.
        #[test]
        fn what_is_there_is_never_denied(steps in prop::collection::vec((any::<bool>(), 0u64..400, 0u64..3), 0..3000)) {
            let crowded = |number: u64, spread: u64| (number % 3 + 1) << 48 | (number * 64 + spread);
            let mut cuckoo = Cuckoo::default();
            let mut model: HashMap<u64, usize> = HashMap::new();
            for (turn, (adds, number, spread)) in steps.into_iter().enumerate() {
                let hash = crowded(number, spread);
                let count = model.entry(hash).or_default();
                if adds {
                    *count += 1;
                    cuckoo.add(hash);
                } else if *count > 0 {
                    *count -= 1;
                    cuckoo.take(hash);
                }
                if turn % 64 == 0 {
                    prop_assert!(model.iter().all(|(hash, count)| *count == 0 || cuckoo.may_hold(*hash)));
                }
            }
            prop_assert!(model.iter().all(|(hash, count)| *count == 0 || cuckoo.may_hold(*hash)));
        }
    }

    #[test]
    fn few_of_what_is_absent_are_taken_for_members() {
        let mut cuckoo = Cuckoo::default();
        (0..200_000).for_each(|number| cuckoo.add(hash(number)));
        assert!((0..200_000).all(|number| cuckoo.may_hold(hash(number))));
        let wrong = (200_000..1_200_000).filter(|number| cuckoo.may_hold(hash(*number))).count();
        assert!(wrong < 3000, "{wrong} of a million");
        assert!(cuckoo.memory_len() < 200_000 * 8, "{} bytes", cuckoo.memory_len());
    }

    #[test]
    fn what_is_taken_away_makes_room() {
        let mut cuckoo = Cuckoo::default();
        let random = SeededRandom::new(3);
        (0..50_000).for_each(|number| cuckoo.add(hash(number)));
        let length = cuckoo.memory_len();
        for round in 1..20_u64 {
            (0..50_000).for_each(|number| cuckoo.take(hash((round - 1) << 32 | number)));
            (0..50_000).for_each(|number| cuckoo.add(hash(round << 32 | number)));
            assert!((0..50_000).all(|number| cuckoo.may_hold(hash(round << 32 | number))));
        }
        assert!(cuckoo.memory_len() <= 2 * length);
        let stale = (0..50_000).filter(|_| cuckoo.may_hold(random.next_u64())).count();
        assert!(stale < 500, "{stale} of what was taken away is still there");
    }

    #[test]
    fn its_length_is_told_before_it_grows() {
        let mut cuckoo = Cuckoo::default();
        for number in 0..100_000 {
            let next = cuckoo.memory_len_next();
            cuckoo.add(hash(number));
            assert!(cuckoo.memory_len() <= next, "after {number}");
        }
    }
}
