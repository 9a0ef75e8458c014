//! Deleting users, and groups with their users and buckets.
//!
//! Invariants:
//! - Each batch is whole and the next finds what is left: a deletion that was interrupted goes on when it is called
//!   again. A group is shut by its first batch, so nothing is added to it meanwhile.
//! - The record goes last, when nothing refers to it any more, under the condition that nothing does.

use bytes::Bytes;
use koine_kv::{Direction, KeyRange, Operation, Transaction};

use crate::accounts::find::{self, keys_of, put_group, put_user};
use crate::accounts::{find_group, keys, read_id, user};
use crate::bucket::drop_snapshots;
use crate::caller::ROOT;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::LocalIdentities;
use crate::identity::change::change;
use crate::keys::CATALOGUE;
use crate::local::Local;
use crate::lookup::find_bucket;
use crate::record::{BucketRecord, GroupRecord, State, UserRecord};
use crate::rights::ownership;
use crate::verb::CommandContext;

/// How many keys, tokens, members and buckets one batch takes.
const BATCH: usize = 1000;

/// What went with a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedGroup {
    /// Its buckets, with all that they held.
    pub buckets: u64,
    /// The users who were at home in it.
    pub users: u64,
}

impl LocalIdentities {
    pub fn delete_user(&self, name: &str) -> Result<()> {
        loop {
            let (user, needed) = (name.to_owned(), name.to_owned());
            let step = change(
                &self.local,
                move |rights| rights.administer_user(&needed, false),
                move |txn, context| {
                    let (id, record) = find::user(txn, &user)?;
                    if !keys_of(txn, &keys::bucket_of_owner(id, ""), 1)?.is_empty() {
                        let message = format!("the user {user:?} owns buckets; give them to somebody else first");
                        return Err(Error::new(ErrorKind::NotEmpty, message));
                    }
                    remove_user(txn, context, id, record)
                },
            );
            if step.wait()? {
                return Ok(());
            }
        }
    }

    pub fn delete_group(&self, name: &str) -> Result<DeletedGroup> {
        let group = name.to_owned();
        let shut = change(
            &self.local,
            |rights| rights.administer(),
            move |txn, _| {
                let (id, record) = find_group(txn, &group)?.ok_or_else(|| find::no_such_group(&group))?;
                put_group(txn, id, &GroupRecord { being_deleted: true, ..record });
                Ok(id)
            },
        );
        let id = shut.wait()?;
        let mut deleted = DeletedGroup::default();
        loop {
            let step =
                change(&self.local, |rights| rights.administer(), move |txn, context| step_of_group(txn, context, id));
            match step.wait()? {
                Step::Bucket => deleted.buckets += 1,
                Step::User => deleted.users += 1,
                Step::Other => {}
                Step::Last => return Ok(deleted),
            }
        }
    }
}

impl Local {
    pub fn delete_buckets_of(&self, group: &str) -> Result<u64> {
        let (mut deleted, mut after) = (0, String::new());
        loop {
            let (needed, group, from) = (group.to_owned(), group.to_owned(), std::mem::take(&mut after));
            let step = change(
                self,
                move |rights| rights.administer_group(&needed),
                move |txn, context| {
                    let id = find::owning_group(txn, &group)?;
                    let Some(key) = next_bucket(txn, id, &from)? else { return Ok(None) };
                    let name = keys::text_after_id(&key)?;
                    drop_bucket(txn, context, &name, (id, &key))?;
                    Ok(Some(name))
                },
            );
            match step.wait()? {
                Some(name) => after = name,
                None => return Ok(deleted),
            }
            deleted += 1;
        }
    }
}

/// The key of the first bucket of a group whose name is after this one. What is made behind it meanwhile stays.
fn next_bucket(txn: &mut Transaction, group: u64, after: &str) -> Result<Option<Bytes>> {
    let range = KeyRange::prefix(keys::bucket_of_group(group, ""));
    let mut cursor = txn.cursor(CATALOGUE, range, Direction::Forward)?;
    if !after.is_empty() {
        cursor.seek(&[&keys::bucket_of_group(group, after), &[0][..]].concat())?;
    }
    Ok(cursor.next()?.map(|entry| entry.key))
}

/// What a batch of deleting a group did.
enum Step {
    Bucket,
    User,
    Other,
    Last,
}

