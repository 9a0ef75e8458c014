//! ETags and the conditions over them.
//!
//! Invariants:
//! - An ETag without a dash is the MD5 of the object's bytes; one with a dash is not.
//! - No two objects of different bytes have the same ETag with a number that was drawn.
//! - Quotes belong to the protocol: nothing here has or expects them, but [`EtagMatch::parse`].

use std::fmt;

use koine_env::Timestamp;
use koine_kv::Version;

use crate::error::{Error, ErrorKind, Result};
use crate::info::{ObjectId, ObjectInfo};
use crate::lookup::Standing;
use crate::object_name::ObjectName;

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

    pub(crate) fn check(&self, name: ObjectName<'_>, there: Option<&Standing>) -> Result<()> {
        let ObjectName { bucket, key } = name;
        if self.if_absent && there.is_some() {
            return Err(exists(name));
        }
        let Some(there) = there else {
            let wanted = self.if_match.is_some() || self.if_version.is_some();
            return if wanted { Err(Error::no_such_key(bucket, key)) } else { Ok(()) };
        };
        let etag = &there.record.etag;
        if self.if_match.as_ref().is_some_and(|wanted| !wanted.takes(etag)) {
            let message = format!(
                "the object {key:?} in the bucket {bucket:?} has the ETag {etag}, which the condition does not take"
            );
            return Err(Error::new(ErrorKind::PreconditionFailed, message));
        }
        if let Some(wanted) = self.if_version
            && wanted != there.version
        {
            let (is, not) = (there.version.0, wanted.0);
            let message = format!("the object {key:?} in the bucket {bucket:?} has version {is}, not {not}");
            return Err(Error::new(ErrorKind::PreconditionFailed, message));
        }
        Ok(())
    }
}

/// Something has the name that nothing may have.
pub(crate) fn exists(name: ObjectName<'_>) -> Error {
    let ObjectName { bucket, key } = name;
    Error::new(ErrorKind::PreconditionFailed, format!("the object {key:?} in the bucket {bucket:?} exists already"))
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

impl ReadCondition {
    /// `PreconditionFailed` or `NotModified` when it does not hold (a copy's caller makes both the former).
    pub fn check(&self, object: &ObjectInfo) -> Result<()> {
        let failed = |what: &str| {
            let message = format!("the object {:?} does not fulfil {what}", object.key);
            Err(Error::new(ErrorKind::PreconditionFailed, message))
        };
        let modified_seconds = object.modified.seconds();
        if let Some(wanted) = &self.if_match {
            if !wanted.takes(&object.etag) {
                return failed("If-Match");
            }
        } else if self.if_unmodified_since.is_some_and(|since| modified_seconds > since.seconds()) {
            return failed("If-Unmodified-Since");
        }
        let unchanged = match (&self.if_none_match, self.if_modified_since) {
            (Some(refused), _) => refused.takes(&object.etag),
            (None, Some(since)) => modified_seconds <= since.seconds(),
            (None, None) => false,
        };
        if unchanged {
            let message = format!("the object {:?} was not modified", object.key);
            return Err(Error::new(ErrorKind::NotModified, message));
        }
        Ok(())
    }
}
