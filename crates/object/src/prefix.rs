//! Moving and copying everything whose name begins with a prefix.
//!
//! Invariants:
//! - A prefix is moved in one commit whatever is under it, into a place where nothing is; records stay as they are.
//! - A prefix is copied in batches, in the order of names: each object is whole, and the last key done is told, so that
//!   the next call goes on after it. What comes or goes meanwhile is copied or not.

use koine_kv::{Commit, Direction, KeyRange, Operation, SpaceId, Transaction, View, after_prefix};

use crate::action::Action;
use crate::copy::Copy;
use crate::error::{Error, ErrorKind, Result};
use crate::index;
use crate::keys;
use crate::local::Local;
use crate::lookup::find_bucket;
use crate::object_name::{Name, ObjectName};
use crate::pending::Pending;
use crate::request::{COPY_PREFIX_BATCH, CopiedPrefix, CopyOptions, CopyPrefixOptions, OBJECT_KEY_LEN_MAX};
use crate::rights::Rights;
use crate::transaction::TRANSACTION_CHANGES_MAX;
use crate::verb::{Applied, CommandContext, Verb, run};

/// No copy is begun past so many changes of one commit; one changes less than a hundred things.
const CHANGES_MAX: usize = TRANSACTION_CHANGES_MAX - 100;

