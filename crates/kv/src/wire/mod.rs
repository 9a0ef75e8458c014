//! The wire: any store served to other processes and machines, and opened there as a store.
//!
//! The protocol is written down byte by byte in docs/wire.md: key-value commands in the manner of NVMe over fabrics
//! (Crail-KV, III.B), small fixed headers, many requests in flight on a connection.
//!
//! Invariants:
//! - What comes from the other side is never believed: lengths are bounded before memory is taken, checksums are compared
//!   before bytes are used, and nothing it sends makes this side panic.
//! - Raw access is the owner's: the same user on a Unix socket, or a shared key over TCP. A door of verbs alone has none.

mod batch;
mod client;
mod fields;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod identity;
mod incoming;
mod message;
mod outgoing;
mod reply;
mod request;
mod server;
mod shared;
mod stream;

pub use client::{Answer, BeginChannel, Channel, ClientOptions, Gathering, Pending, Timeouts, WireKv, WireVerbs};
pub use frame::{DATA_LEN_MAX, HEADER_LEN, MESSAGE_LEN_MAX};
pub use identity::{KEY_LEN_MIN, Key, Peer};
pub use request::VERB_FOREIGN_FIRST;
pub use server::{Handler, HandlerConnection, Responder, STOP_TIME_MAX, Server, ServerOptions, VERB_MESSAGE_LEN_MAX};
pub use shared::SHARED_LEN_MAX;
pub use shared::slots::Buffer;

#[cfg(test)]
mod tests;
