//! Parts: put from a body, or shared from an object.

use bytes::Bytes;
use koine_kv::{Commit, Payload, Place, Transaction, Version, View};

use crate::action::Action;
use crate::body::{Body, Finished};
use crate::checksum::{Checksum, ChecksumAlgorithm, Digests, Expected, Hasher};
use crate::count;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::etag::{ETag, EtagKind, ReadCondition};
use crate::ids::UploadId;
use crate::info::PartInfo;
use crate::keys::{self, OfPart};
use crate::layout;
use crate::local::Local;
use crate::lookup::{Lookup, find_bucket, find_object, find_space, find_upload};
use crate::object_name::{Name, ObjectName};
use crate::pending::Pending;
use crate::record::{PartRecord, UploadRecord};
use crate::request::{BODY_LEN_MAX, ByteRange, PART_NUMBER_MAX, PartOptions};
use crate::rights::Rights;
use crate::source::{Source, find_source, hash_range};
use crate::verb::{Applied, CommandContext, Verb, run};
use crate::version_id::VersionId;
use crate::versions::find_object_version;

/// Where a part belongs.
struct Target {
    bucket: String,
    key: String,
    upload: UploadId,
    number: u32,
}

impl Local {
    pub fn put_part(
        &self,
        name: ObjectName<'_>,
        upload: UploadId,
        number: u32,
        options: PartOptions,
    ) -> Result<LocalPartWriter> {
        let (target, record) = self.find_target(name, upload, number)?;
        check_algorithms(&record, &options.expected.checksums)?;
        let algorithms = options.checksum.into_iter().chain([record.algorithm]);
        let body = Body::new(self.kv(), options.length, options.expected, record.etag, algorithms)?;
        Ok(LocalPartWriter { local: self.clone(), target, record, body })
    }

