//! Uploads in parts: begun, filled, listed, completed or aborted.

use std::io::Write;

use http::HeaderMap;
use koine_object::{
    Checksum as Stored, ChecksumAlgorithm as Algorithm, ChecksumKind, CompleteOptions, CompletedPart as Completed,
    EtagKind, ObjectName, PartInfo, PartOptions, UploadId, UploadInfo, UploadOptions, UploadQuery,
};
use s3s::dto::*;
use s3s::xml::{SerResult, Serializer};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::attributes;
use super::checksums::{self, kind_name, text};
use super::document::{self, NamedPart, write_checksums, write_number, write_some};
use super::page::{self, Names};
use super::put::{content_headers, metadata, no_body};
use super::transfer::{blocking, receive, settle};
use super::{S3Api, add_version, date, etag, put_condition, raw_request};
use crate::errors;
use crate::limits::{PART_NUMBER_MAX, SMALL_BODY_LEN_MAX};

/// A part's number, as a request gives it.
pub(super) fn part_number(number: i32) -> Result<u32, S3Error> {
    u32::try_from(number)
        .ok()
        .filter(|number| (1..=PART_NUMBER_MAX as u32).contains(number))
        .ok_or_else(|| errors::invalid_argument("Part number must be an integer between 1 and 10000, inclusive."))
}

/// An upload's id. What cannot be one is told as an upload that does not exist, in its turn after buckets and rights.
pub(super) fn upload_id(text: &str) -> UploadId {
    text.parse().unwrap_or(UploadId([0; 16]))
}

fn kind(name: &str) -> Result<ChecksumKind, S3Error> {
    let kinds = [ChecksumKind::FullObject, ChecksumKind::Composite];
    let found = kinds.into_iter().find(|kind| kind_name(*kind).eq_ignore_ascii_case(name));
    found.ok_or_else(|| invalid_request("Value for x-amz-checksum-type header is invalid."))
}

fn invalid_request(message: impl Into<String>) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidRequest, message.into())
}

