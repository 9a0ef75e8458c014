//! The records of buckets, objects, uploads and parts as bytes, both ways.
//!
//! Invariants:
//! - What is encoded decodes to the same; unknown free fields are kept.
//! - docs/format-object.md tells the same; changes are made in both.

mod catalogue;
mod identity;
mod index;
mod object;
mod older;
mod policy;
mod upload;

pub(crate) use catalogue::{BucketRecord, CATALOGUE_FORMAT, HeadRecord, RootKeyRecord, SnapshotRecord};
pub(crate) use identity::{
    AccessKeyRecord, GroupRecord, KeptSecret, Limits, MembershipRecord, State, TokenRecord, UserRecord,
};
pub(crate) use index::IndexRecord;
pub(crate) use object::{ObjectAccess, ObjectRecord, indexed_value, summary};
pub(crate) use older::{MarkerRecord, OlderRecord};
pub(crate) use policy::{DocumentRecord, NamedPrincipal, PolicyRecord, SealingKeyRecord};
pub(crate) use upload::{PartRecord, UploadRecord, decode_part_table, encode_part_table};

#[cfg(test)]
mod tests;