impl Local {
    pub fn rename_prefix(&self, bucket: &str, from: &str, to: &str) -> Pending<()> {
        let verb = RenamePrefix { bucket: bucket.to_owned(), from: from.to_owned(), to: to.to_owned() };
        match check_apart(from, to) {
            Ok(()) => run(self, verb),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    pub fn copy_prefix(
        &self,
        from: ObjectName<'_>,
        to: ObjectName<'_>,
        options: CopyPrefixOptions,
    ) -> Result<CopiedPrefix> {
        if from.bucket == to.bucket {
            check_apart(from.key, to.key)?;
        }
        let (from, to) = (Name::new(from), Name::new(to));
        run(self, CopyPrefix { from, to, options, copied: CopiedPrefix::default() }).wait()
    }
}

fn check_apart(from: &str, to: &str) -> Result<()> {
    if from.starts_with(to) || to.starts_with(from) {
        let message = format!("one of the prefixes {from:?} and {to:?} begins with the other");
        return Err(Error::new(ErrorKind::InvalidRequest, message));
    }
    Ok(())
}

fn too_long(name: &str, to: &str) -> Error {
    let message = format!("{name:?} would have more than {OBJECT_KEY_LEN_MAX} bytes under {to:?}; nothing was changed");
    Error::new(ErrorKind::KeyTooLong, message)
}

struct RenamePrefix {
    bucket: String,
    from: String,
    to: String,
}

impl Verb for RenamePrefix {
    type Outcome = ();

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        for prefix in [&self.from, &self.to] {
            for action in [Action::GetObject, Action::PutObject, Action::DeleteObject] {
                rights.prefix(action, &self.bucket, prefix)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, txn: &mut Transaction, _scope: &CommandContext<'_>) -> Result<Applied<()>> {
        let bucket = find_bucket(txn, &self.bucket)?;
        let space = bucket.space;
        let (from, to) = (keys::names_prefix(&self.from), keys::names_prefix(&self.to));
        if !self.has_names(txn, space)? {
            return Ok(Applied::Done(()));
        }
        let mut there = txn.cursor(space, KeyRange::prefix(to.clone()), Direction::Forward)?;
        if let Some(entry) = there.next()? {
            let (name, _) = keys::name_of(&entry.key)?;
            let message = format!("{name:?} is there already; a prefix is moved to where nothing is");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        drop(there);
        index::prefix_moved(txn, &bucket, &self.from, &self.to)?;
        txn.then(Operation::RenamePrefix { space, from, to });
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<()> {
        Ok(())
    }
}

impl RenamePrefix {
    /// Whether anything is under the prefix. Where names get longer, each is looked at: that nothing comes meanwhile
    /// is a condition then.
    fn has_names(&self, txn: &mut Transaction, space: SpaceId) -> Result<bool> {
        let longer = self.to.len().saturating_sub(self.from.len());
        let range = KeyRange::prefix(keys::names_prefix(&self.from));
        let mut cursor = txn.cursor(space, range, Direction::Forward)?;
        let mut any = false;
        while let Some(entry) = cursor.next()? {
            any = true;
            if longer == 0 {
                break;
            }
            let (name, _) = keys::name_of(&entry.key)?;
            if name.len() + longer > OBJECT_KEY_LEN_MAX {
                return Err(too_long(&name, &self.to));
            }
        }
        Ok(any)
    }
}

struct CopyPrefix {
    from: Name,
    to: Name,
    options: CopyPrefixOptions,
    /// Of the last attempt.
    copied: CopiedPrefix,
}

impl Verb for CopyPrefix {
    type Outcome = CopiedPrefix;

    fn needs(&self, rights: &mut Rights<'_>) -> Result<()> {
        rights.bucket(Action::ListBucket, &self.from.bucket)?;
        rights.prefix(Action::GetObject, &self.from.bucket, &self.from.key)?;
        rights.prefix(Action::PutObject, &self.to.bucket, &self.to.key)
    }

    fn apply(&mut self, txn: &mut Transaction, context: &CommandContext<'_>) -> Result<Applied<CopiedPrefix>> {
        let space = find_bucket(txn, &self.from.bucket)?.space;
        find_bucket(txn, &self.to.bucket)?;
        let view = std::sync::Arc::clone(txn.view());
        let (names, next) = names_after(view.as_ref(), space, &self.from.key, self.options.after.as_deref())?;
        self.copied = CopiedPrefix { objects: names.len() as u64, next };
        if names.is_empty() {
            return Ok(Applied::Done(std::mem::take(&mut self.copied)));
        }
        let mut last = None;
        for (done, name) in (0..).zip(names) {
            // Entries of indexes come on top of what a batch of copies was measured for.
            if txn.operations().len() > CHANGES_MAX {
                self.copied = CopiedPrefix { objects: done, next: last };
                break;
            }
            last = Some(name.clone());
            let mut copy = self.copy_of(name)?;
            context.may(txn, |rights| copy.needs(rights))?;
            if let Applied::MaybeReplayed(_, error) = copy.apply(txn, context)? {
                return Err(error);
            }
        }
        Ok(Applied::Changed)
    }

    fn committed(self, _objects: &Local, _commit: Commit) -> Result<CopiedPrefix> {
        Ok(self.copied)
    }
}

impl CopyPrefix {
    fn copy_of(&self, name: String) -> Result<Copy> {
        let rest = name.strip_prefix(self.from.key.as_str()).unwrap_or_default();
        let key = format!("{}{rest}", self.to.key);
        if key.len() > OBJECT_KEY_LEN_MAX {
            return Err(too_long(&name, &self.to.key));
        }
        keys::check_object_key(&key)?;
        let options = CopyOptions { condition: self.options.condition.clone(), ..CopyOptions::default() };
        let from = Name { bucket: self.from.bucket.clone(), key: name };
        Ok(Copy::new(from, Name { bucket: self.to.bucket.clone(), key }, options))
    }
}

/// The first names of a prefix after one of them, and the last of these when more follow.
fn names_after(
    view: &dyn View,
    space: SpaceId,
    prefix: &str,
    after: Option<&str>,
) -> Result<(Vec<String>, Option<String>)> {
    let range = KeyRange::prefix(keys::names_prefix(prefix));
    let start = after.and_then(|after| after_prefix(&keys::name(after))).filter(|start| *start > range.start);
    let mut cursor = view.cursor(space, range, Direction::Forward)?;
    if let Some(start) = start {
        cursor.seek(&start)?;
    }
    let mut names: Vec<String> = Vec::new();
    while let Some(entry) = cursor.next()? {
        let (name, newest) = keys::name_of(&entry.key)?;
        if !newest {
            // Behind a name stand older versions of it, any number of them.
            if let Some(start) = after_prefix(&keys::name(&name)) {
                cursor.seek(&start)?;
            }
            continue;
        }
        if names.len() == COPY_PREFIX_BATCH {
            let last = names.last().cloned();
            return Ok((names, last));
        }
        names.push(name);
    }
    Ok((names, None))
}
