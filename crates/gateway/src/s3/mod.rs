//! The calls of S3, each in the file of its verb: decode, call one function below, reply.
//!
//! Invariants:
//! - The headers of a request for an object come from [`RawRequest`], as they were sent; the library sees only those
//!   that it needs to pick a call.
//! - Calls that are not here are answered `NotImplemented` by the library; `route` refuses them before.

pub mod acl;
mod attributes;
mod bucket;
pub mod checksums;
mod copy;
mod defaults;
mod delete;
pub mod document;
mod get;
mod list;
mod multipart;
mod page;
mod policy;
mod put;
mod range;
mod tagging;
mod transfer;
mod versions;

use http::{HeaderMap, HeaderName, HeaderValue};
use koine_env::Timestamp;
use koine_object::{
    Action, ETag, EtagMatch, ObjectName, ObjectReader, Objects, PutCondition, ReadCondition, StandIns, VersionId,
};
use s3s::dto;
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use self::checksums::text;
use self::transfer::Transfers;
use crate::admission::Tenant;
use crate::canonical_id;
use crate::limits::Limits;
use crate::request::{RawRequest, Requester};

/// The region that buckets are in when none was set.
pub const REGION_DEFAULT: &str = "us-east-1";

/// The S3 service: implements the library's trait [`S3`] over a store.
pub struct S3Api {
    objects: Objects,
    owner_name: String,
    region: String,
    /// Whether signatures must name that region.
    region_is_fixed: bool,
    transfers: Transfers,
}

impl S3Api {
    /// The calls over a store.
    pub fn new(objects: Objects, owner_name: &str, region: Option<&str>, limits: &Limits) -> Self {
        S3Api {
            objects,
            owner_name: owner_name.to_owned(),
            region: region.unwrap_or(REGION_DEFAULT).to_owned(),
            region_is_fixed: region.is_some(),
            transfers: Transfers::new(limits),
        }
    }

    /// The service with the rights and the share of the requester; `None` where that is the store's owner, for whom this one
    /// is.
    fn of<T>(&self, request: &S3Request<T>, stand_ins: StandIns) -> Result<Option<S3Api>, S3Error> {
        let requester = request.extensions.get::<Requester>().ok_or_else(past_the_service)?;
        let objects = requester.of(&self.objects);
        if objects.is_none() && requester.tenant() == Tenant::Root {
            return Ok(None);
        }
        Ok(Some(S3Api {
            objects: objects.map_or_else(|| self.objects.clone(), |objects| objects.with_stand_ins(stand_ins)),
            owner_name: self.owner_name.clone(),
            region: self.region.clone(),
            region_is_fixed: self.region_is_fixed,
            transfers: self.transfers.of(requester.tenant()),
        }))
    }

    fn owner(&self) -> dto::Owner {
        dto::Owner { display_name: Some(self.owner_name.clone()), id: Some(canonical_id::ROOT_ID.to_owned()) }
    }

    fn initiator(&self) -> dto::Initiator {
        dto::Initiator { display_name: Some(self.owner_name.clone()), id: Some(canonical_id::ROOT_ID.to_owned()) }
    }
}

/// What the HTTP service put beside a request.
fn raw_request<T>(request: &mut S3Request<T>) -> Result<RawRequest, S3Error> {
    request.extensions.remove::<RawRequest>().ok_or_else(past_the_service)
}

fn past_the_service() -> S3Error {
    S3Error::with_message(S3ErrorCode::InternalError, "A request came past the door.")
}

/// The version that a request names. What looks like the id of a version, of this store or another, is told as one
/// that is none; what cannot be an id is wrong.
fn version(text: Option<&str>) -> Result<Option<VersionId>, S3Error> {
    let Some(text) = text else { return Ok(None) };
    let looks_like_one = (16..=1024).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match text.parse() {
        Ok(version) => Ok(Some(version)),
        // Versions are numbered by the time: none has this number.
        Err(_) if looks_like_one => Ok(Some(VersionId::Number(0))),
        Err(_) => Err(S3Error::with_message(S3ErrorCode::InvalidArgument, "Invalid version id specified")),
    }
}

/// An object: the newest version, or the one that a request names.
fn open(objects: &Objects, bucket: &str, key: &str, version: Option<VersionId>) -> koine_object::Result<ObjectReader> {
    match version {
        None => objects.get(bucket, key),
        Some(version) => objects.get_version(ObjectName::new(bucket, key), version),
    }
}

/// Tells the version of an object, where it has an id of its own.
fn add_version(headers: &mut HeaderMap, version: VersionId) {
    if let VersionId::Number(_) = version {
        tell_version(headers, version);
    }
}

/// Tells a version, also the one that is `null`.
fn tell_version(headers: &mut HeaderMap, version: VersionId) {
    if let Ok(value) = HeaderValue::try_from(version.to_string()) {
        headers.insert(HeaderName::from_static("x-amz-version-id"), value);
    }
}

