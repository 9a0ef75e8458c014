//! ETags and the conditions over them.
//!
//! Invariants:
//! - An ETag without a dash is the MD5 of the object's bytes; one with a dash is not.
//! - No two objects of different bytes have the same ETag with a number that was drawn.
//! - Quotes belong to the protocol: nothing here has or expects them, but [`EtagMatch::parse`].

use std::fmt;

use koine_env::Timestamp;
use koine_kv::Version;

use crate::ids::ObjectId;

/// What a client compares to know whether an object is still the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ETag {
    /// The MD5 of the bytes.
    Md5([u8; 16]),
    /// The MD5 of the MD5s of this many parts.
    Multipart([u8; 16], u32),
    /// Of bytes whose MD5 is not known, put, edited or composed: two numbers that no other has, namely the object's id
    /// then and what was drawn for the commit, or the halves of the request's name.
    Drawn(ObjectId, u64),
    /// Any other text, with a dash, that no client takes for an MD5.
    Other(String),
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ETag::Md5(digest) => f.write_str(&hex::encode(digest)),
            ETag::Multipart(digest, parts) => write!(f, "{}-{parts}", hex::encode(digest)),
            ETag::Drawn(id, edit) => write!(f, "{id}-{edit:016x}"),
            ETag::Other(text) => f.write_str(text),
        }
    }
}

/// Which ETag an object gets that is put whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EtagKind {
    /// One that nothing else has, with a dash; clients of S3 compare it and do not take it for an MD5. It costs nothing.
    #[default]
    Drawn,
    /// The MD5 of the bytes, as S3 gives it. One body's is made by one core, about 650 MB a second. What is put with an
    /// MD5 to compare has it too.
    Md5,
}

/// Which ETags a condition takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagMatch {
    /// `*`: whatever is there.
    Any,
    /// One of these, without quotes.
    OneOf(Vec<String>),
}

impl EtagMatch {
    /// The value of an `If-Match` or `If-None-Match` header: `*`, or ETags with or without quotes and `W/`.
    pub fn parse(header: &str) -> Self {
        if header.trim() == "*" {
            return EtagMatch::Any;
        }
        let bare = |tag: &str| {
            let tag = tag.trim();
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            tag.trim_matches('"').to_owned()
        };
        EtagMatch::OneOf(header.split(',').map(bare).filter(|tag| !tag.is_empty()).collect())
    }

    /// Whether it takes `etag`.
    pub fn takes(&self, etag: &ETag) -> bool {
        match self {
            EtagMatch::Any => true,
            EtagMatch::OneOf(tags) => {
                let text = etag.to_string();
                tags.contains(&text)
            }
        }
    }
}

/// What must hold of the name for a write to happen. Checked in the same commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutCondition {
    /// `If-None-Match: *`: nothing has the name.
    pub if_absent: bool,
    /// `If-Match`: the object there has such an ETag. No object there is `NoSuchKey`.
    pub if_match: Option<EtagMatch>,
    /// The object there was last changed by this commit. No object there is `NoSuchKey`.
    pub if_version: Option<Version>,
}

impl PutCondition {
    /// No condition.
    pub fn none() -> Self {
        PutCondition::default()
    }

    /// Nothing may have the name.
    pub fn absent() -> Self {
        PutCondition { if_absent: true, ..PutCondition::default() }
    }

    /// The object there must have this ETag, without quotes.
    pub fn etag(etag: impl fmt::Display) -> Self {
        PutCondition { if_match: Some(EtagMatch::OneOf(vec![etag.to_string()])), ..PutCondition::default() }
    }

    /// The object there must be as this commit left it.
    pub fn version(version: Version) -> Self {
        PutCondition { if_version: Some(version), ..PutCondition::default() }
    }
}

/// What must hold of an object for a read (or for it to be a copy's source).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadCondition {
    /// `If-Match`; when it is given, `if_unmodified_since` is not looked at.
    pub if_match: Option<EtagMatch>,
    /// `If-None-Match`; when it is given, `if_modified_since` is not looked at.
    pub if_none_match: Option<EtagMatch>,
    /// `If-Modified-Since`, compared in whole seconds.
    pub if_modified_since: Option<Timestamp>,
    /// `If-Unmodified-Since`, compared in whole seconds.
    pub if_unmodified_since: Option<Timestamp>,
}
