//! The log: records of commits, gathered into groups, written around a ring.
//!
//! - `record`: what one commit did, in logical operations that recovery applies again.
//! - `group`: the unit of writing: a header, records, a checksum over all of it, chained to the one before.
//! - `ring`: where groups lie.

pub mod group;
pub mod record;
pub mod ring;
