//! What is known of an object, in XML: its attributes.

use koine_object::{Checksum as Stored, ChecksumAlgorithm as Algorithm, PartInfo, VersionId};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use super::checksums::kind_name;
use super::transfer::blocking;
use super::{Front, date, errors, open, page, version};

pub(super) async fn get_object_attributes(
    front: &Front,
    request: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let input = request.input;
    let version = version(input.version_id.as_deref())?;
    let names = input.object_attributes.iter().flat_map(|name| name.as_str().split(',')).map(str::trim);
    let wanted: Vec<String> = names.map(str::to_owned).collect();
    const KNOWN: [&str; 5] = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"];
    if wanted.is_empty() || wanted.iter().any(|name| !KNOWN.contains(&name.as_str())) {
        return Err(errors::invalid_argument("Invalid attribute name specified."));
    }
    let has = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let limit = page::limit(input.max_parts, "max-parts")?;
    let after = u32::try_from(input.part_number_marker.unwrap_or(0))
        .map_err(|_| errors::invalid_argument("part-number-marker must not be negative."))?;
    let objects = front.objects.clone();
    let (bucket, key, with_parts) = (input.bucket, input.key, has("ObjectParts"));
    let (info, parts) = blocking(move || {
        let reader = open(&objects, &bucket, &key, version)?;
        let parts = if with_parts { reader.parts()? } else { Vec::new() };
        Ok((reader.info().clone(), parts))
    })
    .await?;
    let object_parts = info.part_count.filter(|_| with_parts).map(|count| attributes_parts(count, parts, after, limit));
    let output = GetObjectAttributesOutput {
        checksum: has("Checksum").then(|| whole(&info.checksums)).flatten(),
        delete_marker: None,
        e_tag: has("ETag").then(|| super::etag(&info.etag)),
        last_modified: Some(date(info.modified)),
        object_parts,
        object_size: has("ObjectSize").then(|| i64::try_from(info.size).unwrap_or(i64::MAX)),
        request_charged: None,
        storage_class: has("StorageClass").then(|| StorageClass::from_static(StorageClass::STANDARD)),
        version_id: match info.version_id {
            VersionId::Null => None,
            version => Some(version.to_string()),
        },
    };
    Ok(S3Response::new(output))
}

/// The text of the checksum of an algorithm, where it is among those stored.
pub(super) fn value_of(checksums: &[Stored], algorithm: Algorithm) -> Option<String> {
    checksums.iter().find(|checksum| checksum.algorithm == algorithm).map(Stored::to_text)
}

fn whole(checksums: &[Stored]) -> Option<Checksum> {
    let first = checksums.first()?;
    Some(Checksum {
        checksum_crc32: value_of(checksums, Algorithm::Crc32),
        checksum_crc32c: value_of(checksums, Algorithm::Crc32c),
        checksum_crc64nvme: value_of(checksums, Algorithm::Crc64Nvme),
        checksum_sha1: value_of(checksums, Algorithm::Sha1),
        checksum_sha256: value_of(checksums, Algorithm::Sha256),
        checksum_type: Some(ChecksumType::from_static(kind_name(first.kind()))),
    })
}

fn attributes_parts(count: u32, parts: Vec<PartInfo>, after: u32, limit: usize) -> GetObjectAttributesParts {
    let mut rest = parts.into_iter().filter(|part| part.number > after).peekable();
    let mut page = Vec::new();
    while page.len() < limit
        && let Some(part) = rest.next()
    {
        page.push(ObjectPart {
            checksum_crc32: value_of(&part.checksums, Algorithm::Crc32),
            checksum_crc32c: value_of(&part.checksums, Algorithm::Crc32c),
            checksum_crc64nvme: value_of(&part.checksums, Algorithm::Crc64Nvme),
            checksum_sha1: value_of(&part.checksums, Algorithm::Sha1),
            checksum_sha256: value_of(&part.checksums, Algorithm::Sha256),
            part_number: i32::try_from(part.number).ok(),
            size: i64::try_from(part.size).ok(),
        });
    }
    GetObjectAttributesParts {
        is_truncated: Some(rest.peek().is_some()),
        max_parts: i32::try_from(limit).ok(),
        next_part_number_marker: page.last().and_then(|part| part.part_number),
        part_number_marker: i32::try_from(after).ok(),
        parts: Some(page),
        total_parts_count: i32::try_from(count).ok(),
    }
}
