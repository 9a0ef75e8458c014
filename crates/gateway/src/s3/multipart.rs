//! Uploads in parts: begun, filled, listed, completed or aborted.

use koine_object::{
    Checksum as Stored, ChecksumAlgorithm as Algorithm, ChecksumKind, CompleteOptions, CompletedPart as Completed,
    EtagKind, ObjectName, PartInfo, PartOptions, UploadId, UploadInfo, UploadOptions, UploadQuery,
};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::attributes::value_of;
use super::checksums::{self, kind_name, text};
use super::page::{self, Names};
use super::put::{content_headers, metadata, no_body};
use super::transfer::{blocking, receive, settle};
use super::{Front, add_version, asked, date, errors, etag, put_condition};
use crate::limits::{PART_NUMBER_MAX, SMALL_BODY_LEN_MAX};

/// A part's number, as a request gives it.
pub(super) fn part_number(number: i32) -> Result<u32, S3Error> {
    u32::try_from(number)
        .ok()
        .filter(|number| (1..=PART_NUMBER_MAX as u32).contains(number))
        .ok_or_else(|| errors::invalid_argument("Part number must be an integer between 1 and 10000, inclusive"))
}

/// An upload's id; what cannot be one is an upload that does not exist.
pub(super) fn upload_id(text: &str) -> Result<UploadId, S3Error> {
    text.parse().map_err(|_| {
        let message = "The specified multipart upload does not exist. The upload ID may be invalid, or the upload \
                       may have been aborted or completed.";
        S3Error::with_message(S3ErrorCode::NoSuchUpload, message)
    })
}

fn kind(name: &str) -> Result<ChecksumKind, S3Error> {
    match name {
        "FULL_OBJECT" => Ok(ChecksumKind::FullObject),
        "COMPOSITE" => Ok(ChecksumKind::Composite),
        _ => Err(errors::invalid_argument("x-amz-checksum-type must be FULL_OBJECT or COMPOSITE.")),
    }
}

