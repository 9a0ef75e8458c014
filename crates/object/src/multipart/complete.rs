//! Completing an upload: its parts become the object, in one commit, without being copied.
//!
//! Invariants:
//! - The parts joined are those that were checked: the commit holds only while none of them changed.
//! - The upload's id and the bucket's space name the request, and the id stays in the object's record, so that a
//!   repeat after a lost answer learns that it won. A branch has uploads of the same ids, which are others.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use koine_kv::{Commit, Direction, KeyRange, Place, RequestId, Sources, SpaceId, Transaction};

use super::drop_upload;
use crate::action::Action;
use crate::checksum::{Checksum, ChecksumKind, combine, composite, md5_of_md5s};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::etag::ETag;
use crate::ids::UploadId;
use crate::info::ObjectInfo;
use crate::keys::{self, OfPart};
use crate::layout;
use crate::local::Local;
use crate::lookup::{find_bucket, find_object, find_upload, value_of};
use crate::name::{self, never};
use crate::object_name::{Name, ObjectName};
use crate::outcome::{settle, told};
use crate::pending::Pending;
use crate::record::{ObjectAccess, ObjectRecord, PartRecord, UploadRecord, encode_part_table};
use crate::request::{CompleteOptions, CompletedPart, PART_LEN_MIN};
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};

impl Local {
    pub fn complete_upload(
        &self,
        name: ObjectName<'_>,
        upload: UploadId,
        options: CompleteOptions,
    ) -> Pending<ObjectInfo> {
        if let Err(error) = keys::check_object_key(name.key).and_then(|()| check_order(&options)) {
            return Pending::ready(Err(error));
        }
        let (bucket, key) = (name.bucket.to_owned(), name.key.to_owned());
        run(self, Complete { bucket, key, upload, options, space: SpaceId(0), record: None })
    }
}

fn check_order(options: &CompleteOptions) -> Result<()> {
    let parts = &options.parts;
    if options.all_parts && !parts.is_empty() {
        return Err(invalid("a completion of all parts names none of them"));
    }
    if parts.is_empty() && !options.all_parts {
        return Err(invalid("a completion names at least one part"));
    }
    if parts.windows(2).any(|pair| matches!(pair, [a, b] if a.number >= b.number)) {
        return Err(Error::new(ErrorKind::InvalidPartOrder, "the parts are not in ascending order of their numbers"));
    }
    Ok(())
}

struct Complete {
    bucket: String,
    key: String,
    upload: UploadId,
    options: CompleteOptions,
    /// Of the last attempt.
    space: SpaceId,
    /// Of the last attempt.
    record: Option<ObjectRecord>,
}

impl Verb for Complete {
    type Outcome = ObjectInfo;

    fn request(&self) -> Option<RequestId> {
        Some(RequestId((u128::from_be_bytes(self.upload.0) ^ u128::from(self.space.0)).to_be_bytes()))
    }

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.object(Action::PutObject, &self.bucket, &self.key)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<ObjectInfo>> {
        let bucket = find_bucket(txn, &self.bucket)?;
        let space = bucket.space;
        self.space = space;
        let current = find_object(txn, space, &self.key)?;
        if let Some(current) = &current
            && current.record.upload == Some(self.upload)
        {
            return Ok(Applied::Done(current.record.clone().into_info(self.key.clone(), current.version)));
        }
        let upload = match find_upload(txn, space, &self.key, self.upload) {
            Err(error) if error.kind() == ErrorKind::NoSuchUpload => {
                self.record = if self.options.all_parts { None } else { Some(self.record_told(context)?) };
                return Ok(Applied::MaybeReplayed(never(space, &self.key), error));
            }
            found => found?,
        };
        self.options.condition.check(ObjectName::new(&self.bucket, &self.key), current.as_ref())?;
        let there = read_parts(txn, space, self.upload)?;
        let bytes = there.values().map(|part| part.size).sum();
        let parts = self.chosen_parts(there)?;
        let mut record = self.joined_record(upload, &parts, context)?;
        let of = |(number, _): &(u32, PartRecord)| Place::new(space, keys::part(self.upload, OfPart::Data, *number));
        let sources = parts.iter().map(of).collect();
        let data = layout::create(txn, space, record.id);
        layout::join(txn, sources, data, Sources::Delete);
        drop_upload(txn, &bucket, &self.key, self.upload, bytes)?;
        name::set(txn, context, &bucket, &self.key, current.as_ref(), Some(&mut record))?;
        txn.put(space, keys::part_table(record.id), Bytes::from(encode_part_table(&parts)));
        self.record = Some(record);
        Ok(Applied::Changed)
    }

