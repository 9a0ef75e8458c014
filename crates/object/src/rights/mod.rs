//! Who may: asked by every call, inside the transaction or view that it is made from.
//!
//! Invariants:
//! - A verb tells what it needs in `Verb::needs`, which has no default, and is applied by `verb::perform` alone,
//!   which asks first. A read gets its view from `Objects::read` alone, which asks first too.
//! - What an answer rests on is read through the call's own transaction, so it is a condition of the batch: a
//!   right that was taken away holds for every commit after. Nothing of it is kept from one call to the next.
//! - The store's owner is asked nothing: for it no need is even told.
//! - What is read from an older version of the store (a pin, an open reader or transaction) is judged by the newest
//!   rules of the very bucket and object that this version has: never by those of others that took their names since.
//! - What is refused says so without telling whether the name is there; the log has the rule that refused it.

mod judge;
mod log;
pub(crate) mod ownership;
mod reading;
mod who;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Transaction, View};

use crate::accounts::find::is_root;
use crate::accounts::keys as identity_keys;
use crate::action::{Action, StandIns};
use crate::caller::{Caller, Circumstances};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::UploadId;
use crate::keys;
use crate::local::Local;
use crate::lookup::Lookup;
use crate::object_name::Name;
use crate::version_id::VersionId;

use judge::On;
use who::Who;

pub(crate) use judge::principal;
pub use judge::{Decision, Rule};
pub(crate) use log::{Allowed, Removal};

/// Asks, for one call, whether its caller may do each thing that it needs.
pub(crate) struct Rights<'a> {
    /// The rules.
    from: &'a mut dyn Lookup,
    /// What is read, where that is not what has the rules.
    read: Option<Arc<dyn View>>,
    caller: &'a Caller,
    circumstances: &'a Circumstances,
    now: Timestamp,
    /// Who the caller is, once it was looked up.
    who: Option<Who>,
    /// The buckets whose objects were asked for.
    buckets: Vec<String>,
    /// What is asked for in the place of an action.
    stand_ins: StandIns,
    /// What allowed the last thing that was asked for.
    rule: Option<Rule>,
}

impl<'a> Rights<'a> {
    /// Asks for the caller of `objects`, by what `from` has.
    pub fn new(from: &'a mut dyn Lookup, local: &'a Local) -> Self {
        let (caller, circumstances, now) = (local.caller(), local.circumstances(), local.now());
        Rights {
            from,
            read: None,
            caller,
            circumstances,
            now,
            who: None,
            buckets: Vec::new(),
            stand_ins: local.stand_ins(),
            rule: None,
        }
    }

    /// Asks for what another, older version has.
    pub fn of_what_is_in(self, read: Arc<dyn View>) -> Self {
        Rights { read: Some(read), ..self }
    }

    /// An action on an object, or on a name that may have one.
    pub fn object(&mut self, action: Action, bucket: &str, key: &str) -> Result<()> {
        self.named(action, bucket, On { key: Some(key), ..On::default() })
    }

    /// An action on one version of an object.
    pub fn version(&mut self, action: Action, bucket: &str, key: &str, version: VersionId) -> Result<()> {
        self.named(action, bucket, On { key: Some(key), version: Some(version), ..On::default() })
    }

    /// Reading what something is copied from: the newest version, or a given one.
    pub fn read_source(&mut self, from: &Name, version: Option<VersionId>) -> Result<()> {
        match version {
            None => self.object(Action::GetObject, &from.bucket, &from.key),
            Some(version) => self.version(Action::GetObjectVersion, &from.bucket, &from.key, version),
        }
    }

    /// An action on every name that begins with `prefix`. Where something could deny one of them it is refused.
    pub fn prefix(&mut self, action: Action, bucket: &str, prefix: &str) -> Result<()> {
        self.named(action, bucket, On { key: Some(prefix), all_under: true, ..On::default() })
    }

    /// An action on a bucket, which need not be there.
    pub fn bucket(&mut self, action: Action, bucket: &str) -> Result<()> {
        self.require(action, &On { bucket: Some(keys::bucket_and_snapshot(bucket).0), ..On::default() })
    }

    /// Telling what a bucket holds, as a query asks for it.
    pub fn listing(&mut self, action: Action, bucket: &str, listing: (&str, &str, usize)) -> Result<()> {
        let bucket = Some(keys::bucket_and_snapshot(bucket).0);
        self.require(action, &On { bucket, listing: Some(listing), ..On::default() })
    }

