//! The decision, in the order of docs/decisions/0026-identities.md: root; who is out; what denies; what a key or
//! token is narrowed to; what allows; else no.

use std::fmt;

use super::Rights;
use super::who::{Known, Who};
use crate::access_list::{AccessList, Grant, Grantee};
use crate::accounts::{find_group, find_user, keys as identity_keys};
use crate::action::{Action, Class};
use crate::error::{ErrorKind, Result};
use crate::ids::UploadId;
use crate::keys;
use crate::lookup::{Lookup, find_bucket_to_read, find_object, find_upload};
use crate::policy::{Policy, Request, Says};
use crate::record::{BucketRecord, DocumentRecord, HeadRecord, ObjectRecord};
use crate::version_id::VersionId;
use crate::versions::object_of_version;

/// What an action is on.
#[derive(Default)]
pub(crate) struct On<'a> {
    pub bucket: Option<&'a str>,
    /// The snapshot of the bucket that is read.
    pub snapshot: Option<&'a str>,
    pub key: Option<&'a str>,
    /// Every name that begins with the key is meant.
    pub all_under: bool,
    /// Prefix, delimiter and limit of a listing.
    pub listing: Option<(&'a str, &'a str, usize)>,
    pub upload: Option<UploadId>,
    /// Which version of the object is meant; none is the newest.
    pub version: Option<VersionId>,
    /// Whether something else allows it where nothing denies it.
    pub otherwise: bool,
}

impl On<'_> {
    fn resource(&self) -> String {
        match (self.bucket, self.key) {
            (Some(bucket), Some(key)) => format!("{bucket}/{key}"),
            (Some(bucket), None) => bucket.to_owned(),
            _ => String::new(),
        }
    }
}

impl fmt::Display for On<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = if self.all_under { "*" } else { "" };
        if self.bucket.is_none() { f.write_str("the store") } else { write!(f, "{}{after}", self.resource()) }
    }
}

/// What was decided, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// Whether the call may be made.
    pub allowed: bool,
    /// What decided.
    pub rule: Rule,
}

/// What decides whether a call may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// The store's owner and root may do everything.
    Root,
    /// The caller does not get in; why.
    Out(String),
    /// A statement of this policy; `bucket` for the bucket's own, `key` for that of the access key or token.
    Policy {
        /// The policy.
        policy: String,
        /// The statement, where it has a name.
        statement: Option<String>,
    },
    /// The access key or token is narrowed to other things.
    Narrowed,
    /// The caller is an administrator of the store.
    Administrator,
    /// The bucket is the caller's.
    Owner,
    /// The caller is an administrator of the bucket's group.
    GroupAdministrator,
    /// The caller is a member of the bucket's group.
    Member,
    /// Every user may do this for itself.
    EveryUser,
    /// The caller began the upload.
    Began,
    /// An access list of the bucket.
    BucketList,
    /// An access list of the object.
    ObjectList,
    /// Nothing allows it.
    Nothing,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Root => f.write_str("the store's owner and root may do everything"),
            Rule::Out(reason) => write!(f, "the caller does not get in: {reason}"),
            Rule::Policy { policy, statement: Some(statement) } => write!(f, "policy {policy}, statement {statement}"),
            Rule::Policy { policy, statement: None } => write!(f, "policy {policy}"),
            Rule::Narrowed => f.write_str("the access key or token is narrowed to other things"),
            Rule::Administrator => f.write_str("administrator of the store"),
            Rule::Owner => f.write_str("owner of the bucket"),
            Rule::GroupAdministrator => f.write_str("administrator of the bucket's group"),
            Rule::Member => f.write_str("member of the bucket's group"),
            Rule::EveryUser => f.write_str("every user may do this for itself"),
            Rule::Began => f.write_str("the caller began the upload"),
            Rule::BucketList => f.write_str("access list of the bucket"),
            Rule::ObjectList => f.write_str("access list of the object"),
            Rule::Nothing => f.write_str("nothing allows it"),
        }
    }
}

fn allowed(rule: Rule) -> Decision {
    Decision { allowed: true, rule }
}

fn denied(rule: Rule) -> Decision {
    Decision { allowed: false, rule }
}

/// The bucket that an action is on, and its rules.
struct Place {
    record: BucketRecord,
    policy: Option<(Policy, DocumentRecord)>,
}

