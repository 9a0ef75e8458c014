//! What a caller knows beforehand, and what the store does about it today.
//!
//! | hint | what it does |
//! |---|---|
//! | [`Access::Sequential`](crate::Access) | reads of a handle go through windows read ahead from the first read on; writes get checksum chunks of 32 KiB |
//! | [`Access::Random`](crate::Access), or nothing | writes longer than the log takes get checksum chunks of 4 KiB, so that a small read verifies no more; reads go through windows once several came in order |
//! | [`Hint::expected_len`] | creating is refused when the store has not that much room; nothing is set aside |
//! | [`Lifetime`] | kept with the handle; nothing yet |
//! | [`Object::will_need`](super::Object::will_need) | the range is read into windows, as far as there is memory for them, and the rest into the page cache |
//!
//! Invariant: no hint changes what a call gives back, only how fast it does.

use crate::stage::Access;

/// How long an object will live, as far as the caller knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Deleted soon.
    Short,
    /// Kept.
    Long,
}

/// What is known about an object and how it will be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// How it will be read and written; `None`: not known.
    pub access: Option<Access>,
    /// How long it will become, in bytes.
    pub expected_len: Option<u64>,
    /// How long it will live.
    pub lifetime: Lifetime,
}

impl Hint {
    /// Read and written from front to back.
    pub fn sequential() -> Hint {
        Hint { access: Some(Access::Sequential), ..Hint::default() }
    }

    /// Read and written in small pieces anywhere.
    pub fn random() -> Hint {
        Hint { access: Some(Access::Random), ..Hint::default() }
    }
}