    /// An action on the store.
    pub fn store(&mut self, action: Action) -> Result<()> {
        self.require(action, &On::default())
    }

    /// An action on an upload: who began it may drop it and look at it.
    pub fn upload(&mut self, action: Action, bucket: &str, key: &str, upload: UploadId) -> Result<()> {
        self.named(action, bucket, On { key: Some(key), upload: Some(upload), ..On::default() })
    }

    fn named(&mut self, action: Action, bucket: &str, on: On<'_>) -> Result<()> {
        if self.caller.is_owner() {
            return Ok(());
        }
        // Who may read a bucket may read its snapshots.
        let (bucket, snapshot) = keys::bucket_and_snapshot(bucket);
        if !self.buckets.iter().any(|known| known == bucket) {
            self.buckets.push(bucket.to_owned());
        }
        self.require(action, &On { bucket: Some(bucket), snapshot, ..on })
    }

    fn require(&mut self, action: Action, on: &On<'_>) -> Result<()> {
        if self.caller.is_owner() {
            return Ok(());
        }
        let stand_in = self.stand_ins.iter().find(|(asked, _)| *asked == action);
        for action in stand_in.map_or(std::slice::from_ref(&action), |(_, instead)| instead) {
            let Decision { allowed, rule } = self.judge(*action, on)?;
            if !allowed {
                return Err(self.refuse(action.name(), &on, &rule));
            }
            self.rule = Some(rule);
        }
        Ok(())
    }

    /// Changing who is in the store at all: users, groups and policies.
    pub fn administer(&mut self) -> Result<()> {
        self.store(Action::Identities)
    }

    /// Changing who is in a group.
    pub fn administer_group(&mut self, group: &str) -> Result<()> {
        if self.caller.is_owner() {
            return Ok(());
        }
        let id = self.group_named(group)?;
        let administers = id.map_or(Ok(false), |id| self.administers(id))?;
        self.require(Action::Identities, &On { otherwise: administers, ..On::default() })
    }

    /// Changing what belongs to a user: by administrators of its home group, and by itself where `itself` is set.
    pub fn administer_user(&mut self, user: &str, itself: bool) -> Result<()> {
        if self.caller.is_owner() {
            return Ok(());
        }
        // Root has no record until one is set for it.
        if is_root(user) {
            return self.own_the_store();
        }
        let found = self.user_named(user)?;
        let given = match found {
            Some((id, record)) => {
                let own = itself && matches!(self.caller, Caller::User(caller) if caller.user() == id);
                // An administrator of a group has no power over one of the store.
                own || (!record.administrator && self.administers(record.home)?)
            }
            None => false,
        };
        self.require(Action::Identities, &On { otherwise: given, ..On::default() })
    }

    /// Making what shows that one is a user: by itself, by administrators of the store, and by who administers every group
    /// that it is in, while it has no policies of its own. So nobody gains rights by it.
    pub fn speak_for_user(&mut self, user: &str) -> Result<()> {
        if self.caller.is_owner() {
            return Ok(());
        }
        if is_root(user) {
            return self.own_the_store();
        }
        let given = match self.user_named(user)? {
            Some((id, _)) if matches!(self.caller, Caller::User(caller) if caller.user() == id) => true,
            Some((_, record)) => {
                let plain = !record.administrator && record.policies.is_empty();
                let mut groups = std::iter::once(&record.home).chain(&record.groups);
                plain && groups.try_fold(true, |all, group| Ok::<_, Error>(all && self.administers(*group)?))?
            }
            None => false,
        };
        self.require(Action::Identities, &On { otherwise: given, ..On::default() })
    }

    /// Ending a membership: for the user itself too.
    pub fn leave_group(&mut self, group: &str, user: &str) -> Result<()> {
        if self.caller.is_owner() {
            return Ok(());
        }
        let user = self.user_named(user)?.map(|(id, _)| id);
        if user.is_some() && matches!(self.caller, Caller::User(caller) if Some(caller.user()) == user) {
            return self.require(Action::Identities, &On { otherwise: true, ..On::default() });
        }
        self.administer_group(group)
    }

