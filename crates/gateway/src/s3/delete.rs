//! Objects are deleted, one or many at once.

use koine_object::{DeleteOptions, EtagMatch, PutCondition};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::checksums::text;
use super::transfer::{blocking, settle};
use super::{Front, asked, check_version, errors};
use crate::limits::DELETE_MANY_MAX;

pub(super) async fn delete_object(
    front: &Front,
    mut request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let asked = asked(&mut request)?;
    let input = request.input;
    check_version(input.version_id.as_deref())?;
    let if_match = text(asked.headers(), "if-match").map(EtagMatch::parse);
    let options = DeleteOptions { condition: PutCondition { if_absent: false, if_match, ..PutCondition::default() } };
    settle(front.objects.delete(&input.bucket, &input.key, options)).await?;
    Ok(S3Response::new(DeleteObjectOutput::default()))
}

pub(super) async fn delete_objects(
    front: &Front,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let given = |name: &str| text(&request.headers, name).is_some();
    let digests = ["content-md5", "x-amz-checksum-crc32", "x-amz-checksum-crc32c", "x-amz-checksum-crc64nvme"];
    let more = ["x-amz-checksum-sha1", "x-amz-checksum-sha256", "x-amz-trailer"];
    if !digests.into_iter().chain(more).any(given) {
        let message = "Missing required header for this request: Content-MD5 OR x-amz-checksum-*";
        return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    }
    let input = request.input;
    let (bucket, entries) = (input.bucket, input.delete.objects);
    if entries.is_empty() || entries.len() > DELETE_MANY_MAX {
        let message = "The XML you provided was not well-formed or did not validate against our published schema";
        return Err(S3Error::with_message(S3ErrorCode::MalformedXML, message));
    }
    let quiet = input.delete.quiet.unwrap_or(false);
    let (mut deleted, mut failed) = (Vec::new(), Vec::new());
    let mut plain = Vec::new();
    for entry in entries {
        let outcome = match (check_version(entry.version_id.as_deref()), &entry.e_tag) {
            (Ok(()), None) => {
                plain.push(entry);
                continue;
            }
            (Ok(()), Some(etag)) => {
                let if_match = Some(EtagMatch::parse(etag.value()));
                let options =
                    DeleteOptions { condition: PutCondition { if_absent: false, if_match, ..PutCondition::default() } };
                settle(front.objects.delete(&bucket, &entry.key, options)).await.map(drop)
            }
            (Err(error), _) => Err(error),
        };
        note(&mut deleted, &mut failed, entry, outcome);
    }
    if !plain.is_empty() {
        let keys: Vec<String> = plain.iter().map(|entry| entry.key.clone()).collect();
        let objects = front.objects.clone();
        let pending = blocking(move || Ok(objects.delete_many(&bucket, &keys))).await?;
        for (entry, outcome) in plain.into_iter().zip(settle(pending).await?) {
            note(&mut deleted, &mut failed, entry, outcome.map(drop).map_err(errors::s3));
        }
    }
    let output = DeleteObjectsOutput {
        deleted: Some(if quiet { Vec::new() } else { deleted }),
        errors: Some(failed),
        request_charged: None,
    };
    Ok(S3Response::new(output))
}

fn note(deleted: &mut Vec<DeletedObject>, failed: &mut Vec<Error>, entry: ObjectIdentifier, outcome: S3Result<()>) {
    match outcome {
        Ok(()) => deleted.push(DeletedObject {
            delete_marker: None,
            delete_marker_version_id: None,
            key: Some(entry.key),
            version_id: entry.version_id,
        }),
        Err(error) => failed.push(Error {
            code: Some(error.code().as_str().to_owned()),
            key: Some(entry.key),
            message: error.message().map(str::to_owned),
            version_id: entry.version_id,
        }),
    }
}