/// What must hold of a name that is written.
fn put_condition(headers: &HeaderMap) -> Result<PutCondition, S3Error> {
    let if_absent = match text(headers, "if-none-match") {
        None => false,
        Some(value) if value.trim() == "*" => true,
        Some(_) => {
            let message = "A header you provided implies functionality that is not implemented.";
            return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
        }
    };
    Ok(PutCondition { if_absent, if_match: text(headers, "if-match").map(EtagMatch::parse), ..PutCondition::default() })
}

/// What must hold of an object that is read; `prefix` is `x-amz-copy-source-` for the source of a copy.
fn read_condition(headers: &HeaderMap, prefix: &str) -> ReadCondition {
    let value = |name: &str| text(headers, &format!("{prefix}{name}"));
    let date = |name: &str| value(name).and_then(parse_date);
    ReadCondition {
        if_match: value("if-match").map(EtagMatch::parse),
        if_none_match: value("if-none-match").map(EtagMatch::parse),
        if_modified_since: date("if-modified-since"),
        if_unmodified_since: date("if-unmodified-since"),
    }
}

/// A date of HTTP; one that is malformed counts as none, as HTTP has it.
fn parse_date(text: &str) -> Option<Timestamp> {
    let time = httpdate::parse_http_date(text).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp(u64::try_from(since.as_nanos()).ok()?))
}

fn date(timestamp: Timestamp) -> dto::Timestamp {
    dto::Timestamp::from(timestamp.to_system_time())
}

fn etag(etag: &ETag) -> dto::ETag {
    dto::ETag::Strong(etag.to_string())
}

/// Whether a request names a version of an object.
fn names_version<T>(request: &S3Request<T>) -> bool {
    request.uri.query().is_some_and(|query| query.split('&').any(|pair| pair.split('=').next() == Some("versionId")))
}

/// Delegates each call to the function of its name in the file of its verb, as who asks. Calls of the library ask for the
/// rights that they need; where S3 names other ones for a call, its row tells what is asked for instead, and what where
/// the request names a version.
macro_rules! calls {
    (@rights) => { &[] };
    (@rights $($asked:ident => $($instead:ident)+),+) => { &[$((Action::$asked, &[$(Action::$instead),+])),+] };
    ($($name:ident: $input:ident => $output:ident, $file:ident
        $(, [$($plain:tt)*])? $(, version [$($versioned:tt)*])?;)*) => {
        /// The names of all calls that are answered, as the library `s3s` has them.
        pub const CALLS: &[&str] = &[$(stringify!($name)),*];

        #[async_trait::async_trait]
        impl S3 for S3Api {
            $(async fn $name(&self, request: S3Request<dto::$input>) -> S3Result<S3Response<dto::$output>> {
                let plain: StandIns = calls!(@rights $($($plain)*)?);
                let versioned: StandIns = calls!(@rights $($($versioned)*)?);
                match self.of(&request, if names_version(&request) { versioned } else { plain })? {
                    None => $file::$name(self, request).await,
                    Some(api) => $file::$name(&api, request).await,
                }
            })*
        }
    };
}