    /// Giving something to a user, and to a group where one is named: to oneself and to users that one administers, to
    /// groups that one is in and to those that one administers.
    pub fn give_to(&mut self, user: &str, group: Option<&str>) -> Result<()> {
        if self.caller.is_owner() {
            return Ok(());
        }
        if !is_root(user) {
            self.administer_user(user, true)?;
        } else if !matches!(self.who()?, Who::Root) {
            self.require(Action::Identities, &On::default())?;
        }
        match group {
            Some(group) if !is_root(group) => self.see_group(group),
            Some(_) => self.require(Action::Identities, &On::default()),
            None => Ok(()),
        }
    }

    /// Seeing a group: for its members too.
    pub fn see_group(&mut self, group: &str) -> Result<()> {
        if self.caller.is_owner() {
            return Ok(());
        }
        let id = self.group_named(group)?;
        let member = matches!(self.who()?, Who::User(user) if id.is_some_and(|id| user.groups.contains(&id)));
        self.require(Action::Identities, &On { otherwise: member, ..On::default() })
    }

    /// What is decided of an action on a bucket or an object, for who may ask.
    pub fn explain(&mut self, action: Action, bucket: &str, key: Option<&str>) -> Result<Decision> {
        let (bucket, snapshot) = keys::bucket_and_snapshot(bucket);
        self.judge(action, &On { bucket: Some(bucket), snapshot, key, ..On::default() })
    }

    /// Where the buckets are found that the caller owns or is a member of the group of; `None` for all.
    pub fn ranges_of_buckets(&mut self) -> Result<Option<Vec<Bytes>>> {
        Ok(match self.who()? {
            Who::Root => None,
            Who::User(user) if user.administrator => None,
            Who::User(user) => {
                let of_groups = user.groups.iter().map(|group| identity_keys::bucket_of_group(*group, ""));
                Some(of_groups.chain([identity_keys::bucket_of_owner(user.id, "")]).collect())
            }
            Who::Everyone | Who::Out(_) => Some(Vec::new()),
        })
    }

    /// What only who owns the device may do.
    pub fn own_the_device(&mut self) -> Result<()> {
        if self.caller.is_owner() {
            return Ok(());
        }
        Err(self.refuse("this", &"the store: it is for who owns the device", &Rule::Nothing))
    }

    /// What only the store's owner and root may do.
    pub fn own_the_store(&mut self) -> Result<()> {
        if self.caller.is_owner() || matches!(self.who()?, Who::Root) {
            return Ok(());
        }
        Err(self.refuse("this", &"the store: it is its owner's", &Rule::Nothing))
    }

    fn refuse(&self, action: &str, on: &dyn fmt::Display, rule: &Rule) -> Error {
        self.tell_refused(action, on, rule);
        Error::new(ErrorKind::AccessDenied, format!("the caller may not do {action} on {on}"))
    }

    /// An error as the caller may see it: that a name is absent is told to who may list the bucket alone.
    pub fn hide(mut self, error: Error) -> Error {
        if self.caller.is_owner() || !is_absence(&error) {
            return error;
        }
        let buckets = std::mem::take(&mut self.buckets);
        let refused = buckets.iter().find_map(|bucket| self.bucket(Action::ListBucket, bucket).err());
        refused.unwrap_or(error)
    }
}

/// Whether an error tells what is not there to those who may see what is.
fn is_absence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoSuchKey | ErrorKind::NoSuchVersion)
}

/// Asks what a verb needs, in its own transaction; tells what allowed it.
pub(crate) fn ask(
    txn: &mut Transaction,
    local: &Local,
    needs: impl FnOnce(&mut Rights<'_>) -> Result<()>,
) -> Result<Allowed> {
    if local.caller().is_owner() {
        return Ok(Allowed::to_owner());
    }
    let mut rights = Rights::new(txn, local);
    needs(&mut rights)?;
    Ok(rights.allowed())
}

/// The error of a verb as its caller may see it.
pub(crate) fn hide(
    txn: &mut Transaction,
    local: &Local,
    error: Error,
    needs: impl FnOnce(&mut Rights<'_>) -> Result<()>,
) -> Error {
    if local.caller().is_owner() || !is_absence(&error) {
        return error;
    }
    let mut rights = Rights::new(txn, local);
    match needs(&mut rights) {
        Ok(()) => rights.hide(error),
        Err(refused) => refused,
    }
}