pub(super) async fn create_multipart_upload(
    front: &Front,
    mut request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let asked = asked(&mut request)?;
    let headers = asked.headers();
    let input = request.input;
    let kind = text(headers, "x-amz-checksum-type").map(kind).transpose()?;
    let algorithm = text(headers, "x-amz-checksum-algorithm").map(checksums::named).transpose()?;
    if kind.is_some() && algorithm.is_none() {
        let message = "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.";
        return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    }
    let options = UploadOptions {
        headers: content_headers(headers),
        metadata: metadata(headers)?,
        checksum: algorithm.map(|algorithm| (algorithm, kind)),
        etag: EtagKind::Md5,
    };
    let id = settle(front.objects.create_upload(&input.bucket, &input.key, options)).await?;
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
    front: &Front,
    mut request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let asked = asked(&mut request)?;
    let headers = asked.headers();
    let mut body = asked.take_body().ok_or_else(no_body)?;
    let input = request.input;
    let number = part_number(input.part_number)?;
    let upload = upload_id(&input.upload_id)?;
    let options = PartOptions {
        length: body.length(),
        expected: checksums::expected(headers)?,
        checksum: checksums::announced(headers)?,
    };
    let name = ObjectName::new(&input.bucket, &input.key);
    let writer = front.objects.put_part(name, upload, number, options).map_err(errors::s3)?;
    let writer = receive(&front.transfers, writer, &mut body).await?;
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

fn completed(part: CompletedPart) -> Result<Completed, S3Error> {
    let malformed = || {
        let message = "The XML you provided was not well-formed or did not validate against our published schema";
        S3Error::with_message(S3ErrorCode::MalformedXML, message)
    };
    let number = part_number(part.part_number.ok_or_else(malformed)?)?;
    let etag = part.e_tag.ok_or_else(malformed)?.value().to_owned();
    let given = [
        (Algorithm::Crc32, part.checksum_crc32),
        (Algorithm::Crc32c, part.checksum_crc32c),
        (Algorithm::Crc64Nvme, part.checksum_crc64nvme),
        (Algorithm::Sha1, part.checksum_sha1),
        (Algorithm::Sha256, part.checksum_sha256),
    ];
    let mut checksums = Vec::new();
    for (algorithm, text) in given {
        if let Some(text) = text {
            checksums.push(Stored::parse(algorithm, &text).map_err(errors::s3)?);
        }
    }
    Ok(Completed { number, etag, checksums })
}

pub(super) async fn complete_multipart_upload(
    front: &Front,
    mut request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let asked = asked(&mut request)?;
    let headers = asked.headers();
    let input = request.input;
    let upload = upload_id(&input.upload_id)?;
    let parts = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
    if parts.is_empty() || parts.len() > PART_NUMBER_MAX as usize {
        let message = "The XML you provided was not well-formed or did not validate against our published schema";
        return Err(S3Error::with_message(S3ErrorCode::MalformedXML, message));
    }
    let size = text(headers, "x-amz-mp-object-size")
        .map(|text| text.parse().map_err(|_| errors::invalid_argument("x-amz-mp-object-size is not a number.")));
    let options = CompleteOptions {
        parts: parts.into_iter().map(completed).collect::<Result<_, _>>()?,
        all_parts: false,
        condition: put_condition(headers)?,
        expected: checksums::in_headers(headers)?,
        size: size.transpose()?,
    };
    let objects = front.objects.clone();
    let (bucket, key) = (input.bucket.clone(), input.key.clone());
    let pending =
        blocking(move || Ok(objects.complete_upload(ObjectName::new(&bucket, &key), upload, options))).await?;
    let object = settle(pending).await?;
    let host = text(headers, "host").unwrap_or_default();
    let output = CompleteMultipartUploadOutput {
        location: Some(format!("http://{host}/{}/{}", input.bucket, input.key)),
        bucket: Some(input.bucket),
        key: Some(input.key),
        checksum_crc32: value_of(&object.checksums, Algorithm::Crc32),
        checksum_crc32c: value_of(&object.checksums, Algorithm::Crc32c),
        checksum_crc64nvme: value_of(&object.checksums, Algorithm::Crc64Nvme),
        checksum_sha1: value_of(&object.checksums, Algorithm::Sha1),
        checksum_sha256: value_of(&object.checksums, Algorithm::Sha256),
        checksum_type: object.checksums.first().map(|first| ChecksumType::from_static(kind_name(first.kind()))),
        e_tag: Some(etag(&object.etag)),
        ..Default::default()
    };
    let mut response = S3Response::new(output);
    add_version(&mut response.headers, object.version_id);
    Ok(response)
}

pub(super) async fn abort_multipart_upload(
    front: &Front,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    let upload = upload_id(&input.upload_id)?;
    let objects = front.objects.clone();
    let pending =
        blocking(move || Ok(objects.abort_upload(ObjectName::new(&input.bucket, &input.key), upload))).await?;
    settle(pending).await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

fn listed(part: PartInfo) -> Part {
    Part {
        checksum_crc32: value_of(&part.checksums, Algorithm::Crc32),
        checksum_crc32c: value_of(&part.checksums, Algorithm::Crc32c),
        checksum_crc64nvme: value_of(&part.checksums, Algorithm::Crc64Nvme),
        checksum_sha1: value_of(&part.checksums, Algorithm::Sha1),
        checksum_sha256: value_of(&part.checksums, Algorithm::Sha256),
        e_tag: Some(etag(&part.etag)),
        last_modified: Some(date(part.modified)),
        part_number: i32::try_from(part.number).ok(),
        size: i64::try_from(part.size).ok(),
    }
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
    front: &Front,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let upload = upload_id(&input.upload_id)?;
    let limit = page::limit(input.max_parts, "max-parts")?;
    let after = u32::try_from(input.part_number_marker.unwrap_or(0))
        .map_err(|_| errors::invalid_argument("part-number-marker must not be negative."))?;
    let objects = front.objects.clone();
    let (bucket, key) = (input.bucket.clone(), input.key.clone());
    let page = blocking(move || objects.list_parts(ObjectName::new(&bucket, &key), upload, after, limit)).await?;
    let (checksum_algorithm, checksum_type) = told(&page.upload);
    let output = ListPartsOutput {
        bucket: Some(input.bucket),
        checksum_algorithm,
        checksum_type,
        initiator: Some(front.initiator()),
        is_truncated: Some(page.next.is_some()),
        key: Some(input.key),
        max_parts: i32::try_from(limit).ok(),
        next_part_number_marker: page.next.and_then(|next| i32::try_from(next).ok()),
        owner: Some(front.owner()),
        part_number_marker: i32::try_from(after).ok(),
        parts: Some(page.parts.into_iter().map(listed).collect()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        upload_id: Some(input.upload_id),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

pub(super) async fn list_multipart_uploads(
    front: &Front,
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
        upload_after: upload_after.map(upload_id).transpose()?,
        key_after,
        limit,
    };
    let (objects, bucket) = (front.objects.clone(), input.bucket.clone());
    let page = blocking(move || objects.list_uploads(&bucket, &query)).await?;
    let uploads = page.uploads.into_iter().map(|upload| {
        let (checksum_algorithm, checksum_type) = told(&upload);
        MultipartUpload {
            checksum_algorithm,
            checksum_type,
            initiated: Some(date(upload.created)),
            initiator: Some(front.initiator()),
            key: Some(names.write(upload.key)),
            owner: Some(front.owner()),
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
