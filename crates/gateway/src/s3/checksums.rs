//! Digests as requests and responses name them: `Content-MD5`, `x-amz-checksum-*`, in headers and trailers.
//!
//! Invariants:
//! - A digest that was announced as a trailer must come as one.

use http::{HeaderMap, HeaderName, HeaderValue};
use koine_object::{Checksum, ChecksumAlgorithm, ChecksumKind, Expected};
use s3s::{S3Error, S3ErrorCode};

use crate::errors;

/// The header, or trailer, of an algorithm.
pub fn header_name(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc32 => "x-amz-checksum-crc32",
        ChecksumAlgorithm::Crc32c => "x-amz-checksum-crc32c",
        ChecksumAlgorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
        ChecksumAlgorithm::Sha1 => "x-amz-checksum-sha1",
        ChecksumAlgorithm::Sha256 => "x-amz-checksum-sha256",
        ChecksumAlgorithm::Sha512 => "x-amz-checksum-sha512",
        ChecksumAlgorithm::Md5 => "x-amz-checksum-md5",
        ChecksumAlgorithm::Xxhash64 => "x-amz-checksum-xxhash64",
        ChecksumAlgorithm::Xxhash3 => "x-amz-checksum-xxhash3",
        ChecksumAlgorithm::Xxhash128 => "x-amz-checksum-xxhash128",
    }
}

/// The algorithm that a header or trailer is of.
pub fn algorithm_of(header: &str) -> Option<ChecksumAlgorithm> {
    ChecksumAlgorithm::ALL.into_iter().find(|algorithm| header_name(*algorithm).eq_ignore_ascii_case(header))
}

/// How S3 calls a kind.
pub fn kind_name(kind: ChecksumKind) -> &'static str {
    match kind {
        ChecksumKind::FullObject => "FULL_OBJECT",
        ChecksumKind::Composite => "COMPOSITE",
    }
}

/// A header as text.
pub fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok()).filter(|text| !text.is_empty())
}

/// What `Content-MD5` says of a body.
pub fn md5_expected(headers: &HeaderMap) -> Result<Expected, S3Error> {
    let parse = |value: &HeaderValue| Expected::parse_md5(value.to_str().unwrap_or_default()).map_err(errors::s3);
    Ok(Expected { md5: headers.get("content-md5").map(parse).transpose()?, checksums: Vec::new() })
}

/// What headers say of a body.
pub fn expected(headers: &HeaderMap) -> Result<Expected, S3Error> {
    let mut expected = md5_expected(headers)?;
    expected.checksums = in_headers(headers)?;
    if let Some(composite) = expected.checksums.iter().find(|checksum| checksum.composite_parts.is_some()) {
        return Err(invalid_value(header_name(composite.algorithm), "header"));
    }
    Ok(expected)
}

fn invalid_request(message: impl Into<String>) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidRequest, message.into())
}

fn invalid_value(name: &str, place: &str) -> S3Error {
    invalid_request(format!("Value for {name} {place} is invalid."))
}

/// Whether a header tells how a checksum is made, not what it is.
fn tells_how(name: &str) -> bool {
    ["x-amz-checksum-algorithm", "x-amz-checksum-type", "x-amz-checksum-mode"].contains(&name)
}

/// The checksums that headers give: of one algorithm at most.
pub fn in_headers(headers: &HeaderMap) -> Result<Vec<Checksum>, S3Error> {
    let mut names = headers.keys().map(http::HeaderName::as_str);
    let unknown = |name: &str| name.starts_with("x-amz-checksum-") && !tells_how(name) && algorithm_of(name).is_none();
    if names.any(unknown) {
        return Err(invalid_request("The algorithm type you specified in x-amz-checksum- header is invalid."));
    }
    let given = ChecksumAlgorithm::ALL.into_iter().filter(|algorithm| headers.contains_key(header_name(*algorithm)));
    if given.count() > 1 {
        let message = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";
        return Err(invalid_request(message));
    }
    let mut checksums = Vec::new();
    for algorithm in ChecksumAlgorithm::ALL {
        let name = header_name(algorithm);
        if let Some(value) = headers.get(name) {
            checksums.push(parse(algorithm, name, value.to_str().unwrap_or_default(), "header")?);
        }
    }
    Ok(checksums)
}

fn parse(algorithm: ChecksumAlgorithm, name: &str, value: &str, place: &str) -> Result<Checksum, S3Error> {
    Checksum::parse(algorithm, value).map_err(|_| invalid_value(name, place))
}

/// The algorithm that is to be computed although its value comes later or not at all.
pub fn announced(headers: &HeaderMap) -> Result<Option<ChecksumAlgorithm>, S3Error> {
    if let Some(names) = text(headers, "x-amz-trailer") {
        for name in names.split(',').map(str::trim) {
            if let Some(algorithm) = algorithm_of(name) {
                return fits_sdk(headers, algorithm).map(Some);
            }
            if name.to_ascii_lowercase().starts_with("x-amz-checksum-") {
                return Err(invalid_request("The value specified in the x-amz-trailer header is not supported"));
            }
        }
    }
    if let Some(given) = ChecksumAlgorithm::ALL.into_iter().find(|given| headers.contains_key(header_name(*given))) {
        return fits_sdk(headers, given).map(Some);
    }
    if let Some(value) = text(headers, SDK_ALGORITHM) {
        named(value)?;
        let message = "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer \
                       headers were found.";
        return Err(invalid_request(message));
    }
    text(headers, "x-amz-checksum-algorithm").map(named).transpose()
}

