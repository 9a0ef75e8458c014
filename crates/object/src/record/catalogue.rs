//! The records of the catalogue: itself, the root key, buckets and their snapshots.

use koine_env::Timestamp;
use koine_kv::SpaceId;

use super::index::{IndexRecord, TAG_INDEX, decode_index, encode_indexes};
use super::object::{TAG_METADATA, TAG_TAG, decode_pair, put_pair};
use crate::access_list::AccessList;
use crate::error::{Error, ErrorKind, Result};
use crate::fields::{FieldWriter, Fields, Reader, as_text, as_u8, as_u32, as_u64, missing, unknown};
use crate::info::{AccessTimes, Quota};
use crate::version_id::Versioning;

/// The format of the catalogue and of all records that it leads to: kept for ever. Format 0 made no promise; what it
/// lacked is told at [`Objects::upgrade`](crate::Objects::upgrade).
pub(crate) const CATALOGUE_FORMAT: u32 = 1;

const TAG_FORMAT: u64 = 1;
const TAG_CREATED: u64 = 2;
const TAG_PUBLIC: u64 = 4;

/// The catalogue's own record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeadRecord {
    /// 0 or [`CATALOGUE_FORMAT`]; what the format is of, a door looks at when it opens the store.
    pub format: u32,
    pub created: Timestamp,
    /// Whether policies and lists may let those in who have no identity.
    pub public: bool,
    pub kept: Vec<(u64, Vec<u8>)>,
}

impl HeadRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u32(TAG_FORMAT, self.format);
        fields.put_u64(TAG_CREATED, self.created.0);
        if self.public {
            fields.put(TAG_PUBLIC, &[1]);
        }
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut format, mut created, mut public, mut kept) = (None, None, false, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_FORMAT => format = Some(as_u32(value)?),
                TAG_CREATED => created = Some(Timestamp(as_u64(value)?)),
                TAG_PUBLIC => public = as_u8(value)? == 1,
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        let format = format.ok_or_else(|| missing("format"))?;
        if format > CATALOGUE_FORMAT {
            let message = format!(
                "buckets and objects have format {format}; this program knows {CATALOGUE_FORMAT}: use a newer one"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(HeadRecord { format, created: created.ok_or_else(|| missing("time of creation"))?, public, kept })
    }
}

const TAG_ACCESS_KEY: u64 = 1;
const TAG_SECRET: u64 = 2;

/// The root key of format 0, where it was no access key as others are.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RootKeyRecord {
    pub access_key: String,
    pub secret: String,
}

impl RootKeyRecord {
    /// What programs of format 0 wrote.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put(TAG_ACCESS_KEY, self.access_key.as_bytes());
        fields.put(TAG_SECRET, self.secret.as_bytes());
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut access_key, mut secret, mut kept) = (None, None, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_ACCESS_KEY => access_key = Some(as_text(value)?),
                TAG_SECRET => secret = Some(as_text(value)?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(RootKeyRecord {
            access_key: access_key.ok_or_else(|| missing("access key"))?,
            secret: secret.ok_or_else(|| missing("secret"))?,
        })
    }
}

const TAG_SPACE: u64 = 1;
const TAG_BUCKET_CREATED: u64 = 2;
const TAG_OWNER: u64 = 3;
const TAG_GROUP: u64 = 4;
const TAG_BUCKET_ID: u64 = 5;
const TAG_LIST: u64 = 6;
const TAG_VERSIONING: u64 = 7;
const TAG_QUOTA_BYTES: u64 = 8;
const TAG_QUOTA_OBJECTS: u64 = 9;
const TAG_ACCESS_TIMES: u64 = 10;
const TAG_ORIGIN: u64 = 64;
const TAG_LOCATION: u64 = 65;

const VERSIONING_ENABLED: u8 = 1;
const VERSIONING_SUSPENDED: u8 = 2;
const ACCESS_TIMES_OFF: u8 = 0;
const ACCESS_TIMES_RELATIVE: u8 = 1;

fn decode_access_times(value: &[u8]) -> Result<AccessTimes> {
    match as_u8(value)? {
        ACCESS_TIMES_OFF => Ok(AccessTimes::Off),
        ACCESS_TIMES_RELATIVE => Ok(AccessTimes::Relative),
        other => Err(Error::damaged(format!("a bucket keeps access times of kind {other}"))),
    }
}

/// A bucket's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketRecord {
    pub space: SpaceId,
    pub created: Timestamp,
    /// The user whose it is; root where the field is absent.
    pub owner: u64,
    /// The group whose members share it; root's where the field is absent.
    pub group: u64,
    /// What names the bucket for as long as it is there; absent: its space, which a purge or restore changes.
    pub id: Option<u64>,
    pub list: AccessList,
    pub versioning: Versioning,
    pub quota: Quota,
    /// Those whose entries its space holds.
    pub indexes: Vec<IndexRecord>,
    pub access_times: AccessTimes,
    pub metadata: Vec<(String, String)>,
    pub tags: Vec<(String, String)>,
    /// The region that was asked for when it was made.
    pub location: Option<String>,
    /// Whether it is a snapshot of the bucket that was found. Not recorded.
    pub is_snapshot: bool,
    /// What it was branched from: a bucket's id and the space then.
    pub origin: Option<(u64, SpaceId)>,
    pub kept: Vec<(u64, Vec<u8>)>,
}

impl BucketRecord {
    /// A bucket that is made now.
    pub fn new(space: SpaceId, created: Timestamp) -> Self {
        let list = AccessList::default();
        BucketRecord {
            space,
            created,
            owner: 0,
            group: 0,
            id: None,
            list,
            versioning: Versioning::Never,
            quota: Quota::default(),
            indexes: Vec::new(),
            access_times: AccessTimes::default(),
            metadata: Vec::new(),
            tags: Vec::new(),
            location: None,
            is_snapshot: false,
            origin: None,
            kept: Vec::new(),
        }
    }

