//! What is known of an object, in XML: its attributes.

use std::io::Write;

use koine_object::{Checksum as Stored, ObjectInfo, PartInfo};
use s3s::dto::*;
use s3s::xml::{SerResult, Serializer};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::checksums::kind_name;
use super::document::{self, write_checksums, write_number, write_some};
use super::transfer::blocking;
use super::{S3Api, date, open, page, raw_request, version, versions};
use crate::errors;

/// What may be asked for.
const KNOWN: [&str; 5] = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"];

/// A page of parts.
struct Parts {
    count: u32,
    page: Vec<PartInfo>,
    after: u32,
    limit: usize,
    more: bool,
}

impl Parts {
    fn new(count: u32, parts: Vec<PartInfo>, after: u32, limit: usize) -> Self {
        let mut rest = parts.into_iter().filter(|part| part.number > after);
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        Parts { count, page, after, limit, more: rest.next().is_some() }
    }

    fn write<W: Write>(&self, s: &mut Serializer<W>) -> SerResult {
        s.content("IsTruncated", &self.more)?;
        write_number(s, "MaxParts", self.limit as u64)?;
        let last = self.page.last().map_or(self.after, |part| part.number);
        write_number(s, "NextPartNumberMarker", u64::from(last))?;
        write_number(s, "PartNumberMarker", u64::from(self.after))?;
        write_number(s, "PartsCount", u64::from(self.count))?;
        self.page.iter().try_for_each(|part| {
            s.element("Part", |s| {
                write_checksums(s, &part.checksums)?;
                write_number(s, "PartNumber", u64::from(part.number))?;
                write_number(s, "Size", part.size)
            })
        })
    }
}

/// Writes what was asked for.
fn write<W: Write>(s: &mut Serializer<W>, wanted: &[String], info: &ObjectInfo, parts: Option<&Parts>) -> SerResult {
    let has = |name: &str| wanted.iter().any(|wanted| wanted == name);
    // Quotes belong to the header, not to the tag.
    write_some(s, "ETag", has("ETag").then(|| info.etag.to_string()))?;
    if let Some(first) = info.checksums.first().filter(|_| has("Checksum")) {
        s.element("Checksum", |s| {
            write_checksums(s, &info.checksums)?;
            s.content("ChecksumType", kind_name(first.kind()))
        })?;
    }
    if let Some(parts) = parts {
        s.element("ObjectParts", |s| parts.write(s))?;
    }
    write_some(s, "StorageClass", has("StorageClass").then_some(StorageClass::STANDARD))?;
    if has("ObjectSize") { write_number(s, "ObjectSize", info.size) } else { Ok(()) }
}

pub(super) async fn get_object_attributes(
    api: &S3Api,
    mut request: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let raw = raw_request(&mut request)?;
    let input = request.input;
    let version = version(input.version_id.as_deref())?;
    let names = input.object_attributes.iter().flat_map(|name| name.as_str().split(',')).map(str::trim);
    let wanted: Vec<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if wanted.iter().any(|name| !KNOWN.contains(&name.as_str())) {
        return Err(errors::invalid_argument("Invalid attribute name specified."));
    }
    let limit = page::limit(page::number(raw.headers(), "x-amz-max-parts")?, "max-parts")?;
    let after = page::part_after(page::number(raw.headers(), "x-amz-part-number-marker")?)?;
    let objects = api.objects.clone();
    let with_parts = wanted.iter().any(|name| name == "ObjectParts");
    let name = (input.bucket, input.key);
    let (found, (bucket, key)) = blocking(move || {
        let found = open(&objects, &name.0, &name.1, version).and_then(|reader| {
            let parts = if with_parts { reader.parts()? } else { Vec::new() };
            Ok((reader.info().clone(), parts))
        });
        Ok((found, name))
    })
    .await?;
    let (info, parts) = found.map_err(|error| versions::unread(&api.objects, (&bucket, &key), version, error))?;
    if wanted.is_empty() {
        let message =
            "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty";
        return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    }
    let parts = info.part_count.filter(|_| with_parts).map(|count| Parts::new(count, parts, after, limit));
    let output = GetObjectAttributesOutput { last_modified: Some(date(info.modified)), ..Default::default() };
    let mut response = S3Response::new(output);
    super::add_version(&mut response.headers, info.version_id);
    document::with_document(response, "GetObjectAttributesResponse", |s| write(s, &wanted, &info, parts.as_ref()))
}

/// The kind of the checksums that an object has.
pub(super) fn kind_of(checksums: &[Stored]) -> Option<&'static str> {
    checksums.first().map(|first| kind_name(first.kind()))
}
