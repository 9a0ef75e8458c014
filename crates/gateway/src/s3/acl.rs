//! Access lists, between the form of S3 and that of the store.
//!
//! Invariants:
//! - What the store cannot keep is refused, never passed over: nobody believes that something is closed or open that is
//!   not.
//! - The owner of a bucket may do everything in it, whatever a list says: its grant is told, and not stored.

use http::HeaderMap;
use koine_object::{AccessList, Caller, Grant as Stored, Grantee as To, ObjectName, Objects};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::checksums::text;
use super::transfer::settle;
use super::{S3Api, raw_request, version};
use crate::{canonical_id, errors};

const EVERYONE: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
const EVERY_USER: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
/// Begins the URI of a group of the store; its id in 16 hexadecimal digits follows.
const GROUP: &str = "urn:koine:group:";
const ALL: u32 = Stored::READ | Stored::WRITE | Stored::READ_LIST | Stored::WRITE_LIST;
/// Rights by the names of S3.
const RIGHTS: [(&str, u32); 4] = [
    (Permission::READ, Stored::READ),
    (Permission::WRITE, Stored::WRITE),
    (Permission::READ_ACP, Stored::READ_LIST),
    (Permission::WRITE_ACP, Stored::WRITE_LIST),
];
/// Headers that grant, and what.
const GRANTING: [(&str, u32); 5] = [
    ("x-amz-grant-read", Stored::READ),
    ("x-amz-grant-write", Stored::WRITE),
    ("x-amz-grant-read-acp", Stored::READ_LIST),
    ("x-amz-grant-write-acp", Stored::WRITE_LIST),
    ("x-amz-grant-full-control", ALL),
];

/// Who is meant by a URI.
fn group_of(uri: &str) -> Result<To, S3Error> {
    let group = uri.strip_prefix(GROUP).filter(|id| id.len() == 16).and_then(|id| u64::from_str_radix(id, 16).ok());
    match (uri, group) {
        (EVERYONE, _) => Ok(To::Everyone),
        (EVERY_USER, _) => Ok(To::EveryUser),
        (_, Some(group)) => Ok(To::Group(group)),
        _ => Err(errors::invalid_argument(format!("Invalid group uri: '{uri}' is no group of this store."))),
    }
}

fn by_email() -> S3Error {
    S3Error::with_message(S3ErrorCode::NotImplemented, "Grants by email address are not implemented: name an id.")
}

/// Gathers grants: one for each grantee, none for the owner.
#[derive(Default)]
struct Grants(Vec<Stored>);

impl Grants {
    fn add(&mut self, to: To, rights: u32) {
        match self.0.iter_mut().find(|grant| grant.to == to) {
            Some(grant) => grant.rights |= rights,
            None => self.0.push(Stored { to, rights }),
        }
    }

    fn list(mut self, owner: u64) -> Result<AccessList, S3Error> {
        self.0.retain(|grant| grant.to != To::User(owner));
        AccessList::new(self.0).map_err(errors::s3)
    }
}

/// The list of a canned name. What gives the bucket's owner rights gives nothing new.
fn canned(name: &str) -> Result<Grants, S3Error> {
    let mut grants = Grants::default();
    match name {
        "private" | "bucket-owner-read" | "bucket-owner-full-control" => {}
        "public-read" => grants.add(To::Everyone, Stored::READ),
        "public-read-write" => grants.add(To::Everyone, Stored::READ | Stored::WRITE),
        "authenticated-read" => grants.add(To::EveryUser, Stored::READ),
        "aws-exec-read" | "log-delivery-write" => {
            let message = format!("The canned access list '{name}' is not implemented: it names services of AWS.");
            return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
        }
        _ => return Err(errors::invalid_argument(format!("'{name}' is no canned access list."))),
    }
    Ok(grants)
}

