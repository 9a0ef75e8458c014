//! Composing a new object of others, or of ranges of them, by sharing their bytes.
//!
//! Invariants:
//! - Every source is as it was read when it is committed, or it is planned again.
//! - The target may be a source: it is read before it goes.

use std::collections::BTreeSet;

use koine_kv::{Batch, Commit, Operation, Place, RequestId, Sources, Transaction};

use super::share::check_range;
use super::{crcs, drawn_etag, past_the_end};
use crate::action::Action;
use crate::checksum::{Checksum, combine};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::etag::ReadCondition;
use crate::info::ObjectInfo;
use crate::keys;
use crate::layout;
use crate::limits::{check_headers, check_metadata, check_tags};
use crate::local::Local;
use crate::lookup::{find_bucket, find_object};
use crate::name::{self, never};
use crate::object_name::{Name, ObjectName};
use crate::outcome::{info, made_by, told};
use crate::pending::Pending;
use crate::record::{ObjectAccess, ObjectRecord};
use crate::request::{ByteRange, COMPOSE_SEGMENTS_MAX, ComposeOptions, OBJECT_LEN_MAX, Segment};
use crate::rights::Rights;
use crate::source::{Source, find_source};
use crate::verb::{Applied, CommandContext, Verb, run};
use crate::version_id::VersionId;

impl Local {
    pub fn compose(&self, sources: &[Segment<'_>], to: ObjectName<'_>, options: ComposeOptions) -> Pending<ObjectInfo> {
        match compose(sources, to, options) {
            Ok(compose) => run(self, compose),
            Err(error) => Pending::ready(Err(error)),
        }
    }
}

/// The verb of a composition.
pub(crate) fn compose(
    sources: &[Segment<'_>],
    to: ObjectName<'_>,
    options: ComposeOptions,
) -> Result<impl Verb<Outcome = ObjectInfo>> {
    if !(1..=COMPOSE_SEGMENTS_MAX).contains(&sources.len()) {
        let message = format!("{} sources were given; 1 to {COMPOSE_SEGMENTS_MAX} are allowed", sources.len());
        return Err(invalid(message));
    }
    keys::check_object_key(to.key)?;
    check_metadata(&options.put.metadata)?;
    check_headers(&options.put.headers)?;
    check_tags(&options.put.tags)?;
    let kept = |segment: &Segment<'_>| {
        keys::check_object_key(segment.name.key)?;
        let Segment { range, version, .. } = *segment;
        Ok(KeptSegment { name: Name::new(segment.name), range, version, condition: segment.condition.clone() })
    };
    let sources = sources.iter().map(kept).collect::<Result<_>>()?;
    Ok(Compose { sources, to: Name::new(to), options, record: None })
}

struct KeptSegment {
    name: Name,
    range: Option<ByteRange>,
    version: Option<VersionId>,
    condition: ReadCondition,
}

/// A segment that was found.
struct Found {
    source: Source,
    range: ByteRange,
}

impl Found {
    fn is_whole(&self) -> bool {
        self.range == ByteRange { offset: 0, length: self.source.current.record.size }
    }

    fn place(&self) -> Place {
        layout::place(self.source.space, self.source.current.record.id)
    }
}

struct Compose {
    sources: Vec<KeptSegment>,
    to: Name,
    options: ComposeOptions,
    /// Of the last attempt.
    record: Option<ObjectRecord>,
}

impl Verb for Compose {
    type Outcome = ObjectInfo;

    fn request(&self) -> Option<RequestId> {
        self.options.put.request
    }

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        let names: BTreeSet<_> = self.sources.iter().map(|source| (&source.name, source.version)).collect();
        for (name, version) in names {
            rights.read_source(name, version)?;
        }
        if !self.options.put.tags.is_empty() {
            rights.object(Action::PutObjectTagging, &self.to.bucket, &self.to.key)?;
        }
        rights.object(Action::PutObject, &self.to.bucket, &self.to.key)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<ObjectInfo>> {
        let bucket = find_bucket(txn, &self.to.bucket)?;
        let there = find_object(txn, bucket.space, &self.to.key)?;
        if let Some(there) = made_by(there.as_ref(), self.options.put.request) {
            return Ok(Applied::Done(info(there, &self.to)));
        }
        let found = self.options.put.condition.check(self.to.as_name(), there.as_ref()).and_then(|()| self.find(txn));
        let found = match found {
            Ok(found) => found,
            Err(error) => return Ok(Applied::MaybeReplayed(self.never(&bucket), error)),
        };
        let mut record = self.composed(&found, context)?;
        let data = layout::create(txn, bucket.space, record.id);
        join(txn, &found, &data);
        name::set(txn, context, &bucket, &self.to.key, there.as_ref(), Some(&mut record))?;
        self.record = Some(record);
        Ok(Applied::Changed)
    }

