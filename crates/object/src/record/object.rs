//! An object's record, held under its name.

use koine_env::Timestamp;
use koine_kv::{RequestId, Version};

use crate::access_list::AccessList;
use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind};
use crate::error::{Error, Result};
use crate::etag::ETag;
use crate::fields::{FieldWriter, Fields, Reader, as_text, as_u32, as_u64, missing, put_varint, unknown};
use crate::ids::{ObjectId, UploadId};
use crate::info::{ContentHeaders, ObjectInfo, ObjectSummary};
use crate::search_query::Indexed;

pub(super) const TAG_LAYOUT: u64 = 1;
const TAG_ID: u64 = 3;
const TAG_SIZE: u64 = 4;
pub(super) const TAG_CREATED: u64 = 5;
pub(super) const TAG_MODIFIED: u64 = 6;
const TAG_CHANGED: u64 = 7;
const TAG_MODE: u64 = 8;
pub(super) const TAG_OWNER: u64 = 9;
pub(super) const TAG_VERSION_ID: u64 = 10;
const TAG_ETAG: u64 = 11;
pub(super) const TAG_CHECKSUM: u64 = 12;
pub(super) const TAG_HEADER: u64 = 13;
pub(super) const TAG_METADATA: u64 = 14;
const TAG_PART_COUNT: u64 = 15;
const TAG_LIST: u64 = 17;
pub(super) const TAG_TAG: u64 = 16;
const TAG_UPLOAD: u64 = 64;
const TAG_REQUEST: u64 = 65;
const TAG_POSIX_OWNER: u64 = 66;

/// All bytes are the value of the data key.
const LAYOUT_BLOB: u8 = 1;

const ETAG_MD5: u8 = 1;
const ETAG_MULTIPART: u8 = 2;
const ETAG_OTHER: u8 = 3;
const ETAG_EDITED: u8 = 4;

/// Whose an object is, and who may reach it beside those who reach it by its bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectAccess {
    /// The user who put it; root where the field is absent.
    pub owner: u64,
    pub list: AccessList,
}

/// What is recorded of an object under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectRecord {
    pub id: ObjectId,
    /// Which of the objects that a versioned bucket keeps under its name; `None` is `null`. `name` sets it.
    pub version_id: Option<u64>,
    pub size: u64,
    pub created: Timestamp,
    pub modified: Timestamp,
    pub changed: Timestamp,
    pub mode: u32,
    pub etag: ETag,
    pub checksums: Vec<Checksum>,
    pub headers: ContentHeaders,
    pub metadata: Vec<(String, String)>,
    pub access: ObjectAccess,
    pub tags: Vec<(String, String)>,
    /// Numeric user and group, for doors that have them.
    pub posix_owner: Option<(u32, u32)>,
    /// How many parts the part table tells of; `None` when there is no table.
    pub part_count: Option<u32>,
    /// The upload that was completed to this.
    pub upload: Option<UploadId>,
    /// The request that put this.
    pub request: Option<RequestId>,
    /// Fields of newer programs.
    pub kept: Vec<(u64, Vec<u8>)>,
}