    fn committed(self, local: &Local, commit: Commit) -> Result<ObjectInfo> {
        match self.record {
            Some(record) => settle(local, &self.bucket, self.key, record, commit),
            // All parts were joined before, and only the object could tell which.
            None => told(local, &Name { bucket: self.bucket, key: self.key }, None, commit),
        }
    }
}

impl Complete {
    /// What the caller's own list tells of the object: the answer to a repeat whose object was replaced since.
    fn record_told(&self, context: &CommandContext<'_>) -> Result<ObjectRecord> {
        let digest = |part: &CompletedPart| -> Result<[u8; 16]> {
            let mut md5 = [0; 16];
            hex::decode_to_slice(&part.etag, &mut md5).map_err(|_| Error::no_such_upload(&self.upload))?;
            Ok(md5)
        };
        let md5s = self.options.parts.iter().map(digest).collect::<Result<Vec<_>>>()?;
        let etag = ETag::Multipart(md5_of_md5s(&md5s), count(md5s.len()));
        Ok(ObjectRecord {
            checksums: self.options.expected.clone(),
            part_count: Some(count(md5s.len())),
            upload: Some(self.upload),
            ..ObjectRecord::new(self.options.size.unwrap_or(0), etag, context.now)
        })
    }

    /// The parts named by the caller, each as it was put, or what is wrong with them.
    fn chosen_parts(&self, mut there: BTreeMap<u32, PartRecord>) -> Result<Vec<(u32, PartRecord)>> {
        if self.options.all_parts {
            return all_parts(there);
        }
        let last = self.options.parts.last().map(|part| part.number);
        let choose = |wanted: &CompletedPart| {
            let number = wanted.number;
            let part = there.remove(&number).ok_or_else(|| invalid_part(number, "was not put"))?;
            if hex::encode(part.etag) != wanted.etag.to_ascii_lowercase() {
                return Err(invalid_part(number, "has another ETag"));
            }
            for checksum in &wanted.checksums {
                if !part.checksums.contains(checksum) {
                    return Err(invalid_part(number, "has another checksum"));
                }
            }
            check_size(number, &part, last)?;
            Ok((number, part))
        };
        self.options.parts.iter().map(choose).collect()
    }

