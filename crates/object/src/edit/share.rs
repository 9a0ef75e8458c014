//! Writing bytes of one object into another by sharing them.
//!
//! Invariant: source and target are as they were read when it is committed, or it is planned again.

use koine_kv::{Commit, Operation, RequestId, Transaction};

use super::{check, edited, past_the_end, put_edited};
use crate::action::Action;
use crate::error::{Error, ErrorKind, Result};
use crate::etag::ReadCondition;
use crate::info::ObjectInfo;
use crate::layout;
use crate::local::Local;
use crate::lookup::{find_bucket, find_object};
use crate::name::never;
use crate::object_name::{Name, ObjectName};
use crate::outcome::{checked_names, info, made_by, told};
use crate::pending::Pending;
use crate::record::ObjectRecord;
use crate::request::{ByteRange, EditOptions, OBJECT_LEN_MAX};
use crate::rights::Rights;
use crate::source::find_source;
use crate::verb::{Applied, CommandContext, Verb, run};

impl Local {
    pub fn write_copy(
        &self,
        from: ObjectName<'_>,
        range: ByteRange,
        to: ObjectName<'_>,
        offset: u64,
        options: EditOptions,
    ) -> Pending<ObjectInfo> {
        match write_copy(from, range, to, offset, options) {
            Ok(verb) => run(self, verb),
            Err(error) => Pending::ready(Err(error)),
        }
    }
}

/// The verb of a copy into an object.
pub(crate) fn write_copy(
    from: ObjectName<'_>,
    range: ByteRange,
    to: ObjectName<'_>,
    offset: u64,
    options: EditOptions,
) -> Result<impl Verb<Outcome = ObjectInfo>> {
    let (from, to) = checked_names(from, to)?;
    match offset.checked_add(range.length) {
        Some(end) if end <= OBJECT_LEN_MAX => Ok(WriteCopy { from, range, to, offset, options, record: None }),
        end => Err(past_the_end(end.unwrap_or(u64::MAX))),
    }
}

/// `InvalidRange` where a range is not within an object of `size` bytes.
pub(crate) fn check_range(range: ByteRange, size: u64) -> Result<()> {
    if range.offset.checked_add(range.length).is_none_or(|end| end > size) {
        let message = format!(
            "the range of {} bytes from byte {} ends after the source's {size} bytes",
            range.length, range.offset
        );
        return Err(Error::new(ErrorKind::InvalidRange, message));
    }
    Ok(())
}

struct WriteCopy {
    from: Name,
    range: ByteRange,
    to: Name,
    offset: u64,
    options: EditOptions,
    /// Of the last attempt.
    record: Option<ObjectRecord>,
}

impl Verb for WriteCopy {
    type Outcome = ObjectInfo;

    fn request(&self) -> Option<RequestId> {
        self.options.request
    }

    fn contended(&self) -> Option<(&str, &str)> {
        Some((&self.to.bucket, &self.to.key))
    }

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.object(Action::GetObject, &self.from.bucket, &self.from.key)?;
        rights.object(Action::PutObject, &self.to.bucket, &self.to.key)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<ObjectInfo>> {
        let bucket = find_bucket(txn, &self.to.bucket)?;
        let current = find_object(txn, bucket.space, &self.to.key)?;
        if let Some(current) = made_by(current.as_ref(), self.options.request) {
            return Ok(Applied::Done(info(current, &self.to)));
        }
        let maybe_replayed = |error| Ok(Applied::MaybeReplayed(never(bucket.space, &self.to.key), error));
        if let Err(error) = check(&self.options, self.to.as_name(), current.as_ref()) {
            return maybe_replayed(error);
        }
        let source = find_source(txn, (&self.from.bucket, &self.from.key), None, &ReadCondition::default());
        let source = match source.and_then(|source| self.check_source(&source.current.record).map(|()| source)) {
            Ok(source) => source,
            Err(error) => return maybe_replayed(error),
        };
        let ByteRange { offset: from_offset, length } = self.range;
        if let Some(current) = current.as_ref().filter(|_| length == 0) {
            return Ok(Applied::Done(info(current, &self.to)));
        }
        let before = current.as_ref().map(|current| &current.record);
        let end = if length == 0 { 0 } else { self.offset.saturating_add(length) };
        let size = before.map_or(0, |before| before.size).max(end);
        let mut record = edited(before, size, Vec::new(), self.options.request, context);
        let to = put_edited(txn, context, (&bucket, &self.to.key), current.as_ref(), &mut record)?;
        let from = layout::place(source.space, source.current.record.id);
        txn.then(match length {
            0 => layout::empty(to),
            _ => Operation::CloneRange { from, from_offset, length, to, to_offset: self.offset },
        });
        self.record = Some(record);
        Ok(Applied::Changed)
    }

    fn committed(self, local: &Local, commit: Commit) -> Result<ObjectInfo> {
        told(local, &self.to, self.record, commit)
    }
}

impl WriteCopy {
    fn check_source(&self, source: &ObjectRecord) -> Result<()> {
        check_range(self.range, source.size)?;
        let ByteRange { offset, length } = self.range;
        let apart = offset.saturating_add(length) <= self.offset || self.offset.saturating_add(length) <= offset;
        if self.from == self.to && !apart {
            let message = "the bytes read and the bytes written overlap in one object; copy the range elsewhere first";
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        Ok(())
    }
}
