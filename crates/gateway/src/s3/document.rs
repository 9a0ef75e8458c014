//! Documents that the library below cannot read or write: those that tell checksums of today's ten algorithms, of which
//! it knows five, attributes, whose ETag has no quotes, and new buckets, which may have tags.
//!
//! Invariants:
//! - A call puts what it made here beside its answer, and the HTTP service sends it in place of what the library wrote.
//! - A completion is read from the document as it came, and the library sees an empty one; so is what a new bucket is
//!   to be.

use std::io::Write;

use bytes::Bytes;
use http::StatusCode;
use koine_object::{Checksum, ChecksumAlgorithm};
use s3s::dto::{BucketInfo, LocationInfo, TagSet};
use s3s::xml::{DeError, DeResult, Deserialize, DeserializeContent, Deserializer, SerResult};
use s3s::xml::{SerializeContent, Serializer};
use s3s::{S3Error, S3Response};

use crate::errors;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";
/// What the library is given in place of a completion.
pub const NO_PARTS: &[u8] = b"<CompleteMultipartUpload/>";

/// What an answer is, where it is not what the library makes of it.
#[derive(Clone, Debug, Default)]
pub struct ResponseOverride {
    /// The document.
    pub body: Option<Bytes>,
    /// The status.
    pub status: Option<StatusCode>,
}

/// Answers with another status than the library's.
pub fn with_status<T>(mut response: S3Response<T>, status: StatusCode) -> S3Response<T> {
    response.extensions.insert(ResponseOverride { status: Some(status), body: None });
    response
}

/// Answers with a document in place of the library's.
pub fn with_document<T>(
    mut response: S3Response<T>,
    name: &str,
    write: impl FnOnce(&mut Serializer<&mut Vec<u8>>) -> SerResult,
) -> Result<S3Response<T>, S3Error> {
    let mut document = Vec::with_capacity(512);
    let mut serializer = Serializer::new(&mut document);
    serializer
        .decl()
        .and_then(|()| serializer.element_with_ns(name, NAMESPACE, write))
        .map_err(S3Error::internal_error)?;
    response.extensions.insert(ResponseOverride { body: Some(document.into()), status: None });
    Ok(response)
}

/// The element that tells a checksum of an algorithm.
pub fn element_of(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc32 => "ChecksumCRC32",
        ChecksumAlgorithm::Crc32c => "ChecksumCRC32C",
        ChecksumAlgorithm::Crc64Nvme => "ChecksumCRC64NVME",
        ChecksumAlgorithm::Sha1 => "ChecksumSHA1",
        ChecksumAlgorithm::Sha256 => "ChecksumSHA256",
        ChecksumAlgorithm::Sha512 => "ChecksumSHA512",
        ChecksumAlgorithm::Md5 => "ChecksumMD5",
        ChecksumAlgorithm::Xxhash64 => "ChecksumXXHASH64",
        ChecksumAlgorithm::Xxhash3 => "ChecksumXXHASH3",
        ChecksumAlgorithm::Xxhash128 => "ChecksumXXHASH128",
    }
}

/// Writes checksums, each in its element.
pub fn write_checksums<W: Write>(s: &mut Serializer<W>, checksums: &[Checksum]) -> SerResult {
    checksums.iter().try_for_each(|checksum| s.content(element_of(checksum.algorithm), &checksum.to_text()))
}

/// Writes what is there.
pub fn write_some<W: Write, T: SerializeContent>(s: &mut Serializer<W>, name: &str, value: Option<T>) -> SerResult {
    value.map_or(Ok(()), |value| s.content(name, &value))
}

/// Writes a number.
pub fn write_number<W: Write>(s: &mut Serializer<W>, name: &str, value: u64) -> SerResult {
    s.content(name, &value.to_string())
}

