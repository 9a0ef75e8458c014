//! Rights that are asked before a document is read: whoever may not make a call does not make the server wait for its
//! body either.
//!
//! Invariants:
//! - What is refused here the call would refuse for the same reason. The call asks again, with all that it knows.
//! - Bodies of objects are not asked about: their calls ask before they take a byte.

use http::Method;
use koine_object::{Action, Objects};
use percent_encoding::percent_decode_str;
use s3s::S3Error;

use crate::errors;
use crate::query::Query;

/// The action of a call that has a document; `None` where it hangs on the document, or on more than the target.
fn action(method: &Method, query: &Query<'_>, of_object: bool) -> Option<Action> {
    let has = |name| query.has(name);
    if has("versionId") {
        return None;
    }
    match (method, of_object) {
        (&Method::PUT, false) if has("acl") => Some(Action::PutBucketAcl),
        (&Method::PUT, false) if has("policy") => Some(Action::PutBucketPolicy),
        (&Method::PUT, false) if has("tagging") => Some(Action::PutBucketTagging),
        (&Method::PUT, false) if has("publicAccessBlock") => Some(Action::PutBucketPublicAccessBlock),
        (&Method::PUT, false) if has("ownershipControls") => Some(Action::PutBucketOwnershipControls),
        (&Method::PUT, false) if has("versioning") => Some(Action::PutBucketVersioning),
        (&Method::PUT, false) if query.pairs().all(|(name, _)| name == "x-id") => Some(Action::CreateBucket),
        (&Method::PUT, true) if has("acl") => Some(Action::PutObjectAcl),
        (&Method::PUT, true) if has("tagging") => Some(Action::PutObjectTagging),
        (&Method::POST, true) if has("uploadId") => Some(Action::PutObject),
        _ => None,
    }
}

/// Asks whether a caller may make a call, as far as its head tells.
pub fn check(objects: &Objects, method: &Method, path: &str, query: &Query<'_>) -> Result<(), S3Error> {
    let path = percent_decode_str(path.strip_prefix('/').unwrap_or(path)).decode_utf8_lossy();
    let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
    let key = Some(key).filter(|key| !key.is_empty());
    match action(method, query, key.is_some()) {
        Some(action) => objects.may(action, bucket, key).map_err(errors::s3),
        None => Ok(()),
    }
}
