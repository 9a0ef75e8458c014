//! Atomics, as the standard library has them. `fuzz/models` puts others in their place, whose every order it searches.

pub use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
