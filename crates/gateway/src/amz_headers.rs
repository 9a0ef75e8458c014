//! The `x-amz-*` headers that are checked before a call is made.
//!
//! Invariants:
//! - A header that would change what is stored, or who may read it, and is not honoured, is refused, never passed over.

use http::HeaderMap;
use koine_object::ExpectedOwner;
use percent_encoding::percent_decode_str;
use s3s::dto::CopySource;
use s3s::{S3Error, S3ErrorCode};

use crate::canonical_id::user_of;

/// Refused whatever their value is.
const REFUSED: &[&str] = &[
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
    "x-amz-rename-source",
    "x-amz-if-match-last-modified-time",
    "x-amz-if-match-size",
];
/// Refused with every name that begins so.
const REFUSED_FAMILIES: &[&str] =
    &["x-amz-server-side-encryption", "x-amz-copy-source-server-side-encryption", "x-amz-object-lock-"];
/// Refused where the call gives or changes no access list, or the list would be the one that there is anyway.
const LIST: &str = "x-amz-acl";
const LIST_FAMILY: &str = "x-amz-grant-";
const LIST_OF_NOTHING: &[&str] = &["private", "bucket-owner-read", "bucket-owner-full-control"];
/// Refused where the call gives no tags.
const TAGS: &str = "x-amz-tagging";
/// Refused unless the value is one of these.
const REFUSED_UNLESS: &[(&str, &[&str])] = &[
    ("x-amz-storage-class", &["STANDARD"]),
    ("x-amz-object-ownership", &["BucketOwnerPreferred"]),
    ("x-amz-bucket-object-lock-enabled", &["false", "False"]),
];

/// The optional headers that a call honours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SupportedHeaders {
    /// Those of an access control list.
    pub acl: bool,
    /// `x-amz-tagging`.
    pub tagging: bool,
}

/// Refuses a request with a header that its call does not honour.
pub fn check(headers: &HeaderMap, supported: SupportedHeaders) -> Result<(), S3Error> {
    for (name, value) in headers {
        let name = name.as_str();
        if !name.starts_with("x-amz-") {
            continue;
        }
        let family = REFUSED_FAMILIES.iter().any(|family| name.starts_with(family));
        let unless = REFUSED_UNLESS.iter().find(|(refused, _)| *refused == name);
        let value_refused =
            unless.is_some_and(|(_, values)| !values.iter().any(|taken| value.as_bytes() == taken.as_bytes()));
        let listed = name == LIST && !LIST_OF_NOTHING.iter().any(|taken| value.as_bytes() == taken.as_bytes());
        let list_refused = !supported.acl && (listed || name.starts_with(LIST_FAMILY));
        let tags_refused = !supported.tagging && name == TAGS && !value.is_empty();
        if family || REFUSED.contains(&name) || value_refused || list_refused || tags_refused {
            let message = format!("The header '{name}' you provided implies functionality that is not implemented.");
            return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
        }
    }
    Ok(())
}

/// The owners that a request expects of its buckets: of the one that its path names, and of the source of a copy.
pub fn expected_owners(headers: &HeaderMap, path: &str) -> Vec<ExpectedOwner> {
    let of_path = percent_decode_str(path.trim_start_matches('/')).decode_utf8().ok();
    let of_path = of_path.and_then(|path| path.split('/').next().map(str::to_owned));
    let source = headers.get("x-amz-copy-source").and_then(|source| source.to_str().ok());
    let of_source = match source.map(CopySource::parse) {
        Some(Ok(CopySource::Bucket { bucket, .. })) => Some(bucket.into()),
        _ => None,
    };
    let mut expected = Vec::new();
    for (name, bucket) in [("x-amz-expected-bucket-owner", of_path), ("x-amz-source-expected-bucket-owner", of_source)]
    {
        let Some(bucket) = bucket.filter(|bucket: &String| !bucket.is_empty()) else { continue };
        // A value that is no id of this store is nobody's: an account of AWS, for one.
        let owners = headers.get_all(name).iter().map(|value| value.to_str().ok().and_then(|id| user_of(id).ok()));
        expected.extend(owners.map(|owner| ExpectedOwner { bucket: bucket.clone(), owner }));
    }
    expected
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::canonical_id::ROOT_ID;

    fn code(name: &'static str, value: &'static str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        check(&headers, SupportedHeaders::default()).err().map(|error| error.code().as_str().to_owned())
    }

    #[test]
    fn what_is_not_done_is_refused() {
        for (name, value) in [
            ("x-amz-server-side-encryption", "AES256"),
            ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-acl", "public-read"),
            ("x-amz-grant-read", "id=1"),
            ("x-amz-tagging", "a=b"),
            ("x-amz-storage-class", "GLACIER"),
            ("x-amz-website-redirect-location", "/a"),
            ("x-amz-bucket-object-lock-enabled", "true"),
        ] {
            assert_eq!(code(name, value).as_deref(), Some("NotImplemented"), "{name}");
        }
    }

    #[test]
    fn what_a_call_gives_is_taken() {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-acl", HeaderValue::from_static("public-read"));
        headers.insert("x-amz-grant-read", HeaderValue::from_static("id=1"));
        assert!(check(&headers, SupportedHeaders { acl: true, tagging: false }).is_ok());
        headers.insert("x-amz-tagging", HeaderValue::from_static("a=b"));
        assert!(check(&headers, SupportedHeaders { acl: true, tagging: false }).is_err());
        assert!(check(&headers, SupportedHeaders { acl: true, tagging: true }).is_ok());
    }

    #[test]
    fn what_is_the_case_anyway_is_taken() {
        for (name, value) in [
            ("x-amz-acl", "private"),
            ("x-amz-storage-class", "STANDARD"),
            ("x-amz-meta-grant", "x"),
            ("content-type", "text/plain"),
        ] {
            assert_eq!(code(name, value), None, "{name}");
        }
    }

    #[test]
    fn owners_are_expected_of_the_bucket_and_of_what_is_copied_from() {
        let ours = "00000000000000ab";
        let expected = |headers: &[(&'static str, &str)], path: &str| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
            }
            let owners = expected_owners(&map, path).into_iter();
            owners.map(|expected| (expected.bucket, expected.owner)).collect::<Vec<_>>()
        };
        let (of_bucket, of_source) = ("x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner");
        let copied = ("x-amz-copy-source", "/from/k%20ey?versionId=null");
        assert_eq!(expected(&[(of_bucket, ours)], "/bucket/key"), [("bucket".to_owned(), Some(0xab))]);
        assert_eq!(expected(&[(of_bucket, "123456789012")], "/b%75cket"), [("bucket".to_owned(), None)]);
        let both = [("bucket".to_owned(), Some(0)), ("from".to_owned(), Some(0xab))];
        assert_eq!(expected(&[(of_bucket, ROOT_ID), (of_source, ours), copied], "/bucket/key"), both);
        assert_eq!(expected(&[(of_bucket, ours)], "/"), []);
        assert_eq!(expected(&[(of_source, ours)], "/bucket/key"), []);
        assert_eq!(expected(&[copied], "/bucket/key"), []);
    }
}
