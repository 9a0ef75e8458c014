//! Whose buckets are, and how they are found by it.
//!
//! Invariant: a bucket that has an owner's key `o` and a group's key `h` has them as its record says: both are put,
//! moved and taken in the batch that puts or takes the record. Those of format 0 get theirs by the upgrade.

use bytes::Bytes;
use koine_kv::Transaction;

use crate::accounts::{keys as identity_keys, user};
use crate::caller::{Caller, Circumstances, ROOT};
use crate::error::{Error, ErrorKind, Result};
use crate::keys;
use crate::lookup::{Lookup, find_bucket_to_read};
use crate::record::BucketRecord;

/// A bucket that the caller makes: it is the caller's, and its home group's.
pub(crate) fn of_caller(txn: &mut Transaction, caller: &Caller, record: BucketRecord) -> Result<BucketRecord> {
    let owner = caller.user();
    let group = if owner == ROOT { ROOT } else { user(txn, owner)?.map_or(ROOT, |user| user.home) };
    Ok(BucketRecord { owner, group, ..record })
}

/// A bucket's record, under its name and with the keys by which its owner and its group find it.
pub(crate) fn put_bucket(txn: &mut Transaction, name: &str, record: &BucketRecord) {
    put_lists(txn, name, record);
    txn.put(keys::CATALOGUE, keys::bucket(name), Bytes::from(record.encode()));
}

/// The keys by which a bucket's owner and its group find it.
pub(crate) fn put_lists(txn: &mut Transaction, name: &str, record: &BucketRecord) {
    let id = Bytes::copy_from_slice(&record.id().to_le_bytes());
    txn.put(keys::CATALOGUE, identity_keys::bucket_of_owner(record.owner, name), id.clone());
    txn.put(keys::CATALOGUE, identity_keys::bucket_of_group(record.group, name), id);
}

/// A bucket's record as `new`, found by another owner or group.
pub(crate) fn move_bucket(txn: &mut Transaction, name: &str, old: &BucketRecord, new: &BucketRecord) {
    if old.owner != new.owner {
        txn.delete(keys::CATALOGUE, identity_keys::bucket_of_owner(old.owner, name));
    }
    if old.group != new.group {
        txn.delete(keys::CATALOGUE, identity_keys::bucket_of_group(old.group, name));
    }
    put_bucket(txn, name, new);
}

/// Takes a bucket's record, and all in the catalogue that is of this bucket alone.
pub(crate) fn delete_bucket(txn: &mut Transaction, name: &str, record: &BucketRecord) {
    txn.delete(keys::CATALOGUE, identity_keys::bucket_of_owner(record.owner, name));
    txn.delete(keys::CATALOGUE, identity_keys::bucket_of_group(record.group, name));
    txn.delete(keys::CATALOGUE, identity_keys::bucket_policy(record.id()));
    txn.delete(keys::CATALOGUE, keys::bucket(name));
}

/// Refuses a call whose buckets belong to others than it expects. It is looked at where the call reads and commits, so a
/// bucket that somebody else makes under the same name meanwhile gets nothing of it.
pub(crate) fn check_expected(from: &mut (impl Lookup + ?Sized), circumstances: &Circumstances) -> Result<()> {
    for expected in &circumstances.expected_owners {
        match find_bucket_to_read(from, keys::bucket_and_snapshot(&expected.bucket).0) {
            Ok(record) if expected.owner == Some(record.owner) => {}
            Ok(_) => {
                let message = format!("the bucket {:?} has another owner than the request expects", expected.bucket);
                tracing::info!(bucket = ?expected.bucket, "refused: it has another owner than the request expects");
                return Err(Error::new(ErrorKind::AccessDenied, message));
            }
            // The call itself tells, to who may know.
            Err(error) if error.kind() == ErrorKind::NoSuchBucket => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
