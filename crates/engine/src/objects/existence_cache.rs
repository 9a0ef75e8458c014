//! Which objects are there, as far as that is known without looking: three bits for each of some numbers.
//!
//! Invariants:
//! - What is said of a number is the truth with everything counted that was gathered, submitted or not.
//! - Numbers are kept and let go of by 64. They stay while they are pinned: while a gathered change of one of them is not
//!   visible. So a number that is not known has no such change, and the index tells.
//! - Memory is bounded: beyond a limit the oldest that are not pinned go, and what is gathered is bounded elsewhere.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// So many pinned ones are passed over to find one that may go.
const PASSED_OVER: usize = 4;

/// What is known of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Only the index can tell.
    Unknown,
    /// The object is not there.
    Absent,
    /// The object is there; `unseen`: its creation may not be visible yet.
    There {
        /// Whether it may not be visible.
        unseen: bool,
    },
}

/// A map by numbers that follow on each other.
pub type ByNumber<T> = HashMap<u64, T, BuildHasherDefault<Spread>>;

/// Spreads numbers that follow on each other.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// What is known of 64 numbers, a bit for each.
#[derive(Default)]
struct Word {
    known: u64,
    there: u64,
    unseen: u64,
    /// Gathered changes that are not visible.
    pins: u64,
}

/// What is known of the numbers of one part of the table.
pub struct ExistenceCache {
    words: ByNumber<Word>,
    /// The keys of `words`, oldest first.
    order: VecDeque<u64>,
    words_max: usize,
}

fn split(number: u64) -> (u64, u64) {
    (number / 64, 1 << (number % 64))
}

fn set(word: &mut u64, bit: u64, to: bool) {
    *word = if to { *word | bit } else { *word & !bit };
}

impl ExistenceCache {
    /// Of nothing yet; of 64 times so many numbers at most that are not pinned.
    pub fn new(words_max: usize) -> ExistenceCache {
        ExistenceCache { words: HashMap::default(), order: VecDeque::new(), words_max: words_max.max(1) }
    }

    fn word(&mut self, key: u64) -> &mut Word {
        if self.words.len() >= self.words_max && !self.words.contains_key(&key) {
            self.let_go();
        }
        match self.words.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(place) => {
                self.order.push_back(key);
                place.insert(Word::default())
            }
        }
    }

    /// Makes room for others where something may go.
    fn let_go(&mut self) {
        for _ in 0..PASSED_OVER {
            let Some(oldest) = self.order.pop_front() else { return };
            match self.words.entry(oldest) {
                Entry::Occupied(entry) if entry.get().pins > 0 => self.order.push_back(oldest),
                Entry::Occupied(entry) => {
                    entry.remove();
                    if self.words.len() < self.words_max {
                        return;
                    }
                }
                Entry::Vacant(_) => {}
            }
        }
    }

    /// What is known of a number.
    pub fn look(&self, number: u64) -> Presence {
        let (key, bit) = split(number);
        match self.words.get(&key) {
            Some(word) if word.known & word.there & bit != 0 => Presence::There { unseen: word.unseen & bit != 0 },
            Some(word) if word.known & bit != 0 => Presence::Absent,
            _ => Presence::Unknown,
        }
    }

    /// The index told that the object is there. What is known already was known later.
    pub fn learn(&mut self, number: u64) {
        let (key, bit) = split(number);
        let word = self.word(key);
        if word.known & bit == 0 {
            word.known |= bit;
            word.there |= bit;
        }
    }

    /// Only the index can tell from now on, and what is in use: what was gathered for the number was submitted.
    pub fn forget(&mut self, number: u64) {
        let (key, bit) = split(number);
        if let Some(word) = self.words.get_mut(&key) {
            word.known &= !bit;
        }
    }

    /// The object is being created, or deleted, by what is gathered.
    pub fn gathered(&mut self, number: u64, creates: bool) {
        let (key, bit) = split(number);
        let word = self.word(key);
        word.pins += 1;
        word.known |= bit;
        set(&mut word.there, bit, creates);
        if creates {
            word.unseen |= bit;
        }
    }

    /// What was gathered is visible, or (`failed`) has not happened.
    pub fn settled(&mut self, number: u64, creates: bool, failed: bool) {
        let (key, bit) = split(number);
        let Some(word) = self.words.get_mut(&key) else { return };
        word.pins = word.pins.saturating_sub(1);
        if creates {
            word.unseen &= !bit;
        }
        if failed {
            word.known &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_pinned_stays_and_the_oldest_of_the_others_goes() {
        let mut known = ExistenceCache::new(2);
        assert_eq!(known.look(5), Presence::Unknown);
        known.gathered(5, true);
        assert_eq!(known.look(5), Presence::There { unseen: true });
        assert_eq!(known.look(6), Presence::Unknown);
        for number in (100..100_000).step_by(64) {
            known.learn(number);
            assert_eq!(known.look(number), Presence::There { unseen: false });
        }
        assert_eq!(known.words.len(), 2);
        known.gathered(5, false);
        assert_eq!(known.look(5), Presence::Absent);
        known.settled(5, true, false);
        assert_eq!(known.look(5), Presence::Absent);
        // More that is pinned than there may be of what is not.
        (200_000..210_000).step_by(64).for_each(|number| known.gathered(number, true));
        assert!(known.words.len() > 150);
        known.settled(5, false, false);
        (200_000..210_000).step_by(64).for_each(|number| known.settled(number, true, false));
        (300_000..340_000).step_by(64).for_each(|number| known.learn(number));
        assert!(known.words.len() <= 2 && known.order.len() == known.words.len());
        assert_eq!(known.look(5), Presence::Unknown);
        known.gathered(7, true);
        known.settled(7, true, true);
        assert_eq!(known.look(7), Presence::Unknown);
    }

    proptest! {
        #[test]
        fn what_is_known_is_true(steps in prop::collection::vec((0u64..4, 0u64..40, any::<bool>()), 1..400)) {
            let mut known = ExistenceCache::new(3);
            // Numbers that are there, and what is on its way.
            let (mut there, mut moving) = (BTreeMap::new(), Vec::new());
            for (verb, at, choice) in steps {
                let number = at * 40;
                let is_there = there.get(&number).copied().unwrap_or(false);
                match verb {
                    // A number is given out once.
                    0 if is_there || !there.contains_key(&number) => {
                        known.gathered(number, !is_there);
                        there.insert(number, !is_there);
                        moving.push((number, !is_there));
                    }
                    1 if !moving.is_empty() => {
                        let (number, creates) = moving.remove(0);
                        known.settled(number, creates, false);
                    }
                    2 if is_there => known.learn(number),
                    3 if choice && moving.iter().all(|(other, _)| *other != number) => known.forget(number),
                    _ => {}
                }
                for (number, is_there) in &there {
                    let on_its_way = moving.iter().any(|(other, _)| other == number);
                    match known.look(*number) {
                        Presence::Unknown => prop_assert!(!on_its_way),
                        Presence::Absent => prop_assert!(!is_there),
                        Presence::There { unseen } => {
                            prop_assert!(*is_there);
                            prop_assert!(unseen || !moving.contains(&(*number, true)));
                        }
                    }
                }
            }
        }
    }
}
