//! Tags of objects and buckets.

use http::HeaderMap;
use koine_object::{AttributeChange, BucketChange, EditOptions, MetadataChange, ObjectName};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::checksums::text;
use super::transfer::settle;
use super::{Front, errors, open, version};
use crate::query::Query;

type Pairs = Vec<(String, String)>;

fn in_document(set: TagSet) -> Result<Pairs, S3Error> {
    let malformed = || {
        let message = "The XML you provided was not well-formed or did not validate against our published schema";
        S3Error::with_message(S3ErrorCode::MalformedXML, message)
    };
    set.into_iter().map(|tag| tag.key.zip(tag.value).ok_or_else(malformed)).collect()
}

fn told(tags: Pairs) -> TagSet {
    tags.into_iter().map(|(key, value)| Tag { key: Some(key), value: Some(value) }).collect()
}

/// The tags that the header of a put gives, written as a query is.
pub(super) fn in_header(headers: &HeaderMap) -> Result<Pairs, S3Error> {
    let malformed = || {
        errors::invalid_argument(
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.",
        )
    };
    let Some(value) = headers.get("x-amz-tagging") else { return Ok(Vec::new()) };
    let query = Query::parse(Some(value.to_str().map_err(|_| malformed())?)).map_err(|_| malformed())?;
    Ok(query.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// What the tags of a copy are: those of the source, unless they are given anew.
pub(super) fn of_copy(headers: &HeaderMap) -> Result<Option<Pairs>, S3Error> {
    match text(headers, "x-amz-tagging-directive") {
        None | Some("COPY") if headers.contains_key("x-amz-tagging") => {
            Err(errors::invalid_argument("x-amz-tagging is given where x-amz-tagging-directive is REPLACE alone."))
        }
        None | Some("COPY") => Ok(None),
        Some("REPLACE") => in_header(headers).map(Some),
        Some(_) => Err(errors::invalid_argument("Unknown tagging directive.")),
    }
}

pub(super) async fn get_object_tagging(
    front: &Front,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let input = request.input;
    let version = version(input.version_id.as_deref())?;
    let found = open(&front.objects, &input.bucket, &input.key, version).map_err(errors::s3)?;
    let tag_set = told(found.info().tags.clone());
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set, version_id: input.version_id }))
}

/// Replaces the tags of an object, where the version that is named is the newest.
async fn set(front: &Front, (bucket, key): (&str, &str), asked: Option<&str>, tags: Pairs) -> Result<(), S3Error> {
    let name = ObjectName::new(bucket, key);
    let mut options = EditOptions::default();
    if let Some(asked) = version(asked)? {
        let newest = front.objects.head(bucket, key).map_err(errors::s3)?;
        if newest.version_id != asked {
            front.objects.head_version(name, asked).map_err(errors::s3)?;
            let message = "Setting the tags of a version that is not the newest is not implemented.";
            return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
        }
        // Another may become the newest before the change is made.
        options.only = Some(newest.id);
    }
    let change = AttributeChange { tags: Some(MetadataChange::Replace(tags)), ..AttributeChange::default() };
    settle(front.objects.set_attributes(name, change, options)).await.map(drop)
}

pub(super) async fn put_object_tagging(
    front: &Front,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let input = request.input;
    let tags = in_document(input.tagging.tag_set)?;
    set(front, (&input.bucket, &input.key), input.version_id.as_deref(), tags).await?;
    Ok(S3Response::new(PutObjectTaggingOutput { version_id: input.version_id }))
}

pub(super) async fn delete_object_tagging(
    front: &Front,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let input = request.input;
    set(front, (&input.bucket, &input.key), input.version_id.as_deref(), Vec::new()).await?;
    Ok(S3Response::new(DeleteObjectTaggingOutput { version_id: input.version_id }))
}

pub(super) async fn get_bucket_tagging(
    front: &Front,
    request: S3Request<GetBucketTaggingInput>,
) -> S3Result<S3Response<GetBucketTaggingOutput>> {
    let tags = front.objects.head_bucket(&request.input.bucket).map_err(errors::s3)?.tags;
    if tags.is_empty() {
        return Err(S3Error::with_message(S3ErrorCode::NoSuchTagSet, "The TagSet does not exist"));
    }
    Ok(S3Response::new(GetBucketTaggingOutput { tag_set: told(tags) }))
}

async fn set_of_bucket(front: &Front, bucket: &str, tags: Pairs) -> Result<(), S3Error> {
    let change = BucketChange { tags: Some(MetadataChange::Replace(tags)), ..BucketChange::default() };
    settle(front.objects.set_bucket(bucket, change)).await.map(drop)
}

pub(super) async fn put_bucket_tagging(
    front: &Front,
    request: S3Request<PutBucketTaggingInput>,
) -> S3Result<S3Response<PutBucketTaggingOutput>> {
    let tags = in_document(request.input.tagging.tag_set)?;
    set_of_bucket(front, &request.input.bucket, tags).await?;
    Ok(S3Response::new(PutBucketTaggingOutput::default()))
}

pub(super) async fn delete_bucket_tagging(
    front: &Front,
    request: S3Request<DeleteBucketTaggingInput>,
) -> S3Result<S3Response<DeleteBucketTaggingOutput>> {
    set_of_bucket(front, &request.input.bucket, Vec::new()).await?;
    Ok(S3Response::new(DeleteBucketTaggingOutput::default()))
}
