//! Objects are deleted, one or many at once.

use koine_object::{ChecksumAlgorithm, DeleteOptions, Deleted, EtagMatch, ObjectName, PutCondition, VersionId};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::checksums::{header_name, text};
use super::transfer::{blocking, settle};
use super::{S3Api, add_version, raw_request, tell_version, version};
use crate::errors;
use crate::limits::DELETE_MANY_MAX;

pub(super) async fn delete_object(
    api: &S3Api,
    mut request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let raw = raw_request(&mut request)?;
    let input = request.input;
    let version = version(input.version_id.as_deref())?;
    let if_match = text(raw.headers(), "if-match").map(EtagMatch::parse);
    let deleted = delete(api, (&input.bucket, &input.key), version, if_match).await?;
    let output = DeleteObjectOutput { delete_marker: deleted.marker.then_some(true), ..Default::default() };
    let mut response = S3Response::new(output);
    if let Some(told) = deleted.version {
        let tell = if deleted.marker || version.is_some() { tell_version } else { add_version };
        tell(&mut response.headers, told);
    }
    Ok(response)
}

/// Deletes the object, or the version that is named; one that is not there is deleted already.
async fn delete(
    api: &S3Api,
    (bucket, key): (&str, &str),
    version: Option<VersionId>,
    if_match: Option<EtagMatch>,
) -> S3Result<Deleted> {
    let Some(version) = version else {
        let condition = PutCondition { if_absent: false, if_match, ..PutCondition::default() };
        return settle(api.objects.delete(bucket, key, DeleteOptions { condition })).await;
    };
    if if_match.is_some() {
        let message = "A condition on a version that is deleted is not implemented: its id says which it is.";
        return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
    }
    match settle(api.objects.delete_version(ObjectName::new(bucket, key), version)).await {
        Err(error) if *error.code() == S3ErrorCode::NoSuchVersion => {
            Ok(Deleted { version: Some(version), ..Deleted::default() })
        }
        outcome => outcome,
    }
}

pub(super) async fn delete_objects(
    api: &S3Api,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let given = |name: &str| text(&request.headers, name).is_some();
    let sums = ChecksumAlgorithm::ALL.map(header_name);
    if !sums.into_iter().chain(["content-md5", "x-amz-trailer"]).any(given) {
        let message = "Missing required header for this request: Content-MD5 OR x-amz-checksum-*";
        return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    }
    let input = request.input;
    let (bucket, entries) = (input.bucket, input.delete.objects);
    if entries.is_empty() || entries.len() > DELETE_MANY_MAX {
        return Err(errors::malformed_xml());
    }
    let quiet = input.delete.quiet.unwrap_or(false);
    let (mut deleted, mut failed) = (Vec::new(), Vec::new());
    let mut plain = Vec::new();
    for entry in entries {
        let outcome = match (version(entry.version_id.as_deref()), &entry.e_tag) {
            (Ok(None), None) => {
                plain.push(entry);
                continue;
            }
            (Ok(version), etag) => {
                let if_match = etag.as_ref().map(|etag| EtagMatch::parse(etag.value()));
                delete(api, (&bucket, &entry.key), version, if_match).await
            }
            (Err(error), _) => Err(error),
        };
        note(&mut deleted, &mut failed, entry, outcome);
    }
    if !plain.is_empty() {
        let keys: Vec<String> = plain.iter().map(|entry| entry.key.clone()).collect();
        let objects = api.objects.clone();
        let pending = blocking(move || Ok(objects.delete_many(&bucket, &keys))).await?;
        for (entry, outcome) in plain.into_iter().zip(settle(pending).await?) {
            note(&mut deleted, &mut failed, entry, outcome.map_err(errors::s3));
        }
    }
    let output = DeleteObjectsOutput {
        deleted: Some(if quiet { Vec::new() } else { deleted }),
        errors: Some(failed),
        request_charged: None,
    };
    Ok(S3Response::new(output))
}

fn note(
    deleted: &mut Vec<DeletedObject>,
    failed: &mut Vec<Error>,
    entry: ObjectIdentifier,
    outcome: S3Result<Deleted>,
) {
    match outcome {
        Ok(done) => deleted.push(DeletedObject {
            delete_marker: done.marker.then_some(true),
            delete_marker_version_id: done.version.filter(|_| done.marker).map(|version| version.to_string()),
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
