//! An object is read, whole or in part, or only what is known of it.
//!
//! Invariants:
//! - What is said of an object and its bytes are of one version.
//! - A status of success stands for exactly the bytes that its length says.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use koine_object::{Caller, Error, ErrorKind, ObjectInfo, ObjectReader, PartInfo, VersionId};
use s3s::dto::{GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, StreamingBlob};
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::checksums::{self, text};
use super::document::with_status;
use super::multipart::part_number;
use super::range::{self, RequestedRange};
use super::transfer::{Download, blocking, read};
use super::{S3Api, add_version, open, raw_request, read_condition, tell_version, version, versions};
use crate::errors;
use crate::limits::PIECE_LEN;
use crate::request::RawRequest;

/// Which bytes a request is about.
struct Selection {
    offset: u64,
    length: u64,
    /// `Content-Range`, where it is not the whole.
    range: Option<String>,
    /// The part that was asked for by its number.
    part: Option<PartInfo>,
}

pub(super) async fn get_object(
    api: &S3Api,
    mut request: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let raw = raw_request(&mut request)?;
    let input = request.input;
    let version = version(input.version_id.as_deref())?;
    input.part_number.map(part_number).transpose()?;
    let overridden = raw.expires().is_some() || overrides(&input).iter().any(|(_, value)| value.is_some());
    if overridden && *api.objects.caller() == Caller::Everyone {
        // Who opened an object to everybody did not open what it says it is.
        let message = "Request specific response headers cannot be used for anonymous GET requests.";
        return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    }
    let reader = find(api, (&input.bucket, &input.key), version)?;
    check_condition(raw.headers(), reader.info())?;
    let reader = Arc::new(reader);
    let selection = select(&reader, raw.headers(), input.part_number).await?;
    let body = if selection.length <= PIECE_LEN as u64 {
        let bytes = read(&reader, selection.offset, selection.length as usize).await?;
        if bytes.len() as u64 != selection.length {
            let message = "an object ended before its length";
            return Err(errors::s3(Error::new(ErrorKind::Damaged, message)));
        }
        StreamingBlob::from(Body::from(bytes))
    } else {
        let reader = reader.clone();
        StreamingBlob::new(Download::new(&api.transfers, reader, selection.offset, selection.length).await?)
    };
    let mut headers = object_headers(raw.headers(), reader.info(), &selection);
    if version.is_some() {
        tell_version(&mut headers, reader.info().version_id);
    }
    // The library puts overrides first and these after them.
    for (name, value) in overrides(&input) {
        if let Some(value) = value {
            let value = HeaderValue::try_from(value)
                .map_err(|_| errors::invalid_argument("A response header that was asked for is malformed."))?;
            headers.insert(name, value);
        }
    }
    set_expires(&mut headers, &raw)?;
    let output = GetObjectOutput { body: Some(body), content_range: selection.range, ..Default::default() };
    Ok(S3Response::with_headers(output, headers))
}

pub(super) async fn head_object(
    api: &S3Api,
    mut request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let raw = raw_request(&mut request)?;
    let input = request.input;
    let version = version(input.version_id.as_deref())?;
    input.part_number.map(part_number).transpose()?;
    let reader = Arc::new(find(api, (&input.bucket, &input.key), version)?);
    check_condition(raw.headers(), reader.info())?;
    let selection = select(&reader, raw.headers(), input.part_number).await?;
    let mut headers = object_headers(raw.headers(), reader.info(), &selection);
    if version.is_some() {
        tell_version(&mut headers, reader.info().version_id);
    }
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(selection.length));
    let overrides = [
        (header::CONTENT_TYPE, input.response_content_type),
        (header::CONTENT_LANGUAGE, input.response_content_language),
        (header::CACHE_CONTROL, input.response_cache_control),
        (header::CONTENT_DISPOSITION, input.response_content_disposition),
        (header::CONTENT_ENCODING, input.response_content_encoding),
    ];
    for (name, value) in overrides {
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            headers.insert(name, value);
        }
    }
    set_expires(&mut headers, &raw)?;
    let partial = selection.range.is_some();
    let output = HeadObjectOutput { content_range: selection.range, ..Default::default() };
    let response = S3Response::with_headers(output, headers);
    Ok(if partial { with_status(response, StatusCode::PARTIAL_CONTENT) } else { response })
}

/// `Expires`, as a request wants it told: any text, as S3 has it.
fn set_expires(headers: &mut HeaderMap, raw: &RawRequest) -> Result<(), S3Error> {
    if let Some(expires) = raw.expires() {
        let value = HeaderValue::try_from(expires)
            .map_err(|_| errors::invalid_argument("A response header that was asked for is malformed."))?;
        headers.insert(header::EXPIRES, value);
    }
    Ok(())
}

fn find(api: &S3Api, (bucket, key): (&str, &str), version: Option<VersionId>) -> Result<ObjectReader, S3Error> {
    let found = open(&api.objects, bucket, key, version);
    found.map_err(|error| versions::unread(&api.objects, (bucket, key), version, error))
}

