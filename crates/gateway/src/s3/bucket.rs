//! Buckets: made, listed, looked at, removed.

use koine_object::{AccessList, BucketChange, BucketInfo, BucketQuery, LOCATION_LEN_MAX, MetadataChange, Versioning};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::transfer::{blocking, settle};
use super::{REGION_DEFAULT, S3Api, acl, date, document, raw_request, tagging};
use crate::errors::{self, invalid_argument};

/// The most buckets of one page.
const BUCKETS_MAX: i32 = 10_000;

pub(super) async fn list_buckets(
    api: &S3Api,
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
    let objects = api.objects.clone();
    let page = blocking(move || objects.list_buckets(&query)).await?;
    let buckets = page.buckets.into_iter().map(|bucket| Bucket {
        bucket_region: None,
        creation_date: Some(date(bucket.created)),
        name: Some(bucket.name),
    });
    let output = ListBucketsOutput {
        buckets: Some(buckets.collect()),
        continuation_token: page.next.as_deref().map(super::page::token),
        owner: Some(api.requester()),
        prefix: (!prefix.is_empty()).then_some(prefix),
    };
    Ok(S3Response::new(output))
}

pub(super) async fn create_bucket(
    api: &S3Api,
    mut request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    let new = document::new_bucket(raw_request(&mut request)?.document())?;
    if new.directory {
        let message = "Directory buckets are not implemented.";
        return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
    }
    if !new.location.as_deref().is_none_or(|named| is_location(api, named)) {
        let message = "The specified location-constraint is not valid";
        return Err(S3Error::with_message(S3ErrorCode::InvalidLocationConstraint, message));
    }
    let tags = tagging::of_new_bucket(new.tags)?;
    let list = acl::in_headers(&request.headers, api.asker_id())?.unwrap_or_default();
    let change = BucketChange {
        location: new.location,
        tags: (!tags.is_empty()).then_some(MetadataChange::Replace(tags)),
        ..BucketChange::default()
    };
    let bucket = &request.input.bucket;
    settle(api.objects.create_bucket(bucket)).await?;
    if let Err(error) = set_new(api, bucket, list, change).await {
        // It was to be there with all that was asked or not at all.
        let _ = settle(api.objects.delete_bucket(bucket)).await;
        return Err(error);
    }
    Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{bucket}")) }))
}

/// Whether a bucket may be made in a region: in any that signatures may name.
fn is_location(api: &S3Api, named: &str) -> bool {
    let is_name =
        !named.is_empty() && named.len() <= LOCATION_LEN_MAX && named.bytes().all(|byte| byte.is_ascii_graphic());
    is_name && (!api.region_is_fixed || named == api.region)
}

/// Sets what a bucket that was just made is to have.
async fn set_new(api: &S3Api, bucket: &str, list: AccessList, change: BucketChange) -> Result<(), S3Error> {
    if !list.is_empty() {
        settle(api.objects.identities().set_bucket_access(bucket, list)).await?;
    }
    if change != BucketChange::default() {
        settle(api.objects.set_bucket(bucket, change)).await?;
    }
    Ok(())
}

impl S3Api {
    /// The region that a bucket is told to be in.
    fn region_of(&self, bucket: &BucketInfo) -> String {
        bucket.location.clone().unwrap_or_else(|| self.region.clone())
    }
}

pub(super) async fn get_bucket_location(
    api: &S3Api,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    let bucket = api.objects.head_bucket(&request.input.bucket).map_err(errors::s3)?;
    // The first region of all has no name here.
    let named = Some(api.region_of(&bucket)).filter(|region| region != REGION_DEFAULT);
    let output = GetBucketLocationOutput { location_constraint: named.map(BucketLocationConstraint::from) };
    Ok(S3Response::new(output))
}

pub(super) async fn head_bucket(
    api: &S3Api,
    request: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    let bucket = api.objects.head_bucket(&request.input.bucket).map_err(errors::s3)?;
    let output = HeadBucketOutput { bucket_region: Some(api.region_of(&bucket)), ..HeadBucketOutput::default() };
    Ok(S3Response::new(output))
}

pub(super) async fn delete_bucket(
    api: &S3Api,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    let bucket = &request.input.bucket;
    if let Err(error) = settle(api.objects.delete_bucket(bucket)).await {
        let keeps = || api.objects.head_bucket(bucket).is_ok_and(|info| info.versioning != Versioning::Never);
        if *error.code() == S3ErrorCode::BucketNotEmpty && keeps() {
            let message = "The bucket you tried to delete is not empty. You must delete all versions in the bucket.";
            return Err(S3Error::with_message(S3ErrorCode::BucketNotEmpty, message));
        }
        return Err(error);
    }
    Ok(S3Response::new(DeleteBucketOutput::default()))
}