const SDK_ALGORITHM: &str = "x-amz-sdk-checksum-algorithm";

/// The algorithm of a checksum that comes, which must be the one that the client says it computes.
fn fits_sdk(headers: &HeaderMap, algorithm: ChecksumAlgorithm) -> Result<ChecksumAlgorithm, S3Error> {
    match text(headers, SDK_ALGORITHM).map(named).transpose()? {
        Some(said) if said != algorithm => Err(invalid_value(SDK_ALGORITHM, "header")),
        _ => Ok(algorithm),
    }
}

/// The algorithm of a name such as `CRC32C`.
pub fn named(name: &str) -> Result<ChecksumAlgorithm, S3Error> {
    ChecksumAlgorithm::from_name(name).ok_or_else(|| {
        let message = "Checksum algorithm provided is unsupported. Please try again with any of the valid types: \
                       [CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXHASH128, XXHASH3, XXHASH64]";
        S3Error::with_message(S3ErrorCode::InvalidRequest, message)
    })
}

/// What trailers say of the body that was before them; those that were announced must be there.
pub fn in_trailers(headers: &HeaderMap, trailers: &[(String, String)]) -> Result<Expected, S3Error> {
    let mut expected = Expected::none();
    for (name, value) in trailers {
        if let Some(algorithm) = algorithm_of(name) {
            expected.checksums.push(parse(algorithm, name, value, "trailing header")?);
        }
    }
    for name in text(headers, "x-amz-trailer").unwrap_or_default().split(',').map(str::trim) {
        if !name.is_empty() && !trailers.iter().any(|trailer| trailer.0.eq_ignore_ascii_case(name)) {
            let message = format!("The trailer {name} was announced and did not come.");
            return Err(errors::coded("MalformedTrailerError", http::StatusCode::BAD_REQUEST, message));
        }
    }
    Ok(expected)
}

/// Puts checksums into a response's headers.
pub fn add_headers(headers: &mut HeaderMap, checksums: &[Checksum]) {
    for checksum in checksums {
        if let Ok(value) = HeaderValue::try_from(checksum.to_text()) {
            headers.insert(HeaderName::from_static(header_name(checksum.algorithm)), value);
        }
    }
    if let Some(first) = checksums.first() {
        let kind = HeaderValue::from_static(kind_name(first.kind()));
        headers.insert(HeaderName::from_static("x-amz-checksum-type"), kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_is_announced_must_come() {
        let announcing = headers(&[("x-amz-trailer", "x-amz-checksum-crc32")]);
        assert_eq!(announced(&announcing).unwrap(), Some(ChecksumAlgorithm::Crc32));
        assert_eq!(in_trailers(&announcing, &[]).unwrap_err().code().as_str(), "MalformedTrailerError");
        let came = [("x-amz-checksum-crc32".to_owned(), "NSRBwg==".to_owned())];
        assert_eq!(in_trailers(&announcing, &came).unwrap().checksums.len(), 1);
    }

    #[test]
    fn malformed_digests_are_refused() {
        assert_eq!(expected(&headers(&[("content-md5", "abc")])).unwrap_err().code().as_str(), "InvalidDigest");
        let wrong = headers(&[("x-amz-checksum-sha256", "AAAA")]);
        assert_eq!(expected(&wrong).unwrap_err().code().as_str(), "InvalidRequest");
        let two = headers(&[("x-amz-checksum-crc32", "NSRBwg=="), ("x-amz-checksum-crc32c", "NSRBwg==")]);
        assert_eq!(expected(&two).unwrap_err().code().as_str(), "InvalidRequest");
        for (pairs, code) in [
            (&[("x-amz-checksum-foo", "NSRBwg==")][..], "InvalidRequest"),
            (&[("x-amz-checksum-crc32", "")], "InvalidRequest"),
            (&[("x-amz-checksum-crc32", "NSRBwg==-2")], "InvalidRequest"),
            (&[("content-md5", "")], "InvalidDigest"),
        ] {
            assert_eq!(expected(&headers(pairs)).unwrap_err().code().as_str(), code, "{pairs:?}");
        }
        assert!(
            expected(&headers(&[("x-amz-checksum-type", "FULL_OBJECT"), ("x-amz-checksum-mode", "ENABLED")])).is_ok()
        );
    }

    #[test]
    fn what_the_client_says_it_computes_must_come() {
        let sdk = |more: &[(&'static str, &'static str)]| {
            let said = ("x-amz-sdk-checksum-algorithm", "XXHASH3");
            announced(&headers(&[&[said][..], more].concat())).map_err(|error| error.message().unwrap().to_owned())
        };
        assert!(announced(&headers(&[("x-amz-sdk-checksum-algorithm", "MD4")])).is_err());
        assert!(sdk(&[]).unwrap_err().contains("no corresponding"));
        assert_eq!(sdk(&[("x-amz-trailer", "x-amz-checksum-xxhash3")]), Ok(Some(ChecksumAlgorithm::Xxhash3)));
        assert_eq!(sdk(&[("x-amz-checksum-xxhash3", "x")]), Ok(Some(ChecksumAlgorithm::Xxhash3)));
        assert!(sdk(&[("x-amz-checksum-md5", "x")]).unwrap_err().contains("x-amz-sdk-checksum-algorithm"));
        assert!(sdk(&[("x-amz-trailer", "x-amz-checksum-md4")]).unwrap_err().contains("not supported"));
    }
}
