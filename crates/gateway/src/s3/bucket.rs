//! Buckets: made, listed, looked at, removed.

use koine_object::{BucketQuery, Versioning};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::errors::{self, invalid_argument};
use super::transfer::{blocking, settle};
use super::{Front, REGION_DEFAULT, acl, date};

/// The most buckets of one page.
const BUCKETS_MAX: i32 = 10_000;

pub(super) async fn list_buckets(
    front: &Front,
    request: S3Request<ListBucketsInput>,
) -> S3Result<S3Response<ListBucketsOutput>> {
    let input = request.input;
    let limit = input.max_buckets.unwrap_or(BUCKETS_MAX);
    let limit = usize::try_from(limit).ok().filter(|limit| (1..=BUCKETS_MAX as usize).contains(limit));
    let limit =
        limit.ok_or_else(|| invalid_argument("Argument max-buckets must be an integer between 1 and 10000."))?;
    let prefix = input.prefix.unwrap_or_default();
    let after = match input.continuation_token.as_deref() {
        None => None,
        Some(token) => Some(super::page::open_token(token)?),
    };
    let query = BucketQuery { prefix: prefix.clone(), after, limit, ..BucketQuery::default() };
    let objects = front.objects.clone();
    let page = blocking(move || objects.list_buckets(&query)).await?;
    let buckets = page.buckets.into_iter().map(|bucket| Bucket {
        bucket_region: None,
        creation_date: Some(date(bucket.created)),
        name: Some(bucket.name),
    });
    let output = ListBucketsOutput {
        buckets: Some(buckets.collect()),
        continuation_token: page.next.as_deref().map(super::page::token),
        owner: Some(front.asker()),
        prefix: (!prefix.is_empty()).then_some(prefix),
    };
    Ok(S3Response::new(output))
}

pub(super) async fn create_bucket(
    front: &Front,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    let input = request.input;
    if let Some(configuration) = &input.create_bucket_configuration {
        if configuration.bucket.is_some() || configuration.location.is_some() {
            let message = "Directory buckets are not implemented.";
            return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
        }
        let constraint = configuration.location_constraint.as_ref().map(|constraint| constraint.as_str());
        // The first region of all is never named here, as it is not where a bucket's region is told.
        if constraint.is_some_and(|named| named != front.region || named == REGION_DEFAULT) {
            let message = "The specified location-constraint is not valid";
            return Err(S3Error::with_message(S3ErrorCode::InvalidLocationConstraint, message));
        }
    }
    let owner = front.asker_id();
    let list = acl::in_headers(&request.headers, owner)?.unwrap_or_default();
    let bucket = settle(front.objects.create_bucket(&input.bucket)).await?;
    if !list.is_empty() {
        let set = settle(front.objects.identities().set_bucket_access(&input.bucket, list)).await;
        if let Err(error) = set {
            // It was to be there with its list or not at all.
            let _ = settle(front.objects.delete_bucket(&input.bucket)).await;
            return Err(error);
        }
    }
    Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{}", bucket.name)) }))
}

pub(super) async fn head_bucket(
    front: &Front,
    request: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    front.objects.head_bucket(&request.input.bucket).map_err(errors::s3)?;
    let output = HeadBucketOutput { bucket_region: Some(front.region.clone()), ..HeadBucketOutput::default() };
    Ok(S3Response::new(output))
}

pub(super) async fn delete_bucket(
    front: &Front,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    let bucket = &request.input.bucket;
    if let Err(error) = settle(front.objects.delete_bucket(bucket)).await {
        let keeps = || front.objects.head_bucket(bucket).is_ok_and(|info| info.versioning != Versioning::Never);
        if *error.code() == S3ErrorCode::BucketNotEmpty && keeps() {
            let message = "The bucket you tried to delete is not empty. You must delete all versions in the bucket.";
            return Err(S3Error::with_message(S3ErrorCode::BucketNotEmpty, message));
        }
        return Err(error);
    }
    Ok(S3Response::new(DeleteBucketOutput::default()))
}