/// A part as a completion names it.
#[derive(Debug, Default, PartialEq)]
pub struct NamedPart {
    /// Its number.
    pub number: Option<i32>,
    /// Its ETag, as it was written.
    pub etag: Option<String>,
    /// Its checksums, as they were written.
    pub checksums: Vec<(ChecksumAlgorithm, String)>,
}

/// Every part that a completion names.
#[derive(Debug, PartialEq)]
struct Completion(Vec<NamedPart>);

fn set<T>(place: &mut Option<T>, value: T) -> DeResult {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(DeError::DuplicateField),
    }
}

impl<'xml> DeserializeContent<'xml> for NamedPart {
    fn deserialize_content(d: &mut Deserializer<'xml>) -> DeResult<Self> {
        let mut part = NamedPart::default();
        d.for_each_element(|d, name| {
            let algorithm =
                ChecksumAlgorithm::ALL.into_iter().find(|algorithm| element_of(*algorithm).as_bytes() == name);
            match (name, algorithm) {
                (b"PartNumber", _) => set(&mut part.number, d.content()?),
                (b"ETag", _) => set(&mut part.etag, d.content()?),
                (_, Some(algorithm)) if part.checksums.iter().any(|sum| sum.0 == algorithm) => {
                    Err(DeError::DuplicateField)
                }
                (_, Some(algorithm)) => {
                    part.checksums.push((algorithm, d.content()?));
                    Ok(())
                }
                _ => Err(DeError::UnexpectedTagName),
            }
        })?;
        Ok(part)
    }
}

impl<'xml> Deserialize<'xml> for Completion {
    fn deserialize(d: &mut Deserializer<'xml>) -> DeResult<Self> {
        d.named_element("CompleteMultipartUpload", |d| {
            let mut parts = Vec::new();
            d.for_each_element(|d, name| match name {
                b"Part" => {
                    parts.push(d.content()?);
                    Ok(())
                }
                _ => Err(DeError::UnexpectedTagName),
            })?;
            Ok(Completion(parts))
        })
    }
}

/// Reads the parts that a completion names.
pub fn parts_named(document: &[u8]) -> Result<Vec<NamedPart>, S3Error> {
    read::<Completion>(document).map(|found| found.0)
}

/// Reads a whole document.
fn read<'xml, T: Deserialize<'xml>>(document: &'xml [u8]) -> Result<T, S3Error> {
    let mut deserializer = Deserializer::new(document);
    let found = T::deserialize(&mut deserializer).and_then(|found| {
        deserializer.expect_eof()?;
        Ok(found)
    });
    found.map_err(|_| errors::malformed_xml())
}

/// What the document of a new bucket asks for.
#[derive(Debug, Default, PartialEq)]
pub struct NewBucket {
    /// The region.
    pub location: Option<String>,
    /// Its tags.
    pub tags: TagSet,
    /// Whether it is to be a directory bucket.
    pub directory: bool,
}

impl<'xml> Deserialize<'xml> for NewBucket {
    fn deserialize(d: &mut Deserializer<'xml>) -> DeResult<Self> {
        d.named_element("CreateBucketConfiguration", |d| {
            let (mut new, mut tags) = (NewBucket::default(), None);
            d.for_each_element(|d, name| match name {
                b"LocationConstraint" => set(&mut new.location, d.content()?),
                b"Tags" => set(&mut tags, d.list_content("Tag")?),
                b"Location" => d.content::<LocationInfo>().map(|_| new.directory = true),
                b"Bucket" => d.content::<BucketInfo>().map(|_| new.directory = true),
                _ => Err(DeError::UnexpectedTagName),
            })?;
            Ok(NewBucket { tags: tags.unwrap_or_default(), ..new })
        })
    }
}

