//! Which call a request is, and whether everything it says belongs to that call.
//!
//! The library below picks a call by the sub-resources it knows and passes over the rest, so that `PUT /b/k?foo`
//! would put an object. Here every parameter of the query must belong to the call, or the request is refused.
//!
//! Invariants:
//! - A request with a parameter that its call does not know is `NotImplemented`, whatever the method.
//! - What is resolved here is what the library resolves: the same parameters pick the same call.
//! - Keys are bytes after percent-decoding: nothing is joined, split or normalised.

use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use s3s::{S3Error, S3ErrorCode};

use crate::amz_headers::SupportedHeaders;
use crate::limits::OBJECT_KEY_LEN_MAX;
use crate::query::Query;

/// What a request's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// The bytes of an object or of a part: streamed.
    Data,
    /// XML or nothing: gathered, within a limit.
    Document,
}

/// What the HTTP service must know of a request before its call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// What its body is.
    pub body: BodyKind,
    /// Whether it is about an object.
    pub names_object: bool,
    /// The optional headers that its call honours.
    pub supported: SupportedHeaders,
}

/// Parameters that any request may carry. What belongs to a signature in the query is taken away before.
const EVERYWHERE: &[&str] = &["x-id"];

/// One call: what picks it, and what else it may carry.
struct CallRule {
    /// Parameters that must all be there.
    picked_by: &'static [&'static str],
    /// Parameters that may be there.
    takes: &'static [&'static str],
}

const fn call(picked_by: &'static [&'static str], takes: &'static [&'static str]) -> CallRule {
    CallRule { picked_by, takes }
}

const LIST: &[&str] = &["prefix", "delimiter", "max-keys", "encoding-type", "marker"];
const LIST_V2: &[&str] =
    &["prefix", "delimiter", "max-keys", "encoding-type", "continuation-token", "start-after", "fetch-owner"];
const LIST_VERSIONS: &[&str] = &["prefix", "delimiter", "max-keys", "encoding-type", "key-marker", "version-id-marker"];
const LIST_UPLOADS: &[&str] =
    &["prefix", "delimiter", "max-uploads", "encoding-type", "key-marker", "upload-id-marker"];
const GET_OBJECT: &[&str] = &[
    "versionId",
    "partNumber",
    "response-content-type",
    "response-content-language",
    "response-expires",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
];

const GET_ROOT: &[CallRule] = &[call(&[], &["prefix", "continuation-token", "max-buckets", "bucket-region"])];
const GET_BUCKET: &[CallRule] = &[
    call(&["list-type"], LIST_V2),
    call(&["location"], &[]),
    call(&["uploads"], LIST_UPLOADS),
    call(&["versions"], LIST_VERSIONS),
    call(&["accelerate"], &[]),
    call(&["acl"], &[]),
    call(&["cors"], &[]),
    call(&["encryption"], &[]),
    call(&["lifecycle"], &[]),
    call(&["logging"], &[]),
    call(&["notification"], &[]),
    call(&["object-lock"], &[]),
    call(&["ownershipControls"], &[]),
    call(&["policy"], &[]),
    call(&["policyStatus"], &[]),
    call(&["publicAccessBlock"], &[]),
    call(&["replication"], &[]),
    call(&["requestPayment"], &[]),
    call(&["tagging"], &[]),
    call(&["versioning"], &[]),
    call(&["website"], &[]),
    call(&[], LIST),
];
const GET_KEY: &[CallRule] = &[
    call(&["acl"], &["versionId"]),
    call(&["attributes"], &["versionId"]),
    call(&["legal-hold"], &["versionId"]),
    call(&["retention"], &["versionId"]),
    call(&["tagging"], &["versionId"]),
    call(&["uploadId"], &["max-parts", "part-number-marker"]),
    call(&[], GET_OBJECT),
];
const NOTHING: &[CallRule] = &[call(&[], &[])];
const PUT_BUCKET: &[CallRule] = &[
    call(&["acl"], &[]),
    call(&["ownershipControls"], &[]),
    call(&["policy"], &[]),
    call(&["publicAccessBlock"], &[]),
    call(&["tagging"], &[]),
    call(&["versioning"], &[]),
    call(&[], &[]),
];
const DELETE_BUCKET: &[CallRule] =
    &[call(&["policy"], &[]), call(&["publicAccessBlock"], &[]), call(&["tagging"], &[]), call(&[], &[])];