    fn committed(self, local: &Local, commit: Commit) -> Result<ObjectInfo> {
        told(local, &self.to, self.record, commit)
    }
}

impl Compose {
    fn never(&self, bucket: &crate::record::BucketRecord) -> Batch {
        never(bucket.space, &self.to.key)
    }

    fn find(&self, txn: &mut Transaction) -> Result<Vec<Found>> {
        let find = |segment: &KeptSegment| {
            let name = &segment.name;
            let source = find_source(txn, (&name.bucket, &name.key), segment.version, &segment.condition)?;
            let size = source.current.record.size;
            let range = segment.range.unwrap_or(ByteRange { offset: 0, length: size });
            check_range(range, size)?;
            Ok(Found { source, range })
        };
        self.sources.iter().map(find).collect()
    }

    fn composed(&self, found: &[Found], context: &CommandContext<'_>) -> Result<ObjectRecord> {
        let put = &self.options.put;
        let size = found.iter().try_fold(0u64, |sum, found| sum.checked_add(found.range.length));
        let size = size.filter(|size| *size <= OBJECT_LEN_MAX).ok_or_else(|| past_the_end(u64::MAX))?;
        let checksums = joined_checksums(found);
        if put.length.is_some_and(|wanted| wanted != size) {
            let message = format!("the sources together have {size} bytes, which is not the length given");
            return Err(Error::new(ErrorKind::IncompleteBody, message));
        }
        verify(&checksums, &put.expected.checksums)?;
        let id = context.draw_id();
        let first = found.first().filter(|_| self.options.source_metadata).map(|found| &found.source.current.record);
        let (headers, metadata, tags) = match first {
            Some(first) => (&first.headers, &first.metadata, &first.tags),
            None => (&put.headers, &put.metadata, &put.tags),
        };
        Ok(ObjectRecord {
            id,
            checksums,
            headers: headers.clone(),
            metadata: metadata.clone(),
            tags: tags.clone(),
            access: ObjectAccess { owner: context.caller.user(), ..ObjectAccess::default() },
            request: put.request,
            ..ObjectRecord::new(size, drawn_etag(id, context), context.now)
        })
    }
}

/// Those that every source has of all its bytes and that can be combined; none where a source is a range.
fn joined_checksums(found: &[Found]) -> Vec<Checksum> {
    let Some(first) = found.first().filter(|_| found.iter().all(Found::is_whole)) else {
        return Vec::new();
    };
    let join = |algorithm| {
        let value = |found: &Found| {
            let record = &found.source.current.record;
            let of_all = |of: &&Checksum| of.algorithm == algorithm && of.composite_parts.is_none();
            record.checksums.iter().find(of_all).map(|checksum| (checksum.value.clone(), record.size))
        };
        combine(algorithm, &found.iter().map(value).collect::<Option<Vec<_>>>()?)
    };
    crcs(&first.source.current.record).filter_map(join).collect()
}

fn verify(checksums: &[Checksum], expected: &[Checksum]) -> Result<()> {
    for wanted in expected {
        let name = wanted.algorithm.name();
        match checksums.iter().find(|had| had.algorithm == wanted.algorithm) {
            None => {
                let message = format!("the {name} of the sources together cannot be told from theirs");
                return Err(Error::new(ErrorKind::InvalidRequest, message));
            }
            Some(had) if had.value != wanted.value => {
                let message =
                    format!("the {name} checksum given is not that of the sources together; nothing was stored");
                return Err(Error::new(ErrorKind::BadDigest, message));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The segments one after the other as a value that is not there yet.
fn join(txn: &mut Transaction, found: &[Found], target: &Place) {
    if found.iter().all(Found::is_whole) {
        let sources = found.iter().map(Found::place).collect();
        return layout::join(txn, sources, target.clone(), Sources::Keep);
    }
    txn.then(layout::empty(target.clone()));
    let mut end = 0;
    for segment in found.iter().filter(|segment| segment.range.length > 0) {
        let ByteRange { offset, length } = segment.range;
        let (from, to) = (segment.place(), target.clone());
        txn.then(Operation::CloneRange { from, from_offset: offset, length, to, to_offset: end });
        end += length;
    }
}