pub(super) async fn create_multipart_upload(
    api: &S3Api,
    mut request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let raw = raw_request(&mut request)?;
    let headers = raw.headers();
    let input = request.input;
    let kind = text(headers, "x-amz-checksum-type").map(kind).transpose()?;
    let algorithm = text(headers, "x-amz-checksum-algorithm").map(checksums::named).transpose()?;
    if kind.is_some() && algorithm.is_none() {
        let message = "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.";
        return Err(invalid_request(message));
    }
    if let (Some(algorithm), Some(kind)) = (algorithm, kind)
        && !algorithm.allows(kind)
    {
        let (kind, algorithm) = (kind_name(kind), algorithm.name().to_ascii_lowercase());
        let message = format!("The {kind} checksum type cannot be used with the {algorithm} checksum algorithm.");
        return Err(invalid_request(message));
    }
    let options = UploadOptions {
        headers: content_headers(headers),
        metadata: metadata(headers)?,
        checksum: algorithm.map(|algorithm| (algorithm, kind)),
        etag: EtagKind::Md5,
    };
    let id = settle(api.objects.create_upload(&input.bucket, &input.key, options)).await?;
    let output = CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        checksum_algorithm: algorithm.map(|algorithm| ChecksumAlgorithm::from(algorithm.name().to_owned())),
        checksum_type: algorithm
            .map(|algorithm| ChecksumType::from_static(kind_name(kind.unwrap_or_else(|| algorithm.default_kind())))),
        key: Some(input.key),
        upload_id: Some(id.to_string()),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

pub(super) async fn upload_part(
    api: &S3Api,
    mut request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let raw = raw_request(&mut request)?;
    let headers = raw.headers();
    let mut body = raw.take_body().ok_or_else(no_body)?;
    let input = request.input;
    let number = part_number(input.part_number)?;
    let upload = upload_id(&input.upload_id);
    let options = PartOptions {
        length: body.length(),
        expected: checksums::expected(headers)?,
        checksum: checksums::announced(headers)?,
    };
    if options.checksum.is_none() && options.expected.checksums.is_empty() {
        needs_no_checksum(api, (&input.bucket, &input.key), upload).await?;
    }
    let name = ObjectName::new(&input.bucket, &input.key);
    let writer = api.objects.put_part(name, upload, number, options).map_err(errors::s3)?;
    let writer = receive(&api.transfers, writer, &mut body).await?;
    let trailers = checksums::in_trailers(headers, body.trailers())?;
    let pending = if body.length().is_some_and(|length| length <= SMALL_BODY_LEN_MAX) {
        writer.finish(&trailers)
    } else {
        blocking(move || Ok(writer.finish(&trailers))).await?
    };
    let part = settle(pending).await?;
    let mut response = S3Response::new(UploadPartOutput { e_tag: Some(etag(&part.etag)), ..Default::default() });
    checksums::add_headers(&mut response.headers, &part.checksums);
    response.headers.remove("x-amz-checksum-type");
    Ok(response)
}

/// A part of an upload whose checksum is composed of its parts' brings one.
async fn needs_no_checksum(api: &S3Api, (bucket, key): (&str, &str), upload: UploadId) -> Result<(), S3Error> {
    let (objects, name) = (api.objects.clone(), (bucket.to_owned(), key.to_owned()));
    // Who may not see the upload learns from the part why.
    let begun = blocking(move || Ok(objects.list_parts(ObjectName::new(&name.0, &name.1), upload, 0, 1).ok())).await?;
    match begun.map(|page| page.upload).filter(|upload| upload.checksum_asked).map(|upload| upload.checksum) {
        Some((algorithm, ChecksumKind::Composite)) => Err(invalid_request(format!(
            "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: null",
            algorithm.name()
        ))),
        _ => Ok(()),
    }
}

fn completed(part: NamedPart) -> Result<Completed, S3Error> {
    let number = part.number.ok_or_else(errors::malformed_xml)?;
    let etag = part.etag.ok_or_else(errors::malformed_xml)?;
    let number = u32::try_from(number)
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| errors::invalid_argument("PartNumber must be >= 1"))?;
    let parse = |(algorithm, text): &(Algorithm, String)| match Stored::parse(*algorithm, text) {
        Ok(checksum) if checksum.composite_parts.is_none() && part.checksums.len() == 1 => Ok(checksum),
        _ => Err(errors::invalid_argument("Invalid Base64 or multiple checksums present in request")),
    };
    let checksums = part.checksums.iter().map(parse).collect::<Result<_, _>>()?;
    Ok(Completed { number, etag: etag.trim().trim_matches('"').to_owned(), checksums })
}

/// A completion has the checksums that the upload was begun for.
fn check_fits(begun: &UploadInfo, kind: Option<ChecksumKind>, parts: &[Completed]) -> Result<(), S3Error> {
    let (algorithm, begun_kind) = begun.checksum;
    if kind.is_some_and(|kind| !begun.checksum_asked || kind != begun_kind) {
        let mode = if begun.checksum_asked { kind_name(begun_kind) } else { "null" };
        return Err(invalid_request(format!(
            "The upload was created using the {mode} checksum mode. The complete request must use the same checksum mode."
        )));
    }
    if !begun.checksum_asked {
        return Ok(());
    }
    for part in parts {
        let Some(given) = part.checksums.first() else {
            if begun_kind == ChecksumKind::FullObject {
                continue;
            }
            let (algorithm, number) = (algorithm.name().to_ascii_lowercase(), part.number);
            return Err(invalid_request(format!(
                "The upload was created using a {algorithm} checksum. The complete request must include the checksum \
                 for each part. It was missing for part {number} in the request."
            )));
        };
        if given.algorithm != algorithm {
            let (name, number) = (given.algorithm.name().to_ascii_lowercase(), part.number);
            let message = format!("The {name} you specified for part {number} did not match what we received.");
            return Err(S3Error::with_message(S3ErrorCode::BadDigest, message));
        }
    }
    Ok(())
}

