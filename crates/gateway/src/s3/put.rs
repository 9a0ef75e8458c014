//! An object is put: its head becomes options, its body goes to the store as it comes.
//!
//! Invariants:
//! - The object appears only after the whole body came and everything that was promised of it held.

use http::HeaderMap;
use koine_object::{ChecksumAlgorithm, ContentHeaders, EtagKind, ObjectInfo, PutOptions, RequestId};
use s3s::dto::{PutObjectInput, PutObjectOutput};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use sha2::{Digest, Sha256};

use super::checksums::{self, text};
use super::transfer::{blocking, receive, settle};
use super::{S3Api, acl, add_version, etag, put_condition, raw_request, tagging};
use crate::errors;
use crate::limits::SMALL_BODY_LEN_MAX;

pub(super) async fn put_object(
    api: &S3Api,
    mut request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let raw = raw_request(&mut request)?;
    let headers = raw.headers();
    let mut body = raw.take_body().ok_or_else(no_body)?;
    let (bucket, key) = (&request.input.bucket, &request.input.key);
    let options = PutOptions {
        headers: content_headers(headers),
        metadata: metadata(headers)?,
        tags: tagging::in_header(headers)?,
        condition: put_condition(headers)?,
        length: body.length(),
        expected: checksums::expected(headers)?,
        checksum: checksums::announced(headers)?,
        etag: EtagKind::Md5,
        request: request_id(api, bucket, key, &raw),
    };
    let list = acl::of_new(&api.objects, bucket, headers)?;
    let mut writer = api.objects.put(bucket, key, options).map_err(errors::s3)?;
    writer.set_access(list).map_err(errors::s3)?;
    let writer = receive(&api.transfers, writer, &mut body).await?;
    let trailers = checksums::in_trailers(headers, body.trailers())?;
    let pending = if body.length().is_some_and(|length| length <= SMALL_BODY_LEN_MAX) {
        writer.finish(&trailers)
    } else {
        // The end of a large body may have to be written first.
        blocking(move || Ok(writer.finish(&trailers))).await?
    };
    Ok(reply(&settle(pending).await?))
}

fn reply(object: &ObjectInfo) -> S3Response<PutObjectOutput> {
    let mut response = S3Response::new(PutObjectOutput { e_tag: Some(etag(&object.etag)), ..Default::default() });
    checksums::add_headers(&mut response.headers, &object.checksums);
    add_version(&mut response.headers, object.version_id);
    response
}

pub(super) fn no_body() -> S3Error {
    S3Error::with_message(S3ErrorCode::InternalError, "The body of a request was taken twice.")
}

/// The headers that are stored with an object.
pub(super) fn content_headers(headers: &HeaderMap) -> ContentHeaders {
    let value = |name: &str| text(headers, name).map(str::to_owned);
    ContentHeaders {
        content_type: value("content-type"),
        cache_control: value("cache-control"),
        content_disposition: value("content-disposition"),
        content_encoding: text(headers, "content-encoding").and_then(stored_encoding),
        content_language: value("content-language"),
        expires: value("expires"),
    }
}

/// `aws-chunked` is how the body travelled, not what it is.
fn stored_encoding(header: &str) -> Option<String> {
    let kept =
        header.split(',').map(str::trim).filter(|part| !part.is_empty() && !part.eq_ignore_ascii_case("aws-chunked"));
    let kept: Vec<&str> = kept.collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

/// The user's metadata. A name that comes twice has both values, as HTTP reads it.
pub(super) fn metadata(headers: &HeaderMap) -> Result<Vec<(String, String)>, S3Error> {
    let mut metadata: Vec<(String, String)> = Vec::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix("x-amz-meta-").filter(|name| !name.is_empty()) else { continue };
        let value = std::str::from_utf8(value.as_bytes())
            .map_err(|_| errors::invalid_argument(format!("The value of x-amz-meta-{name} is not UTF-8.")))?;
        match metadata.iter_mut().find(|pair| pair.0 == name) {
            Some(pair) => pair.1 = format!("{},{value}", pair.1),
            None => metadata.push((name.to_owned(), value.to_owned())),
        }
    }
    Ok(metadata)
}

/// Names a request so that its repeat gets the first outcome: only where the client says that it may repeat it.
/// The floor below adds the digest of the body.
pub(super) fn request_id(api: &S3Api, bucket: &str, key: &str, raw: &crate::request::RawRequest) -> Option<RequestId> {
    let headers = raw.headers();
    let invocation = text(headers, "amz-sdk-invocation-id")?;
    let mut hash = Sha256::new();
    let sums = ChecksumAlgorithm::ALL.map(checksums::header_name);
    let given = ["content-md5", "x-amz-content-sha256", "if-match", "if-none-match", "x-amz-tagging", "x-amz-acl"];
    let fields = sums.iter().chain(&given).map(|name| text(headers, name).unwrap_or_default());
    // A name that somebody else gave to a request is not the same name.
    let caller = format!("{:?}", api.objects.caller());
    for field in [api.owner_name.as_str(), caller.as_str(), bucket, key, invocation].into_iter().chain(fields) {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field);
    }
    let digest = hash.finalize();
    let mut id = [0; 16];
    id.copy_from_slice(digest.get(..16)?);
    Some(RequestId(id))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn how_a_body_travelled_is_not_stored() {
        assert_eq!(stored_encoding("aws-chunked"), None);
        assert_eq!(stored_encoding("aws-chunked,gzip").as_deref(), Some("gzip"));
        assert_eq!(stored_encoding("gzip, AWS-chunked , br").as_deref(), Some("gzip,br"));
    }

    #[test]
    fn metadata_keeps_names_in_lower_case_and_joins_repeats() {
        let mut headers = HeaderMap::new();
        headers.append(HeaderName::from_static("x-amz-meta-a"), HeaderValue::from_static("1"));
        headers.append(HeaderName::from_static("x-amz-meta-a"), HeaderValue::from_static("2"));
        headers.append(HeaderName::from_static("x-amz-meta-"), HeaderValue::from_static("no name"));
        headers.append(HeaderName::from_static("x-amz-meta-b"), HeaderValue::from_bytes("ü".as_bytes()).unwrap());
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(metadata(&headers).unwrap(), [pair("a", "1,2"), pair("b", "ü")]);
        headers.append(HeaderName::from_static("x-amz-meta-c"), HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(metadata(&headers).is_err());
    }
}
