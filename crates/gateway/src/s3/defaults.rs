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

use super::{S3Api, open, version};
use crate::errors;

fn bucket_is_there(api: &S3Api, bucket: &str) -> Result<(), S3Error> {
    api.objects.head_bucket(bucket).map(drop).map_err(errors::s3)
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

/// Sub-resources of a bucket that are an empty document, or a document of defaults, while nothing was set.
macro_rules! defaults {
    ($($name:ident: $input:ident => $output:ident, |$api:ident| $value:expr;)*) => {
        $(pub(super) async fn $name(
            $api: &S3Api,
            request: S3Request<$input>,
        ) -> S3Result<S3Response<$output>> {
            bucket_is_there($api, &request.input.bucket)?;
            Ok(S3Response::new($value))
        })*
    };
}

defaults! {
    get_bucket_accelerate_configuration:
        GetBucketAccelerateConfigurationInput => GetBucketAccelerateConfigurationOutput, |api| Default::default();
    get_bucket_logging: GetBucketLoggingInput => GetBucketLoggingOutput, |api| Default::default();
    get_bucket_notification_configuration:
        GetBucketNotificationConfigurationInput => GetBucketNotificationConfigurationOutput, |api| Default::default();
    get_bucket_ownership_controls:
        GetBucketOwnershipControlsInput => GetBucketOwnershipControlsOutput, |api| {
        let preferred = ObjectOwnership::from_static(ObjectOwnership::BUCKET_OWNER_PREFERRED);
        let rules = vec![OwnershipControlsRule { object_ownership: preferred }];
        GetBucketOwnershipControlsOutput { ownership_controls: Some(OwnershipControls { rules }) }
    };
    get_bucket_request_payment: GetBucketRequestPaymentInput => GetBucketRequestPaymentOutput, |api| {
        GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(Payer::BUCKET_OWNER)) }
    };
}

/// Sub-resources of a bucket that are not found while nothing was set.
macro_rules! not_set {
    ($($name:ident: $input:ident => $output:ident, $code:ident, $message:literal;)*) => {
        $(pub(super) async fn $name(api: &S3Api, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
            bucket_is_there(api, &request.input.bucket)?;
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
    get_bucket_replication: GetBucketReplicationInput => GetBucketReplicationOutput,
        ReplicationConfigurationNotFoundError, "The replication configuration was not found";
    get_bucket_website: GetBucketWebsiteInput => GetBucketWebsiteOutput,
        NoSuchWebsiteConfiguration, "The specified bucket does not have a website configuration";
    get_object_lock_configuration: GetObjectLockConfigurationInput => GetObjectLockConfigurationOutput,
        ObjectLockConfigurationNotFoundError, "Object Lock configuration does not exist for this bucket.";
}

/// Locks of an object, in a bucket that was made without them.
macro_rules! without_locks {
    ($($name:ident: $input:ident => $output:ident;)*) => {
        $(pub(super) async fn $name(api: &S3Api, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
            let input = request.input;
            object_is_there(&api.objects, &input.bucket, &input.key, input.version_id.as_deref())?;
            Err(S3Error::with_message(S3ErrorCode::InvalidRequest, "Bucket is missing Object Lock Configuration"))
        })*
    };
}

without_locks! {
    get_object_legal_hold: GetObjectLegalHoldInput => GetObjectLegalHoldOutput;
    get_object_retention: GetObjectRetentionInput => GetObjectRetentionOutput;
}
