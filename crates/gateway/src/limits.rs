//! What one request, one connection and all of them together may cost.
//!
//! Invariants:
//! - Every number here stands in docs/limits.md, and a test there is named for it.
//! - A stalled client costs memory up to these numbers, and never a thread.

use std::time::Duration;

/// The longest name of an object, in bytes.
pub use koine_object::OBJECT_KEY_LEN_MAX;

/// The most bytes that one PUT, or one part, may have.
pub const BODY_LEN_MAX: u64 = koine_object::BODY_LEN_MAX;
/// The most bytes of user metadata of an object, names and values together.
pub const METADATA_LEN_MAX: usize = koine_object::METADATA_LEN_MAX;
/// The most names in one request that deletes many.
pub const DELETE_MANY_MAX: usize = koine_object::DELETE_MANY_MAX;
/// The most entries of one page of a listing; asking for more gives so many.
pub const PAGE_LEN_MAX: usize = 1000;
/// The highest number of a part.
pub const PART_NUMBER_MAX: i32 = 10_000;
/// The most headers of a request; the HTTP library's own limit.
pub const HEADER_COUNT_MAX: usize = 100;
/// A piece of a body, as it is handed to the store, in bytes.
pub const PIECE_LEN: usize = 1 << 20;
/// A body up to this many bytes goes to the store on the thread that receives it.
pub const SMALL_BODY_LEN_MAX: u64 = 64 << 10;

/// The limits that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a request's head (target and headers) that are answered with an S3 error beyond it.
    pub head_len_max: usize,
    /// How long a client may take to send a request's head; also how long a connection may idle between requests.
    pub head_time_max: Duration,
    /// The most bytes of a body that is XML.
    pub xml_len_max: usize,
    /// The most documents above 64 KiB that come in at once; one more gets `SlowDown`.
    pub documents_in_flight_max: usize,
    /// How long nothing may move while a body comes in or goes out.
    pub idle_time_max: Duration,
    /// The fewest bytes per second of a body, over `idle_time_max` of waiting for the client.
    pub body_rate_min: u64,
    /// The most bodies above 64 KiB that come in at once; one more gets `SlowDown`.
    pub uploads_in_flight_max: usize,
    /// The most bodies above 1 MiB that go out at once; one more waits.
    pub downloads_in_flight_max: usize,
    /// The most memory for bodies on their way in, in pieces of 1 MiB; at least `uploads_in_flight_max`.
    pub upload_pieces_max: usize,
    /// The most connections at once; one more is answered `SlowDown` and closed.
    pub connections_max: usize,
    /// How long a stop waits for requests under way.
    pub stop_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head_len_max: 32 << 10,
            head_time_max: Duration::from_secs(60),
            xml_len_max: 4 << 20,
            documents_in_flight_max: 16,
            idle_time_max: Duration::from_secs(30),
            body_rate_min: 1 << 10,
            uploads_in_flight_max: 96,
            downloads_in_flight_max: 96,
            upload_pieces_max: 96,
            connections_max: 1024,
            stop_time_max: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// What the HTTP library refuses by itself, before anything else is known of a request.
    pub fn head_len_hard_max(&self) -> usize {
        self.head_len_max.saturating_mul(4)
    }
}