impl ObjectRecord {
    /// A new object with nothing that a caller gives; its id is drawn by who puts it.
    pub fn new(size: u64, etag: ETag, now: Timestamp) -> Self {
        ObjectRecord {
            id: ObjectId(0),
            version_id: None,
            size,
            created: now,
            modified: now,
            changed: now,
            mode: 0,
            etag,
            checksums: Vec::new(),
            headers: ContentHeaders::default(),
            metadata: Vec::new(),
            tags: Vec::new(),
            posix_owner: None,
            access: ObjectAccess::default(),
            part_count: None,
            upload: None,
            request: None,
            kept: Vec::new(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::new();
        fields.put(TAG_LAYOUT, &[LAYOUT_BLOB]);
        fields.put_u64(TAG_ID, self.id.0);
        fields.put_u64(TAG_SIZE, self.size);
        fields.put_u64(TAG_CREATED, self.created.0);
        fields.put_u64(TAG_MODIFIED, self.modified.0);
        fields.put_u64(TAG_CHANGED, self.changed.0);
        fields.put_u32(TAG_MODE, self.mode);
        if self.access.owner != 0 {
            fields.put_u64(TAG_OWNER, self.access.owner);
        }
        if let Some(version) = self.version_id {
            fields.put_u64(TAG_VERSION_ID, version);
        }
        fields.put(TAG_ETAG, &encode_etag(&self.etag));
        encode_checksums(&mut fields, &self.checksums);
        encode_headers(&mut fields, &self.headers, &self.metadata);
        if let Some(count) = self.part_count {
            fields.put_u32(TAG_PART_COUNT, count);
        }
        if !self.access.list.is_empty() {
            fields.put(TAG_LIST, &self.access.list.encode());
        }
        self.tags.iter().for_each(|(name, text)| put_pair(&mut fields, TAG_TAG, name, text));
        if let Some(upload) = &self.upload {
            fields.put(TAG_UPLOAD, &upload.0);
        }
        if let Some(request) = &self.request {
            fields.put(TAG_REQUEST, &request.0);
        }
        if let Some((uid, gid)) = self.posix_owner {
            fields.put(TAG_POSIX_OWNER, &[uid.to_le_bytes(), gid.to_le_bytes()].concat());
        }
        self.kept.iter().for_each(|(tag, value)| fields.put(*tag, value));
        fields.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut id, mut version_id, mut size, mut etag, mut laid) = (None, None, None, None, false);
        let (mut created, mut modified, mut changed) = (None, None, None);
        let (mut mode, mut part_count, mut upload, mut request) = (0, None, None, None);
        let (mut checksums, mut headers, mut metadata) = (Vec::new(), ContentHeaders::default(), Vec::new());
        let (mut tags, mut posix_owner) = (Vec::new(), None);
        let (mut access, mut kept) = (ObjectAccess::default(), Vec::new());
        let mut fields = Fields::new(bytes)?;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                TAG_LAYOUT if value == [LAYOUT_BLOB] => laid = true,
                TAG_ID => id = Some(ObjectId(as_u64(value)?)),
                TAG_SIZE => size = Some(as_u64(value)?),
                TAG_CREATED => created = Some(Timestamp(as_u64(value)?)),
                TAG_MODIFIED => modified = Some(Timestamp(as_u64(value)?)),
                TAG_CHANGED => changed = Some(Timestamp(as_u64(value)?)),
                TAG_MODE => mode = as_u32(value)?,
                TAG_OWNER => access.owner = as_u64(value)?,
                TAG_VERSION_ID => version_id = Some(as_u64(value)?),
                TAG_LIST => access.list = AccessList::decode(value)?,
                TAG_ETAG => etag = Some(decode_etag(value)?),
                TAG_CHECKSUM => checksums.push(decode_checksum(value)?),
                TAG_HEADER => decode_header(value, &mut headers)?,
                TAG_METADATA => metadata.push(decode_pair(value)?),
                TAG_TAG => tags.push(decode_pair(value)?),
                TAG_POSIX_OWNER => {
                    let mut reader = Reader::new(value);
                    posix_owner = Some((reader.u32()?, reader.u32()?));
                }
                TAG_PART_COUNT => part_count = Some(as_u32(value)?),
                TAG_UPLOAD => upload = Some(UploadId(Reader::new(value).array()?)),
                TAG_REQUEST => request = Some(RequestId(Reader::new(value).array()?)),
                _ => unknown(tag, value, &mut kept)?,
            }
        }
        if !laid {
            return Err(missing("layout"));
        }
        let modified = modified.ok_or_else(|| missing("time of modification"))?;
        Ok(ObjectRecord {
            id: id.ok_or_else(|| missing("id"))?,
            version_id,
            size: size.ok_or_else(|| missing("size"))?,
            created: created.unwrap_or(modified),
            modified,
            changed: changed.unwrap_or(modified),
            mode,
            etag: etag.ok_or_else(|| missing("ETag"))?,
            checksums,
            headers,
            metadata,
            access,
            tags,
            posix_owner,
            part_count,
            upload,
            request,
            kept,
        })
    }

    /// What it has of what an index is over: of entries of one name the first.
    pub fn indexed(&self, of: &Indexed) -> Option<&str> {
        let (entries, wanted) = match of {
            Indexed::Metadata(name) => (&self.metadata, name),
            Indexed::Tag(name) => (&self.tags, name),
        };
        entries.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    pub fn into_info(self, key: String, version: Version) -> ObjectInfo {
        ObjectInfo {
            key,
            id: self.id,
            version,
            version_id: self.version_id.into(),
            size: self.size,
            created: self.created,
            modified: self.modified,
            changed: self.changed,
            accessed: None,
            mode: self.mode,
            etag: self.etag,
            checksums: self.checksums,
            headers: self.headers,
            metadata: self.metadata,
            tags: self.tags,
            posix_owner: self.posix_owner,
            part_count: self.part_count,
        }
    }
}

