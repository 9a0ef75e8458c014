//! Policies of buckets, and whether anything may be open to everybody.
//!
//! Public access is one switch for the store, which root has (`koine identity public-access`): what S3 sets of it for a
//! bucket is taken where it is so already, and refused where it would be another.

use koine_object::Objects;
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::S3Api;
use super::document::with_status;
use super::transfer::settle;
use crate::errors;

pub(super) async fn get_bucket_policy(
    api: &S3Api,
    request: S3Request<GetBucketPolicyInput>,
) -> S3Result<S3Response<GetBucketPolicyOutput>> {
    let policy = api.objects.identities().bucket_policy(&request.input.bucket).map_err(errors::s3)?;
    Ok(S3Response::new(GetBucketPolicyOutput { policy: Some(policy) }))
}

pub(super) async fn put_bucket_policy(
    api: &S3Api,
    request: S3Request<PutBucketPolicyInput>,
) -> S3Result<S3Response<PutBucketPolicyOutput>> {
    let input = request.input;
    settle(api.objects.identities().set_bucket_policy(&input.bucket, Some(&input.policy))).await?;
    Ok(with_status(S3Response::new(PutBucketPolicyOutput::default()), http::StatusCode::NO_CONTENT))
}

pub(super) async fn delete_bucket_policy(
    api: &S3Api,
    request: S3Request<DeleteBucketPolicyInput>,
) -> S3Result<S3Response<DeleteBucketPolicyOutput>> {
    settle(api.objects.identities().set_bucket_policy(&request.input.bucket, None)).await?;
    Ok(S3Response::new(DeleteBucketPolicyOutput::default()))
}

pub(super) async fn get_bucket_policy_status(
    api: &S3Api,
    request: S3Request<GetBucketPolicyStatusInput>,
) -> S3Result<S3Response<GetBucketPolicyStatusOutput>> {
    let identities = api.objects.identities();
    let open = identities.bucket_policy_is_public(&request.input.bucket).map_err(errors::s3)?;
    let is_public = open && identities.public_access().map_err(errors::s3)?;
    let policy_status = Some(PolicyStatus { is_public: Some(is_public) });
    Ok(S3Response::new(GetBucketPolicyStatusOutput { policy_status }))
}

fn bucket_is_there(objects: &Objects, bucket: &str) -> Result<bool, S3Error> {
    objects.head_bucket(bucket).map_err(errors::s3)?;
    objects.identities().public_access().map_err(errors::s3)
}

pub(super) async fn get_public_access_block(
    api: &S3Api,
    request: S3Request<GetPublicAccessBlockInput>,
) -> S3Result<S3Response<GetPublicAccessBlockOutput>> {
    let blocked = Some(!bucket_is_there(&api.objects, &request.input.bucket)?);
    let configuration = PublicAccessBlockConfiguration {
        block_public_acls: blocked,
        block_public_policy: blocked,
        ignore_public_acls: blocked,
        restrict_public_buckets: blocked,
    };
    Ok(S3Response::new(GetPublicAccessBlockOutput { public_access_block_configuration: Some(configuration) }))
}

/// Takes what is so already.
fn settled(is_public: bool, wanted: bool) -> Result<(), S3Error> {
    if is_public == wanted {
        return Ok(());
    }
    let (now, other) = if is_public { ("on", "off") } else { ("off", "on") };
    let message = format!(
        "Public access is one switch for the whole store and is {now}: setting it for a bucket is not implemented. \
         Who owns the store turns it {other} by: koine identity public-access set {other}"
    );
    Err(S3Error::with_message(S3ErrorCode::NotImplemented, message))
}

pub(super) async fn put_public_access_block(
    api: &S3Api,
    request: S3Request<PutPublicAccessBlockInput>,
) -> S3Result<S3Response<PutPublicAccessBlockOutput>> {
    let is_public = bucket_is_there(&api.objects, &request.input.bucket)?;
    let wanted = request.input.public_access_block_configuration;
    let flags = [
        wanted.block_public_acls,
        wanted.block_public_policy,
        wanted.ignore_public_acls,
        wanted.restrict_public_buckets,
    ];
    flags.into_iter().try_for_each(|blocked| settled(is_public, !blocked.unwrap_or(false)))?;
    Ok(S3Response::new(PutPublicAccessBlockOutput::default()))
}

pub(super) async fn delete_public_access_block(
    api: &S3Api,
    request: S3Request<DeletePublicAccessBlockInput>,
) -> S3Result<S3Response<DeletePublicAccessBlockOutput>> {
    settled(bucket_is_there(&api.objects, &request.input.bucket)?, true)?;
    Ok(S3Response::new(DeletePublicAccessBlockOutput::default()))
}

/// Access lists are in force, and the bucket's owner owns what is in it: nothing else can be had.
pub(super) async fn put_bucket_ownership_controls(
    api: &S3Api,
    request: S3Request<PutBucketOwnershipControlsInput>,
) -> S3Result<S3Response<PutBucketOwnershipControlsOutput>> {
    api.objects.head_bucket(&request.input.bucket).map_err(errors::s3)?;
    let preferred =
        |rule: &OwnershipControlsRule| rule.object_ownership.as_str() == ObjectOwnership::BUCKET_OWNER_PREFERRED;
    let rules = request.input.ownership_controls.rules;
    const KNOWN: [&str; 3] = [
        ObjectOwnership::BUCKET_OWNER_PREFERRED,
        ObjectOwnership::BUCKET_OWNER_ENFORCED,
        ObjectOwnership::OBJECT_WRITER,
    ];
    if rules.len() != 1 || !rules.iter().all(|rule| KNOWN.contains(&rule.object_ownership.as_str())) {
        return Err(errors::malformed_xml());
    }
    if !rules.iter().all(preferred) {
        let message = "An ObjectOwnership other than BucketOwnerPreferred is not implemented.";
        return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
    }
    Ok(S3Response::new(PutBucketOwnershipControlsOutput::default()))
}
