//! What users and groups have: buckets, and rights to them and their objects; how much they hold, and what goes with them
//! when they are deleted.
//!
//! Invariants:
//! - These calls are those of [`LocalIdentities`](crate::identity::LocalIdentities) that look at buckets and objects: users
//!   and groups by themselves know of neither.

mod access;
mod delete;
mod usage;

pub use delete::DeletedGroup;
pub use usage::Whose;
