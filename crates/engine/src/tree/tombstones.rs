//! Which entries of a stored leaf were taken away: a bit for each.

/// Entries, by number. None takes no memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Tombstones {
    words: Box<[u64]>,
}

fn split(number: usize) -> (usize, u64) {
    (number / 64, 1 << (number % 64))
}

impl Tombstones {
    /// Whether an entry is among them.
    #[inline]
    pub(super) fn contains(&self, number: usize) -> bool {
        let (word, bit) = split(number);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds an entry of a leaf that has `count`.
    pub(super) fn add(&mut self, number: usize, count: usize) {
        let (word, bit) = split(number);
        if word >= self.words.len() {
            let mut words = vec![0; count.div_ceil(64).max(word + 1)].into_boxed_slice();
            words.iter_mut().zip(&self.words).for_each(|(to, from)| *to = *from);
            self.words = words;
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }

    /// What they take in memory, in bytes.
    pub(super) fn memory_len(&self) -> usize {
        size_of_val(self.words.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(count in 1usize..300, numbers in prop::collection::vec(0usize..300, 0..200)) {
            let mut gone = Tombstones::default();
            prop_assert_eq!(gone.memory_len(), 0);
            let mut model = BTreeSet::new();
            for number in numbers {
                let before = gone.clone();
                gone.add(number, count);
                prop_assert!(before.contains(number) == model.contains(&number));
                model.insert(number);
                prop_assert!((0..400).all(|number| gone.contains(number) == model.contains(&number)));
            }
        }
    }
}
