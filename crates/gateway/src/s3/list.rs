//! Listings of objects, in the forms of version 1 and version 2.
//!
//! Invariants:
//! - A page is read from one version of the store, and goes on by name.

use koine_object::{ListPage, ListQuery, ObjectSummary};
use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result};

use super::page::{self, Names};
use super::transfer::blocking;
use super::{S3Api, date, etag};

/// What the two forms have in common.
struct Listing {
    page: ListPage,
    names: Names,
    limit: usize,
}

struct ListParameters {
    bucket: String,
    prefix: Option<String>,
    delimiter: Option<String>,
    limit: Option<i32>,
    encoding: Option<EncodingType>,
    after: Option<String>,
}

async fn listing(api: &S3Api, parameters: ListParameters) -> Result<Listing, S3Error> {
    let limit = page::limit(parameters.limit, "max-keys")?;
    let names = Names::of(parameters.encoding.as_ref())?;
    let query = ListQuery {
        prefix: parameters.prefix.unwrap_or_default(),
        delimiter: parameters.delimiter.unwrap_or_default(),
        after: parameters.after.filter(|after| !after.is_empty()),
        limit,
    };
    let objects = api.objects.clone();
    let page = blocking(move || objects.list(&parameters.bucket, &query)).await?;
    Ok(Listing { page, names, limit })
}

impl Listing {
    fn contents(&mut self, owner: Option<Owner>) -> ObjectList {
        let names = self.names;
        let entry = |object: ObjectSummary| Object {
            checksum_algorithm: algorithms(&object),
            checksum_type: checksum_type(&object),
            e_tag: Some(etag(&object.etag)),
            key: Some(names.write(object.key)),
            last_modified: Some(date(object.modified)),
            owner: owner.clone(),
            restore_status: None,
            size: Some(i64::try_from(object.size).unwrap_or(i64::MAX)),
            storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
        };
        std::mem::take(&mut self.page.objects).into_iter().map(entry).collect()
    }

    fn common_prefixes(&mut self) -> CommonPrefixList {
        let prefixes = std::mem::take(&mut self.page.common_prefixes).into_iter();
        prefixes.map(|prefix| CommonPrefix { prefix: Some(self.names.write(prefix)) }).collect()
    }
}

pub(super) fn algorithms(object: &ObjectSummary) -> Option<ChecksumAlgorithmList> {
    let names = object.checksums.iter().map(|(algorithm, _)| ChecksumAlgorithm::from(algorithm.name().to_owned()));
    Some(names.collect::<Vec<_>>()).filter(|names| !names.is_empty())
}

pub(super) fn checksum_type(object: &ObjectSummary) -> Option<ChecksumType> {
    let (_, kind) = object.checksums.first()?;
    Some(ChecksumType::from_static(super::checksums::kind_name(*kind)))
}

pub(super) async fn list_objects(
    api: &S3Api,
    request: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let input = request.input;
    let mut listing = listing(
        api,
        ListParameters {
            bucket: input.bucket.clone(),
            prefix: input.prefix.clone(),
            delimiter: input.delimiter.clone(),
            limit: input.max_keys,
            encoding: input.encoding_type.clone(),
            after: input.marker.clone(),
        },
    )
    .await?;
    let names = listing.names;
    // Without a delimiter clients go on after the last key, and S3 does not tell them.
    let next_marker =
        listing.page.next.clone().filter(|_| input.delimiter.as_ref().is_some_and(|text| !text.is_empty()));
    let output = ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(names.write(input.prefix.unwrap_or_default())),
        marker: Some(names.write(input.marker.unwrap_or_default())),
        max_keys: Some(listing.limit as i32),
        is_truncated: Some(listing.page.next.is_some()),
        contents: Some(listing.contents(Some(api.owner()))),
        common_prefixes: Some(listing.common_prefixes()),
        delimiter: names.write_some(input.delimiter),
        next_marker: names.write_some(next_marker),
        encoding_type: input.encoding_type,
        request_charged: None,
    };
    Ok(S3Response::new(output))
}

pub(super) async fn list_objects_v2(
    api: &S3Api,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let input = request.input;
    let after = match &input.continuation_token {
        Some(token) => Some(page::open_token(token)?),
        None => input.start_after.clone(),
    };
    let mut listing = listing(
        api,
        ListParameters {
            bucket: input.bucket.clone(),
            prefix: input.prefix.clone(),
            delimiter: input.delimiter.clone(),
            limit: input.max_keys,
            encoding: input.encoding_type.clone(),
            after,
        },
    )
    .await?;
    let names = listing.names;
    let next = listing.page.next.as_deref().map(page::token);
    let owner = input.fetch_owner.unwrap_or(false).then(|| api.owner());
    let (contents, common_prefixes) = (listing.contents(owner), listing.common_prefixes());
    let output = ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(names.write(input.prefix.unwrap_or_default())),
        max_keys: Some(listing.limit as i32),
        key_count: Some((contents.len() + common_prefixes.len()) as i32),
        continuation_token: input.continuation_token,
        is_truncated: Some(next.is_some()),
        next_continuation_token: next,
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        delimiter: names.write_some(input.delimiter),
        encoding_type: input.encoding_type,
        start_after: names.write_some(input.start_after),
        request_charged: None,
    };
    Ok(S3Response::new(output))
}