impl ObjectRecord {
    /// What a listing tells.
    pub fn into_summary(self, key: String, version: Version) -> ObjectSummary {
        let kind = |checksum: &Checksum| match checksum.composite_parts {
            None => (checksum.algorithm, ChecksumKind::FullObject),
            Some(_) => (checksum.algorithm, ChecksumKind::Composite),
        };
        let checksums = self.checksums.iter().map(kind).collect();
        ObjectSummary { key, version, size: self.size, modified: self.modified, etag: self.etag, checksums }
    }
}

/// What a listing tells, without decoding the rest.
pub(crate) fn summary(key: String, version: Version, bytes: &[u8]) -> Result<ObjectSummary> {
    let (mut size, mut modified, mut etag, mut checksums) = (None, None, None, Vec::new());
    let mut fields = Fields::new(bytes)?;
    while let Some((tag, value)) = fields.next()? {
        match tag {
            TAG_SIZE => size = Some(as_u64(value)?),
            TAG_MODIFIED => modified = Some(Timestamp(as_u64(value)?)),
            TAG_ETAG => etag = Some(decode_etag(value)?),
            TAG_CHECKSUM => {
                let (algorithm, parts, _) = checksum_head(value)?;
                let kind = if parts == 0 { ChecksumKind::FullObject } else { ChecksumKind::Composite };
                checksums.push((algorithm, kind));
            }
            _ => {}
        }
    }
    Ok(ObjectSummary {
        key,
        version,
        size: size.ok_or_else(|| missing("size"))?,
        modified: modified.ok_or_else(|| missing("time of modification"))?,
        etag: etag.ok_or_else(|| missing("ETag"))?,
        checksums,
    })
}

/// What a record has of what an index is over, without decoding the rest: of entries of one name the first.
pub(crate) fn indexed_value(of: &Indexed, bytes: &[u8]) -> Result<Option<String>> {
    let (wanted_tag, wanted_name) = match of {
        Indexed::Metadata(name) => (TAG_METADATA, name),
        Indexed::Tag(name) => (TAG_TAG, name),
    };
    let mut fields = Fields::new(bytes)?;
    while let Some((tag, value)) = fields.next()? {
        let mut reader = Reader::new(value);
        if tag == wanted_tag && reader.counted()? == wanted_name.as_bytes() {
            return as_text(reader.rest()).map(Some);
        }
    }
    Ok(None)
}

pub(super) fn encode_etag(etag: &ETag) -> Vec<u8> {
    match etag {
        ETag::Md5(digest) => [&[ETAG_MD5], digest.as_slice()].concat(),
        ETag::Multipart(digest, parts) => [&[ETAG_MULTIPART], digest.as_slice(), &parts.to_le_bytes()].concat(),
        ETag::Drawn(id, edit) => [&[ETAG_EDITED], id.0.to_le_bytes().as_slice(), &edit.to_le_bytes()].concat(),
        ETag::Other(text) => [&[ETAG_OTHER], text.as_bytes()].concat(),
    }
}

