//! Editing an object in place: writing at an offset, appending, truncating, writing bytes of another object.
//!
//! Invariants:
//! - An edit keeps the object's id, time of creation and all that is known of it but its bytes; its ETag is new, also
//!   where the bytes come out the same. An edit that writes nothing into an object that is there is none.
//! - It is one commit under the condition that the record is as it was read: of any number of edits at once each sees
//!   all that were committed before it.
//! - Checksums that cannot be told of the new bytes without reading them are dropped, never left wrong. An edited
//!   object has no parts.

mod compose;
mod share;

pub(crate) use compose::compose;
pub(crate) use share::write_copy;

use koine_kv::{Commit, Operation, Payload, Place, RequestId, Transaction};

use crate::action::Action;
use crate::body::{Body, Finished};
use crate::checksum::{Checksum, ChecksumAlgorithm, Expected, combine};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::etag::{ETag, EtagKind};
use crate::ids::ObjectId;
use crate::info::ObjectInfo;
use crate::keys;
use crate::layout;
use crate::local::Local;
use crate::lookup::{CurrentObject, find_bucket, find_object, find_space};
use crate::name::{self, never};
use crate::object_name::{Name, ObjectName};
use crate::outcome::{info, made_by, told};
use crate::pending::Pending;
use crate::put::with_body;
use crate::record::{BucketRecord, ObjectAccess, ObjectRecord};
use crate::request::{EditOptions, OBJECT_LEN_MAX};
use crate::rights::Rights;
use crate::verb::{Applied, CommandContext, Verb, run};

impl Local {
    pub fn truncate(&self, name: ObjectName<'_>, length: u64, options: EditOptions) -> Pending<ObjectInfo> {
        match Edit::truncate(name, length, options) {
            Ok(edit) => run(self, edit),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// Begins to write into an object.
    pub fn edit(&self, name: ObjectName<'_>, place: EditPlace, options: EditOptions) -> Result<LocalEditWriter> {
        keys::check_object_key(name.key)?;
        let name = Name::new(name);
        // The same is asked again by the verb; here it spares who may not the body.
        let stored = self.read(
            |rights| rights.object(Action::PutObject, &name.bucket, &name.key),
            |view| {
                let space = find_space(view, &name.bucket)?;
                find_object(view, space, &name.key)
            },
        )?;
        // What is appended needs the checksums that the object has, so that they can be combined.
        let stored = stored.filter(|_| place == EditPlace::End);
        let algorithms: Vec<_> = stored.iter().flat_map(|stored| crcs(&stored.record)).collect();
        let body = Body::new(self.kv(), options.length, options.expected.clone(), EtagKind::Drawn, algorithms)?;
        Ok(LocalEditWriter { local: self.clone(), name, place, options, body })
    }
}

/// The algorithms whose stored values are of all bytes and can be combined with those of more bytes.
fn crcs(record: &ObjectRecord) -> impl Iterator<Item = ChecksumAlgorithm> + '_ {
    use ChecksumAlgorithm::{Crc32, Crc32c, Crc64Nvme};
    let of_all = record.checksums.iter().filter(|checksum| checksum.composite_parts.is_none());
    of_all.map(|checksum| checksum.algorithm).filter(|algorithm| matches!(algorithm, Crc32 | Crc32c | Crc64Nvme))
}

/// Whether bytes may be written from an offset on.
pub(crate) fn check_offset(offset: u64) -> Result<()> {
    if offset > OBJECT_LEN_MAX { Err(past_the_end(offset)) } else { Ok(()) }
}

fn past_the_end(end: u64) -> Error {
    invalid(format!("an object may have {OBJECT_LEN_MAX} bytes; this would make it end at byte {end}"))
}

/// Where bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditPlace {
    At(u64),
    End,
}

/// Bytes on their way into an object.
pub(crate) struct LocalEditWriter {
    local: Local,
    name: Name,
    place: EditPlace,
    options: EditOptions,
    body: Body,
}

