//! Tags of objects and buckets.

use http::HeaderMap;
use koine_object::{AttributeChange, BucketChange, EditOptions, MetadataChange, ObjectName};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::checksums::text;
use super::document::with_status;
use super::transfer::settle;
use super::{S3Api, open, version};
use crate::errors;
use crate::query::Query;

type Pairs = Vec<(String, String)>;

/// The most tags of an object and of a bucket, and how S3 says so.
const OF_OBJECT: (usize, &str) = (10, "Object tags cannot be greater than 10");
const OF_BUCKET: (usize, &str) = (50, "Bucket tag count cannot be greater than 50");
const NAME_LEN_MAX: usize = 128;
const VALUE_LEN_MAX: usize = 256;

fn invalid_tag(message: &'static str) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidTag, message)
}

/// Letters, digits, spaces and a few signs, as S3 has it.
fn is_plain(text: &str) -> bool {
    let taken = |sign: char| sign.is_alphanumeric() || "_.:/=+-@".contains(sign);
    text.chars().all(|sign| taken(sign) || sign.is_whitespace() && !sign.is_control())
}

/// What is wrong with tags that a document gives.
fn check(tags: &[(String, String)], (count_max, too_many): (usize, &'static str)) -> Result<(), S3Error> {
    if tags.len() > count_max {
        return Err(errors::coded("BadRequest", http::StatusCode::BAD_REQUEST, too_many));
    }
    for (place, (name, value)) in tags.iter().enumerate() {
        if name.is_empty() || name.chars().count() > NAME_LEN_MAX || !is_plain(name) {
            return Err(invalid_tag("The TagKey you have provided is invalid"));
        }
        if value.chars().count() > VALUE_LEN_MAX || !is_plain(value) {
            return Err(invalid_tag("The TagValue you have provided is invalid"));
        }
        if tags.iter().take(place).any(|(other, _)| other == name) {
            return Err(invalid_tag("Cannot provide multiple Tags with the same key"));
        }
    }
    Ok(())
}

fn in_document(set: TagSet, limit: (usize, &'static str)) -> Result<Pairs, S3Error> {
    let tags: Pairs = set
        .into_iter()
        .map(|tag| tag.key.zip(tag.value).ok_or_else(errors::malformed_xml))
        .collect::<Result<_, _>>()?;
    check(&tags, limit)?;
    Ok(tags)
}

/// The tags that the document of a new bucket gives.
pub(super) fn of_new_bucket(set: TagSet) -> Result<Pairs, S3Error> {
    in_document(set, OF_BUCKET)
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
    let tags: Pairs = query.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let twice = |(place, pair): (usize, &(String, String))| tags.iter().take(place).any(|other| other.0 == pair.0);
    if tags.iter().any(|pair| pair.0.is_empty()) || tags.iter().enumerate().any(twice) {
        return Err(malformed());
    }
    check(&tags, OF_OBJECT)?;
    Ok(tags)
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
    api: &S3Api,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let input = request.input;
    let version = version(input.version_id.as_deref())?;
    let found = open(&api.objects, &input.bucket, &input.key, version).map_err(errors::s3)?;
    let tag_set = told(found.info().tags.clone());
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set, version_id: input.version_id }))
}

/// Replaces the tags of an object, where the version that is named is the newest.
async fn set(api: &S3Api, (bucket, key): (&str, &str), asked: Option<&str>, tags: Pairs) -> Result<(), S3Error> {
    let name = ObjectName::new(bucket, key);
    let mut options = EditOptions::default();
    if let Some(asked) = version(asked)? {
        let newest = api.objects.head(bucket, key).map_err(errors::s3)?;
        if newest.version_id != asked {
            api.objects.head_version(name, asked).map_err(errors::s3)?;
            let message = "Setting the tags of a version that is not the newest is not implemented.";
            return Err(S3Error::with_message(S3ErrorCode::NotImplemented, message));
        }
        // Another may become the newest before the change is made.
        options.only = Some(newest.id);
    }
    let change = AttributeChange { tags: Some(MetadataChange::Replace(tags)), ..AttributeChange::default() };
    settle(api.objects.set_attributes(name, change, options)).await.map(drop)
}

pub(super) async fn put_object_tagging(
    api: &S3Api,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let input = request.input;
    let tags = in_document(input.tagging.tag_set, OF_OBJECT)?;
    set(api, (&input.bucket, &input.key), input.version_id.as_deref(), tags).await?;
    Ok(S3Response::new(PutObjectTaggingOutput { version_id: input.version_id }))
}

pub(super) async fn delete_object_tagging(
    api: &S3Api,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let input = request.input;
    set(api, (&input.bucket, &input.key), input.version_id.as_deref(), Vec::new()).await?;
    Ok(S3Response::new(DeleteObjectTaggingOutput { version_id: input.version_id }))
}

pub(super) async fn get_bucket_tagging(
    api: &S3Api,
    request: S3Request<GetBucketTaggingInput>,
) -> S3Result<S3Response<GetBucketTaggingOutput>> {
    let tags = api.objects.head_bucket(&request.input.bucket).map_err(errors::s3)?.tags;
    if tags.is_empty() {
        return Err(S3Error::with_message(S3ErrorCode::NoSuchTagSet, "The TagSet does not exist."));
    }
    Ok(S3Response::new(GetBucketTaggingOutput { tag_set: told(tags) }))
}

async fn set_of_bucket(api: &S3Api, bucket: &str, tags: Pairs) -> Result<(), S3Error> {
    let change = BucketChange { tags: Some(MetadataChange::Replace(tags)), ..BucketChange::default() };
    settle(api.objects.set_bucket(bucket, change)).await.map(drop)
}

pub(super) async fn put_bucket_tagging(
    api: &S3Api,
    request: S3Request<PutBucketTaggingInput>,
) -> S3Result<S3Response<PutBucketTaggingOutput>> {
    let tags = in_document(request.input.tagging.tag_set, OF_BUCKET)?;
    set_of_bucket(api, &request.input.bucket, tags).await?;
    Ok(with_status(S3Response::new(PutBucketTaggingOutput::default()), http::StatusCode::NO_CONTENT))
}

pub(super) async fn delete_bucket_tagging(
    api: &S3Api,
    request: S3Request<DeleteBucketTaggingInput>,
) -> S3Result<S3Response<DeleteBucketTaggingOutput>> {
    set_of_bucket(api, &request.input.bucket, Vec::new()).await?;
    Ok(S3Response::new(DeleteBucketTaggingOutput::default()))
}