pub(super) fn decode_etag(value: &[u8]) -> Result<ETag> {
    let mut reader = Reader::new(value);
    match reader.byte()? {
        ETAG_MD5 => Ok(ETag::Md5(reader.array()?)),
        ETAG_MULTIPART => Ok(ETag::Multipart(reader.array()?, reader.u32()?)),
        ETAG_EDITED => Ok(ETag::Drawn(ObjectId(reader.u64()?), reader.u64()?)),
        ETAG_OTHER => Ok(ETag::Other(as_text(reader.rest())?)),
        kind => Err(Error::damaged(format!("a record has an ETag of kind {kind}"))),
    }
}

pub(super) fn algorithm_code(algorithm: ChecksumAlgorithm) -> u8 {
    match algorithm {
        ChecksumAlgorithm::Crc32 => 1,
        ChecksumAlgorithm::Crc32c => 2,
        ChecksumAlgorithm::Crc64Nvme => 3,
        ChecksumAlgorithm::Sha1 => 4,
        ChecksumAlgorithm::Sha256 => 5,
        ChecksumAlgorithm::Sha512 => 6,
        ChecksumAlgorithm::Md5 => 7,
        ChecksumAlgorithm::Xxhash64 => 8,
        ChecksumAlgorithm::Xxhash3 => 9,
        ChecksumAlgorithm::Xxhash128 => 10,
    }
}

pub(super) fn algorithm_of(code: u8) -> Result<ChecksumAlgorithm> {
    let found = ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm_code(*algorithm) == code);
    found.ok_or_else(|| Error::damaged(format!("a record has a checksum of algorithm {code}")))
}

pub(super) fn encode_checksums(fields: &mut FieldWriter, checksums: &[Checksum]) {
    for checksum in checksums {
        let parts = checksum.composite_parts.unwrap_or(0).to_le_bytes();
        let code = [algorithm_code(checksum.algorithm)];
        fields.put(TAG_CHECKSUM, &[&code, parts.as_slice(), &checksum.value].concat());
    }
}

fn checksum_head(value: &[u8]) -> Result<(ChecksumAlgorithm, u32, &[u8])> {
    let mut reader = Reader::new(value);
    let algorithm = algorithm_of(reader.byte()?)?;
    let parts = reader.u32()?;
    Ok((algorithm, parts, reader.take(algorithm.value_len())?))
}

pub(super) fn decode_checksum(value: &[u8]) -> Result<Checksum> {
    let (algorithm, parts, value) = checksum_head(value)?;
    Ok(Checksum { algorithm, value: value.to_vec(), composite_parts: (parts != 0).then_some(parts) })
}

pub(super) fn encode_headers(fields: &mut FieldWriter, headers: &ContentHeaders, metadata: &[(String, String)]) {
    let named = [
        (1, &headers.content_type),
        (2, &headers.cache_control),
        (3, &headers.content_disposition),
        (4, &headers.content_encoding),
        (5, &headers.content_language),
        (6, &headers.expires),
    ];
    for (code, text) in named {
        if let Some(text) = text {
            fields.put(TAG_HEADER, &[&[code], text.as_bytes()].concat());
        }
    }
    for (name, text) in metadata {
        put_pair(fields, TAG_METADATA, name, text);
    }
}

pub(super) fn put_pair(fields: &mut FieldWriter, tag: u64, name: &str, text: &str) {
    let mut value = Vec::with_capacity(name.len() + text.len() + 2);
    put_varint(&mut value, name.len() as u64);
    value.extend_from_slice(name.as_bytes());
    value.extend_from_slice(text.as_bytes());
    fields.put(tag, &value);
}

pub(super) fn decode_header(value: &[u8], headers: &mut ContentHeaders) -> Result<()> {
    let mut reader = Reader::new(value);
    let slot = match reader.byte()? {
        1 => &mut headers.content_type,
        2 => &mut headers.cache_control,
        3 => &mut headers.content_disposition,
        4 => &mut headers.content_encoding,
        5 => &mut headers.content_language,
        6 => &mut headers.expires,
        code => return Err(Error::damaged(format!("a record has a header of code {code}"))),
    };
    *slot = Some(as_text(reader.rest())?);
    Ok(())
}

pub(super) fn decode_pair(value: &[u8]) -> Result<(String, String)> {
    let mut reader = Reader::new(value);
    let name = as_text(reader.counted()?)?;
    Ok((name, as_text(reader.rest())?))
}