impl LocalEditWriter {
    /// Adds a piece.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.body.write(piece)
    }

    /// No more pieces: verifies and commits.
    pub fn finish(self, trailers: &Expected) -> Pending<ObjectInfo> {
        let local = self.local.clone();
        match self.into_verb(trailers) {
            Ok(edit) => run(&local, edit),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// The same without the commit.
    pub fn into_verb(self, trailers: &Expected) -> Result<Edit> {
        let LocalEditWriter { name, place, mut options, body, .. } = self;
        let Finished { payload, size: length, digests } = body.finish(trailers)?;
        options.request = options.request.map(|request| with_body(request, &digests));
        Ok(Edit::new(name, options, Change::written(place, length, payload, digests.checksums)))
    }
}

/// What is done to the bytes.
enum Change {
    WriteAt { offset: u64, length: u64, payload: Payload },
    Append { length: u64, payload: Payload, checksums: Vec<Checksum> },
    Truncate { length: u64 },
}

impl Change {
    fn written(place: EditPlace, length: u64, payload: Payload, checksums: Vec<Checksum>) -> Self {
        match place {
            EditPlace::At(offset) => Change::WriteAt { offset, length, payload },
            EditPlace::End => Change::Append { length, payload, checksums },
        }
    }

    /// The size that it leaves of an object that has `size` bytes.
    fn size_after(&self, size: u64) -> Result<u64> {
        let (end, least) = match self {
            Change::WriteAt { length: 0, .. } => (Some(size), 0),
            Change::WriteAt { offset, length, .. } => (offset.checked_add(*length), size),
            Change::Append { length, .. } => (size.checked_add(*length), 0),
            Change::Truncate { length } => (Some(*length), 0),
        };
        match end {
            Some(end) if end <= OBJECT_LEN_MAX => Ok(end.max(least)),
            end => Err(past_the_end(end.unwrap_or(u64::MAX))),
        }
    }

    fn writes_nothing(&self) -> bool {
        matches!(self, Change::WriteAt { length: 0, .. } | Change::Append { length: 0, .. })
    }

    /// The checksums of all bytes afterwards, as far as they can be told.
    fn checksums_after(&self, before: Option<&ObjectRecord>) -> Vec<Checksum> {
        match (self, before) {
            (Change::WriteAt { .. } | Change::Truncate { .. }, _) => Vec::new(),
            (Change::Append { checksums, .. }, None) => checksums.clone(),
            (Change::Append { checksums, length, .. }, Some(before)) => {
                let join = |algorithm| {
                    let of_all = |of: &&Checksum| of.algorithm == algorithm && of.composite_parts.is_none();
                    let (old, new) = (before.checksums.iter().find(of_all)?, checksums.iter().find(of_all)?);
                    combine(algorithm, &[(old.value.clone(), before.size), (new.value.clone(), *length)])
                };
                crcs(before).filter_map(join).collect()
            }
        }
    }

    fn operation(&self, at: Place) -> Operation {
        match self {
            Change::WriteAt { offset, payload, .. } => {
                Operation::WriteAt { at, offset: *offset, data: payload.clone() }
            }
            Change::Append { payload, .. } => Operation::Append { at, data: payload.clone() },
            Change::Truncate { length } => Operation::Truncate { at, length: *length },
        }
    }
}

/// The verb.
pub(crate) struct Edit {
    name: Name,
    options: EditOptions,
    change: Change,
    /// Of the last attempt.
    record: Option<ObjectRecord>,
}

impl Edit {
    fn new(name: Name, options: EditOptions, change: Change) -> Self {
        Edit { name, options, change, record: None }
    }

    /// Of a body that is staged already.
    pub fn staged(name: ObjectName<'_>, place: EditPlace, body: &Finished, options: EditOptions) -> Result<Self> {
        keys::check_object_key(name.key)?;
        if let EditPlace::At(offset) = place {
            check_offset(offset)?;
        }
        let change = Change::written(place, body.size, body.payload.clone(), body.digests.checksums.clone());
        Ok(Edit::new(Name::new(name), options, change))
    }

    /// Gives an object another length.
    pub fn truncate(name: ObjectName<'_>, length: u64, options: EditOptions) -> Result<Self> {
        keys::check_object_key(name.key)?;
        if length > OBJECT_LEN_MAX {
            return Err(past_the_end(length));
        }
        let options = EditOptions { create: false, ..options };
        Ok(Edit::new(Name::new(name), options, Change::Truncate { length }))
    }
}

impl Verb for Edit {
    type Outcome = ObjectInfo;

    fn request(&self) -> Option<RequestId> {
        self.options.request
    }

    fn contended(&self) -> Option<(&str, &str)> {
        Some((&self.name.bucket, &self.name.key))
    }

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.object(Action::PutObject, &self.name.bucket, &self.name.key)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<ObjectInfo>> {
        let bucket = find_bucket(txn, &self.name.bucket)?;
        let current = find_object(txn, bucket.space, &self.name.key)?;
        if let Some(current) = made_by(current.as_ref(), self.options.request) {
            return Ok(Applied::Done(info(current, &self.name)));
        }
        if let Err(error) = check(&self.options, self.name.as_name(), current.as_ref()) {
            return Ok(Applied::MaybeReplayed(never(bucket.space, &self.name.key), error));
        }
        if let Some(current) = current.as_ref().filter(|_| self.change.writes_nothing()) {
            return Ok(Applied::Done(info(current, &self.name)));
        }
        let before = current.as_ref().map(|current| &current.record);
        let size = self.change.size_after(before.map_or(0, |before| before.size))?;
        let checksums = self.change.checksums_after(before);
        let mut record = edited(before, size, checksums, self.options.request, context);
        let data = put_edited(txn, context, (&bucket, &self.name.key), current.as_ref(), &mut record)?;
        txn.then(self.change.operation(data));
        self.record = Some(record);
        Ok(Applied::Changed)
    }

    fn committed(self, local: &Local, commit: Commit) -> Result<ObjectInfo> {
        told(local, &self.name, self.record, commit)
    }
}

/// Whether the object there may be edited, by what the caller said.
pub(crate) fn check(options: &EditOptions, name: ObjectName<'_>, current: Option<&CurrentObject>) -> Result<()> {
    let ObjectName { bucket, key } = name;
    if let Some(only) = options.only {
        let there = current.ok_or_else(|| Error::no_such_key(bucket, key))?.record.id;
        if there != only {
            let message = format!("the object {key:?} is another one by now: it has the id {there}, not {only}");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    options.condition.check(name, current)?;
    if current.is_none() && !options.create {
        return Err(Error::no_such_key(bucket, key));
    }
    Ok(())
}

/// The record after an edit of the bytes.
fn edited(
    before: Option<&ObjectRecord>,
    size: u64,
    checksums: Vec<Checksum>,
    request: Option<RequestId>,
    context: &CommandContext<'_>,
) -> ObjectRecord {
    let id = before.map_or_else(|| context.draw_id(), |before| before.id);
    let etag = drawn_etag(id, context);
    let Some(before) = before else {
        let access = ObjectAccess { owner: context.caller.user(), ..ObjectAccess::default() };
        return ObjectRecord { id, checksums, access, request, ..ObjectRecord::new(size, etag, context.now) };
    };
    ObjectRecord {
        size,
        modified: context.now,
        changed: context.now,
        etag,
        checksums,
        part_count: None,
        request: request.or(before.request),
        ..before.clone()
    }
}

/// An ETag that nothing had before.
pub(crate) fn drawn_etag(id: ObjectId, context: &CommandContext<'_>) -> ETag {
    ETag::Drawn(id, context.draw_u64())
}

/// Puts the record of an object that is edited, or made by an edit, and tells where its bytes are.
fn put_edited(
    txn: &mut Transaction,
    context: &CommandContext<'_>,
    (bucket, key): (&BucketRecord, &str),
    current: Option<&CurrentObject>,
    record: &mut ObjectRecord,
) -> Result<Place> {
    let data = match current {
        Some(_) => layout::place(bucket.space, record.id),
        None => layout::create(txn, bucket.space, record.id),
    };
    name::set(txn, context, bucket, key, current, Some(record))?;
    Ok(data)
}