fn overrides(input: &GetObjectInput) -> [(HeaderName, Option<&str>); 5] {
    [
        (header::CONTENT_TYPE, input.response_content_type.as_deref()),
        (header::CONTENT_LANGUAGE, input.response_content_language.as_deref()),
        (header::CACHE_CONTROL, input.response_cache_control.as_deref()),
        (header::CONTENT_DISPOSITION, input.response_content_disposition.as_deref()),
        (header::CONTENT_ENCODING, input.response_content_encoding.as_deref()),
    ]
}

/// A copy that is still good is told with the headers that let the client keep it.
pub(super) fn check_condition(headers: &HeaderMap, object: &ObjectInfo) -> Result<(), S3Error> {
    let Err(error) = read_condition(headers, "").check(object) else { return Ok(()) };
    let unchanged = error.kind() == ErrorKind::NotModified;
    let mut error = errors::s3(error);
    if unchanged {
        let mut headers = HeaderMap::new();
        put(&mut headers, header::ETAG, &format!("\"{}\"", object.etag));
        put(&mut headers, header::LAST_MODIFIED, &httpdate::fmt_http_date(object.modified.to_system_time()));
        error.set_headers(headers);
    }
    Err(error)
}

async fn select(reader: &Arc<ObjectReader>, headers: &HeaderMap, part: Option<i32>) -> Result<Selection, S3Error> {
    let size = reader.info().size;
    let asked_range = text(headers, "range");
    if let Some(number) = part {
        if asked_range.is_some() {
            let message = "Cannot specify both Range header and partNumber query parameter";
            return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
        }
        return select_part(reader, number).await;
    }
    match range::parse(asked_range, size) {
        RequestedRange::Whole => Ok(Selection { offset: 0, length: size, range: None, part: None }),
        RequestedRange::Part { offset, length } => {
            Ok(Selection { offset, length, range: Some(content_range(offset, length, size)), part: None })
        }
        RequestedRange::Unsatisfiable => {
            let mut error = S3Error::with_message(S3ErrorCode::InvalidRange, "The requested range is not satisfiable");
            let mut headers = HeaderMap::new();
            put(&mut headers, header::CONTENT_RANGE, &format!("bytes */{size}"));
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
            error.set_headers(headers);
            Err(error)
        }
    }
}

async fn select_part(reader: &Arc<ObjectReader>, number: i32) -> Result<Selection, S3Error> {
    let unknown = || {
        let message = "The requested partnumber is not satisfiable.";
        errors::coded("InvalidPartNumber", http::StatusCode::RANGE_NOT_SATISFIABLE, message)
    };
    let number = part_number(number)?;
    let size = reader.info().size;
    if reader.info().part_count.is_none() {
        let whole =
            Selection { offset: 0, length: size, range: (size > 0).then(|| content_range(0, size, size)), part: None };
        return if number == 1 { Ok(whole) } else { Err(unknown()) };
    }
    let table = reader.clone();
    let parts = blocking(move || table.parts()).await?;
    let mut offset = 0;
    for part in parts {
        if part.number == number {
            let range = (part.size > 0).then(|| content_range(offset, part.size, size));
            return Ok(Selection { offset, length: part.size, range, part: Some(part) });
        }
        offset += part.size;
    }
    Err(unknown())
}

fn content_range(offset: u64, length: u64, size: u64) -> String {
    format!("bytes {offset}-{}/{size}", offset + length - 1)
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // What was stored came as a header once; UTF-8 beyond ASCII is allowed in values.
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(name, value);
    }
}

/// What is told of an object beside its bytes.
fn object_headers(asked: &HeaderMap, object: &ObjectInfo, selection: &Selection) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    put(&mut headers, header::ETAG, &format!("\"{}\"", object.etag));
    put(&mut headers, header::LAST_MODIFIED, &httpdate::fmt_http_date(object.modified.to_system_time()));
    add_version(&mut headers, object.version_id);
    let stored = &object.headers;
    let content_type = stored.content_type.as_deref().unwrap_or("binary/octet-stream");
    put(&mut headers, header::CONTENT_TYPE, content_type);
    let others = [
        (header::CACHE_CONTROL, &stored.cache_control),
        (header::CONTENT_DISPOSITION, &stored.content_disposition),
        (header::CONTENT_ENCODING, &stored.content_encoding),
        (header::CONTENT_LANGUAGE, &stored.content_language),
        (header::EXPIRES, &stored.expires),
    ];
    for (name, value) in others {
        if let Some(value) = value {
            put(&mut headers, name, value);
        }
    }
    for (name, value) in &object.metadata {
        if let Ok(name) = HeaderName::try_from(format!("x-amz-meta-{name}")) {
            put(&mut headers, name, value);
        }
    }
    if !object.tags.is_empty() {
        headers.insert(HeaderName::from_static("x-amz-tagging-count"), HeaderValue::from(object.tags.len()));
    }
    if let (Some(count), true) = (object.part_count, selection.part.is_some()) {
        headers.insert(HeaderName::from_static("x-amz-mp-parts-count"), HeaderValue::from(count));
    }
    if text(asked, "x-amz-checksum-mode").is_some_and(|mode| mode.eq_ignore_ascii_case("enabled")) {
        // A checksum of the whole says nothing of a range.
        match (&selection.part, &selection.range) {
            (Some(part), _) => checksums::add_headers(&mut headers, &part.checksums),
            (None, Some(_)) if selection.length != object.size => {}
            (None, _) => checksums::add_headers(&mut headers, &object.checksums),
        }
    }
    headers
}