/// The size that the object is to have.
fn object_size(headers: &HeaderMap) -> Result<Option<u64>, S3Error> {
    let Some(value) = headers.get("x-amz-mp-object-size") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    match text.parse::<i64>() {
        Ok(size) => u64::try_from(size)
            .map(Some)
            .map_err(|_| invalid_request(format!("Value for x-amz-mp-object-size header is less than zero: '{size}'"))),
        Err(_) => Err(invalid_request(format!("Value for x-amz-mp-object-size header is invalid: '{text}'"))),
    }
}

pub(super) async fn complete_multipart_upload(
    api: &S3Api,
    mut request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let raw = raw_request(&mut request)?;
    let headers = raw.headers();
    let input = request.input;
    let upload = upload_id(&input.upload_id);
    let parts = document::parts_named(raw.document())?;
    if parts.is_empty() || parts.len() > PART_NUMBER_MAX as usize {
        return Err(errors::malformed_xml());
    }
    let kind = text(headers, "x-amz-checksum-type").map(kind).transpose()?;
    let options = CompleteOptions {
        parts: parts.into_iter().map(completed).collect::<Result<_, _>>()?,
        all_parts: false,
        condition: put_condition(headers)?,
        expected: checksums::in_headers(headers)?,
        size: object_size(headers)?,
    };
    let objects = api.objects.clone();
    let (bucket, key) = (input.bucket.clone(), input.key.clone());
    let (begun, options) = blocking(move || {
        // Who may not see the upload learns from the completion why.
        let begun = objects.list_parts(ObjectName::new(&bucket, &key), upload, 0, 1).ok().map(|page| page.upload);
        Ok((begun, options))
    })
    .await?;
    if let Some(begun) = begun {
        check_fits(&begun, kind, &options.parts)?;
    }
    let objects = api.objects.clone();
    let (bucket, key) = (input.bucket.clone(), input.key.clone());
    let pending =
        blocking(move || Ok(objects.complete_upload(ObjectName::new(&bucket, &key), upload, options))).await?;
    let object = settle(pending).await?;
    let host = text(headers, "host").unwrap_or_default();
    let mut response = S3Response::new(CompleteMultipartUploadOutput::default());
    add_version(&mut response.headers, object.version_id);
    document::with_document(response, "CompleteMultipartUploadResult", |s| {
        s.content("Location", &format!("http://{host}/{}/{}", input.bucket, input.key))?;
        s.content("Bucket", &input.bucket)?;
        s.content("Key", &input.key)?;
        s.content("ETag", &format!("\"{}\"", object.etag))?;
        write_checksums(s, &object.checksums)?;
        write_some(s, "ChecksumType", attributes::kind_of(&object.checksums))
    })
}