calls! {
    list_buckets: ListBucketsInput => ListBucketsOutput, bucket;
    create_bucket: CreateBucketInput => CreateBucketOutput, bucket;
    head_bucket: HeadBucketInput => HeadBucketOutput, bucket;
    delete_bucket: DeleteBucketInput => DeleteBucketOutput, bucket;
    get_bucket_location: GetBucketLocationInput => GetBucketLocationOutput, bucket,
        [ListBucket => GetBucketLocation];
    get_bucket_accelerate_configuration: GetBucketAccelerateConfigurationInput => GetBucketAccelerateConfigurationOutput, defaults,
        [ListBucket => GetAccelerateConfiguration];
    get_bucket_acl: GetBucketAclInput => GetBucketAclOutput, acl;
    get_bucket_cors: GetBucketCorsInput => GetBucketCorsOutput, defaults,
        [ListBucket => GetBucketCors];
    get_bucket_encryption: GetBucketEncryptionInput => GetBucketEncryptionOutput, defaults,
        [ListBucket => GetEncryptionConfiguration];
    get_bucket_lifecycle_configuration: GetBucketLifecycleConfigurationInput => GetBucketLifecycleConfigurationOutput, defaults,
        [ListBucket => GetLifecycleConfiguration];
    get_bucket_logging: GetBucketLoggingInput => GetBucketLoggingOutput, defaults,
        [ListBucket => GetBucketLogging];
    get_bucket_notification_configuration: GetBucketNotificationConfigurationInput => GetBucketNotificationConfigurationOutput, defaults,
        [ListBucket => GetBucketNotification];
    get_bucket_ownership_controls: GetBucketOwnershipControlsInput => GetBucketOwnershipControlsOutput, defaults,
        [ListBucket => GetBucketOwnershipControls];
    get_bucket_policy: GetBucketPolicyInput => GetBucketPolicyOutput, policy;
    get_bucket_policy_status: GetBucketPolicyStatusInput => GetBucketPolicyStatusOutput, policy,
        [GetBucketPolicy => GetBucketPolicyStatus];
    get_bucket_replication: GetBucketReplicationInput => GetBucketReplicationOutput, defaults,
        [ListBucket => GetReplicationConfiguration];
    get_bucket_request_payment: GetBucketRequestPaymentInput => GetBucketRequestPaymentOutput, defaults,
        [ListBucket => GetBucketRequestPayment];
    get_bucket_tagging: GetBucketTaggingInput => GetBucketTaggingOutput, tagging,
        [ListBucket => GetBucketTagging];
    get_bucket_versioning: GetBucketVersioningInput => GetBucketVersioningOutput, versions,
        [ListBucket => GetBucketVersioning];
    put_bucket_versioning: PutBucketVersioningInput => PutBucketVersioningOutput, versions;
    put_bucket_acl: PutBucketAclInput => PutBucketAclOutput, acl;
    put_object_acl: PutObjectAclInput => PutObjectAclOutput, acl,
        version [GetObject => PutObjectVersionAcl, GetObjectVersion => PutObjectVersionAcl, PutObjectAcl => PutObjectVersionAcl];
    put_bucket_policy: PutBucketPolicyInput => PutBucketPolicyOutput, policy;
    delete_bucket_policy: DeleteBucketPolicyInput => DeleteBucketPolicyOutput, policy;
    put_public_access_block: PutPublicAccessBlockInput => PutPublicAccessBlockOutput, policy,
        [ListBucket => PutBucketPublicAccessBlock];
    delete_public_access_block: DeletePublicAccessBlockInput => DeletePublicAccessBlockOutput, policy,
        [ListBucket => PutBucketPublicAccessBlock];
    put_bucket_ownership_controls: PutBucketOwnershipControlsInput => PutBucketOwnershipControlsOutput, policy,
        [ListBucket => PutBucketOwnershipControls];
    put_object_tagging: PutObjectTaggingInput => PutObjectTaggingOutput, tagging,
        version [GetObject => PutObjectVersionTagging, GetObjectVersion => PutObjectVersionTagging, PutObjectTagging => PutObjectVersionTagging];
    delete_object_tagging: DeleteObjectTaggingInput => DeleteObjectTaggingOutput, tagging,
        [PutObjectTagging => DeleteObjectTagging], version [GetObject => DeleteObjectVersionTagging, GetObjectVersion => DeleteObjectVersionTagging, PutObjectTagging => DeleteObjectVersionTagging];
    put_bucket_tagging: PutBucketTaggingInput => PutBucketTaggingOutput, tagging;
    delete_bucket_tagging: DeleteBucketTaggingInput => DeleteBucketTaggingOutput, tagging;
    get_bucket_website: GetBucketWebsiteInput => GetBucketWebsiteOutput, defaults,
        [ListBucket => GetBucketWebsite];
    get_object_lock_configuration: GetObjectLockConfigurationInput => GetObjectLockConfigurationOutput, defaults,
        [ListBucket => GetBucketObjectLockConfiguration];
    get_public_access_block: GetPublicAccessBlockInput => GetPublicAccessBlockOutput, policy,
        [ListBucket => GetBucketPublicAccessBlock];
    get_object_acl: GetObjectAclInput => GetObjectAclOutput, acl,
        version [GetObject => GetObjectVersionAcl, GetObjectVersion => GetObjectVersionAcl, GetObjectAcl => GetObjectVersionAcl];
    get_object_tagging: GetObjectTaggingInput => GetObjectTaggingOutput, tagging,
        [GetObject => GetObjectTagging], version [GetObjectVersion => GetObjectVersionTagging];
    get_object_legal_hold: GetObjectLegalHoldInput => GetObjectLegalHoldOutput, defaults,
        [GetObject => GetObjectLegalHold], version [GetObjectVersion => GetObjectLegalHold];
    get_object_retention: GetObjectRetentionInput => GetObjectRetentionOutput, defaults,
        [GetObject => GetObjectRetention], version [GetObjectVersion => GetObjectRetention];
    get_object: GetObjectInput => GetObjectOutput, get;
    head_object: HeadObjectInput => HeadObjectOutput, get;
    get_object_attributes: GetObjectAttributesInput => GetObjectAttributesOutput, attributes,
        [GetObject => GetObject GetObjectAttributes], version [GetObjectVersion => GetObjectVersion GetObjectVersionAttributes];
    put_object: PutObjectInput => PutObjectOutput, put;
    copy_object: CopyObjectInput => CopyObjectOutput, copy;
    upload_part_copy: UploadPartCopyInput => UploadPartCopyOutput, copy;
    delete_object: DeleteObjectInput => DeleteObjectOutput, delete;
    delete_objects: DeleteObjectsInput => DeleteObjectsOutput, delete;
    list_objects: ListObjectsInput => ListObjectsOutput, list;
    list_objects_v2: ListObjectsV2Input => ListObjectsV2Output, list;
    list_object_versions: ListObjectVersionsInput => ListObjectVersionsOutput, versions;
    create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput, multipart;
    upload_part: UploadPartInput => UploadPartOutput, multipart;
    complete_multipart_upload: CompleteMultipartUploadInput => CompleteMultipartUploadOutput, multipart;
    abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput, multipart;
    list_parts: ListPartsInput => ListPartsOutput, multipart;
    list_multipart_uploads: ListMultipartUploadsInput => ListMultipartUploadsOutput, multipart;
}
