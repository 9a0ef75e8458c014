//! Calls as verbs of the wire: their numbers, what is asked and what is told (docs/objects.md).
//!
//! Invariant: a number never comes to mean something else; what is added has a new one.

use std::time::Duration;

use koine_kv::Version;

use super::field::{Field, Rest};
use super::messages::{End, Ended, InTransaction, LoggedIn, Proof, Source, TransactionTold, Writing};
use super::table::calls;
use super::vocabulary::*;
use crate::checksum::Expected;
use crate::request::ComposeOptions;

/// A verb.
pub(crate) trait Call {
    /// Its number.
    const VERB: u16;
    /// What kind of call it is.
    const KIND: Kind;
    /// What is asked.
    type Asked: Field;
    /// What is told.
    type Told: Field + Send + 'static;
}

/// Kinds of calls. All but changes give their result when they return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It reads: it may be asked for at a pinned version, and twice.
    Read,
    /// It reads, for longer the larger the store is.
    LongRead,
    /// It lists, at most [`ENTRIES_MAX`](super::ENTRIES_MAX) entries at once.
    Bounded,
    /// The same, and the client asks on until it has as many as were asked for.
    Page,
    /// It is not repeated: it changes something and has done so when it returns, or it belongs to the connection (log in, bodies, pins).
    Work,
    /// The same, for longer the larger the store is.
    LongWork,
    /// It changes something, and gives a pending outcome.
    Change,
}

impl Kind {
    /// Whether it changes nothing. What belongs to a reader is among such; a client asks for that on the reader's
    /// connection alone.
    pub fn reads(self) -> bool {
        matches!(self, Kind::Read | Kind::LongRead | Kind::Bounded | Kind::Page)
    }

    /// How long a server may work on it beyond the time that a call has.
    pub fn time_beyond(self) -> Duration {
        match self {
            Kind::LongRead | Kind::LongWork => Duration::from_secs(3600),
            _ => Duration::ZERO,
        }
    }
}

/// What is looked up of a verb.
struct Row {
    number: u16,
    name: &'static str,
    kind: Kind,
    #[cfg(any(test, feature = "fuzzing"))]
    try_message: fn(&[u8]),
}

/// Takes a message as what a verb asks for and tells; what is taken is put as it was.
#[cfg(any(test, feature = "fuzzing"))]
fn try_message<C: Call>(bytes: &[u8]) {
    use super::field::{message, whole};
    if let Ok(asked) = whole::<C::Asked>(bytes) {
        assert_eq!(message(&asked), bytes);
    }
    if let Ok(told) = whole::<C::Told>(bytes) {
        assert_eq!(message(&told), bytes);
    }
}

macro_rules! verbs {
    ($rows:ident, $(
        $(#[$doc:meta])*
        $number:literal $name:ident ($kind:ident $(named $named:expr)?):
        $vis:vis fn $method:ident($($arg:ident: $sent:ty $(as $given:ty)?),* $(,)?) -> $told:ty;
    )*) => {
        verbs!($rows, $($(#[$doc])* $number $name ($kind): ($($sent),*) -> $told;)*);
    };
    ($rows:ident, $(
        $(#[$doc:meta])*
        $number:literal $name:ident ($kind:ident): $asked:ty => $told:ty;
    )*) => {
        verbs!($rows, $($(#[$doc])* $number $name ($kind): ($asked) -> $told;)*);
    };
    ($rows:ident, $(
        $(#[$doc:meta])*
        $number:literal $name:ident ($kind:ident): ($($asked:ty),*) -> $told:ty;
    )*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;

            impl Call for $name {
                const VERB: u16 = $number;
                const KIND: Kind = Kind::$kind;
                #[allow(unused_parens, reason = "one field is no tuple")]
                type Asked = ($($asked),*);
                type Told = $told;
            }
        )*

        const $rows: &[Row] = &[$(
            Row {
                number: $number,
                name: stringify!($name),
                kind: Kind::$kind,
                #[cfg(any(test, feature = "fuzzing"))]
                try_message: try_message::<$name>,
            }
        ),*];
    };
}

calls!(objects, verbs OBJECTS,);
calls!(identities, verbs IDENTITIES,);
calls!(streams, verbs STREAMS,);

const ROWS: [&[Row]; 3] = [OBJECTS, IDENTITIES, STREAMS];

/// The names of all calls that are asked of a store elsewhere: what may be asked at all.
pub const CALL_NAMES: &[&str] = &{
    let mut names = [""; OBJECTS.len() + IDENTITIES.len() + STREAMS.len()];
    let (mut list, mut count) = (0, 0);
    while list < ROWS.len() {
        let mut row = 0;
        while row < ROWS[list].len() {
            names[count] = ROWS[list][row].name;
            (row, count) = (row + 1, count + 1);
        }
        list += 1;
    }
    names
};

/// Whether a verb changes nothing.
pub(crate) fn reads(verb: u16) -> bool {
    ROWS.iter().copied().flatten().any(|row| row.number == verb && row.kind.reads())
}

/// Takes a message as what the verb asks for and tells.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn any_message(verb: u16, bytes: &[u8]) {
    ROWS.iter().copied().flatten().filter(|row| row.number == verb).for_each(|row| (row.try_message)(bytes));
}