    /// What names the bucket for as long as it is there.
    pub fn id(&self) -> u64 {
        self.id.unwrap_or(self.space.0)
    }

    /// The same bucket with what another space holds.
    pub fn in_space(self, space: SpaceId) -> Self {
        BucketRecord { id: Some(self.id()), space, ..self }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u64(TAG_SPACE, self.space.0);
        fields.put_u64(TAG_BUCKET_CREATED, self.created.0);
        if self.owner != 0 {
            fields.put_u64(TAG_OWNER, self.owner);
        }
        if self.group != 0 {
            fields.put_u64(TAG_GROUP, self.group);
        }
        if let Some(id) = self.id {
            fields.put_u64(TAG_BUCKET_ID, id);
        }
        if !self.list.is_empty() {
            fields.put(TAG_LIST, &self.list.encode());
        }
        match self.versioning {
            Versioning::Never => {}
            Versioning::Enabled => fields.put(TAG_VERSIONING, &[VERSIONING_ENABLED]),
            Versioning::Suspended => fields.put(TAG_VERSIONING, &[VERSIONING_SUSPENDED]),
        }
        if let Some(bytes) = self.quota.bytes {
            fields.put_u64(TAG_QUOTA_BYTES, bytes);
        }
        if let Some(objects) = self.quota.objects {
            fields.put_u64(TAG_QUOTA_OBJECTS, objects);
        }
        if self.access_times == AccessTimes::Off {
            fields.put(TAG_ACCESS_TIMES, &[ACCESS_TIMES_OFF]);
        }
        encode_indexes(&mut fields, &self.indexes);
        self.metadata.iter().for_each(|(name, text)| put_pair(&mut fields, TAG_METADATA, name, text));
        self.tags.iter().for_each(|(name, text)| put_pair(&mut fields, TAG_TAG, name, text));
        if let Some((bucket, space)) = &self.origin {
            fields.put(TAG_ORIGIN, &[bucket.to_le_bytes(), space.0.to_le_bytes()].concat());
        }
        if let Some(location) = &self.location {
            fields.put(TAG_LOCATION, location.as_bytes());
        }
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut space, mut created, mut kept) = (None, None, Vec::new());
        let (mut owner, mut group, mut id, mut list) = (0, 0, None, AccessList::default());
        let (mut versioning, mut quota, mut origin) = (Versioning::Never, Quota::default(), None);
        let mut indexes = Vec::new();
        let (mut access_times, mut metadata, mut tags) = (AccessTimes::default(), Vec::new(), Vec::new());
        let mut location = None;
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_SPACE => space = Some(SpaceId(as_u64(value)?)),
                TAG_BUCKET_CREATED => created = Some(Timestamp(as_u64(value)?)),
                TAG_OWNER => owner = as_u64(value)?,
                TAG_GROUP => group = as_u64(value)?,
                TAG_BUCKET_ID => id = Some(as_u64(value)?),
                TAG_LIST => list = AccessList::decode(value)?,
                TAG_VERSIONING => versioning = decode_versioning(value)?,
                TAG_QUOTA_BYTES => quota.bytes = Some(as_u64(value)?),
                TAG_QUOTA_OBJECTS => quota.objects = Some(as_u64(value)?),
                TAG_INDEX => indexes.push(decode_index(value)?),
                TAG_ACCESS_TIMES => access_times = decode_access_times(value)?,
                TAG_METADATA => metadata.push(decode_pair(value)?),
                TAG_TAG => tags.push(decode_pair(value)?),
                TAG_ORIGIN => {
                    let mut reader = Reader::new(value);
                    origin = Some((reader.u64()?, SpaceId(reader.u64()?)));
                }
                TAG_LOCATION => location = Some(as_text(value)?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(BucketRecord {
            space: space.ok_or_else(|| missing("space"))?,
            created: created.ok_or_else(|| missing("time of creation"))?,
            owner,
            group,
            id,
            list,
            versioning,
            quota,
            indexes,
            access_times,
            metadata,
            tags,
            location,
            is_snapshot: false,
            origin,
            kept,
        })
    }
}

fn decode_versioning(value: &[u8]) -> Result<Versioning> {
    match as_u8(value)? {
        VERSIONING_ENABLED => Ok(Versioning::Enabled),
        VERSIONING_SUSPENDED => Ok(Versioning::Suspended),
        code => Err(Error::damaged(format!("a bucket keeps versions by code {code}"))),
    }
}

const TAG_SNAPSHOT_SPACE: u64 = 1;
const TAG_SNAPSHOT_CREATED: u64 = 2;

/// The record of a snapshot of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotRecord {
    pub space: SpaceId,
    pub created: Timestamp,
    /// Those whose entries its space holds.
    pub indexes: Vec<IndexRecord>,
    pub kept: Vec<(u64, Vec<u8>)>,
}

impl SnapshotRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u64(TAG_SNAPSHOT_SPACE, self.space.0);
        fields.put_u64(TAG_SNAPSHOT_CREATED, self.created.0);
        encode_indexes(&mut fields, &self.indexes);
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut space, mut created, mut indexes, mut kept) = (None, None, Vec::new(), Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_SNAPSHOT_SPACE => space = Some(SpaceId(as_u64(value)?)),
                TAG_SNAPSHOT_CREATED => created = Some(Timestamp(as_u64(value)?)),
                TAG_INDEX => indexes.push(decode_index(value)?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(SnapshotRecord {
            space: space.ok_or_else(|| missing("space"))?,
            created: created.ok_or_else(|| missing("time of creation"))?,
            indexes,
            kept,
        })
    }
}
