//! Wrappers: a [`Kv`](crate::Kv) over another, which they keep as it is but for one thing.
//!
//! Invariants:
//! - A wrapper is complete: no method of the seam has a default, so that one which a wrapper forgets is an error of the
//!   compiler. What a wrapper does not change it names in [`pass_on!`](crate::pass_on).
//! - Each passes the conformance suite, over the store in memory and in a stack of all of them over the engine.

mod around;
mod cache;
mod calls;
mod fault;
mod limit;
mod meter;
mod passing;
mod retry;

pub use cache::{Cache, CacheCounts, CacheOptions, Writers};
pub use calls::{Call, Calls};
pub use fault::{Fault, Faults, Injected};
pub use limit::{Limit, Limits, Rate};
pub use meter::{Latency, Meter, Metered, Snapshot};
pub use retry::{Retry, RetryOptions};
