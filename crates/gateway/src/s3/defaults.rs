//! Sub-resources that every fresh bucket and object has: answered as AWS answers for one where nothing was set.
//!
//! One answer differs on purpose: AWS encrypts new buckets by itself and says so; this store does not encrypt, so it says
//! that there is no encryption configuration, as AWS did before 2023.
//!
//! Invariants:
//! - A bucket or object that is not there is told as such first.

use koine_object::Objects;
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::{Front, OWNER_ID, REGION_DEFAULT, errors, open, version};

fn bucket_is_there(front: &Front, bucket: &str) -> Result<(), S3Error> {
    front.objects.head_bucket(bucket).map(drop).map_err(errors::s3)
}

fn object_is_there(objects: &Objects, bucket: &str, key: &str, version: Option<&str>) -> Result<(), S3Error> {
    open(objects, bucket, key, self::version(version)?).map(drop).map_err(errors::s3)
}

/// The answer that nothing was set.
fn absent<T>(code: S3ErrorCode, message: &'static str) -> S3Result<T> {
    let mut error = S3Error::with_message(code, message);
    error.set_status_code(http::StatusCode::NOT_FOUND);
    Err(error)
}

fn owner_only(front: &Front) -> (Owner, Vec<Grant>) {
    let grantee = Grantee {
        display_name: Some(front.owner_name.clone()),
        email_address: None,
        id: Some(OWNER_ID.to_owned()),
        type_: Type::from_static(Type::CANONICAL_USER),
        uri: None,
    };
    let permission = Permission::from_static(Permission::FULL_CONTROL);
    (front.owner(), vec![Grant { grantee: Some(grantee), permission: Some(permission) }])
}

/// Sub-resources of a bucket that are an empty document, or a document of defaults, while nothing was set.
macro_rules! defaults {
    ($($name:ident: $input:ident => $output:ident, |$front:ident| $value:expr;)*) => {
        $(pub(super) async fn $name(
            $front: &Front,
            request: S3Request<$input>,
        ) -> S3Result<S3Response<$output>> {
            bucket_is_there($front, &request.input.bucket)?;
            Ok(S3Response::new($value))
        })*
    };
}

defaults! {
    get_bucket_location: GetBucketLocationInput => GetBucketLocationOutput, |front| {
        // The first region of all has no name here.
        let named = Some(front.region.clone()).filter(|region| region != REGION_DEFAULT);
        GetBucketLocationOutput { location_constraint: named.map(BucketLocationConstraint::from) }
    };
    get_bucket_accelerate_configuration:
        GetBucketAccelerateConfigurationInput => GetBucketAccelerateConfigurationOutput, |front| Default::default();
    get_bucket_acl: GetBucketAclInput => GetBucketAclOutput, |front| {
        let (owner, grants) = owner_only(front);
        GetBucketAclOutput { grants: Some(grants), owner: Some(owner) }
    };
    get_bucket_logging: GetBucketLoggingInput => GetBucketLoggingOutput, |front| Default::default();
    get_bucket_notification_configuration:
        GetBucketNotificationConfigurationInput => GetBucketNotificationConfigurationOutput, |front| Default::default();
    get_bucket_ownership_controls:
        GetBucketOwnershipControlsInput => GetBucketOwnershipControlsOutput, |front| {
        let enforced = ObjectOwnership::from_static(ObjectOwnership::BUCKET_OWNER_ENFORCED);
        let rules = vec![OwnershipControlsRule { object_ownership: enforced }];
        GetBucketOwnershipControlsOutput { ownership_controls: Some(OwnershipControls { rules }) }
    };
    get_bucket_request_payment: GetBucketRequestPaymentInput => GetBucketRequestPaymentOutput, |front| {
        GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(Payer::BUCKET_OWNER)) }
    };
    get_public_access_block: GetPublicAccessBlockInput => GetPublicAccessBlockOutput, |front| {
        let configuration = PublicAccessBlockConfiguration {
            block_public_acls: Some(true),
            block_public_policy: Some(true),
            ignore_public_acls: Some(true),
            restrict_public_buckets: Some(true),
        };
        GetPublicAccessBlockOutput { public_access_block_configuration: Some(configuration) }
    };
}

/// Sub-resources of a bucket that are not found while nothing was set.
macro_rules! not_set {
    ($($name:ident: $input:ident => $output:ident, $code:ident, $message:literal;)*) => {
        $(pub(super) async fn $name(front: &Front, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
            bucket_is_there(front, &request.input.bucket)?;
            absent(S3ErrorCode::$code, $message)
        })*
    };
}

not_set! {
    get_bucket_cors: GetBucketCorsInput => GetBucketCorsOutput,
        NoSuchCORSConfiguration, "The CORS configuration does not exist";
    get_bucket_encryption: GetBucketEncryptionInput => GetBucketEncryptionOutput,
        ServerSideEncryptionConfigurationNotFoundError, "The server side encryption configuration was not found";
    get_bucket_lifecycle_configuration:
        GetBucketLifecycleConfigurationInput => GetBucketLifecycleConfigurationOutput,
        NoSuchLifecycleConfiguration, "The lifecycle configuration does not exist";
    get_bucket_policy: GetBucketPolicyInput => GetBucketPolicyOutput,
        NoSuchBucketPolicy, "The bucket policy does not exist";
    get_bucket_policy_status: GetBucketPolicyStatusInput => GetBucketPolicyStatusOutput,
        NoSuchBucketPolicy, "The bucket policy does not exist";
    get_bucket_replication: GetBucketReplicationInput => GetBucketReplicationOutput,
        ReplicationConfigurationNotFoundError, "The replication configuration was not found";
    get_bucket_tagging: GetBucketTaggingInput => GetBucketTaggingOutput,
        NoSuchTagSet, "The TagSet does not exist";
    get_bucket_website: GetBucketWebsiteInput => GetBucketWebsiteOutput,
        NoSuchWebsiteConfiguration, "The specified bucket does not have a website configuration";
    get_object_lock_configuration: GetObjectLockConfigurationInput => GetObjectLockConfigurationOutput,
        ObjectLockConfigurationNotFoundError, "Object Lock configuration does not exist for this bucket";
}

pub(super) async fn get_object_acl(
    front: &Front,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let input = request.input;
    object_is_there(&front.objects, &input.bucket, &input.key, input.version_id.as_deref())?;
    let (owner, grants) = owner_only(front);
    let output = GetObjectAclOutput { grants: Some(grants), owner: Some(owner), request_charged: None };
    Ok(S3Response::new(output))
}

pub(super) async fn get_object_tagging(
    front: &Front,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let input = request.input;
    object_is_there(&front.objects, &input.bucket, &input.key, input.version_id.as_deref())?;
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set: Vec::new(), version_id: None }))
}

/// Locks of an object, in a bucket that was made without them.
macro_rules! without_locks {
    ($($name:ident: $input:ident => $output:ident;)*) => {
        $(pub(super) async fn $name(front: &Front, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
            let input = request.input;
            object_is_there(&front.objects, &input.bucket, &input.key, input.version_id.as_deref())?;
            Err(S3Error::with_message(S3ErrorCode::InvalidRequest, "Bucket is missing Object Lock Configuration"))
        })*
    };
}

without_locks! {
    get_object_legal_hold: GetObjectLegalHoldInput => GetObjectLegalHoldOutput;
    get_object_retention: GetObjectRetentionInput => GetObjectRetentionOutput;
}
