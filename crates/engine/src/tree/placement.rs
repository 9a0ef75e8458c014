//! Where a thing that is born in memory goes, and who frees its place.
//!
//! Two sides meet at a [`Placement`] without a common lock: a checkpoint that writes an immutable root, and
//! commits that go on changing newer ones. Invariants:
//! - A thing is placed at most once and replaced at most once. Its place may be assigned before, to who writes
//!   what refers to it; for everybody else it counts when its bytes are there to be read.
//! - Of the two sides exactly the later one learns which place it must free: `place` says so when
//!   the thing had been replaced, `replace` when it had been placed.

use std::fmt;

use parking_lot::Mutex;

use crate::batch::Version;

/// The meeting point of the side that writes a thing and the side that stops needing it.
pub struct Placement<T>(Mutex<State<T>>);

struct State<T> {
    place: Option<T>,
    /// Its bytes are there.
    is_placed: bool,
    replaced: Option<Version>,
}

impl<T: Clone> State<T> {
    fn placed(&self) -> Option<T> {
        if self.is_placed { self.place.clone() } else { None }
    }
}

impl<T: Clone> Placement<T> {
    /// Neither placed nor replaced.
    pub fn new() -> Self {
        Placement(Mutex::new(State { place: None, is_placed: false, replaced: None }))
    }

    /// Placed from the start: for things that were read from the device.
    pub fn at(place: T) -> Self {
        Placement(Mutex::new(State { place: Some(place), is_placed: true, replaced: None }))
    }

    /// Says where the thing is going to be written.
    pub fn assign(&self, place: T) {
        let mut state = self.0.lock();
        debug_assert!(state.place.is_none(), "assigned twice");
        state.place = Some(place);
    }

    /// Where the thing was or is going to be written, if that is known.
    pub fn assigned(&self) -> Option<T> {
        self.0.lock().place.clone()
    }

    /// Records where the thing was written. A version says which commit replaced it meanwhile, so that the
    /// caller frees the place in that commit's name.
    #[must_use = "a version means that the place must be freed"]
    pub fn place(&self, place: T) -> Option<Version> {
        let mut state = self.0.lock();
        debug_assert!(!state.is_placed, "placed twice");
        state.place = Some(place);
        state.is_placed = true;
        state.replaced
    }

    /// Says that nobody needs the thing from commit `by` on. The caller frees the place that it gets.
    #[must_use = "a place must be freed"]
    pub fn replace(&self, by: Version) -> Option<T> {
        let mut state = self.0.lock();
        debug_assert!(state.replaced.is_none(), "replaced twice");
        state.replaced = Some(by);
        state.placed()
    }

    /// Where the thing was written, if it was.
    pub fn placed(&self) -> Option<T> {
        self.0.lock().placed()
    }

    /// Whether it was written.
    pub fn is_placed(&self) -> bool {
        self.0.lock().is_placed
    }
}

impl<T: Clone> Default for Placement<T> {
    fn default() -> Self {
        Placement::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Placement<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Placement")
            .field("place", &state.place)
            .field("is_placed", &state.is_placed)
            .field("replaced", &state.replaced)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_later_side_frees() {
        let placement = Placement::new();
        assert_eq!(placement.place(7), None);
        assert_eq!(placement.replace(Version(1)), Some(7));

        let placement = Placement::new();
        assert_eq!(placement.replace(Version(2)), None);
        assert_eq!(placement.place(8), Some(Version(2)));
        assert_eq!(placement.placed(), Some(8));
    }

    #[test]
    fn an_assigned_place_is_no_place_yet() {
        let placement = Placement::new();
        placement.assign(7);
        assert_eq!((placement.assigned(), placement.placed(), placement.is_placed()), (Some(7), None, false));
        assert_eq!(placement.replace(Version(1)), None);
        assert_eq!(placement.place(7), Some(Version(1)));
        assert_eq!((placement.assigned(), placement.placed()), (Some(7), Some(7)));
    }
}