    pub fn copy_part(
        &self,
        from: ObjectName<'_>,
        range: Option<ByteRange>,
        source_condition: &ReadCondition,
        to: ObjectName<'_>,
        upload: UploadId,
        number: u32,
    ) -> Pending<PartInfo> {
        match self.prepare_part_copy((from, None), range, source_condition, to, upload, number) {
            Ok(put) => run(self, put),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    pub fn copy_part_of_version(
        &self,
        (from, version): (ObjectName<'_>, VersionId),
        range: Option<ByteRange>,
        source_condition: &ReadCondition,
        to: ObjectName<'_>,
        upload: UploadId,
        number: u32,
    ) -> Pending<PartInfo> {
        match self.prepare_part_copy((from, Some(version)), range, source_condition, to, upload, number) {
            Ok(put) => run(self, put),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn find_target(&self, name: ObjectName<'_>, upload: UploadId, number: u32) -> Result<(Target, UploadRecord)> {
        keys::check_object_key(name.key)?;
        if !(1..=PART_NUMBER_MAX).contains(&number) {
            return Err(invalid(format!("part number {number} is not between 1 and {PART_NUMBER_MAX}")));
        }
        let record = self.read(
            |rights| rights.object(Action::PutObject, name.bucket, name.key),
            |view| {
                let space = find_bucket(view, name.bucket)?.space;
                find_upload(view, space, name.key, upload)
            },
        )?;
        let target = Target { bucket: name.bucket.to_owned(), key: name.key.to_owned(), upload, number };
        Ok((target, record))
    }

    fn prepare_part_copy(
        &self,
        (from, of): (ObjectName<'_>, Option<VersionId>),
        range: Option<ByteRange>,
        source_condition: &ReadCondition,
        to: ObjectName<'_>,
        upload: UploadId,
        number: u32,
    ) -> Result<PutPart> {
        let (target, record) = self.find_target(to, upload, number)?;
        keys::check_object_key(from.key)?;
        let from = Name::new(from);
        let (part, content) = self.read(
            |rights| rights.read_source(&from, of),
            |view| {
                let source = find_source(view, (&from.bucket, &from.key), of, source_condition)?;
                self.share_part(view.as_ref(), (from.clone(), of), source, range, &record)
            },
        )?;
        Ok(PutPart { target, part, content })
    }

    fn share_part(
        &self,
        view: &dyn View,
        (from, of): (Name, Option<VersionId>),
        source: Source,
        range: Option<ByteRange>,
        record: &UploadRecord,
    ) -> Result<(PartRecord, Content)> {
        let (version, object) = (source.current.version, source.current.record);
        let whole = ByteRange { offset: 0, length: object.size };
        let range = range.unwrap_or(whole);
        if range.offset.checked_add(range.length).is_none_or(|end| end > object.size) {
            let message = format!("Range specified is not valid for source object of size: {}", object.size);
            return Err(Error::new(ErrorKind::InvalidRange, message));
        }
        if range.length > BODY_LEN_MAX {
            return Err(Error::new(ErrorKind::EntityTooLarge, format!("a part may have {BODY_LEN_MAX} bytes")));
        }
        let wants_md5 = record.etag == EtagKind::Md5;
        let known = match &object.etag {
            ETag::Md5(md5) => Some(Some(*md5)),
            _ if wants_md5 => None,
            _ => Some(None),
        };
        let digests = match (range == whole, known, stored(&object.checksums, record.algorithm)) {
            (true, Some(md5), Some(checksums)) => Digests { md5, checksums },
            _ => {
                let hasher = Hasher::new(wants_md5, [record.algorithm]);
                hash_range(view, source.space, object.id, range, hasher)?
            }
        };
        let content = Content::Shared { from, of, version, range };
        let part = part_record(self, range.length, digests);
        Ok((part, content))
    }
}

fn part_record(local: &Local, size: u64, digests: Digests) -> PartRecord {
    let drawn = || {
        let mut etag = [0; 16];
        local.random().fill(&mut etag);
        etag
    };
    let etag = digests.md5.unwrap_or_else(drawn);
    PartRecord { size, etag, modified: local.now(), checksums: digests.checksums, kept: Vec::new() }
}

fn stored(checksums: &[Checksum], algorithm: ChecksumAlgorithm) -> Option<Vec<Checksum>> {
    let full = |had: &&Checksum| had.algorithm == algorithm && had.composite_parts.is_none();
    checksums.iter().find(full).map(|checksum| vec![checksum.clone()])
}

/// Where an upload was begun for one algorithm, a part that brings only others is a mistake of the caller.
fn check_algorithms(upload: &UploadRecord, given: &[Checksum]) -> Result<()> {
    let fits = given.is_empty() || given.iter().any(|checksum| checksum.algorithm == upload.algorithm);
    if upload.asked && !fits {
        let actual = given.first().map_or("null", |checksum| checksum.algorithm.name());
        let message = format!(
            "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {actual}",
            upload.algorithm.name()
        );
        return Err(Error::new(ErrorKind::InvalidRequest, message));
    }
    Ok(())
}

/// A part on its way in.
pub(crate) struct LocalPartWriter {
    local: Local,
    target: Target,
    record: UploadRecord,
    body: Body,
}

impl LocalPartWriter {
    /// Adds a piece.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.body.write(piece)
    }

    /// No more pieces: verifies and commits.
    pub fn finish(self, trailers: &Expected) -> Pending<PartInfo> {
        let LocalPartWriter { local, target, record, body } = self;
        let finished = check_algorithms(&record, &trailers.checksums).and_then(|()| body.finish(trailers));
        let Finished { payload, size, digests } = match finished {
            Ok(finished) => finished,
            Err(error) => return Pending::ready(Err(error)),
        };
        let part = part_record(&local, size, digests);
        run(&local, PutPart { target, part, content: Content::Given(payload) })
    }
}

enum Content {
    Given(Payload),
    /// From the newest, or the given version of an object, as it was put by this commit.
    Shared {
        from: Name,
        of: Option<VersionId>,
        version: Version,
        range: ByteRange,
    },
}

struct PutPart {
    target: Target,
    part: PartRecord,
    content: Content,
}

impl Verb for PutPart {
    type Outcome = PartInfo;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        let Target { bucket, key, .. } = &self.target;
        if let Content::Shared { from, of, .. } = &self.content {
            rights.read_source(from, *of)?;
        }
        rights.object(Action::PutObject, bucket, key)
    }

    fn apply(&mut self, txn: &mut Transaction, _scope: &CommandContext<'_>) -> Result<Applied<PartInfo>> {
        let Target { bucket, key, upload, number } = &self.target;
        let target_bucket = find_bucket(txn, bucket)?;
        let space = target_bucket.space;
        find_upload(txn, space, key, *upload)?;
        let record = keys::part(*upload, OfPart::Record, *number);
        let old = txn.record(space, &record)?.map(|(_, bytes)| PartRecord::decode(&bytes)).transpose()?;
        let target = Place::new(space, keys::part(*upload, OfPart::Data, *number));
        match &self.content {
            Content::Given(payload) => txn.put(space, target.key, payload.clone()),
            Content::Shared { from, of, version, range } => {
                let source = check_source(txn, from, *of, *version)?;
                txn.delete(space, target.key.clone());
                layout::share(txn, source, *range, target);
            }
        }
        count::part_changed(txn, &target_bucket, *upload, old.map_or(0, |old| old.size), self.part.size)?;
        txn.put(space, record, Bytes::from(self.part.encode()));
        Ok(Applied::Changed)
    }

    fn committed(self, _local: &Local, _commit: Commit) -> Result<PartInfo> {
        Ok(self.part.info(self.target.number))
    }
}

/// The bytes of the source, which must be what was hashed.
fn check_source(txn: &mut Transaction, from: &Name, of: Option<VersionId>, version: Version) -> Result<Place> {
    let space = find_space(txn, &from.bucket)?;
    let current = match of {
        None => find_object(txn, space, &from.key)?.ok_or_else(|| Error::no_such_key(&from.bucket, &from.key))?,
        Some(of) => find_object_version(txn, space, &from.key, of)?,
    };
    if current.version == version {
        return Ok(layout::place(space, current.record.id));
    }
    Err(Error::new(ErrorKind::Conflict, "the source was changed while it was being copied; try again"))
}