/// Who a header grants to: `id="…"`, `uri="…"`, with commas between.
pub fn grantees(header: &str) -> Result<Vec<To>, S3Error> {
    let malformed = || errors::invalid_argument("A grant is written id=\"…\" or uri=\"…\", with commas between.");
    let mut found = Vec::new();
    for each in header.split(',') {
        let (kind, name) = each.split_once('=').ok_or_else(malformed)?;
        let name = name.trim();
        let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
        if bare.is_empty() || bare.contains('"') {
            return Err(malformed());
        }
        found.push(match kind.trim().to_ascii_lowercase().as_str() {
            "id" => To::User(canonical_id::user_of(bare)?),
            "uri" => group_of(bare)?,
            "emailaddress" => return Err(by_email()),
            _ => return Err(malformed()),
        });
    }
    Ok(found)
}

/// The list that the headers of a request ask for; `None` where they ask for none.
pub(super) fn in_headers(headers: &HeaderMap, owner: u64) -> Result<Option<AccessList>, S3Error> {
    let name = headers.get("x-amz-acl").map(|_| text(headers, "x-amz-acl").unwrap_or_default());
    let (mut grants, mut given) = (Grants::default(), false);
    for (header, rights) in GRANTING {
        for value in headers.get_all(header) {
            let value = value.to_str().map_err(|_| errors::invalid_argument("A grant is not text."))?;
            given = true;
            grantees(value)?.into_iter().for_each(|to| grants.add(to, rights));
        }
    }
    match name {
        Some(_) if given => {
            let message = "Specifying both Canned ACLs and Header Grants is not allowed.";
            Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message))
        }
        Some(name) => canned(name)?.list(owner).map(Some),
        None if given => grants.list(owner).map(Some),
        None => Ok(None),
    }
}

/// The list that the headers of a put ask for, empty where they ask for none.
pub(super) fn of_new(objects: &Objects, bucket: &str, headers: &HeaderMap) -> Result<AccessList, S3Error> {
    let asks = GRANTING.iter().map(|granting| granting.0).chain(["x-amz-acl"]).any(|name| headers.contains_key(name));
    if !asks {
        return Ok(AccessList::default());
    }
    let owner = objects.identities().owner_id(bucket).map_err(errors::s3)?;
    Ok(in_headers(headers, owner)?.unwrap_or_default())
}

/// The list of a document, of something that `owner` owns.
fn in_document(document: AccessControlPolicy, owner: u64) -> Result<AccessList, S3Error> {
    let malformed = |message: &'static str| S3Error::with_message(S3ErrorCode::MalformedACLError, message);
    let told = document.owner.and_then(|owner| owner.id);
    if told.is_some_and(|told| told != canonical_id::of_user(owner)) {
        let message = "Access Denied: an access list does not change who owns something.";
        return Err(S3Error::with_message(S3ErrorCode::AccessDenied, message));
    }
    let mut grants = Grants::default();
    for grant in document.grants.ok_or_else(|| malformed("The access list has no AccessControlList."))? {
        let permission = grant.permission.ok_or_else(|| malformed("A grant has no Permission."))?;
        let named = RIGHTS.iter().find(|right| right.0 == permission.as_str()).map(|right| right.1);
        let full = (permission.as_str() == Permission::FULL_CONTROL).then_some(ALL);
        let rights = named.or(full).ok_or_else(|| malformed("A grant has a Permission that S3 has not."))?;
        let to = match grant.grantee.ok_or_else(|| malformed("A grant has no Grantee."))? {
            Grantee { id: Some(id), .. } => To::User(canonical_id::user_of(&id)?),
            Grantee { uri: Some(uri), .. } => group_of(&uri)?,
            Grantee { email_address: Some(_), .. } => return Err(by_email()),
            _ => return Err(malformed("A Grantee has neither ID nor URI.")),
        };
        grants.add(to, rights);
    }
    grants.list(owner)
}

fn grantee(to: To) -> Grantee {
    let (kind, id, uri) = match to {
        To::User(user) => (Type::CANONICAL_USER, Some(canonical_id::of_user(user)), None),
        To::Group(group) => (Type::GROUP, None, Some(format!("{GROUP}{group:016x}"))),
        To::EveryUser => (Type::GROUP, None, Some(EVERY_USER.to_owned())),
        _ => (Type::GROUP, None, Some(EVERYONE.to_owned())),
    };
    Grantee { display_name: None, email_address: None, id, type_: Type::from_static(kind), uri }
}

