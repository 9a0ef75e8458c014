//! Memory that both ends of a Unix socket have: payload lies there in place of going through the socket.
//!
//! The client makes two files in memory, gives them their length, seals them, and passes them to the server: one for what it
//! sends, one for what it is to get. It alone says which part of either is used for what ([`slots`]).
//!
//! Invariants:
//! - Nothing of a file is mapped before its kind, its length and its seals were looked at: it can become neither shorter nor
//!   another one, so that no access faults.
//! - The other side may write at any time. Memory that it can write is touched by copies of raw bytes alone, which the
//!   compiler knows nothing of; what is judged is the copy. No reference to it exists, with two exceptions, both in the client:
//!   it writes parts of the file for the server that nobody else can write (a seal sees to it), and it reads what a server of
//!   the same user, or of root, has put into a part that it was lent, and does not touch before it is lent again.
//! - A part of a file is used for one thing at a time, until the answer has come and the last who reads it is gone.

mod mapping;
pub mod offer;
pub mod slots;

pub use mapping::{Access, Mapping};

/// The longest file that a client may pass, in bytes.
pub const SHARED_LEN_MAX: usize = 64 << 20;
/// Parts of a file begin and end at multiples of this.
pub const PART_LEN: usize = 4096;
