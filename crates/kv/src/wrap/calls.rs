//! The calls of the seam by name, for what is told or decided of each.
//!
//! Invariant: [`Call::ALL`] has every call once, in the order of their numbers.

use std::fmt;

/// A call of the seam that does something: all but `profile`, `version` and `length`, which only tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `Kv::view`.
    View,
    /// `Kv::lookup` and `View::lookup`.
    Lookup,
    /// `Kv::stage`.
    Stage,
    /// `Kv::submit`, until its outcome.
    Submit,
    /// `Kv::watch`.
    Watch,
    /// `Kv::usage`.
    Usage,
    /// `Kv::sync`.
    Sync,
    /// `Kv::close`.
    Close,
    /// `View::spaces`.
    Spaces,
    /// `View::read_into`.
    Read,
    /// `View::cursor`.
    Cursor,
    /// `Cursor::next`.
    Next,
    /// `Cursor::seek`.
    Seek,
    /// `Stage::write`.
    Write,
    /// `Stage::finish`.
    Finish,
    /// `Watch::next`.
    Event,
}

/// How many there are.
pub(super) const CALLS: usize = 16;

impl Call {
    /// Every call.
    pub const ALL: [Call; CALLS] = [
        Call::View,
        Call::Lookup,
        Call::Stage,
        Call::Submit,
        Call::Watch,
        Call::Usage,
        Call::Sync,
        Call::Close,
        Call::Spaces,
        Call::Read,
        Call::Cursor,
        Call::Next,
        Call::Seek,
        Call::Write,
        Call::Finish,
        Call::Event,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Call::View => "view",
            Call::Lookup => "lookup",
            Call::Stage => "stage",
            Call::Submit => "submit",
            Call::Watch => "watch",
            Call::Usage => "usage",
            Call::Sync => "sync",
            Call::Close => "close",
            Call::Spaces => "spaces",
            Call::Read => "read",
            Call::Cursor => "cursor",
            Call::Next => "cursor.next",
            Call::Seek => "cursor.seek",
            Call::Write => "stage.write",
            Call::Finish => "stage.finish",
            Call::Event => "watch.next",
        }
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Calls(u32);

impl Calls {
    /// None.
    pub const NONE: Calls = Calls(0);

    /// Every call.
    pub const ALL: Calls = Calls((1 << CALLS) - 1);

    /// These.
    pub fn of(calls: &[Call]) -> Calls {
        Calls(calls.iter().fold(0, |set, call| set | 1 << call.index()))
    }

    /// All but these.
    pub fn all_but(calls: &[Call]) -> Calls {
        Calls(Calls::ALL.0 & !Calls::of(calls).0)
    }

    /// Whether a call is one of them.
    pub fn has(self, call: Call) -> bool {
        self.0 & 1 << call.index() != 0
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Call::ALL.iter().filter(|call| self.has(**call))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_there_once_and_in_order() {
        assert!(Call::ALL.iter().enumerate().all(|(index, call)| call.index() == index));
        assert!(Call::ALL.iter().all(|call| Calls::ALL.has(*call) && !Calls::NONE.has(*call)));
        let some = Calls::all_but(&[Call::View, Call::Event]);
        assert!(!some.has(Call::View) && !some.has(Call::Event) && some.has(Call::Lookup) && some.has(Call::Finish));
        assert_eq!(Calls::of(&[Call::Lookup, Call::View]), Calls::of(&[Call::View, Call::Lookup]));
    }
}
