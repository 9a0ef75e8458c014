//! What a caller knows beforehand, and what the store does about it today.
//!
//! | hint | what it does |
//! |---|---|
//! | [`Access::Sequential`](crate::Access) | reads of a handle go through windows read ahead from the first read on; writes get checksum chunks of 32 KiB |
//! | [`Access::Random`](crate::Access), or nothing | writes longer than the log takes get checksum chunks of 4 KiB, so that a small read verifies no more; reads go through windows once several came in order |
//! | [`Hint::expected_len`] | creating is refused when the store has not that much room; nothing is set aside |
//! | [`Lifetime`] | data that goes soon is placed from the end of the store, data that stays from its begin: what goes leaves long free runs. Writes that the log takes, and what is defragmented, lie where there is room |
//! | [`Object::will_need`](super::Object::will_need) | the range is read into windows, as far as there is memory for them, and the rest into the page cache |
//!
//! Invariant: no hint changes what a call gives back, only how fast it does.

use crate::stage::{Access, Lifetime};

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