/// A list as S3 tells it: the owner first, then a grant for each right.
fn told(api: &S3Api, owner: u64, list: &AccessList) -> (Owner, Vec<Grant>) {
    let grant =
        |to, permission| Grant { grantee: Some(grantee(to)), permission: Some(Permission::from_static(permission)) };
    let mut grants = vec![grant(To::User(owner), Permission::FULL_CONTROL)];
    for Stored { to, rights } in list.grants() {
        match *rights {
            ALL => grants.push(grant(*to, Permission::FULL_CONTROL)),
            some => grants.extend(RIGHTS.iter().filter(|right| some & right.1 != 0).map(|right| grant(*to, right.0))),
        }
    }
    (api.user(owner), grants)
}

/// What a request sets: by its headers, or by its document.
fn wanted(headers: &HeaderMap, document: Option<AccessControlPolicy>, owner: u64) -> Result<AccessList, S3Error> {
    match (in_headers(headers, owner)?, document) {
        (Some(_), Some(_)) => {
            let message = "This request does not support content.";
            Err(S3Error::with_message(S3ErrorCode::UnexpectedContent, message))
        }
        (Some(list), None) => Ok(list),
        (None, Some(document)) => in_document(document, owner),
        (None, None) => {
            let message = "Your request was missing a required header.";
            Err(S3Error::with_message(S3ErrorCode::MissingSecurityHeader, message))
        }
    }
}

pub(super) async fn get_bucket_acl(
    api: &S3Api,
    request: S3Request<GetBucketAclInput>,
) -> S3Result<S3Response<GetBucketAclOutput>> {
    let (identities, bucket) = (api.objects.identities(), request.input.bucket);
    let list = identities.bucket_access(&bucket).map_err(errors::s3)?;
    let (owner, grants) = told(api, identities.owner_id(&bucket).map_err(errors::s3)?, &list);
    Ok(S3Response::new(GetBucketAclOutput { grants: Some(grants), owner: Some(owner) }))
}

pub(super) async fn put_bucket_acl(
    api: &S3Api,
    request: S3Request<PutBucketAclInput>,
) -> S3Result<S3Response<PutBucketAclOutput>> {
    let (identities, input) = (api.objects.identities(), request.input);
    let owner = identities.owner_id(&input.bucket).map_err(errors::s3)?;
    let list = wanted(&request.headers, input.access_control_policy, owner)?;
    settle(identities.set_bucket_access(&input.bucket, list)).await?;
    Ok(S3Response::new(PutBucketAclOutput::default()))
}

/// The list of a version is told and set where that is the newest, which the calls of the store are about.
fn check_newest(api: &S3Api, name: ObjectName<'_>, asked: Option<&str>) -> Result<(), S3Error> {
    let Some(asked) = version(asked)? else { return Ok(()) };
    let newest = api.objects.head(name.bucket, name.key).map_err(errors::s3)?;
    if newest.version_id == asked {
        return Ok(());
    }
    api.objects.head_version(name, asked).map_err(errors::s3)?;
    let message = "The access list of a version that is not the newest is not implemented.";
    Err(S3Error::with_message(S3ErrorCode::NotImplemented, message))
}

pub(super) async fn get_object_acl(
    api: &S3Api,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let (identities, input) = (api.objects.identities(), request.input);
    let name = ObjectName::new(&input.bucket, &input.key);
    check_newest(api, name, input.version_id.as_deref())?;
    let list = identities.object_access(name).map_err(errors::s3)?;
    let (owner, grants) = told(api, identities.owner_id(&input.bucket).map_err(errors::s3)?, &list);
    let output = GetObjectAclOutput { grants: Some(grants), owner: Some(owner), request_charged: None };
    Ok(S3Response::new(output))
}

pub(super) async fn put_object_acl(
    api: &S3Api,
    mut request: S3Request<PutObjectAclInput>,
) -> S3Result<S3Response<PutObjectAclOutput>> {
    let raw = raw_request(&mut request)?;
    let (identities, input) = (api.objects.identities(), request.input);
    let name = ObjectName::new(&input.bucket, &input.key);
    check_newest(api, name, input.version_id.as_deref())?;
    let owner = identities.owner_id(&input.bucket).map_err(errors::s3)?;
    let list = wanted(raw.headers(), input.access_control_policy, owner)?;
    settle(identities.set_object_access(name, list)).await?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}

