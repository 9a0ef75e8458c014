//! How many blocks are reserved for which key, in memory.
//!
//! Invariants:
//! - A reservation is a counter in space [`RESERVATIONS`], changed in the commit that draws on it: memory, log and trees agree.
//! - A reservation ends with its key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use crate::batch::{Operation, Place, SpaceId};
use crate::log::record::{Outcome, Record, Step};

/// Reservations: space (8 bytes, big-endian) and key, to a counter of blocks.
pub(crate) const RESERVATIONS: SpaceId = SpaceId(9);

/// The reservations, in memory.
#[derive(Default)]
pub(crate) struct Reservations {
    books: Mutex<Books>,
    any: AtomicBool,
    /// One reservation is given at a time.
    pub(crate) giving: Mutex<()>,
}

#[derive(Default)]
struct Books {
    /// Blocks of each; below zero never for long: draws are applied in the order of commits.
    left: HashMap<Place, i64>,
    /// What all have together.
    all: u64,
}

impl Books {
    /// Adds to what is left of one, or ends it.
    fn change(&mut self, whose: Place, delta: Option<i64>) {
        let blocks = |left: i64| u64::try_from(left).unwrap_or(0);
        let before = self.left.get(&whose).copied().unwrap_or(0);
        let after = delta.map_or(0, |delta| before.saturating_add(delta));
        self.all = (self.all + blocks(after)).saturating_sub(blocks(before));
        match after {
            0 => drop(self.left.remove(&whose)),
            after => drop(self.left.insert(whose, after)),
        }
    }
}

impl Reservations {
    /// Whether anybody has any.
    pub(crate) fn are_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Blocks that a key has left.
    pub(crate) fn left(&self, at: &Place) -> u64 {
        if !self.are_any() {
            return 0;
        }
        self.books.lock().left.get(at).map_or(0, |left| u64::try_from(*left).unwrap_or(0))
    }

    /// Adds to what is left for keys, or ends their reservations; gives what all have now.
    pub(crate) fn change(&self, changes: impl IntoIterator<Item = (Place, Option<i64>)>) -> u64 {
        let mut books = self.books.lock();
        changes.into_iter().for_each(|(whose, delta)| books.change(whose, delta));
        self.any.store(!books.left.is_empty(), Ordering::Release);
        books.all
    }

    /// A commit was applied: memory follows. Gives what all have now, where that has changed.
    pub(crate) fn settle(&self, record: &Record) -> Option<u64> {
        let Outcome::Applied(steps) = &record.outcome else { return None };
        let change = |step: &Step| match step {
            Step::Operation(Operation::AddCounter { at, delta }) if at.space == RESERVATIONS => {
                Some((reserved_for(&at.key)?, Some(*delta)))
            }
            Step::Operation(Operation::Delete { at }) if at.space == RESERVATIONS => {
                Some((reserved_for(&at.key)?, None))
            }
            _ => None,
        };
        let mut changes = steps.iter().filter_map(change).peekable();
        changes.peek().is_some().then(|| self.change(changes))
    }
}

pub(crate) fn reservation_place(at: &Place) -> Place {
    let mut key = BytesMut::with_capacity(8 + at.key.len());
    key.extend_from_slice(&at.space.0.to_be_bytes());
    key.extend_from_slice(&at.key);
    Place { space: RESERVATIONS, key: key.freeze() }
}

pub(crate) fn reserved_for(key: &Bytes) -> Option<Place> {
    let (space, _) = key.split_first_chunk::<8>()?;
    Some(Place { space: SpaceId(u64::from_be_bytes(*space)), key: key.slice(8..) })
}

/// Whether a commit draws on a promise.
pub(crate) fn draws(steps: &[Step]) -> bool {
    let draw = |step: &Step| matches!(step, Step::Operation(Operation::AddCounter { at, delta }) if at.space == RESERVATIONS && *delta < 0);
    steps.iter().any(draw)
}
