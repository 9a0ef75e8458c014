//! The log: records of commits, gathered into groups, written around a ring.
//!
//! - `record`: what one commit did, in logical operations that recovery applies again.
//! - `group`: the unit of writing: a header, records, a checksum over all of it, chained to the one before.
//! - `ring`: where groups lie.
//! - `longest`: how long writes of it took.

pub mod group;
pub mod longest;
pub mod record;
pub mod ring;
