//! The versions in a bucket, told as S3 does: by name, then newest first, delete markers apart; whether it keeps them.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use koine_object::{Error, ErrorKind, Objects, VersionId, VersionQuery, VersionSummary, Versioning};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::list::{algorithms, checksum_type};
use super::page::{self, Names};
use super::transfer::{blocking, settle};
use super::{S3Api, add_version, date, etag, version};
use crate::errors;

pub(super) async fn list_object_versions(
    api: &S3Api,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let input = request.input;
    let limit = page::limit(input.max_keys, "max-keys")?;
    let names = Names::of(input.encoding_type.as_ref())?;
    let version_after = input.version_id_marker.as_deref().filter(|marker| !marker.is_empty());
    let query = VersionQuery {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().unwrap_or_default(),
        key_after: input.key_marker.clone().filter(|marker| !marker.is_empty()),
        version_after: version(version_after)?,
        limit,
    };
    let (objects, bucket) = (api.objects.clone(), input.bucket.clone());
    let page = blocking(move || objects.list_versions(&bucket, &query)).await?;
    let (next_key, next_version) = page.next.unzip();
    let (markers, versions): (Vec<_>, Vec<_>) = page.versions.into_iter().partition(|told| told.object.is_none());
    let common_prefixes = page.common_prefixes.into_iter();
    let output = ListObjectVersionsOutput {
        versions: Some(versions.into_iter().filter_map(|told| object(told, names, api.owner())).collect()),
        delete_markers: Some(markers.into_iter().map(|told| marker(told, names, api.owner())).collect()),
        common_prefixes: Some(
            common_prefixes.map(|prefix| CommonPrefix { prefix: Some(names.write(prefix)) }).collect(),
        ),
        delimiter: names.write_some(input.delimiter),
        encoding_type: input.encoding_type,
        is_truncated: Some(next_key.is_some()),
        key_marker: Some(names.write(input.key_marker.unwrap_or_default())),
        max_keys: Some(limit as i32),
        name: Some(input.bucket),
        next_version_id_marker: next_version.flatten().as_ref().map(VersionId::to_string),
        next_key_marker: names.write_some(next_key),
        prefix: Some(names.write(input.prefix.unwrap_or_default())),
        request_charged: None,
        version_id_marker: input.version_id_marker.or_else(|| Some(String::new())),
    };
    Ok(S3Response::new(output))
}

fn object(told: VersionSummary, names: Names, owner: Owner) -> Option<ObjectVersion> {
    let object = told.object?;
    Some(ObjectVersion {
        checksum_algorithm: algorithms(&object),
        checksum_type: checksum_type(&object),
        e_tag: Some(etag(&object.etag)),
        is_latest: Some(told.newest),
        key: Some(names.write(told.key)),
        last_modified: Some(date(told.modified)),
        owner: Some(owner),
        restore_status: None,
        size: Some(i64::try_from(object.size).unwrap_or(i64::MAX)),
        storage_class: Some(ObjectVersionStorageClass::from_static(ObjectVersionStorageClass::STANDARD)),
        version_id: Some(told.id.to_string()),
    })
}

fn marker(told: VersionSummary, names: Names, owner: Owner) -> DeleteMarkerEntry {
    DeleteMarkerEntry {
        is_latest: Some(told.newest),
        key: Some(names.write(told.key)),
        last_modified: Some(date(told.modified)),
        owner: Some(owner),
        version_id: Some(told.id.to_string()),
    }
}

/// Whether the bucket keeps versions; nothing is said of one that never did.
pub(super) async fn get_bucket_versioning(
    api: &S3Api,
    request: S3Request<GetBucketVersioningInput>,
) -> S3Result<S3Response<GetBucketVersioningOutput>> {
    let info = api.objects.head_bucket(&request.input.bucket).map_err(errors::s3)?;
    let status = match info.versioning {
        Versioning::Never => None,
        Versioning::Enabled => Some(BucketVersioningStatus::from_static(BucketVersioningStatus::ENABLED)),
        Versioning::Suspended => Some(BucketVersioningStatus::from_static(BucketVersioningStatus::SUSPENDED)),
    };
    Ok(S3Response::new(GetBucketVersioningOutput { status, ..Default::default() }))
}

/// Sets whether the bucket keeps versions. There is no second factor here by which deleting could be guarded.
pub(super) async fn put_bucket_versioning(
    api: &S3Api,
    request: S3Request<PutBucketVersioningInput>,
) -> S3Result<S3Response<PutBucketVersioningOutput>> {
    let input = request.input;
    let VersioningConfiguration { mfa_delete, status } = input.versioning_configuration;
    if input.mfa.is_some() || mfa_delete.is_some_and(|wanted| wanted.as_str() != MFADelete::DISABLED) {
        let message = "MfaDelete is not implemented: leave it out.";
        return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
    }
    let versioning = match status.as_ref().map(BucketVersioningStatus::as_str) {
        Some(BucketVersioningStatus::ENABLED) => Versioning::Enabled,
        Some(BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
        Some(_) => return Err(errors::malformed_xml()),
        None => {
            let message = "The Versioning element must have a Status, which is Enabled or Suspended.";
            return Err(S3Error::with_message(S3ErrorCode::IllegalVersioningConfigurationException, message));
        }
    };
    settle(api.objects.set_versioning(&input.bucket, versioning)).await?;
    Ok(S3Response::new(PutBucketVersioningOutput::default()))
}

/// Why an object cannot be read, and whether that is because a delete marker stands there.
pub(super) fn unread(
    objects: &Objects,
    (bucket, key): (&str, &str),
    version: Option<VersionId>,
    error: Error,
) -> S3Error {
    let marker = match (error.kind(), version) {
        (ErrorKind::NoSuchKey, None) => newest_marker(objects, bucket, key),
        // What else may be wrong with a version that is there: it has no bytes.
        (ErrorKind::InvalidRequest, Some(version)) => Some(version),
        _ => None,
    };
    let Some(marker) = marker else {
        return errors::s3(error);
    };
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static("x-amz-delete-marker"), HeaderValue::from_static("true"));
    add_version(&mut headers, marker);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    let mut told = match version {
        None => errors::s3(error),
        Some(_) => {
            headers.insert(header::ALLOW, HeaderValue::from_static("DELETE"));
            let message = "The specified method is not allowed against this resource.";
            let mut told = S3Error::with_message(S3ErrorCode::MethodNotAllowed, message);
            told.set_status_code(StatusCode::METHOD_NOT_ALLOWED);
            told
        }
    };
    told.set_headers(headers);
    told
}

/// The delete marker that stands for a name, where the caller may know of it.
fn newest_marker(objects: &Objects, bucket: &str, key: &str) -> Option<VersionId> {
    let keeps = objects.head_bucket(bucket).is_ok_and(|info| info.versioning != Versioning::Never);
    let query = VersionQuery { prefix: key.to_owned(), limit: 1, ..VersionQuery::default() };
    let page = keeps.then(|| objects.list_versions(bucket, &query).ok()).flatten()?;
    // Of all names that begin so it is the first.
    let newest = page.versions.into_iter().next().filter(|told| told.key == key && told.newest)?;
    newest.object.is_none().then_some(newest.id)
}
