//! Which objects are there, as far as that is known without looking: three bits for each of some numbers.
//!
//! Numbers lie in pages; each page has one slot where it may be, as in a cache that is mapped directly.
//!
//! Invariants:
//! - What is said of a number is the truth with everything counted that was gathered, submitted or not.
//! - A page stays while it is pinned: while a gathered change of one of its numbers is not visible. So a number
//!   that is not known has no such change, and the index tells.
//! - Memory is bounded by the number of slots; a page is made when one of its numbers is met first.

/// Words of 64 numbers in a page.
const WORDS: usize = 16;
/// Numbers in a page.
const PAGE: u64 = 64 * WORDS as u64;

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

struct Page {
    index: u64,
    /// Gathered changes of its numbers that are not visible.
    pins: u64,
    known: [u64; WORDS],
    there: [u64; WORDS],
    unseen: [u64; WORDS],
}

/// Where a number is in its page.
#[derive(Clone, Copy)]
struct Spot {
    word: usize,
    bit: u64,
}

/// What is known of the numbers of one part of the table; those of a part are consecutive.
pub struct Known {
    slots: Vec<Option<Box<Page>>>,
}

fn spot(number: u64) -> Spot {
    Spot { word: (number % PAGE / 64) as usize, bit: 1 << (number % 64) }
}

fn set(words: &mut [u64; WORDS], at: Spot, to: bool) {
    if let Some(word) = words.get_mut(at.word) {
        *word = if to { *word | at.bit } else { *word & !at.bit };
    }
}

fn is_set(words: &[u64; WORDS], at: Spot) -> bool {
    words.get(at.word).is_some_and(|word| word & at.bit != 0)
}

impl Known {
    /// Of nothing yet, with so many slots.
    pub fn new(slots: usize) -> Known {
        Known { slots: std::iter::repeat_with(|| None).take(slots.max(1)).collect() }
    }

    fn slot(&self, number: u64) -> usize {
        (number / PAGE % self.slots.len() as u64) as usize
    }

    fn page(&self, number: u64) -> Option<&Page> {
        let page = self.slots.get(self.slot(number))?.as_deref()?;
        (page.index == number / PAGE).then_some(page)
    }

    /// The page of a number, made when its slot is free; `None` when that is pinned by another one.
    fn page_mut(&mut self, number: u64) -> Option<&mut Page> {
        let (slot, index) = (self.slot(number), number / PAGE);
        let slot = self.slots.get_mut(slot)?;
        let empty = || Page { index, pins: 0, known: [0; WORDS], there: [0; WORDS], unseen: [0; WORDS] };
        match slot {
            Some(page) if page.index == index => {}
            Some(page) if page.pins > 0 => return None,
            Some(page) => **page = empty(),
            None => *slot = Some(Box::new(empty())),
        }
        slot.as_deref_mut()
    }

    /// What is known of a number.
    pub fn look(&self, number: u64) -> Presence {
        let (Some(page), at) = (self.page(number), spot(number)) else { return Presence::Unknown };
        match (is_set(&page.known, at), is_set(&page.there, at)) {
            (false, _) => Presence::Unknown,
            (true, false) => Presence::Absent,
            (true, true) => Presence::There { unseen: is_set(&page.unseen, at) },
        }
    }

    /// The index told that the object is there. What is known already was known later.
    pub fn learn(&mut self, number: u64) {
        let at = spot(number);
        if let Some(page) = self.page_mut(number).filter(|page| !is_set(&page.known, at)) {
            set(&mut page.known, at, true);
            set(&mut page.there, at, true);
        }
    }

    /// Only the index can tell from now on, and what is in use: what was gathered for the number was submitted.
    pub fn forget(&mut self, number: u64) {
        let at = spot(number);
        if self.page(number).is_some()
            && let Some(page) = self.page_mut(number)
        {
            for words in [&mut page.known, &mut page.there, &mut page.unseen] {
                set(words, at, false);
            }
        }
    }

    /// The object is being created, or deleted, by what is gathered. False, and nothing is noted, where there is no
    /// place to remember it.
    pub fn gathered(&mut self, number: u64, creates: bool) -> bool {
        let at = spot(number);
        let Some(page) = self.page_mut(number) else { return false };
        page.pins += 1;
        set(&mut page.known, at, true);
        set(&mut page.there, at, creates);
        if creates {
            set(&mut page.unseen, at, true);
        }
        true
    }

    /// What was gathered is visible, or (`failed`) has not happened.
    pub fn settled(&mut self, number: u64, creates: bool, failed: bool) {
        let at = spot(number);
        let Some(page) = self.page_mut(number) else { return };
        page.pins = page.pins.saturating_sub(1);
        if creates {
            set(&mut page.unseen, at, false);
        }
        if failed {
            set(&mut page.known, at, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pinned_page_stays_and_others_find_no_place() {
        let mut known = Known::new(2);
        assert_eq!(known.look(5), Presence::Unknown);
        assert!(known.gathered(5, true));
        assert_eq!(known.look(5), Presence::There { unseen: true });
        assert_eq!(known.look(6), Presence::Unknown);
        // The same slot, another page.
        let other = 5 + 2 * PAGE;
        assert!(!known.gathered(other, true));
        known.learn(other);
        assert_eq!(known.look(other), Presence::Unknown);
        assert!(known.gathered(5, false));
        assert_eq!(known.look(5), Presence::Absent);
        known.settled(5, true, false);
        assert_eq!(known.look(5), Presence::Absent);
        assert!(!known.gathered(other, true));
        known.settled(5, false, false);
        assert_eq!(known.look(5), Presence::Absent);
        assert!(known.gathered(other, true));
        assert_eq!((known.look(5), known.look(other)), (Presence::Unknown, Presence::There { unseen: true }));
        known.settled(other, true, true);
        assert_eq!(known.look(other), Presence::Unknown);
    }

    proptest! {
        #[test]
        fn what_is_known_is_true(steps in prop::collection::vec((0u64..4, 0u64..40, any::<bool>()), 1..400)) {
            let mut known = Known::new(3);
            // Numbers that are there, and what is on its way.
            let (mut there, mut moving) = (BTreeMap::new(), Vec::new());
            for (verb, at, choice) in steps {
                let number = at * 400;
                let is_there = there.get(&number).copied().unwrap_or(false);
                match verb {
                    // A number is given out once.
                    0 if (is_there || !there.contains_key(&number)) && known.gathered(number, !is_there) => {
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
