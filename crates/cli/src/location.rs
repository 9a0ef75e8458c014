//! What commands on objects name: a local path, `koine://BUCKET/KEY` in a store, `s3://BUCKET/KEY` of a server, or
//! `NAME://BUCKET/KEY` of a server with an alias.
//!
//! Invariant: a key is taken byte for byte; nothing in it is decoded or tidied.

use std::fmt;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};

/// How objects are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The store that `--store` names.
    Store,
    /// The S3 server that `--endpoint` names.
    S3,
    /// The S3 server that has this alias.
    Alias(AliasName),
}

impl Scheme {
    /// What a name begins with.
    pub fn prefix(&self) -> String {
        match self {
            Scheme::Store => "koine://".to_owned(),
            Scheme::S3 => "s3://".to_owned(),
            Scheme::Alias(alias) => format!("{alias}://"),
        }
    }

    /// Whether an S3 server is behind it.
    pub fn is_server(&self) -> bool {
        !matches!(self, Scheme::Store)
    }
}

/// The name of an alias: lower-case letters, digits, `-` and `_`, and none of the schemes that mean something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasName(String);

impl AliasName {
    /// Schemes that an alias would hide, or be taken for.
    const TAKEN: [&str; 8] = ["koine", "s3", "s3a", "http", "https", "file", "ftp", "ssh"];

    /// Reads a name.
    pub fn parse(text: &str) -> Outcome<Self> {
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if !text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase()) || !text.bytes().all(letters) {
            return Err(Failure::usage(format!(
                "{text:?} is not a valid alias: an alias is a lower-case letter, followed by lower-case letters, digits, - and _"
            )));
        }
        if text.len() > 64 || Self::TAKEN.contains(&text) {
            return Err(Failure::usage(format!(
                "{text:?} cannot be an alias: it is too long, or means something else"
            )));
        }
        Ok(AliasName(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AliasName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The scheme that a name begins with, and what comes behind it; `None` for a local path.
fn scheme_of(text: &str) -> Outcome<Option<(Scheme, &str)>> {
    let Some((scheme, rest)) = text.split_once("://") else { return Ok(None) };
    // A path with a folder or a dot before it is a path.
    if scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        return Ok(None);
    }
    let scheme = match scheme {
        "koine" => Scheme::Store,
        "s3" => Scheme::S3,
        "http" | "https" => {
            return Err(Failure::usage(format!(
                "{text}: a server is named by --endpoint, or by an alias (koine alias set NAME {scheme}://HOST:PORT); \
                 objects are s3://BUCKET/KEY or NAME://BUCKET/KEY"
            )));
        }
        name => Scheme::Alias(AliasName::parse(name)?),
    };
    Ok(Some((scheme, rest)))
}

/// A local path, or a bucket and a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Local(PathBuf),
    /// In a bucket.
    Object {
        /// Where the bucket is.
        scheme: Scheme,
        /// The bucket; empty for "all buckets".
        bucket: String,
        /// The key or prefix, byte for byte; may be empty.
        key: String,
    },
}

impl Location {
    /// Reads what the command line says.
    pub fn parse(text: &str) -> Outcome<Self> {
        let Some((scheme, rest)) = scheme_of(text)? else {
            if text.is_empty() {
                return Err(Failure::usage("an empty path; give a local path, koine://BUCKET/KEY or s3://BUCKET/KEY"));
            }
            return Ok(Location::Local(PathBuf::from(text)));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = scheme.prefix();
        if bucket.is_empty() && !key.is_empty() {
            return Err(Failure::usage(format!("{text}: the bucket is missing; write {prefix}BUCKET/KEY")));
        }
        let marks: &[u8] = if scheme == Scheme::Store { b"-._@" } else { b"-._" };
        if !bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte)) {
            return Err(Failure::usage(format!("{text}: {bucket:?} is not a valid bucket name")));
        }
        Ok(Location::Object { scheme, bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Local(path) => path.display().fmt(f),
            Location::Object { scheme, bucket, key } => write!(f, "{}{bucket}/{key}", scheme.prefix()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_byte_for_byte() {
        let check = |text: &str, scheme: Scheme, bucket: &str, key: &str| {
            let expected = Location::Object { scheme, bucket: bucket.to_owned(), key: key.to_owned() };
            assert_eq!(Location::parse(text).ok(), Some(expected), "{text}");
        };
        check("s3://", Scheme::S3, "", "");
        check("s3://b", Scheme::S3, "b", "");
        check("s3://b/", Scheme::S3, "b", "");
        check("s3://b//a b+%2F/", Scheme::S3, "b", "/a b+%2F/");
        check("koine://b/k", Scheme::Store, "b", "k");
        check("work-2://b/k", Scheme::Alias(AliasName("work-2".to_owned())), "b", "k");
        check("koine://b@monday/k*", Scheme::Store, "b@monday", "k*");
        assert_eq!(Location::parse("./s3:/b").ok(), Some(Location::Local(PathBuf::from("./s3:/b"))));
        assert_eq!(Location::parse("a/b://c").ok(), Some(Location::Local(PathBuf::from("a/b://c"))));
        for wrong in [
            "http://127.0.0.1:9000/b",
            "file://b/k",
            "Work://b",
            "2://b",
            "s3:///k",
            "koine:///k",
            "s3://a b/k",
            "s3://a@b/k",
            "",
        ] {
            assert!(Location::parse(wrong).is_err(), "{wrong}");
        }
    }
}
