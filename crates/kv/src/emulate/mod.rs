//! What a store cannot do by itself, done once for all of them: spaces and long values.
//!
//! A *plain* store needs one space ([`SOLE`]), values up to some length that can be changed in place (all operations
//! within it, without stages), atomic batches, conditions, outcomes of requests, views and watches. Over it stand, from
//! below:
//!
//! - [`Split`]: values of any length in pieces, shared where they are cloned or joined; its stages are pieces that are
//!   written as they arrive.
//! - [`Spaces`]: any number of spaces by prefix, snapshots among them.
//!
//! Invariants:
//! - Nothing that a batch asks for is done but by one batch of the store below: atomicity is never emulated. What does
//!   not fit into one is `Unsupported`, saying so.
//! - A wrapper owns the store below: nobody else writes to it. So what it reads under its lock holds until its batch is
//!   applied, and it knows before the store below does whether an operation will be refused.
//! - Conditions and refusals keep their place: condition `n` below is condition `n` above, and a refusal of operation
//!   `n` is remembered below as a refusal of operation `n`.
//! - A version below is the same version above.

mod cursor;
mod emulated;
pub(crate) mod pending;
pub(crate) mod plan;
mod spaces;
mod split;
mod token;
mod watch;

use koine_engine::SpaceId;

pub use spaces::Spaces;
pub use split::{Split, SplitOptions};

/// The one space of a store that has but one.
pub const SOLE: SpaceId = SpaceId::FIRST;
