//! Headers that ask for something this store does not do.
//!
//! Invariants:
//! - A header that would change what is stored, or who may read it, and is not honoured, is refused, never passed over.

use http::HeaderMap;
use s3s::{S3Error, S3ErrorCode};

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
    &["x-amz-server-side-encryption", "x-amz-copy-source-server-side-encryption", "x-amz-object-lock-", "x-amz-grant-"];
/// Refused unless the value is one of these.
const REFUSED_UNLESS: &[(&str, &[&str])] = &[
    ("x-amz-acl", &["private", "bucket-owner-full-control"]),
    ("x-amz-storage-class", &["STANDARD"]),
    ("x-amz-object-ownership", &["BucketOwnerEnforced"]),
    ("x-amz-bucket-object-lock-enabled", &["false", "False"]),
    ("x-amz-tagging", &[""]),
];

/// Refuses a request that asks for what is not done. `owner` is the only account there is.
pub fn check(headers: &HeaderMap, owner: &str) -> Result<(), S3Error> {
    for (name, value) in headers {
        let name = name.as_str();
        if !name.starts_with("x-amz-") {
            continue;
        }
        let family = REFUSED_FAMILIES.iter().any(|family| name.starts_with(family));
        let unless = REFUSED_UNLESS.iter().find(|(refused, _)| *refused == name);
        let value_refused =
            unless.is_some_and(|(_, values)| !values.iter().any(|taken| value.as_bytes() == taken.as_bytes()));
        if family || REFUSED.contains(&name) || value_refused {
            let message = format!("The header '{name}' you provided implies functionality that is not implemented.");
            return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
        }
        if matches!(name, "x-amz-expected-bucket-owner" | "x-amz-source-expected-bucket-owner")
            && value.as_bytes() != owner.as_bytes()
        {
            return Err(S3Error::with_message(
                S3ErrorCode::AccessDenied,
                "Access Denied: the bucket has another owner.",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn code(name: &'static str, value: &'static str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        check(&headers, "owner").err().map(|error| error.code().as_str().to_owned())
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
    fn what_is_the_case_anyway_is_taken() {
        for (name, value) in [
            ("x-amz-acl", "private"),
            ("x-amz-storage-class", "STANDARD"),
            ("x-amz-meta-grant", "x"),
            ("x-amz-expected-bucket-owner", "owner"),
            ("content-type", "text/plain"),
        ] {
            assert_eq!(code(name, value), None, "{name}");
        }
        assert_eq!(code("x-amz-expected-bucket-owner", "other").as_deref(), Some("AccessDenied"));
    }
}
