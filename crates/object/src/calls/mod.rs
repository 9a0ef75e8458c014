//! The calls of the library, described once: [`table`] has each with its number, name, arguments, result and words. What
//! is the same for all calls is made of it: the traits that the local store and the client implement, the methods of
//! [`Objects`](crate::Objects) and [`Identities`](crate::Identities), what is sent for each, and what the server does
//! with it (docs/decisions/0037-one-table-of-calls.md).
//!
//! Invariants:
//! - A call is added by a row of the table and the method of the local store; the compiler asks for the rest.
//! - What comes from the other side is never believed: a field never reaches past its message, and takes no more memory
//!   than the message that it came in allows.

mod arguments;
pub(crate) mod errors;
pub(crate) mod field;
mod interface;
mod messages;
mod portable;
mod table;
mod types;
mod types_identity;
pub(crate) mod verbs;
pub(crate) mod vocabulary;

pub(crate) use arguments::{Bounded, Lent};
pub(crate) use interface::{IdentityCalls, ObjectCalls, given, outcome};
pub(crate) use messages::{End, Ended, InTransaction, LoggedIn, Proof, Source, TransactionTold, Writing};
pub use portable::Portable;
pub(crate) use table::calls;
pub use verbs::CALL_NAMES;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use verbs::any_message;
pub(crate) use verbs::{Call, reads};

/// The protocol number, which both sides send first. It changes when a verb or one of its fields changes.
pub(crate) const PROTOCOL: u32 = 2;
/// The most entries of one answer to a listing; a client asks on where its caller wants more.
pub(crate) const ENTRIES_MAX: usize = 1000;
/// The most pinned versions of a connection.
pub(crate) const PINS_MAX: usize = 64;
/// The most bytes of one piece of a body, either way.
pub(crate) const PIECE_LEN_MAX: usize = koine_kv::wire::DATA_LEN_MAX;
/// What of an object comes with the answer that it is open.
pub(crate) const FIRST_LEN: usize = 64 << 10;