const POST_BUCKET: &[CallRule] = &[call(&["delete"], &[])];
const POST_KEY: &[CallRule] = &[call(&["uploads"], &[]), call(&["uploadId"], &[])];
const PUT_KEY: &[CallRule] = &[
    call(&["acl"], &["versionId"]),
    call(&["tagging"], &["versionId"]),
    call(&["partNumber", "uploadId"], &[]),
    call(&[], &[]),
];
const DELETE_KEY: &[CallRule] =
    &[call(&["tagging"], &["versionId"]), call(&["uploadId"], &[]), call(&[], &["versionId"])];
const NONE: &[CallRule] = &[];

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Root,
    Bucket,
    Key,
}

fn not_implemented(message: impl Into<String>) -> S3Error {
    S3Error::with_message(S3ErrorCode::NotImplemented, message.into())
}

/// Checks a request's target and says what its body is.
pub fn resolve(method: &Method, path: &str, query: &Query<'_>, headers: &HeaderMap) -> Result<Route, S3Error> {
    let target = check_path(path)?;
    let calls = match (method, target) {
        (&Method::GET, Target::Root) => GET_ROOT,
        (&Method::GET, Target::Bucket) => GET_BUCKET,
        (&Method::GET, Target::Key) => GET_KEY,
        (&Method::PUT, Target::Bucket) => PUT_BUCKET,
        (&Method::DELETE, Target::Bucket) => DELETE_BUCKET,
        (&Method::HEAD, Target::Bucket) => NOTHING,
        (&Method::HEAD, Target::Key) => &GET_KEY[GET_KEY.len() - 1..],
        (&Method::POST, Target::Bucket) => POST_BUCKET,
        (&Method::POST, Target::Key) => POST_KEY,
        (&Method::PUT, Target::Key) => PUT_KEY,
        (&Method::DELETE, Target::Key) => DELETE_KEY,
        _ => NONE,
    };
    if calls.is_empty() {
        let message = "The specified method is not allowed against this resource.";
        return Err(S3Error::with_message(S3ErrorCode::MethodNotAllowed, message));
    }
    let fitting = calls.iter().find(|call| call.picked_by.iter().all(|name| query.has(name)));
    let Some(call) = fitting else {
        return Err(not_implemented("A parameter you provided implies functionality that is not implemented."));
    };
    let known = |name: &str| call.picked_by.contains(&name) || call.takes.contains(&name) || EVERYWHERE.contains(&name);
    let mut names: Vec<&str> = query.pairs().map(|pair| pair.0).collect();
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let message = format!("The query parameter '{name}' implies functionality that is not implemented.");
        return Err(not_implemented(message));
    }
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let message = format!("The query parameter '{}' is given more than once.", twice[0]);
        return Err(S3Error::with_message(S3ErrorCode::InvalidArgument, message));
    }
    if query.get("list-type").is_some_and(|kind| kind != "2") {
        return Err(S3Error::with_message(S3ErrorCode::InvalidArgument, "list-type must be 2."));
    }
    let of_list = call.picked_by == ["acl"];
    let (whole, copies) = (call.picked_by.is_empty(), headers.contains_key("x-amz-copy-source"));
    let put = method == Method::PUT;
    let part = call.picked_by.contains(&"partNumber");
    let data = put && target == Target::Key && (whole || part) && !copies;
    let body = if data { BodyKind::Data } else { BodyKind::Document };
    let supported =
        SupportedHeaders { acl: put && (of_list || whole && !copies), tagging: put && whole && target == Target::Key };
    Ok(Route { body, names_object: target == Target::Key, supported })
}

fn check_path(path: &str) -> Result<Target, S3Error> {
    let invalid = || S3Error::with_message(S3ErrorCode::InvalidURI, "The specified URI couldn't be parsed.");
    let path = path.strip_prefix('/').ok_or_else(invalid)?;
    let decoded = percent_decode_str(path).decode_utf8().map_err(|_| invalid())?;
    let Some((bucket, key)) = decoded.split_once('/') else {
        return Ok(if decoded.is_empty() { Target::Root } else { Target::Bucket });
    };
    if key.is_empty() {
        return Ok(if bucket.is_empty() { Target::Root } else { Target::Bucket });
    }
    if key.len() > OBJECT_KEY_LEN_MAX {
        return Err(S3Error::with_message(S3ErrorCode::KeyTooLongError, "Your key is too long."));
    }
    if climbs_above_start(key) {
        return Err(invalid());
    }
    Ok(Target::Key)
}