impl Rights<'_> {
    /// What is decided of an action.
    pub(crate) fn judge(&mut self, action: Action, on: &On<'_>) -> Result<Decision> {
        let place = match self.who()? {
            Who::Root => return Ok(allowed(Rule::Root)),
            Who::Out(reason) => return Ok(denied(Rule::Out((*reason).to_owned()))),
            Who::Everyone | Who::User(_) => self.place(action, on)?,
        };
        let known = self.known(on)?;
        let mut decided = self.by_policies(action, on, (&known, true), place.as_ref());
        let opened = |place: &Place| place.policy.as_ref().is_some_and(|(policy, _)| policy.is_public());
        if decided.as_ref().is_some_and(|decided| decided.allowed)
            && place.as_ref().is_some_and(opened)
            && !self.is_public()?
        {
            // What the bucket's policy opens to everybody counts for nobody, with or without an identity.
            decided = self.by_policies(action, on, (&known, false), place.as_ref());
        }
        if let Some(decided) = decided {
            return Ok(decided);
        }
        if on.otherwise {
            return Ok(allowed(Rule::EveryUser));
        }
        self.by_belonging(action, on, place.as_ref())
    }

    /// The bucket, where one is meant that is there.
    fn place(&mut self, action: Action, on: &On<'_>) -> Result<Option<Place>> {
        // A bucket that is to be made is nobody's yet.
        let Some(name) = on.bucket.filter(|_| action.class() != Class::Store) else {
            return Ok(None);
        };
        let newest = find_bucket_to_read(self.from, name);
        let (record, gone) = match &mut self.read {
            None => (newest?, false),
            Some(read) => same_bucket(find_bucket_to_read(read, name)?, newest)?,
        };
        let of_bucket = identity_keys::bucket_policy(record.id());
        let document = match &mut self.read {
            Some(read) if gone => read.record(keys::CATALOGUE, &of_bucket)?,
            _ => self.from.record(keys::CATALOGUE, &of_bucket)?,
        };
        let policy = match document.map(|(_, bytes)| DocumentRecord::decode(&bytes)).transpose()? {
            Some(document) => Some((Policy::of_bucket(&document.text)?, document)),
            None => None,
        };
        Ok(Some(Place { record, policy }))
    }

    /// What conditions of policies may ask for.
    fn known(&mut self, on: &On<'_>) -> Result<Vec<(&'static str, String)>> {
        let mut known = self.circumstances.known();
        let seconds = (self.now.0 / 1_000_000_000).to_string();
        known.push(("aws:currenttime", seconds.clone()));
        known.push(("aws:epochtime", seconds));
        match self.who()? {
            Who::User(user) => {
                known.push(("aws:username", user.name.clone()));
                known.push(("aws:userid", format!("{:016x}", user.id)));
                known.push(("aws:principaltype", "User".to_owned()));
            }
            _ => known.push(("aws:principaltype", "Anonymous".to_owned())),
        }
        if let Some((prefix, delimiter, limit)) = on.listing {
            known.push(("s3:prefix", prefix.to_owned()));
            if !delimiter.is_empty() {
                known.push(("s3:delimiter", delimiter.to_owned()));
            }
            known.push(("s3:max-keys", limit.to_string()));
        }
        if let Some(version) = on.version {
            known.push(("s3:versionid", version.to_string()));
        }
        Ok(known)
    }

    fn user(&self) -> Option<&Known> {
        match &self.who {
            Some(Who::User(user)) => Some(user),
            _ => None,
        }
    }

    fn is_principal(&self, place: Option<&Place>, written: &str) -> bool {
        let Some((user, (_, document))) = self.user().zip(place.and_then(|place| place.policy.as_ref())) else {
            return false;
        };
        document.principals.iter().any(|principal| {
            let is_caller = if principal.group { user.groups.contains(&principal.id) } else { user.id == principal.id };
            is_caller && principal.written == written
        })
    }

    /// What policies say: a denial of any, what a key is narrowed to, then what allows. `open` is whether those count
    /// that allow something to everybody.
    fn by_policies(
        &self,
        action: Action,
        on: &On<'_>,
        (known, open): (&[(&'static str, String)], bool),
        place: Option<&Place>,
    ) -> Option<Decision> {
        let resource = on.resource();
        let is_principal = |written: &str| self.is_principal(place, written);
        let request =
            Request { action, resource: &resource, prefix: on.all_under, known, is_principal: &is_principal, open };
        let of_bucket = place.and_then(|place| place.policy.as_ref()).map(|(policy, _)| ("bucket", policy));
        let (mut said, narrowed) = (Vec::new(), self.user().and_then(|user| user.narrowed.as_ref()));
        let of_user = self.user().into_iter().flat_map(|user| &user.policies);
        let of_user = of_user.map(|(name, policy)| (name.as_str(), policy));
        for (name, policy) in of_user.chain(of_bucket) {
            let (says, statement) = policy.says(&request);
            let rule = Rule::Policy { policy: name.to_owned(), statement: statement.map(str::to_owned) };
            match says {
                Says::Deny => return Some(denied(rule)),
                Says::Allow => said.push(rule),
                Says::Nothing => {}
            }
        }
        if let Some(policy) = narrowed {
            let (says, statement) = policy.says(&request);
            match says {
                Says::Allow => {}
                Says::Nothing => return Some(denied(Rule::Narrowed)),
                Says::Deny => {
                    let statement = statement.map(str::to_owned);
                    return Some(denied(Rule::Policy { policy: "key".to_owned(), statement }));
                }
            }
        }
        said.into_iter().next().map(allowed)
    }

    /// What owners, members, those who began an upload, and access lists are allowed.
    fn by_belonging(&mut self, action: Action, on: &On<'_>, place: Option<&Place>) -> Result<Decision> {
        let class = action.class();
        let Some(user) = self.user() else {
            return self.by_lists(action, on, place);
        };
        if user.administrator {
            return Ok(allowed(Rule::Administrator));
        }
        let Some(place) = place else {
            let own = matches!(action, Action::CreateBucket | Action::ListAllMyBuckets);
            return Ok(if own { allowed(Rule::EveryUser) } else { denied(Rule::Nothing) });
        };
        let id = user.id;
        if place.record.owner == id {
            return Ok(allowed(Rule::Owner));
        }
        let member = user.groups.contains(&place.record.group);
        if member && matches!(class, Class::Read | Class::Write | Class::List) {
            return Ok(allowed(Rule::Member));
        }
        if member && self.administers(place.record.group)? {
            return Ok(allowed(Rule::GroupAdministrator));
        }
        if self.began(action, on, place, id)? {
            return Ok(allowed(Rule::Began));
        }
        self.by_lists(action, on, Some(place))
    }

    /// Whether the user began the upload that it wants to drop or look at.
    fn began(&mut self, action: Action, on: &On<'_>, place: &Place, user: u64) -> Result<bool> {
        let whose = matches!(action, Action::AbortMultipartUpload | Action::ListMultipartUploadParts);
        let (Some(upload), Some(key), true) = (on.upload, on.key, whose) else {
            return Ok(false);
        };
        let found = match &mut self.read {
            Some(read) => {
                let space = find_bucket_to_read(read, on.bucket.unwrap_or_default())?.space;
                find_upload(read, space, key, upload)
            }
            None => find_upload(self.from, place.record.space, key, upload),
        };
        match found {
            Ok(record) => Ok(record.owner == user),
            Err(error) if error.kind() == ErrorKind::NoSuchUpload => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn by_lists(&mut self, action: Action, on: &On<'_>, place: Option<&Place>) -> Result<Decision> {
        let Some(place) = place else {
            return Ok(denied(Rule::Nothing));
        };
        let of_bucket = match action {
            Action::GetBucketAcl => Grant::READ_LIST,
            Action::PutBucketAcl => Grant::WRITE_LIST,
            Action::ListBucket
            | Action::ListBucketVersions
            | Action::ListBucketMultipartUploads
            | Action::BucketUsage => Grant::READ,
            Action::PutObject | Action::DeleteObject => Grant::WRITE,
            // What else belongs to a bucket and its objects stays with their owner, as on AWS.
            _ => 0,
        };
        if of_bucket != 0 && self.grants(&place.record.list, of_bucket)? {
            return Ok(allowed(Rule::BucketList));
        }
        let of_object = match action {
            Action::GetObjectAcl | Action::GetObjectVersionAcl => Grant::READ_LIST,
            Action::PutObjectAcl | Action::PutObjectVersionAcl => Grant::WRITE_LIST,
            Action::PutObject => Grant::WRITE,
            Action::GetObject
            | Action::GetObjectVersion
            | Action::GetObjectAttributes
            | Action::GetObjectVersionAttributes => Grant::READ,
            _ => 0,
        };
        let Some(key) = on.key.filter(|_| of_object != 0 && !on.all_under && on.upload.is_none()) else {
            return Ok(denied(Rule::Nothing));
        };
        let granted = self.object_grants(on, key, of_object)?;
        Ok(if granted { allowed(Rule::ObjectList) } else { denied(Rule::Nothing) })
    }

    /// Whether the access list of the object that is read grants a right. Where the same object stands in the newest
    /// version too, and for a snapshot in the bucket itself, its list there must grant it as well.
    fn object_grants(&mut self, on: &On<'_>, key: &str, right: u32) -> Result<bool> {
        let bucket = on.bucket.unwrap_or_default();
        let name = on.snapshot.map_or_else(|| bucket.to_owned(), |snapshot| format!("{bucket}@{snapshot}"));
        let found = match &mut self.read {
            Some(read) => object_read(read, &name, key, on.version)?,
            None => object_read(self.from, &name, key, on.version)?,
        };
        let Some(found) = found else {
            return Ok(false);
        };
        if !self.grants(&found.access.list, right)? {
            return Ok(false);
        }
        let mut elsewhere = Vec::new();
        if self.read.is_some() {
            elsewhere.push(name.as_str());
        }
        if on.snapshot.is_some() {
            elsewhere.push(bucket);
        }
        for place in elsewhere {
            let version = Some(VersionId::from(found.version_id));
            let same = object_read(self.from, place, key, version)?.filter(|same| same.id == found.id);
            if let Some(same) = same
                && !self.grants(&same.access.list, right)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a list grants the caller a right. What it grants to everybody or to every user counts while public
    /// access is on: that is what switching it off means, and what S3's GetPublicAccessBlock tells of it.
    fn grants(&mut self, list: &AccessList, right: u32) -> Result<bool> {
        let user = self.user();
        let granting = || list.grants().iter().filter(|grant| grant.rights & right != 0);
        let by_name = |grant: &Grant| match (grant.to, user) {
            (Grantee::User(id), Some(user)) => user.id == id,
            (Grantee::Group(id), Some(user)) => user.groups.contains(&id),
            _ => false,
        };
        if granting().any(by_name) {
            return Ok(true);
        }
        let open = |grant: &Grant| match grant.to {
            Grantee::Everyone => true,
            Grantee::EveryUser => user.is_some(),
            _ => false,
        };
        Ok(granting().any(open) && self.is_public()?)
    }

    /// Whether anything may be open to everybody.
    fn is_public(&mut self) -> Result<bool> {
        let head = self.from.record(keys::CATALOGUE, &keys::catalogue_head())?;
        Ok(head.map(|(_, bytes)| HeadRecord::decode(&bytes)).transpose()?.is_some_and(|head| head.public))
    }
}

/// The bucket that is read, with its newest rules; with those it had, and `true`, where it is gone, though another may
/// have its name.
fn same_bucket(read: BucketRecord, newest: Result<BucketRecord>) -> Result<(BucketRecord, bool)> {
    match newest {
        Ok(newest) if newest.id() == read.id() => Ok((newest, false)),
        Err(error) if error.kind() != ErrorKind::NoSuchBucket => Err(error),
        _ => Ok((read, true)),
    }
}

/// What stands under a name of a bucket or a snapshot; nothing where there is no such place.
fn object_read(
    from: &mut dyn Lookup,
    bucket: &str,
    key: &str,
    version: Option<VersionId>,
) -> Result<Option<ObjectRecord>> {
    let space = match find_bucket_to_read(from, bucket) {
        Ok(record) => record.space,
        Err(error) if matches!(error.kind(), ErrorKind::NoSuchBucket | ErrorKind::NoSuchSnapshot) => return Ok(None),
        Err(error) => return Err(error),
    };
    match version {
        Some(version) => object_of_version(from, space, key, version),
        None => Ok(find_object(from, space, key)?.map(|current| current.record)),
    }
}

/// Whom a name of a policy's principal means: whether it is a group, and its id.
pub(crate) fn principal(from: &mut dyn Lookup, written: &str) -> Result<Option<(bool, u64)>> {
    let Some((_, name)) = written.strip_prefix("arn:aws:iam::").and_then(|rest| rest.split_once(':')) else {
        // The plain name of a user.
        return Ok(find_user(from, written)?.map(|(id, _)| (false, id)));
    };
    match name.split_once('/') {
        Some(("user", name)) => Ok(find_user(from, name)?.map(|(id, _)| (false, id))),
        Some(("group", name)) => Ok(find_group(from, name)?.map(|(id, _)| (true, id))),
        _ => Ok(None),
    }
}
