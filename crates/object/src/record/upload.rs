//! The records of uploads and parts, and the table of parts that a joined object keeps.

use koine_env::Timestamp;

use super::object::{
    TAG_CHECKSUM, TAG_HEADER, TAG_METADATA, algorithm_code, algorithm_of, decode_checksum, decode_header, decode_pair,
    encode_checksums, encode_headers,
};
use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind};
use crate::error::{Error, Result};
use crate::etag::{ETag, EtagKind};
use crate::fields::{FieldWriter, Fields, RECORD_VERSION, Reader, as_u64, missing, put_varint, unknown};
use crate::ids::UploadId;
use crate::info::{ContentHeaders, PartInfo, UploadInfo};

const TAG_CREATED: u64 = 1;
const TAG_WANTED: u64 = 2;
const TAG_OWNER: u64 = 3;
const TAG_DRAWN: u64 = 4;

/// What is recorded of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadRecord {
    pub created: Timestamp,
    pub algorithm: ChecksumAlgorithm,
    pub kind: ChecksumKind,
    pub asked: bool,
    /// Whose ETags its parts get; MD5 where the field is absent.
    pub etag: EtagKind,
    /// The user who began it; root where the field is absent.
    pub owner: u64,
    pub headers: ContentHeaders,
    pub metadata: Vec<(String, String)>,
    pub kept: Vec<(u64, Vec<u8>)>,
}

impl UploadRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u64(TAG_CREATED, self.created.0);
        let kind = u8::from(self.kind == ChecksumKind::Composite);
        fields.put(TAG_WANTED, &[algorithm_code(self.algorithm), kind, u8::from(self.asked)]);
        if self.owner != 0 {
            fields.put_u64(TAG_OWNER, self.owner);
        }
        if self.etag == EtagKind::Drawn {
            fields.put(TAG_DRAWN, &[]);
        }
        encode_headers(&mut fields, &self.headers, &self.metadata);
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut created, mut wanted, mut owner, mut etag) = (None, None, 0, EtagKind::Md5);
        let (mut headers, mut metadata, mut kept) = (ContentHeaders::default(), Vec::new(), Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_CREATED => created = Some(Timestamp(as_u64(value)?)),
                TAG_OWNER => owner = as_u64(value)?,
                TAG_DRAWN => etag = EtagKind::Drawn,
                TAG_WANTED => wanted = Some(decode_wanted(value)?),
                TAG_HEADER => decode_header(value, &mut headers)?,
                TAG_METADATA => metadata.push(decode_pair(value)?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        let (algorithm, kind, asked) = wanted.ok_or_else(|| missing("checksum algorithm"))?;
        let created = created.ok_or_else(|| missing("time of creation"))?;
        Ok(UploadRecord { created, algorithm, kind, asked, etag, owner, headers, metadata, kept })
    }

    pub fn info(&self, key: String, id: UploadId) -> UploadInfo {
        let checksum = (self.algorithm, self.kind);
        UploadInfo { key, id, created: self.created, checksum, checksum_asked: self.asked }
    }
}

fn decode_wanted(value: &[u8]) -> Result<(ChecksumAlgorithm, ChecksumKind, bool)> {
    let mut reader = Reader::new(value);
    let algorithm = algorithm_of(reader.byte()?)?;
    let kind = if reader.byte()? == 0 { ChecksumKind::FullObject } else { ChecksumKind::Composite };
    if !algorithm.allows(kind) {
        return Err(Error::damaged("an upload's record has a checksum of a kind that its algorithm does not allow"));
    }
    Ok((algorithm, kind, reader.byte()? != 0))
}

const TAG_SIZE: u64 = 1;
const TAG_ETAG: u64 = 2;
const TAG_MODIFIED: u64 = 3;

/// What is recorded of a part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartRecord {
    pub size: u64,
    /// The MD5 of its bytes, or drawn, as the upload has it.
    pub etag: [u8; 16],
    pub modified: Timestamp,
    pub checksums: Vec<Checksum>,
    pub kept: Vec<(u64, Vec<u8>)>,
}

impl PartRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put_u64(TAG_SIZE, self.size);
        fields.put(TAG_ETAG, &self.etag);
        fields.put_u64(TAG_MODIFIED, self.modified.0);
        encode_checksums(&mut fields, &self.checksums);
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut size, mut etag, mut modified) = (None, None, None);
        let (mut checksums, mut kept) = (Vec::new(), Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_SIZE => size = Some(as_u64(value)?),
                TAG_ETAG => etag = Some(Reader::new(value).array()?),
                TAG_MODIFIED => modified = Some(Timestamp(as_u64(value)?)),
                TAG_CHECKSUM => checksums.push(decode_checksum(value)?),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        Ok(PartRecord {
            size: size.ok_or_else(|| missing("size"))?,
            etag: etag.ok_or_else(|| missing("ETag"))?,
            modified: modified.ok_or_else(|| missing("time of modification"))?,
            checksums,
            kept,
        })
    }

    pub fn info(&self, number: u32) -> PartInfo {
        let etag = ETag::Md5(self.etag);
        PartInfo { number, size: self.size, etag, checksums: self.checksums.clone(), modified: self.modified }
    }
}

/// The table of the parts that an object was joined from: the record's version, then for each part its number
/// and size, its ETag, and its checksums, each preceded by the code of its algorithm, after their count.
pub(crate) fn encode_part_table(parts: &[(u32, PartRecord)]) -> Vec<u8> {
    let mut bytes = vec![RECORD_VERSION];
    put_varint(&mut bytes, parts.len() as u64);
    for (number, part) in parts {
        put_varint(&mut bytes, u64::from(*number));
        put_varint(&mut bytes, part.size);
        bytes.extend_from_slice(&part.etag);
        bytes.extend_from_slice(&part.modified.0.to_le_bytes());
        put_varint(&mut bytes, part.checksums.len() as u64);
        for checksum in &part.checksums {
            bytes.push(algorithm_code(checksum.algorithm));
            bytes.extend_from_slice(&checksum.value);
        }
    }
    bytes
}

/// The parts that a table tells of.
pub(crate) fn decode_part_table(bytes: &[u8]) -> Result<Vec<PartInfo>> {
    let mut reader = Reader::new(bytes);
    let version = reader.byte()?;
    if version != RECORD_VERSION {
        return Err(Error::damaged(format!("a part table has version {version}; use a newer program")));
    }
    let count = reader.varint()?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let number = u32::try_from(reader.varint()?).map_err(|_| Error::damaged("a part's number is too large"))?;
        let size = reader.varint()?;
        let etag = ETag::Md5(reader.array()?);
        let modified = Timestamp(reader.u64()?);
        let mut checksums = Vec::new();
        for _ in 0..reader.varint()? {
            let algorithm = algorithm_of(reader.byte()?)?;
            checksums.push(Checksum::full(algorithm, reader.take(algorithm.value_len())?));
        }
        parts.push(PartInfo { number, size, etag, checksums, modified });
    }
    if !reader.is_empty() {
        return Err(Error::damaged("a part table goes on after its last part"));
    }
    Ok(parts)
}
