//! The records of the catalogue: itself, the root key, buckets.

use koine_env::Timestamp;
use koine_kv::SpaceId;

use super::fields::{FieldWriter, Fields, as_text, as_u32, as_u64, missing, unknown};
use crate::error::{Error, Result};

/// The format that this program writes into the catalogue's head.
const CATALOGUE_FORMAT: u32 = 0;

const TAG_FORMAT: u64 = 1;
const TAG_CREATED: u64 = 2;

/// The catalogue's own record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeadRecord {
    pub created: Timestamp,
}

impl HeadRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u32(TAG_FORMAT, CATALOGUE_FORMAT);
        fields.put_u64(TAG_CREATED, self.created.0);
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut format, mut created, mut kept) = (None, None, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_FORMAT => format = Some(as_u32(value)?),
                TAG_CREATED => created = Some(Timestamp(as_u64(value)?)),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        match format {
            Some(CATALOGUE_FORMAT) => {}
            Some(other) => {
                let message = format!("the catalogue has format {other}; this program knows {CATALOGUE_FORMAT}");
                return Err(Error::damaged(message));
            }
            None => return Err(missing("format")),
        }
        Ok(HeadRecord { created: created.ok_or_else(|| missing("time of creation"))? })
    }
}

const TAG_ACCESS_KEY: u64 = 1;
const TAG_SECRET: u64 = 2;

/// The root key; readable by whoever reads the device.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RootKeyRecord {
    pub access_key: String,
    pub secret: String,
}

impl RootKeyRecord {
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

/// A bucket's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketRecord {
    pub space: SpaceId,
    pub created: Timestamp,
    pub owner: Option<Vec<u8>>,
    pub kept: Vec<(u64, Vec<u8>)>,
}

impl BucketRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u64(TAG_SPACE, self.space.0);
        fields.put_u64(TAG_BUCKET_CREATED, self.created.0);
        if let Some(owner) = &self.owner {
            fields.put(TAG_OWNER, owner);
        }
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut space, mut created, mut owner, mut kept) = (None, None, None, Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_SPACE => space = Some(SpaceId(as_u64(value)?)),
                TAG_BUCKET_CREATED => created = Some(Timestamp(as_u64(value)?)),
                TAG_OWNER => owner = Some(value.to_vec()),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(BucketRecord {
            space: space.ok_or_else(|| missing("space"))?,
            created: created.ok_or_else(|| missing("time of creation"))?,
            owner,
            kept,
        })
    }
}