/// Whether the `..` segments of a key would lead out of its bucket, were it a path.
fn climbs_above_start(key: &str) -> bool {
    let mut depth = 0_usize;
    for segment in key.split('/') {
        match segment {
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            "" | "." => {}
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(method: Method, target: &str) -> String {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let query = Query::parse(query).unwrap();
        match resolve(&method, path, &query, &HeaderMap::new()) {
            Ok(resolved) => format!("{:?}", resolved.body),
            Err(error) => error.code().as_str().to_owned(),
        }
    }

    #[test]
    fn unknown_parameters_never_fall_through() {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE] {
            for path in ["/bucket", "/bucket/key"] {
                assert_eq!(code(method.clone(), &format!("{path}?foo")), "NotImplemented", "{method} {path}");
                assert_eq!(code(method.clone(), &format!("{path}?foo=bar&x-id=PutObject")), "NotImplemented");
            }
        }
        for name in ["retention", "legal-hold", "torrent", "renameObject", "encryption"] {
            assert_eq!(code(Method::PUT, &format!("/bucket/key?{name}")), "NotImplemented", "{name}");
        }
        for name in ["object-lock", "cors", "metadataTable", "session", "lifecycle"] {
            assert_eq!(code(Method::PUT, &format!("/bucket?{name}")), "NotImplemented", "{name}");
            assert_eq!(code(Method::DELETE, &format!("/bucket?{name}")), "NotImplemented", "{name}");
        }
        assert_eq!(code(Method::POST, "/bucket/key?restore"), "NotImplemented");
        assert_eq!(code(Method::POST, "/bucket"), "NotImplemented");
        assert_eq!(code(Method::PUT, "/bucket/key?uploadId=x"), "NotImplemented");
        assert_eq!(code(Method::PUT, "/bucket/key?partNumber=1"), "NotImplemented");
        assert_eq!(code(Method::GET, "/bucket?location&prefix=a"), "NotImplemented");
    }

    #[test]
    fn calls_that_are_known() {
        assert_eq!(code(Method::PUT, "/bucket/key"), "Data");
        assert_eq!(code(Method::PUT, "/bucket/key?x-id=PutObject"), "Data");
        assert_eq!(code(Method::PUT, "/bucket/key?partNumber=1&uploadId=x"), "Data");
        for name in ["acl", "tagging"] {
            assert_eq!(code(Method::PUT, &format!("/bucket/key?{name}")), "Document");
            assert_eq!(code(Method::PUT, &format!("/bucket/key?{name}&versionId=null")), "Document");
            assert_eq!(code(Method::PUT, &format!("/bucket/key?{name}&uploadId=x")), "NotImplemented");
        }
        assert_eq!(code(Method::GET, "/bucket?list-type=2&prefix=a&continuation-token="), "Document");
        assert_eq!(code(Method::GET, "/bucket/"), "Document");
        assert_eq!(code(Method::GET, "/"), "Document");
        assert_eq!(code(Method::POST, "/bucket/?delete"), "Document");
        assert_eq!(code(Method::GET, "/bucket?list-type=3"), "InvalidArgument");
        assert_eq!(code(Method::GET, "/bucket?prefix=a&prefix=b"), "InvalidArgument");
        assert_eq!(code(Method::PATCH, "/bucket/key"), "MethodNotAllowed");
        assert_eq!(code(Method::PUT, "/"), "MethodNotAllowed");
    }

    #[test]
    fn only_keys_that_climb_above_their_start_are_refused() {
        for key in ["..", "../a", "a/../../b", "a/../..", "./../a", "%2e%2e/a", "a/%2E%2E%2F..", "/../a"] {
            assert_eq!(code(Method::PUT, &format!("/bucket/{key}")), "InvalidURI", "{key}");
        }
        for key in ["a/../b", "a/..", ".", "a/./b", "/a", "a//b", "..a", "a..", "...", "%2F", "a/b/../../c"] {
            assert_eq!(code(Method::PUT, &format!("/bucket/{key}")), "Data", "{key}");
        }
        assert_eq!(code(Method::GET, "/bucket/%ff"), "InvalidURI");
    }

    #[test]
    fn keys_up_to_1024_bytes() {
        assert_eq!(code(Method::PUT, &format!("/bucket/{}", "%20".repeat(1024))), "Data");
        assert_eq!(code(Method::PUT, &format!("/bucket/{}", "%20".repeat(1025))), "KeyTooLongError");
    }

    proptest! {
        #[test]
        fn any_target_is_resolved_or_refused(path in "/.{0,80}", query in ".{0,80}") {
            if let Ok(query) = Query::parse(Some(&query)) {
                let _ = resolve(&Method::PUT, &path, &query, &HeaderMap::new());
                let _ = resolve(&Method::GET, &path, &query, &HeaderMap::new());
            }
        }
    }
}