/// Reads what a new bucket is to be; of no document, nothing.
pub fn new_bucket(document: &[u8]) -> Result<NewBucket, S3Error> {
    if document.is_empty() {
        return Ok(NewBucket::default());
    }
    read(document)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_completion_is_read_with_every_checksum() {
        let sums: String = ChecksumAlgorithm::ALL
            .into_iter()
            .map(|algorithm| format!("<{0}>{1}</{0}>", element_of(algorithm), algorithm.name()))
            .collect();
        let document = format!(
            "<?xml version=\"1.0\"?>\n<CompleteMultipartUpload xmlns=\"{NAMESPACE}\">\n <Part><ETag>&quot;e&quot;</ETag>\
             <PartNumber>7</PartNumber>{sums}</Part><Part/></CompleteMultipartUpload>"
        );
        let parts = parts_named(document.as_bytes()).unwrap();
        let checksums =
            ChecksumAlgorithm::ALL.into_iter().map(|algorithm| (algorithm, algorithm.name().to_owned())).collect();
        let first = NamedPart { number: Some(7), etag: Some("\"e\"".to_owned()), checksums };
        assert_eq!(parts, [first, NamedPart::default()]);
        assert_eq!(parts_named(NO_PARTS).unwrap(), []);
        for wrong in [
            "",
            "<Other/>",
            "<CompleteMultipartUpload>",
            "<CompleteMultipartUpload><Other/></CompleteMultipartUpload>",
            "<CompleteMultipartUpload><Part><PartNumber>x</PartNumber></Part></CompleteMultipartUpload>",
            "<CompleteMultipartUpload><Part><PartNumber>99999999999</PartNumber></Part></CompleteMultipartUpload>",
            "<CompleteMultipartUpload><Part><ETag>a</ETag><ETag>b</ETag></Part></CompleteMultipartUpload>",
            "<CompleteMultipartUpload/><CompleteMultipartUpload/>",
        ] {
            assert_eq!(parts_named(wrong.as_bytes()).unwrap_err().code().as_str(), "MalformedXML", "{wrong}");
        }
    }

    #[test]
    fn a_new_bucket_is_read_with_its_tags() {
        let tag = |name: &str| format!("<Tag><Key>{name}</Key><Value>of {name}</Value></Tag>");
        let document = format!(
            "<CreateBucketConfiguration xmlns=\"{NAMESPACE}\"><LocationConstraint>moon-1</LocationConstraint>\
             <Tags>{}{}</Tags></CreateBucketConfiguration>",
            tag("a"),
            tag("b")
        );
        let new = new_bucket(document.as_bytes()).unwrap();
        assert_eq!((new.location.as_deref(), new.directory, new.tags.len()), (Some("moon-1"), false, 2));
        assert_eq!(new.tags[1].value.as_deref(), Some("of b"));
        assert_eq!(new_bucket(b"").unwrap(), NewBucket::default());
        assert_eq!(new_bucket(b"<CreateBucketConfiguration/>").unwrap(), NewBucket::default());
        let directory = "<Location><Name>x</Name><Type>AvailabilityZone</Type></Location>";
        let document = format!("<CreateBucketConfiguration>{directory}</CreateBucketConfiguration>");
        assert!(new_bucket(document.as_bytes()).unwrap().directory);
        for wrong in [
            "<Other/>",
            "<CreateBucketConfiguration>",
            "<CreateBucketConfiguration><Other/></CreateBucketConfiguration>",
            "<CreateBucketConfiguration><Tags/><Tags/></CreateBucketConfiguration>",
        ] {
            assert_eq!(new_bucket(wrong.as_bytes()).unwrap_err().code().as_str(), "MalformedXML", "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_document_is_read_or_refused(document in "(<CompleteMultipartUpload>)?(<Part>|</Part>|<ETag>|[a-z&;<>/0-9 ]){0,40}") {
            let _ = parts_named(document.as_bytes());
        }

        #[test]
        fn any_new_bucket_is_read_or_refused(document in "(<CreateBucketConfiguration>)?(<Tags>|</Tags>|<Tag>|[a-z&;<>/0-9 ]){0,40}") {
            let _ = new_bucket(document.as_bytes());
        }
    }
}
