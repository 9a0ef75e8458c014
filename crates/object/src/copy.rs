//! Copying objects by sharing their data.
//!
//! Invariants:
//! - The source is as it was read when the copy is committed, or the copy is planned again.
//! - Data is read only where a checksum is asked for that nobody has stored.

use koine_kv::{Commit, RequestId, Transaction, Version};

use crate::action::Action;
use crate::checksum::{Checksum, Hasher};
use crate::error::{Error, ErrorKind, Result};
use crate::info::ObjectInfo;
use crate::keys;
use crate::layout;
use crate::limits::{check_headers, check_metadata, check_tags};
use crate::local::Local;
use crate::lookup::{CurrentObject, find_bucket, find_object};
use crate::name::{self, never};
use crate::object_name::{Name, ObjectName};
use crate::outcome::settle;
use crate::pending::Pending;
use crate::record::{ObjectAccess, ObjectRecord};
use crate::request::{ByteRange, CopiedMetadata, CopyOptions};
use crate::rights::Rights;
use crate::source::{find_source, hash_range};
use crate::verb::{Applied, CommandContext, Verb, run};

impl Local {
    pub fn copy(&self, from: ObjectName<'_>, to: ObjectName<'_>, options: CopyOptions) -> Pending<ObjectInfo> {
        match self.prepare_copy(from, to, options) {
            Ok(copy) => run(self, copy),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    pub(crate) fn prepare_copy(&self, from: ObjectName<'_>, to: ObjectName<'_>, options: CopyOptions) -> Result<Copy> {
        keys::check_object_key(from.key)?;
        keys::check_object_key(to.key)?;
        match &options.metadata {
            CopiedMetadata::Replace { headers, metadata } => {
                check_metadata(metadata)?;
                check_headers(headers)?;
            }
            CopiedMetadata::Copy if from == to && options.checksum.is_none() && options.source_version.is_none() => {
                let message = "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.";
                return Err(Error::new(ErrorKind::InvalidRequest, message));
            }
            CopiedMetadata::Copy => {}
        }
        check_tags(options.tags.as_deref().unwrap_or_default())?;
        let mut copy = Copy::new(Name::new(from), Name::new(to), options);
        copy.compute_checksum(self)?;
        Ok(copy)
    }
}

/// The verb.
pub(crate) struct Copy {
    from: Name,
    to: Name,
    options: CopyOptions,
    /// A checksum that was read from the source's data, and the source's version then.
    computed: Option<(Version, Checksum)>,
    /// Of the last attempt.
    record: Option<ObjectRecord>,
}

impl Copy {
    /// The verb; where it asks for a checksum, that is to be computed first.
    pub fn new(from: Name, to: Name, options: CopyOptions) -> Self {
        Copy { from, to, options, computed: None, record: None }
    }

    fn compute_checksum(&mut self, local: &Local) -> Result<()> {
        let Some(algorithm) = self.options.checksum else {
            return Ok(());
        };
        let Copy { from, options, .. } = self;
        let computed = local.read(
            |rights| rights.read_source(from, options.source_version),
            |view| {
                let source =
                    find_source(view, (&from.bucket, &from.key), options.source_version, &options.source_condition)?;
                let record = &source.current.record;
                if has_full(&record.checksums, algorithm).is_some() {
                    return Ok(None);
                }
                let range = ByteRange { offset: 0, length: record.size };
                let digests =
                    hash_range(view.as_ref(), source.space, record.id, range, Hasher::new(false, [algorithm]))?;
                Ok(digests.checksums.into_iter().next().map(|checksum| (source.current.version, checksum)))
            },
        )?;
        self.computed = computed;
        Ok(())
    }

    /// Tags that come along are read and given.
    fn needs_of_tags(&self, rights: &mut Rights<'_>) -> Result<()> {
        let Name { bucket, key } = &self.from;
        match self.options.source_version {
            None => rights.object(Action::GetObjectTagging, bucket, key)?,
            Some(version) => rights.version(Action::GetObjectVersionTagging, bucket, key, version)?,
        }
        rights.object(Action::PutObjectTagging, &self.to.bucket, &self.to.key)
    }

    fn checksums(&self, source: &CurrentObject) -> Result<Vec<Checksum>> {
        let Some(algorithm) = self.options.checksum else {
            return Ok(source.record.checksums.clone());
        };
        if let Some(stored) = has_full(&source.record.checksums, algorithm) {
            return Ok(vec![stored.clone()]);
        }
        match &self.computed {
            Some((version, checksum)) if *version == source.version => Ok(vec![checksum.clone()]),
            _ => Err(Error::new(ErrorKind::Conflict, "the source was changed while it was being copied; try again")),
        }
    }

    fn record_from(&self, source: &CurrentObject, context: &CommandContext<'_>) -> Result<ObjectRecord> {
        let (headers, metadata) = match &self.options.metadata {
            CopiedMetadata::Copy => (source.record.headers.clone(), source.record.metadata.clone()),
            CopiedMetadata::Replace { headers, metadata } => (headers.clone(), metadata.clone()),
        };
        Ok(ObjectRecord {
            id: context.draw_id(),
            mode: source.record.mode,
            checksums: self.checksums(source)?,
            headers,
            metadata,
            access: ObjectAccess { owner: context.caller.user(), ..ObjectAccess::default() },
            tags: self.options.tags.clone().unwrap_or_else(|| source.record.tags.clone()),
            posix_owner: source.record.posix_owner,
            request: self.options.request,
            kept: source.record.kept.clone(),
            ..ObjectRecord::new(source.record.size, source.record.etag.clone(), context.now)
        })
    }
}

fn has_full(checksums: &[Checksum], algorithm: crate::ChecksumAlgorithm) -> Option<&Checksum> {
    checksums.iter().find(|checksum| checksum.algorithm == algorithm && checksum.composite_parts.is_none())
}

impl Verb for Copy {
    type Outcome = ObjectInfo;

    fn request(&self) -> Option<RequestId> {
        self.options.request
    }

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.read_source(&self.from, self.options.source_version)?;
        rights.object(Action::PutObject, &self.to.bucket, &self.to.key)?;
        if self.options.tags.as_ref().is_some_and(|tags| !tags.is_empty()) {
            rights.object(Action::PutObjectTagging, &self.to.bucket, &self.to.key)?;
        }
        Ok(())
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<ObjectInfo>> {
        let bucket = find_bucket(txn, &self.to.bucket)?;
        let space = bucket.space;
        let there = find_object(txn, space, &self.to.key)?;
        if let Some(there) = &there
            && self.options.request.is_some()
            && there.record.request == self.options.request
        {
            return Ok(Applied::Done(there.record.clone().into_info(self.to.key.clone(), there.version)));
        }
        let source = find_source(
            txn,
            (&self.from.bucket, &self.from.key),
            self.options.source_version,
            &self.options.source_condition,
        )?;
        let has_tags = self.options.tags.is_none() && !source.current.record.tags.is_empty();
        if has_tags {
            context.may(txn, |rights| self.needs_of_tags(rights))?;
        }
        let record = self.record.insert(self.record_from(&source.current, context)?);
        if let Err(error) = self.options.condition.check(self.to.as_name(), there.as_ref()) {
            return Ok(Applied::MaybeReplayed(never(space, &self.to.key), error));
        }
        let range = ByteRange { offset: 0, length: record.size };
        let from = layout::place(source.space, source.current.record.id);
        let data = layout::create(txn, space, record.id);
        // The data is shared before what stands under the target's name goes: that may be the source.
        layout::share(txn, from, range, data);
        name::set(txn, context, &bucket, &self.to.key, there.as_ref(), Some(record))?;
        Ok(Applied::Changed)
    }

    fn committed(self, local: &Local, commit: Commit) -> Result<ObjectInfo> {
        let record = self.record.ok_or_else(|| Error::new(ErrorKind::Conflict, "a copy ended before it began"))?;
        settle(local, &self.to.bucket, self.to.key, record, commit)
    }
}
