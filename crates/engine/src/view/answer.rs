//! What one look-up of a key tells, without waiting for the device.
//!
//! Invariant: nothing here reads; views and the engine's face fill it in.

use bytes::Bytes;

use super::Stat;

/// What one look-up tells of a key, without waiting for the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is absent, or its space is.
    Absent,
    /// It is there: its version and size, and the bytes that were asked for; fewer only at the value's end.
    Found(Stat, Bytes),
    /// The device would have to be waited for, or more than [`LOOKUP_COPY_MAX`] bytes copied.
    WouldWait,
}

/// A look-up that may not wait copies at most so many bytes.
pub const LOOKUP_COPY_MAX: usize = 64 << 10;
