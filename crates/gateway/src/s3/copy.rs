//! Objects and parts made from other objects, without copying their data.

use http::HeaderMap;
use koine_object::{ByteRange, CopiedMetadata, CopyOptions, ObjectName, VersionId};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::attributes;
use super::checksums::{self, text};
use super::document::{self, write_checksums, write_some};
use super::put::{content_headers, metadata, request_id};
use super::transfer::{blocking, settle};
use super::{S3Api, add_version, date, multipart, put_condition, range, raw_request, read_condition, tagging, version};
use crate::errors;

/// Where the bytes come from.
struct Source {
    bucket: String,
    key: String,
    version: Option<VersionId>,
}

fn source(copy_source: CopySource) -> Result<Source, S3Error> {
    match copy_source {
        CopySource::Bucket { bucket, key, version_id } => {
            let version = version(version_id.as_deref())?;
            Ok(Source { bucket: bucket.into(), key: key.into(), version })
        }
        _ => {
            let message = "Access points and Outposts are not implemented as copy sources.";
            Err(S3Error::with_message(S3ErrorCode::NotImplemented, message))
        }
    }
}

fn copied_metadata(headers: &HeaderMap) -> Result<CopiedMetadata, S3Error> {
    match text(headers, "x-amz-metadata-directive") {
        None | Some("COPY") => Ok(CopiedMetadata::Copy),
        Some("REPLACE") => {
            Ok(CopiedMetadata::Replace { headers: content_headers(headers), metadata: metadata(headers)? })
        }
        Some(_) => Err(errors::invalid_argument("Unknown metadata directive.")),
    }
}

pub(super) async fn copy_object(
    api: &S3Api,
    mut request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let raw = raw_request(&mut request)?;
    let headers = raw.headers();
    let input = request.input;
    let from = source(input.copy_source)?;
    let copied_version = from.version.map(|version| version.to_string());
    let options = CopyOptions {
        metadata: copied_metadata(headers)?,
        tags: tagging::of_copy(headers)?,
        source_version: from.version,
        source_condition: read_condition(headers, "x-amz-copy-source-"),
        condition: put_condition(headers)?,
        checksum: text(headers, "x-amz-checksum-algorithm").map(checksums::named).transpose()?,
        request: request_id(api, &input.bucket, &input.key, &raw),
    };
    let objects = api.objects.clone();
    let pending = blocking(move || {
        let to = ObjectName::new(&input.bucket, &input.key);
        Ok(objects.copy(ObjectName::new(&from.bucket, &from.key), to, options))
    })
    .await?;
    let object = settle(pending).await?;
    let output = CopyObjectOutput { copy_source_version_id: copied_version, ..Default::default() };
    let mut response = S3Response::new(output);
    add_version(&mut response.headers, object.version_id);
    document::with_document(response, "CopyObjectResult", |s| {
        s.content("ETag", &format!("\"{}\"", object.etag))?;
        s.timestamp("LastModified", &date(object.modified), TimestampFormat::DateTime)?;
        write_some(s, "ChecksumType", attributes::kind_of(&object.checksums))?;
        write_checksums(s, &object.checksums)
    })
}

pub(super) async fn upload_part_copy(
    api: &S3Api,
    mut request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let raw = raw_request(&mut request)?;
    let headers = raw.headers();
    let input = request.input;
    let from = source(input.copy_source)?;
    let copied_version = from.version.map(|version| version.to_string());
    let number = multipart::part_number(input.part_number)?;
    let upload = multipart::upload_id(&input.upload_id);
    let condition = read_condition(headers, "x-amz-copy-source-");
    let asked_range = text(headers, "x-amz-copy-source-range").map(|header| {
        range::parse_copied(header).ok_or_else(|| {
            let message = "The x-amz-copy-source-range value must be of the form bytes=first-last where first and \
                           last are the zero-based offsets of the first and last bytes to copy";
            errors::invalid_argument(message)
        })
    });
    let bytes = asked_range
        .transpose()?
        .map(|(first, last)| ByteRange { offset: first, length: (last - first).saturating_add(1) });
    let objects = api.objects.clone();
    let pending = blocking(move || {
        let to = ObjectName::new(&input.bucket, &input.key);
        let (version, from) = (from.version, ObjectName::new(&from.bucket, &from.key));
        Ok(match version {
            None => objects.copy_part(from, bytes, &condition, to, upload, number),
            Some(version) => objects.copy_part_of_version((from, version), bytes, &condition, to, upload, number),
        })
    })
    .await?;
    let part = settle(pending).await.map_err(|error| match *error.code() {
        // Of a copy the range is an argument.
        S3ErrorCode::InvalidRange => errors::invalid_argument(error.message().unwrap_or_default()),
        _ => error,
    })?;
    let output = UploadPartCopyOutput { copy_source_version_id: copied_version, ..Default::default() };
    document::with_document(S3Response::new(output), "CopyPartResult", |s| {
        s.content("ETag", &format!("\"{}\"", part.etag))?;
        s.timestamp("LastModified", &date(part.modified), TimestampFormat::DateTime)?;
        write_checksums(s, &part.checksums)
    })
}
