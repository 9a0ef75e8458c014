//! An index of a bucket, as the bucket's record and those of its snapshots tell of it.

use crate::error::{Error, Result};
use crate::fields::{FieldWriter, Reader, as_text};
use crate::search_query::Indexed;

/// The same field in the records of buckets and snapshots.
pub(super) const TAG_INDEX: u64 = 11;

const BEING_BUILT: u8 = 1;
const WHOLE: u8 = 2;
const OF_METADATA: u8 = 0;
const OF_TAG: u8 = 1;

/// An index over an entry of metadata or a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexRecord {
    /// What its entries' keys begin with; no other index of the same space has it.
    pub number: u32,
    /// Whether everything has its entry; until then only what was changed since it was begun is sure to have one.
    pub whole: bool,
    pub of: Indexed,
}

pub(super) fn encode_indexes(fields: &mut FieldWriter, indexes: &[IndexRecord]) {
    for index in indexes {
        let (of, name) = match &index.of {
            Indexed::Metadata(name) => (OF_METADATA, name),
            Indexed::Tag(name) => (OF_TAG, name),
        };
        let state = if index.whole { WHOLE } else { BEING_BUILT };
        fields.put(TAG_INDEX, &[index.number.to_le_bytes().as_slice(), &[state, of], name.as_bytes()].concat());
    }
}

pub(super) fn decode_index(value: &[u8]) -> Result<IndexRecord> {
    let mut reader = Reader::new(value);
    let (number, state, of) = (reader.u32()?, reader.byte()?, reader.byte()?);
    let name = as_text(reader.rest())?;
    let whole = match state {
        BEING_BUILT => false,
        WHOLE => true,
        _ => return Err(Error::damaged(format!("a record has an index in state {state}"))),
    };
    let of = match of {
        OF_METADATA => Indexed::Metadata(name),
        OF_TAG => Indexed::Tag(name),
        _ => return Err(Error::damaged(format!("a record has an index over things of kind {of}"))),
    };
    Ok(IndexRecord { number, whole, of })
}
