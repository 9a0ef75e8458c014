//! Where a thing that is born in memory goes, and who frees its place.
//!
//! Two sides meet at a [`Fate`] without a common lock: a checkpoint that writes a frozen root, and
//! commits that go on changing newer ones. Invariants:
//! - A thing is placed at most once and replaced at most once.
//! - Of the two sides exactly the later one learns the placement it must free: `place` says so when
//!   the thing had been replaced, `replace` when it had been placed.

use std::fmt;

use parking_lot::Mutex;

use crate::batch::Version;

/// The meeting point of the side that writes a thing and the side that stops needing it.
pub struct Fate<T>(Mutex<State<T>>);

struct State<T> {
    placed: Option<T>,
    replaced: Option<Version>,
}

impl<T: Clone> Fate<T> {
    /// Neither placed nor replaced.
    pub fn new() -> Self {
        Fate(Mutex::new(State { placed: None, replaced: None }))
    }

    /// Placed from the start: for things that were read from the device.
    pub fn at(place: T) -> Self {
        Fate(Mutex::new(State { placed: Some(place), replaced: None }))
    }

    /// Records where the thing was written. A version says which commit replaced it meanwhile, so that the
    /// caller frees the place in that commit's name.
    #[must_use = "a version means that the place must be freed"]
    pub fn place(&self, place: T) -> Option<Version> {
        let mut state = self.0.lock();
        debug_assert!(state.placed.is_none(), "placed twice");
        state.placed = Some(place);
        state.replaced
    }

    /// Says that nobody needs the thing from commit `by` on. The caller frees the place that it gets.
    #[must_use = "a place must be freed"]
    pub fn replace(&self, by: Version) -> Option<T> {
        let mut state = self.0.lock();
        debug_assert!(state.replaced.is_none(), "replaced twice");
        state.replaced = Some(by);
        state.placed.clone()
    }

    /// Where the thing was written, if it was.
    pub fn placed(&self) -> Option<T> {
        self.0.lock().placed.clone()
    }

    /// Whether it was written.
    pub fn is_placed(&self) -> bool {
        self.0.lock().placed.is_some()
    }
}

impl<T: Clone> Default for Fate<T> {
    fn default() -> Self {
        Fate::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Fate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Fate").field("placed", &state.placed).field("replaced", &state.replaced).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_later_side_frees() {
        let fate = Fate::new();
        assert_eq!(fate.place(7), None);
        assert_eq!(fate.replace(Version(1)), Some(7));

        let fate = Fate::new();
        assert_eq!(fate.replace(Version(2)), None);
        assert_eq!(fate.place(8), Some(Version(2)));
        assert_eq!(fate.placed(), Some(8));
    }
}
