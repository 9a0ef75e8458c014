//! `libkoine`: the C face of buckets, named and numbered objects. The header is `include/koine.h`.
//!
//! Invariants:
//! - A handle is a number in the guise of a pointer, never an address: one that is NULL, closed or made up is an
//!   error of kind `KOINE_INVALID`, whatever it is.
//! - No panic crosses the boundary: each call catches it and gives an error of kind `KOINE_PANIC`.
//! - `unsafe` stands where the caller's memory is touched: strings, buffers, and places for results. What the caller
//!   must keep to is told in the header and repeated nowhere.

// The names of the calls are exported, and the caller's memory is reached by its pointers.
#![allow(unsafe_code)]
// What C passes one by one.
#![allow(clippy::too_many_arguments)]
// Changes and queries of the object library grow; what a call does not set of them is as by default.
#![allow(clippy::needless_update)]

mod arguments;
mod errors;
mod handles;
mod mapped;
mod named;
mod names;
mod objects;
mod rows;
mod session;
mod stores;
mod table;
mod transactions;

use std::ffi::c_char;

/// The version of the library, as `MAJOR.MINOR.PATCH`.
#[unsafe(no_mangle)]
pub extern "C" fn koine_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
