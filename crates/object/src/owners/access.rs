//! Whose buckets are: owners, groups, access lists and policies of buckets and objects.

use bytes::Bytes;

use crate::access_list::AccessList;
use crate::accounts::{check_list, check_public, find, group, keys, user};
use crate::action::Action;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::LocalIdentities;
use crate::identity::change::change;
use crate::keys::CATALOGUE;
use crate::lookup::{Lookup, find_bucket, find_bucket_to_read, find_object};
use crate::name;
use crate::object_name::ObjectName;
use crate::pending::Pending;
use crate::policy::Policy;
use crate::record::{BucketRecord, DocumentRecord, NamedPrincipal};
use crate::rights::{ownership, principal};

impl LocalIdentities {
    pub fn change_owner(&self, bucket: &str, owner: &str, group: Option<&str>) -> Pending<()> {
        let (bucket, needed) = (bucket.to_owned(), bucket.to_owned());
        let (owner, group) = (owner.to_owned(), group.map(str::to_owned));
        let receivers = (owner.clone(), group.clone());
        change(
            &self.local,
            move |rights| {
                rights.bucket(Action::ChangeOwner, &needed)?;
                rights.give_to(&receivers.0, receivers.1.as_deref())
            },
            move |txn, _| {
                let old = find_bucket(txn, &bucket)?;
                let (owner, home) = find::owner(txn, &owner)?;
                let group = group.as_deref().map_or(Ok(home), |name| find::owning_group(txn, name))?;
                ownership::move_bucket(txn, &bucket, &old, &BucketRecord { owner, group, ..old.clone() });
                Ok(())
            },
        )
    }

    pub fn owner(&self, bucket: &str) -> Result<(String, String)> {
        self.local.read(
            |rights| rights.bucket(Action::ListBucket, bucket),
            |view| {
                let record = find_bucket(view, bucket)?;
                let owner = user(view, record.owner)?.map(|user| user.name);
                let group = group(view, record.group)?.map(|group| group.name);
                let name = |name: Option<String>, id: u64| match name {
                    Some(name) => name,
                    None if id == 0 => find::ROOT_NAME.to_owned(),
                    None => format!("{id:016x}"),
                };
                Ok((name(owner, record.owner), name(group, record.group)))
            },
        )
    }

    pub fn set_bucket_policy(&self, bucket: &str, document: Option<&str>) -> Pending<()> {
        let parsed = document.map(|text| Policy::to_set(text, true)).transpose();
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return Pending::ready(Err(error)),
        };
        let (bucket, needed, document) = (bucket.to_owned(), bucket.to_owned(), document.map(str::to_owned));
        let action = if parsed.is_some() { Action::PutBucketPolicy } else { Action::DeleteBucketPolicy };
        change(
            &self.local,
            move |rights| rights.bucket(action, &needed),
            move |txn, context| {
                let record = find_bucket(txn, &bucket)?;
                let key = keys::bucket_policy(record.id());
                let Some((policy, text)) = parsed.as_ref().zip(document.clone()) else {
                    txn.delete(CATALOGUE, key);
                    context.removes(|| format!("the policy of the bucket {bucket}"));
                    return Ok(());
                };
                if policy.is_public() {
                    check_public(txn)?;
                }
                if let Some(other) = policy.names_other_bucket(&bucket) {
                    let message = format!("the policy of the bucket {bucket:?} names the resource {other}");
                    return Err(Error::new(ErrorKind::MalformedPolicy, message));
                }
                let mut principals = Vec::new();
                for written in policy.principals() {
                    let (group, id) = principal(txn, written)?.ok_or_else(|| {
                        let message = format!(
                            "the principal {written:?} is nobody of this store: write a user's name, arn:aws:iam:::user/NAME or arn:aws:iam:::group/NAME"
                        );
                        Error::new(ErrorKind::MalformedPolicy, message)
                    })?;
                    principals.push(NamedPrincipal { group, id, written: written.to_owned() });
                }
                let document = DocumentRecord { text, changed: context.now, principals, kept: Vec::new() };
                txn.put(CATALOGUE, key, Bytes::from(document.encode()));
                Ok(())
            },
        )
    }

    pub fn bucket_policy(&self, bucket: &str) -> Result<String> {
        self.local.read(
            |rights| rights.bucket(Action::GetBucketPolicy, bucket),
            |view| {
                let record = find_bucket(view, bucket)?;
                let found = view.record(CATALOGUE, &keys::bucket_policy(record.id()))?;
                let absent = || Error::new(ErrorKind::NoSuchPolicy, format!("the bucket {bucket:?} has no policy"));
                Ok(DocumentRecord::decode(&found.ok_or_else(absent)?.1)?.text)
            },
        )
    }

    pub fn bucket_policy_is_public(&self, bucket: &str) -> Result<bool> {
        Ok(Policy::of_bucket(&self.bucket_policy(bucket)?)?.is_public())
    }

    pub fn owner_id(&self, bucket: &str) -> Result<u64> {
        self.local.read(|_| Ok(()), |view| Ok(find_bucket_to_read(view, bucket)?.owner))
    }

    pub fn set_bucket_access(&self, bucket: &str, list: AccessList) -> Pending<()> {
        let (bucket, needed) = (bucket.to_owned(), bucket.to_owned());
        change(
            &self.local,
            move |rights| rights.bucket(Action::PutBucketAcl, &needed),
            move |txn, _| {
                check_list(txn, &list)?;
                let record = BucketRecord { list: list.clone(), ..find_bucket(txn, &bucket)? };
                txn.put(CATALOGUE, crate::keys::bucket(&bucket), Bytes::from(record.encode()));
                Ok(())
            },
        )
    }

    pub fn bucket_access(&self, bucket: &str) -> Result<AccessList> {
        self.local
            .read(|rights| rights.bucket(Action::GetBucketAcl, bucket), |view| Ok(find_bucket(view, bucket)?.list))
    }

    pub fn set_object_access(&self, name: ObjectName<'_>, list: AccessList) -> Pending<()> {
        let (bucket, key) = (name.bucket.to_owned(), name.key.to_owned());
        let needed = (bucket.clone(), key.clone());
        change(
            &self.local,
            move |rights| rights.object(Action::PutObjectAcl, &needed.0, &needed.1),
            move |txn, context| {
                check_list(txn, &list)?;
                let record = find_bucket(txn, &bucket)?;
                let old = find_object(txn, record.space, &key)?.ok_or_else(|| Error::no_such_key(&bucket, &key))?;
                let mut new = old.record.clone();
                new.access.list = list.clone();
                new.changed = context.now;
                name::amend(txn, &record, &key, &old, &new);
                Ok(())
            },
        )
    }

    pub fn object_access(&self, name: ObjectName<'_>) -> Result<AccessList> {
        self.local.read(
            |rights| rights.object(Action::GetObjectAcl, name.bucket, name.key),
            |view| {
                let space = find_bucket(view, name.bucket)?.space;
                let found = find_object(view, space, name.key)?;
                Ok(found.ok_or_else(|| Error::no_such_key(name.bucket, name.key))?.record.access.list)
            },
        )
    }
}