pub(super) async fn abort_multipart_upload(
    api: &S3Api,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    let upload = upload_id(&input.upload_id);
    let objects = api.objects.clone();
    let pending =
        blocking(move || Ok(objects.abort_upload(ObjectName::new(&input.bucket, &input.key), upload))).await?;
    settle(pending).await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

fn write_user<W: Write>(s: &mut Serializer<W>, name: &str, user: Owner) -> SerResult {
    s.element(name, |s| {
        write_some(s, "ID", user.id)?;
        write_some(s, "DisplayName", user.display_name)
    })
}

fn write_part<W: Write>(s: &mut Serializer<W>, part: &PartInfo) -> SerResult {
    s.element("Part", |s| {
        write_number(s, "PartNumber", u64::from(part.number))?;
        s.timestamp("LastModified", &date(part.modified), TimestampFormat::DateTime)?;
        s.content("ETag", &format!("\"{}\"", part.etag))?;
        write_number(s, "Size", part.size)?;
        write_checksums(s, &part.checksums)
    })
}

/// The checksum of an upload, as it is told: only what the client asked for.
fn told(upload: &UploadInfo) -> (Option<ChecksumAlgorithm>, Option<ChecksumType>) {
    if !upload.checksum_asked {
        return (None, None);
    }
    let (algorithm, kind) = upload.checksum;
    let kind = ChecksumType::from_static(kind_name(kind));
    (Some(ChecksumAlgorithm::from(algorithm.name().to_owned())), Some(kind))
}

pub(super) async fn list_parts(
    api: &S3Api,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let upload = upload_id(&input.upload_id);
    let limit = page::limit(input.max_parts, "max-parts")?;
    let after = page::part_after(input.part_number_marker)?;
    let objects = api.objects.clone();
    let (bucket, key) = (input.bucket.clone(), input.key.clone());
    let page = blocking(move || objects.list_parts(ObjectName::new(&bucket, &key), upload, after, limit)).await?;
    let (checksum_algorithm, checksum_type) = told(&page.upload);
    let next = page.next.unwrap_or_else(|| page.parts.last().map_or(0, |part| part.number));
    document::with_document(S3Response::new(ListPartsOutput::default()), "ListPartsResult", |s| {
        s.content("Bucket", &input.bucket)?;
        s.content("Key", &input.key)?;
        s.content("UploadId", &input.upload_id)?;
        write_user(s, "Initiator", api.owner())?;
        write_user(s, "Owner", api.owner())?;
        s.content("StorageClass", StorageClass::STANDARD)?;
        write_number(s, "PartNumberMarker", u64::from(after))?;
        write_number(s, "NextPartNumberMarker", u64::from(next))?;
        write_number(s, "MaxParts", limit as u64)?;
        s.content("IsTruncated", &page.next.is_some())?;
        page.parts.iter().try_for_each(|part| write_part(s, part))?;
        write_some(s, "ChecksumAlgorithm", checksum_algorithm)?;
        write_some(s, "ChecksumType", checksum_type)
    })
}

fn parse_marker(text: &str) -> Result<UploadId, S3Error> {
    text.parse().map_err(|_| errors::invalid_argument("Invalid uploadId marker"))
}

pub(super) async fn list_multipart_uploads(
    api: &S3Api,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let input = request.input;
    let names = Names::of(input.encoding_type.as_ref())?;
    let limit = page::limit(input.max_uploads, "max-uploads")?;
    let key_after = input.key_marker.clone().filter(|marker| !marker.is_empty());
    // Without a key the id of an upload says nothing, as in S3.
    let upload_after = input.upload_id_marker.as_deref().filter(|marker| !marker.is_empty() && key_after.is_some());
    let query = UploadQuery {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().unwrap_or_default(),
        upload_after: upload_after.map(parse_marker).transpose()?,
        key_after,
        limit,
    };
    let (objects, bucket) = (api.objects.clone(), input.bucket.clone());
    let page = blocking(move || objects.list_uploads(&bucket, &query)).await?;
    let uploads = page.uploads.into_iter().map(|upload| {
        let (checksum_algorithm, checksum_type) = told(&upload);
        MultipartUpload {
            checksum_algorithm,
            checksum_type,
            initiated: Some(date(upload.created)),
            initiator: Some(api.initiator()),
            key: Some(names.write(upload.key)),
            owner: Some(api.owner()),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
            upload_id: Some(upload.id.to_string()),
        }
    });
    let prefixes = page.common_prefixes.into_iter().map(|prefix| CommonPrefix { prefix: Some(names.write(prefix)) });
    let (next_key, next_upload) = page.next.clone().unzip();
    let output = ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        common_prefixes: Some(prefixes.collect()),
        delimiter: names.write_some(input.delimiter),
        encoding_type: input.encoding_type,
        is_truncated: Some(page.next.is_some()),
        key_marker: Some(names.write(input.key_marker.unwrap_or_default())),
        max_uploads: i32::try_from(limit).ok(),
        next_key_marker: names.write_some(next_key),
        next_upload_id_marker: next_upload.flatten().map(|id| id.to_string()),
        prefix: Some(names.write(input.prefix.unwrap_or_default())),
        upload_id_marker: Some(input.upload_id_marker.unwrap_or_default()),
        uploads: Some(uploads.collect()),
        request_charged: None,
    };
    Ok(S3Response::new(output))
}
