//! What may be known of an object or a bucket: metadata, headers and tags, as S3 limits them.

use std::collections::BTreeSet;

use crate::error::{Error, ErrorKind, Result};
use crate::info::ContentHeaders;
use crate::request::{METADATA_LEN_MAX, TAG_NAME_LEN_MAX, TAG_VALUE_LEN_MAX, TAGS_MAX};

/// `MetadataTooLarge` above the limit of S3.
pub(crate) fn check_metadata(metadata: &[(String, String)]) -> Result<()> {
    let length: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if length > METADATA_LEN_MAX {
        let message = format!("the metadata has {length} bytes; {METADATA_LEN_MAX} are allowed");
        return Err(Error::new(ErrorKind::MetadataTooLarge, message));
    }
    let mut names = BTreeSet::new();
    for (name, value) in metadata {
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control() || c == ':') {
            let message = format!(
                "{name:?} is no name of metadata: it goes into a header, which takes no spaces, colons and line ends"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        if !names.insert(name.to_lowercase()) {
            let message =
                format!("the metadata {name:?} is there twice: names differ by more than upper and lower case");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        check_line(&format!("the metadata {name:?}"), value)?;
    }
    Ok(())
}

/// What is told as one line of a header.
fn check_line(what: &str, value: &str) -> Result<()> {
    if value.contains(['\r', '\n', '\0']) {
        let message = format!("{what} has a line end or a zero, which no header can have");
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    Ok(())
}

/// Whether headers can be told as they are given.
pub(crate) fn check_headers(headers: &ContentHeaders) -> Result<()> {
    let all = [
        ("Content-Type", &headers.content_type),
        ("Cache-Control", &headers.cache_control),
        ("Content-Disposition", &headers.content_disposition),
        ("Content-Encoding", &headers.content_encoding),
        ("Content-Language", &headers.content_language),
        ("Expires", &headers.expires),
    ];
    all.into_iter().try_for_each(|(name, value)| value.as_ref().map_or(Ok(()), |value| check_line(name, value)))
}

/// What S3 allows of tags: at most 10, each name once, of 128 characters and values of 256.
fn invalid_tag(message: String) -> Error {
    Error::new(ErrorKind::InvalidTag, message)
}

pub(crate) fn check_tags(tags: &[(String, String)]) -> Result<()> {
    check_tags_of(TAGS_MAX, tags)
}

/// Tags of something that may have so many of them.
pub(crate) fn check_tags_of(count_max: usize, tags: &[(String, String)]) -> Result<()> {
    if tags.len() > count_max {
        return Err(invalid_tag(format!("{} tags were given; {count_max} are allowed", tags.len())));
    }
    for (place, (name, value)) in tags.iter().enumerate() {
        if name.is_empty() || name.chars().count() > TAG_NAME_LEN_MAX || value.chars().count() > TAG_VALUE_LEN_MAX {
            let message = format!(
                "the tag {name:?} is too long: a name has 1 to {TAG_NAME_LEN_MAX} characters, a value at most {TAG_VALUE_LEN_MAX}"
            );
            return Err(invalid_tag(message));
        }
        if tags.iter().take(place).any(|(other, _)| other == name) {
            return Err(invalid_tag(format!("the tag {name:?} was given twice")));
        }
    }
    Ok(())
}
