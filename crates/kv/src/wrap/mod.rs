//! Wrappers: a [`Kv`](crate::Kv) over another, which they keep as it is but for one thing.
//!
//! Invariants:
//! - A wrapper is complete: no method of the seam has a default, so that one which a wrapper forgets is an error of the
//!   compiler. What a wrapper does not change it names in [`pass_on!`](crate::pass_on).
//! - Each passes the conformance suite, over the store in memory and in a stack of all of them over the engine.

mod calls;
#[cfg(any(test, feature = "testing"))]
mod fault;
mod intercept;
mod limit;
mod passing;
mod retry;

pub use calls::{Call, Calls};
#[cfg(any(test, feature = "testing"))]
pub use fault::{Fault, Faults, Injected};
pub use limit::{Limit, Limits, Rate};
pub use retry::{Retry, RetryOptions};
