//! Moving and exchanging objects: what is done to names alone.
//!
//! Invariants:
//! - Both names change in one commit; nobody sees an object under both or under neither.
//! - Within a bucket an object keeps its id and its bytes are not touched. Between buckets its bytes and its table of
//!   parts move to the other space under a new id, in the same commit.
//! - Onto itself a move or an exchange succeeds and changes nothing.

use koine_kv::{Commit, Operation, Place, RequestId, Transaction};

use crate::access_list::AccessList;
use crate::action::Action;
use crate::error::{Error, Result};
use crate::info::ObjectInfo;
use crate::keys;
use crate::layout;
use crate::local::Local;
use crate::lookup::{CurrentObject, find_bucket, find_object};
use crate::name::{self, never};
use crate::object_name::{Name, ObjectName};
use crate::outcome::{checked_names, info, made_by, told};
use crate::pending::Pending;
use crate::record::{BucketRecord, ObjectRecord};
use crate::request::{ExchangeOptions, RenameOptions};
use crate::rights::Rights;
use crate::source::check_source_condition;
use crate::verb::{Applied, CommandContext, Verb, run};

impl Local {
    pub fn rename(&self, from: ObjectName<'_>, to: ObjectName<'_>, options: RenameOptions) -> Pending<ObjectInfo> {
        match rename(from, to, options) {
            Ok(rename) => run(self, rename),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    pub fn exchange(
        &self,
        one: ObjectName<'_>,
        other: ObjectName<'_>,
        options: ExchangeOptions,
    ) -> Pending<(ObjectInfo, ObjectInfo)> {
        match exchange(one, other, options) {
            Ok(exchange) => run(self, exchange),
            Err(error) => Pending::ready(Err(error)),
        }
    }
}

/// The verb of a move.
pub(crate) fn rename(from: ObjectName<'_>, to: ObjectName<'_>, options: RenameOptions) -> Result<Rename> {
    let (from, to) = checked_names(from, to)?;
    Ok(Rename { from, to, options, record: None })
}

/// The verb of an exchange.
pub(crate) fn exchange(one: ObjectName<'_>, other: ObjectName<'_>, options: ExchangeOptions) -> Result<Exchange> {
    let (one, other) = checked_names(one, other)?;
    Ok(Exchange { one, other, options, records: None })
}

/// The verb.
pub(crate) struct Rename {
    from: Name,
    to: Name,
    options: RenameOptions,
    /// Of the last attempt.
    record: Option<ObjectRecord>,
}

impl Verb for Rename {
    type Outcome = ObjectInfo;

    fn request(&self) -> Option<RequestId> {
        self.options.request
    }

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights_on_both(rights, &self.from, &self.to)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<ObjectInfo>> {
        let to = find_bucket(txn, &self.to.bucket)?;
        let there = find_object(txn, to.space, &self.to.key)?;
        if let Some(there) = made_by(there.as_ref(), self.options.request) {
            return Ok(Applied::Done(info(there, &self.to)));
        }
        let from = find_bucket(txn, &self.from.bucket)?;
        let source = match self.find_source(txn, &from, there.as_ref()) {
            Ok(source) => source,
            // An earlier submission of this request may have taken the source away.
            Err(error) => return Ok(Applied::MaybeReplayed(never(to.space, &self.to.key), error)),
        };
        if self.from == self.to {
            return Ok(Applied::Done(info(&source, &self.to)));
        }
        let record = self.record.insert(moved(&source, from.space != to.space, self.options.request, context));
        name::set_moving(txn, context, &from, &self.from.key, &source, None)?;
        move_content(txn, &source.record, &from, record, &to);
        name::set(txn, context, &to, &self.to.key, there.as_ref(), Some(record))?;
        Ok(Applied::Changed)
    }

    fn committed(self, local: &Local, commit: Commit) -> Result<ObjectInfo> {
        told(local, &self.to, self.record, commit)
    }
}

impl Rename {
    fn find_source(
        &self,
        txn: &mut Transaction,
        from: &BucketRecord,
        there: Option<&CurrentObject>,
    ) -> Result<CurrentObject> {
        let source = find_object(txn, from.space, &self.from.key)?;
        let source = source.ok_or_else(|| Error::no_such_key(&self.from.bucket, &self.from.key))?;
        check_source_condition(&self.options.source_condition, &self.from.key, &source)?;
        self.options.condition.check(self.to.as_name(), there)?;
        Ok(source)
    }
}

/// The verb.
pub(crate) struct Exchange {
    one: Name,
    other: Name,
    options: ExchangeOptions,
    /// What the two names have by the last attempt.
    records: Option<(ObjectRecord, ObjectRecord)>,
}

impl Verb for Exchange {
    type Outcome = (ObjectInfo, ObjectInfo);

    fn request(&self) -> Option<RequestId> {
        self.options.request
    }

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights_on_both(rights, &self.one, &self.other)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<Self::Outcome>> {
        let first = find_bucket(txn, &self.one.bucket)?;
        let second = find_bucket(txn, &self.other.bucket)?;
        let one = find_object(txn, first.space, &self.one.key)?;
        let other = find_object(txn, second.space, &self.other.key)?;
        let (one, other) = match (one, other) {
            (Some(one), Some(other)) => (one, other),
            (one, _) => {
                let missing = if one.is_none() { &self.one } else { &self.other };
                let error = Error::no_such_key(&missing.bucket, &missing.key);
                return Ok(Applied::MaybeReplayed(never(first.space, &self.one.key), error));
            }
        };
        let again = made_by(Some(&one), self.options.request).is_some()
            && made_by(Some(&other), self.options.request).is_some();
        if again || self.one == self.other {
            return Ok(Applied::Done((info(&one, &self.one), info(&other, &self.other))));
        }
        let between = first.space != second.space;
        let mut to_one = moved(&other, between, self.options.request, context);
        let mut to_other = moved(&one, between, self.options.request, context);
        name::set_moving(txn, context, &first, &self.one.key, &one, Some(&mut to_one))?;
        name::set_moving(txn, context, &second, &self.other.key, &other, Some(&mut to_other))?;
        move_content(txn, &other.record, &second, &to_one, &first);
        move_content(txn, &one.record, &first, &to_other, &second);
        self.records = Some((to_one, to_other));
        Ok(Applied::Changed)
    }

    fn committed(self, local: &Local, commit: Commit) -> Result<Self::Outcome> {
        let (one, other) = self.records.unzip();
        Ok((told(local, &self.one, one, commit)?, told(local, &self.other, other, commit)?))
    }
}

/// Who moves an object can read it, take it from one name and put it under another.
fn rights_on_both(rights: &mut Rights<'_>, one: &Name, other: &Name) -> Result<()> {
    for name in [one, other] {
        for action in [Action::GetObject, Action::PutObject, Action::DeleteObject] {
            rights.object(action, &name.bucket, &name.key)?;
        }
    }
    Ok(())
}

/// The record of an object that is moved.
fn moved(
    from: &CurrentObject,
    to_another_space: bool,
    request: Option<RequestId>,
    context: &CommandContext<'_>,
) -> ObjectRecord {
    let mut record = from.record.clone();
    record.changed = context.now;
    record.request = request.or(record.request);
    if to_another_space {
        record.id = context.draw_id();
        record.access.list = AccessList::default();
    }
    record
}

/// Where an object goes to another space, so does what lies under its id.
fn move_content(
    txn: &mut Transaction,
    from: &ObjectRecord,
    from_bucket: &BucketRecord,
    to: &ObjectRecord,
    to_bucket: &BucketRecord,
) {
    if from_bucket.space == to_bucket.space {
        return;
    }
    let (source, target) = (from_bucket.space, to_bucket.space);
    layout::move_to(txn, layout::place(source, from.id), target, to.id);
    if from.part_count.is_some() {
        let (from, to) = (keys::part_table(from.id), keys::part_table(to.id));
        txn.then(Operation::Rename { from: Place::new(source, from), to: Place::new(target, to) });
    }
    txn.delete(source, keys::access_time(from.id));
}
