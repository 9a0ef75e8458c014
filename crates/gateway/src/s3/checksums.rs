//! Digests as requests and responses name them: `Content-MD5`, `x-amz-checksum-*`, in headers and trailers.
//!
//! Invariants:
//! - A digest that was announced as a trailer must come as one.

use http::{HeaderMap, HeaderName, HeaderValue};
use koine_object::{Checksum, ChecksumAlgorithm, ChecksumKind, Expected};
use s3s::{S3Error, S3ErrorCode};

use super::errors;
use super::errors::invalid_argument;

/// The header, or trailer, of an algorithm.
pub fn header_name(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc32 => "x-amz-checksum-crc32",
        ChecksumAlgorithm::Crc32c => "x-amz-checksum-crc32c",
        ChecksumAlgorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
        ChecksumAlgorithm::Sha1 => "x-amz-checksum-sha1",
        ChecksumAlgorithm::Sha256 => "x-amz-checksum-sha256",
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

/// What headers say of a body.
pub fn expected(headers: &HeaderMap) -> Result<Expected, S3Error> {
    let mut expected = Expected::none();
    if let Some(value) = text(headers, "content-md5") {
        expected.md5 = Some(Expected::parse_md5(value).map_err(errors::s3)?);
    }
    expected.checksums = in_headers(headers)?;
    if expected.checksums.len() > 1 {
        let message = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";
        return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    }
    Ok(expected)
}

/// The checksums that headers give.
pub fn in_headers(headers: &HeaderMap) -> Result<Vec<Checksum>, S3Error> {
    let mut checksums = Vec::new();
    for algorithm in ChecksumAlgorithm::ALL {
        let name = header_name(algorithm);
        if let Some(value) = text(headers, name) {
            checksums.push(parse(algorithm, name, value)?);
        }
    }
    Ok(checksums)
}

fn parse(algorithm: ChecksumAlgorithm, name: &str, value: &str) -> Result<Checksum, S3Error> {
    Checksum::parse(algorithm, value)
        .map_err(|_| S3Error::with_message(S3ErrorCode::InvalidRequest, format!("Value for {name} header is invalid.")))
}

/// The algorithm that is to be computed although its value comes later or not at all.
pub fn announced(headers: &HeaderMap) -> Result<Option<ChecksumAlgorithm>, S3Error> {
    if let Some(names) = text(headers, "x-amz-trailer") {
        for name in names.split(',').map(str::trim) {
            if let Some(algorithm) = algorithm_of(name) {
                return Ok(Some(algorithm));
            }
            if name.to_ascii_lowercase().starts_with("x-amz-checksum-") {
                return Err(invalid_argument(format!("The checksum of the trailer {name} is not one that S3 knows.")));
            }
        }
    }
    for name in ["x-amz-checksum-algorithm", "x-amz-sdk-checksum-algorithm"] {
        if let Some(value) = text(headers, name) {
            return named(value).map(Some);
        }
    }
    Ok(None)
}

/// The algorithm of a name such as `CRC32C`.
pub fn named(name: &str) -> Result<ChecksumAlgorithm, S3Error> {
    ChecksumAlgorithm::from_name(name).ok_or_else(|| {
        let message = "Checksum algorithm provided is unsupported. Please try again with any of the valid types: \
                       [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]";
        S3Error::with_message(S3ErrorCode::InvalidRequest, message)
    })
}

/// What trailers say of the body that was before them; those that were announced must be there.
pub fn in_trailers(headers: &HeaderMap, trailers: &[(String, String)]) -> Result<Expected, S3Error> {
    let mut expected = Expected::none();
    for (name, value) in trailers {
        if let Some(algorithm) = algorithm_of(name) {
            expected.checksums.push(parse(algorithm, name, value)?);
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
        assert!(announced(&headers(&[("x-amz-sdk-checksum-algorithm", "MD4")])).is_err());
    }
}
