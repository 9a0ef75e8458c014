//! The records of buckets, objects, uploads and parts as bytes, both ways.
//!
//! Invariants:
//! - What is encoded decodes to the same; unknown free fields are kept.
//! - docs/format-object.md tells the same; changes are made in both.

mod catalogue;
pub(crate) mod fields;
mod object;
mod upload;

pub(crate) use catalogue::{BucketRecord, HeadRecord, RootKeyRecord};
pub(crate) use object::{ObjectRecord, summary};
pub(crate) use upload::{PartRecord, UploadRecord, decode_part_table, encode_part_table};

#[cfg(test)]
mod tests;
