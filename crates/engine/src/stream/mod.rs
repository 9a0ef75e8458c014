//! Streams: the content of spaces as bytes, to keep or to make another store the same.
//!
//! - `frame`: the bytes of a stream, bound together by checksums.
//! - `source`: what is told: which spaces, as they are when, and against which base.
//! - `sending`: from spaces to a stream, a part at a time.
//! - `value`: the bytes of one value, or of what changed in it.
//! - `receiving`: from a stream to spaces, all of it or nothing.
//! - `passing`: spaces that exist while a stream is written or read, and end with the process.
//!
//! Invariants:
//! - A stream tells one version of everything in it.
//! - What is received becomes visible in one commit, after the stream's end was read and verified.
//! - Both directions take memory for some MiB, whatever the values.

mod compared;
mod frame;
mod passing;
mod receiving;
mod sending;
mod source;
#[cfg(test)]
mod tests;
mod value;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use frame::{Frame, FrameReader, FrameWriter};
pub(crate) use passing::{each_space, each_space_while, is_passing};
pub use receiving::{Accept, Arrived, Landing, ReceiveOptions, Received};
pub use sending::Sending;