impl S3Api {
    /// A user as S3 tells one.
    pub(super) fn user(&self, id: u64) -> Owner {
        Owner { display_name: (id == 0).then(|| self.owner_name.clone()), id: Some(canonical_id::of_user(id)) }
    }

    /// The id of who asks; root's for who has none.
    pub(super) fn asker_id(&self) -> u64 {
        match self.objects.caller() {
            Caller::User(identity) => identity.user(),
            _ => 0,
        }
    }

    /// Who asks, as S3 tells a user.
    pub(super) fn requester(&self) -> Owner {
        self.user(self.asker_id())
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn list(headers: &[(&'static str, &str)], owner: u64) -> Result<Option<AccessList>, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        in_headers(&map, owner).map_err(|error| error.code().as_str().to_owned())
    }

    fn grants(of: &[(To, u32)]) -> Result<Option<AccessList>, String> {
        Ok(Some(AccessList::new(of.iter().map(|(to, rights)| Stored { to: *to, rights: *rights }).collect()).unwrap()))
    }

    #[test]
    fn canned_lists() {
        let canned = |name: &str| list(&[("x-amz-acl", name)], 7);
        for name in ["private", "bucket-owner-read", "bucket-owner-full-control"] {
            assert_eq!(canned(name), grants(&[]));
        }
        assert_eq!(canned("public-read"), grants(&[(To::Everyone, 1)]));
        assert_eq!(canned("public-read-write"), grants(&[(To::Everyone, 3)]));
        assert_eq!(canned("authenticated-read"), grants(&[(To::EveryUser, 1)]));
        assert_eq!(canned("log-delivery-write"), Err("NotImplemented".into()));
        assert_eq!((canned("other"), canned("")), (Err("InvalidArgument".into()), Err("InvalidArgument".into())));
        assert_eq!(list(&[("content-type", "x")], 7), Ok(None));
    }

    #[test]
    fn granting_headers() {
        let (short, long) = ("00000000000000ab", canonical_id::of_user(0xab));
        let read = format!("id={short}, uri=\"{EVERY_USER}\",id=\"{}\"", canonical_id::ROOT_ID);
        let headers = [("x-amz-grant-read", read.as_str()), ("x-amz-grant-write-acp", &format!("id=\"{long}\""))];
        let expected = [(To::User(0xab), 9), (To::EveryUser, 1), (To::User(0), 1)];
        assert_eq!(list(&headers, 7), grants(&expected));
        assert_eq!(list(&headers, 0), grants(&expected[..2]), "the owner needs none");
        let group = format!("uri=\"{GROUP}000000000000000c\"");
        assert_eq!(list(&[("x-amz-grant-full-control", &group)], 7), grants(&[(To::Group(12), 15)]));
        let both = [("x-amz-acl", "private"), headers[0]];
        assert_eq!(list(&both, 7), Err("InvalidRequest".into()));
        assert_eq!(list(&[("x-amz-grant-read", "emailAddress=\"a@b\"")], 7), Err("NotImplemented".into()));
        for wrong in ["", "id", "id=", "id=\"", "id=ada", "uri=\"http://x\"", "name=x", "id=\"0\"\"", "id=ab,"] {
            assert_eq!(list(&[("x-amz-grant-read", wrong)], 7), Err("InvalidArgument".into()), "{wrong}");
        }
    }

    #[test]
    fn ids_of_users_come_back() {
        for user in [0, 1, 0xab, u64::MAX] {
            assert_eq!(canonical_id::user_of(&canonical_id::of_user(user)).ok(), Some(user));
        }
        assert!(
            canonical_id::user_of(&"0".repeat(64)).is_err()
                && canonical_id::user_of(&"0".repeat(16)).is_err()
                && canonical_id::user_of("+00000000000000a").is_err()
        );
    }
}
