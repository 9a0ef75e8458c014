//! What stands under an older key of a name: an older version's record, or a delete marker.

use koine_env::Timestamp;

use super::object::{ObjectRecord, TAG_CREATED, TAG_LAYOUT, TAG_MODIFIED, TAG_OWNER, TAG_VERSION_ID};
use crate::error::Result;
use crate::fields::{FieldWriter, Fields, as_u64, missing, unknown};
use crate::version_id::VersionId;

/// There are no bytes.
const LAYOUT_MARKER: u8 = 0;

/// Says that a name was deleted, above the versions that it still has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MarkerRecord {
    pub created: Timestamp,
    /// The user who deleted; root where the field is absent.
    pub owner: u64,
    /// As in an object's record.
    pub version_id: Option<u64>,
    /// Fields of newer programs.
    pub kept: Vec<(u64, Vec<u8>)>,
}

impl MarkerRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put(TAG_LAYOUT, &[LAYOUT_MARKER]);
        fields.put_u64(TAG_CREATED, self.created.0);
        fields.put_u64(TAG_MODIFIED, self.created.0);
        if self.owner != 0 {
            fields.put_u64(TAG_OWNER, self.owner);
        }
        if let Some(version) = self.version_id {
            fields.put_u64(TAG_VERSION_ID, version);
        }
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut laid, mut created, mut owner, mut version_id, mut kept) = (false, None, 0, None, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_LAYOUT if value == [LAYOUT_MARKER] => laid = true,
                TAG_CREATED => created = Some(Timestamp(as_u64(value)?)),
                TAG_MODIFIED => {}
                TAG_OWNER => owner = as_u64(value)?,
                TAG_VERSION_ID => version_id = Some(as_u64(value)?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        if !laid {
            return Err(missing("layout"));
        }
        let created = created.ok_or_else(|| missing("time of creation"))?;
        Ok(MarkerRecord { created, owner, version_id, kept })
    }
}

/// Either, by its layout.
#[expect(clippy::large_enum_variant, reason = "one is held at a time, and it is an object's most times")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OlderRecord {
    /// A version that has bytes.
    Object(ObjectRecord),
    /// A delete marker.
    Marker(MarkerRecord),
}

impl OlderRecord {
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            if tag == TAG_LAYOUT && value == [LAYOUT_MARKER] {
                return MarkerRecord::decode(bytes).map(OlderRecord::Marker);
            }
        }
        ObjectRecord::decode(bytes).map(OlderRecord::Object)
    }

    pub fn id(&self) -> VersionId {
        match self {
            OlderRecord::Object(record) => record.version_id.into(),
            OlderRecord::Marker(record) => record.version_id.into(),
        }
    }
}
