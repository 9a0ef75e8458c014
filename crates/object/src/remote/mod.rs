//! Objects for those who are not the store's owner: its calls as verbs of the wire (docs/objects.md).
//!
//! Invariants:
//! - Each verb runs in the owner as who has logged in ([`Objects::as_caller`](crate::Objects::as_caller)); the connection
//!   has no other way to the store, and before the log in none at all.
//! - What comes from the other side is never believed: a field never reaches past its message, and takes no more memory
//!   than the message that it came in allows.
//! - What a connection holds (readers, writers, pinned versions, its log in) ends with it, and is bounded for each and for all together.

mod calls;
mod client;
mod errors;
mod field;
mod portable;
mod server;
mod types;
mod types_identity;

pub use calls::CALL_NAMES;
pub(crate) use calls::*;
pub use client::{LogIn, RemoteObjects};
pub(crate) use client::{Remote, RemoteBody, RemoteReader, RemoteTransaction, RemoteWriter};
pub use portable::Portable;
pub use server::ObjectVerbs;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use server::any_message;

/// What both sides say first: other verbs, or other fields of theirs, have another number.
const PROTOCOL: u32 = 2;
/// The most entries of one answer to a listing; a client asks on where its caller wants more.
pub(crate) const ENTRIES_MAX: usize = 1000;
/// The most pinned versions of a connection.
pub(crate) const PINS_MAX: usize = 64;
/// The most bytes of one piece of a body, either way.
pub(crate) const PIECE_LEN_MAX: usize = koine_kv::wire::DATA_LEN_MAX;
/// What of an object comes with the answer that it is open.
pub(crate) const FIRST_LEN: usize = 64 << 10;