fn step_of_group(txn: &mut Transaction, context: &CommandContext<'_>, group: u64) -> Result<Step> {
    if let Some(key) = keys_of(txn, &keys::bucket_of_group(group, ""), 1)?.first() {
        drop_bucket(txn, context, &keys::text_after_id(key)?, (group, key))?;
        return Ok(Step::Bucket);
    }
    if let Some(key) = keys_of(txn, &keys::members(group), 1)?.first() {
        let id = keys::last_id(key)?;
        return match user(txn, id)? {
            Some(record) if record.home == group => remove_resident(txn, context, id, record),
            Some(mut record) => {
                record.groups.retain(|known| *known != group);
                put_user(txn, id, &record);
                txn.delete(CATALOGUE, key.clone());
                Ok(Step::Other)
            }
            None => {
                txn.delete(CATALOGUE, key.clone());
                Ok(Step::Other)
            }
        };
    }
    // Both ranges were read to their end: that nothing is in them is a condition.
    if let Some(record) = crate::accounts::group(txn, group)? {
        txn.delete(CATALOGUE, keys::group(group));
        txn.delete(CATALOGUE, keys::group_name(&record.name));
        context.removes(|| format!("the group {}", record.name));
    }
    Ok(Step::Last)
}

/// A bucket goes with all that it holds and its snapshots.
fn drop_bucket(
    txn: &mut Transaction,
    context: &CommandContext<'_>,
    name: &str,
    (group, key): (u64, &[u8]),
) -> Result<()> {
    let record = match find_bucket(txn, name) {
        Ok(record) if record.group == group => record,
        // A key that leads to no bucket of the group is left over.
        Ok(_) => {
            txn.delete(CATALOGUE, Bytes::copy_from_slice(key));
            return Ok(());
        }
        Err(error) if error.kind() == ErrorKind::NoSuchBucket => {
            txn.delete(CATALOGUE, Bytes::copy_from_slice(key));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    drop_snapshots(txn, &record)?;
    ownership::delete_bucket(txn, name, &record);
    txn.then(Operation::DropSpace { space: record.space });
    context.removes(|| format!("the bucket {name} with all that it held"));
    Ok(())
}

/// A user of a group that is being deleted: what it owns in other groups becomes root's, then it goes.
fn remove_resident(txn: &mut Transaction, context: &CommandContext<'_>, id: u64, record: UserRecord) -> Result<Step> {
    let owned = keys_of(txn, &keys::bucket_of_owner(id, ""), BATCH)?;
    if owned.is_empty() {
        return Ok(if remove_user(txn, context, id, record)? { Step::User } else { Step::Other });
    }
    for key in owned {
        let name = keys::text_after_id(&key)?;
        match find_bucket(txn, &name) {
            Ok(old) if old.owner == id => {
                ownership::move_bucket(txn, &name, &old, &BucketRecord { owner: ROOT, ..old.clone() });
            }
            Ok(_) => txn.delete(CATALOGUE, key),
            Err(error) if error.kind() == ErrorKind::NoSuchBucket => txn.delete(CATALOGUE, key),
            Err(error) => return Err(error),
        }
    }
    Ok(Step::Other)
}

/// Takes a user with its keys, tokens, memberships and uids; with many keys and tokens some of them, and shuts it out.
/// Whether it is gone.
fn remove_user(txn: &mut Transaction, context: &CommandContext<'_>, id: u64, record: UserRecord) -> Result<bool> {
    let access = keys_of(txn, &keys::access_key_of(id, ""), BATCH)?;
    let tokens = keys_of(txn, &keys::tokens_of(id), BATCH)?;
    let more = access.len() == BATCH || tokens.len() == BATCH;
    for key in access {
        txn.delete(CATALOGUE, keys::access_key(&keys::text_after_id(&key)?));
        txn.delete(CATALOGUE, key);
    }
    for key in tokens {
        txn.delete(CATALOGUE, keys::token(&keys::token_digest(&key)?));
        txn.delete(CATALOGUE, key);
    }
    if more {
        put_user(txn, id, &UserRecord { state: State::BeingDeleted, ..record });
        return Ok(false);
    }
    for key in keys_of(txn, &keys::all_of(b'l'), usize::MAX)? {
        let of = txn.get(CATALOGUE, &key)?.map(|id| read_id(&id)).transpose()?;
        if of == Some(id) {
            txn.delete(CATALOGUE, key);
        }
    }
    for group in record.groups.iter().chain([&record.home]) {
        txn.delete(CATALOGUE, keys::member(*group, id));
    }
    txn.delete(CATALOGUE, keys::user(id));
    txn.delete(CATALOGUE, keys::user_name(&record.name));
    context.removes(|| format!("the user {}, with its keys and tokens", record.name));
    Ok(true)
}