    fn joined_record(
        &self,
        upload: UploadRecord,
        parts: &[(u32, PartRecord)],
        context: &CommandContext<'_>,
    ) -> Result<ObjectRecord> {
        let size = parts.iter().try_fold(0u64, |sum, (_, part)| sum.checked_add(part.size));
        let size = size.ok_or_else(|| Error::new(ErrorKind::EntityTooLarge, "the parts together are too large"))?;
        if self.options.size.is_some_and(|wanted| wanted != size) {
            let wanted = self.options.size.unwrap_or_default();
            let message = format!(
                "The provided 'x-amz-mp-object-size' header value {wanted} does not match what was computed: {size}"
            );
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        let checksum = joined_checksum(&upload, parts)?;
        verify(&checksum, &self.options.expected)?;
        let etag = ETag::Multipart(md5_of_md5s(parts.iter().map(|(_, part)| &part.etag)), count(parts.len()));
        Ok(ObjectRecord {
            id: context.draw_id(),
            checksums: vec![checksum],
            headers: upload.headers,
            metadata: upload.metadata,
            access: ObjectAccess { owner: upload.owner, ..ObjectAccess::default() },
            part_count: Some(count(parts.len())),
            upload: Some(self.upload),
            ..ObjectRecord::new(size, etag, context.now)
        })
    }
}

/// Every part there is.
fn all_parts(there: BTreeMap<u32, PartRecord>) -> Result<Vec<(u32, PartRecord)>> {
    let last = there.last_key_value().map(|(number, _)| *number);
    if last.is_none() {
        return Err(Error::new(ErrorKind::InvalidRequest, "the upload has no parts; put one, or abort it"));
    }
    there.iter().try_for_each(|(number, part)| check_size(*number, part, last))?;
    Ok(there.into_iter().collect())
}

fn check_size(number: u32, part: &PartRecord, last: Option<u32>) -> Result<()> {
    if part.size < PART_LEN_MIN && Some(number) != last {
        let message = format!("part {number} has {} bytes; all but the last need {PART_LEN_MIN}", part.size);
        return Err(Error::new(ErrorKind::EntityTooSmall, message));
    }
    Ok(())
}

fn count(parts: usize) -> u32 {
    u32::try_from(parts).unwrap_or(u32::MAX)
}

fn invalid_part(number: u32, what: &str) -> Error {
    Error::new(ErrorKind::InvalidPart, format!("part {number} {what}"))
}

/// Every part of an upload. That they are all and as they were is a condition, by the range that was walked.
pub(super) fn read_parts(txn: &mut Transaction, space: SpaceId, upload: UploadId) -> Result<BTreeMap<u32, PartRecord>> {
    let view = Arc::clone(txn.view());
    let range = KeyRange::prefix(keys::parts_of(upload, OfPart::Record));
    let mut cursor = txn.cursor(space, range, Direction::Forward)?;
    let mut parts = BTreeMap::new();
    while let Some(entry) = cursor.next()? {
        let value = value_of(view.as_ref(), space, &entry.key, entry.value)?;
        parts.insert(keys::part_number_of(&entry.key)?, PartRecord::decode(&value)?);
    }
    Ok(parts)
}

/// The checksum of the whole from those of the parts.
fn joined_checksum(upload: &UploadRecord, parts: &[(u32, PartRecord)]) -> Result<Checksum> {
    let algorithm = upload.algorithm;
    let value = |(number, part): &(u32, PartRecord)| {
        let found = part.checksums.iter().find(|checksum| checksum.algorithm == algorithm);
        let missing = || Error::damaged(format!("part {number} has no {} checksum", algorithm.name()));
        found.map(|checksum| (checksum.value.clone(), part.size)).ok_or_else(missing)
    };
    let values = parts.iter().map(value).collect::<Result<Vec<_>>>()?;
    if upload.kind == ChecksumKind::FullObject
        && let Some(checksum) = combine(algorithm, &values)
    {
        return Ok(checksum);
    }
    let slices: Vec<_> = values.iter().map(|(value, _)| value.as_slice()).collect();
    Ok(composite(algorithm, &slices))
}

/// `BadDigest` when the caller's checksum of the whole is another.
fn verify(checksum: &Checksum, expected: &[Checksum]) -> Result<()> {
    for wanted in expected {
        let name = wanted.algorithm.name();
        if wanted.algorithm != checksum.algorithm {
            let message = format!("the upload keeps {} checksums; a {name} was given", checksum.algorithm.name());
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        let count_differs = wanted.composite_parts.is_some() && wanted.composite_parts != checksum.composite_parts;
        if wanted.value != checksum.value || count_differs {
            let message = format!("The {name} you specified did not match the calculated checksum.");
            return Err(Error::new(ErrorKind::BadDigest, message));
        }
    }
    Ok(())
}
