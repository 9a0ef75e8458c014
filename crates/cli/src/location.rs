//! What commands on objects name: a local path, `koine://BUCKET/KEY` in a store, or `s3://BUCKET/KEY` of a server.
//!
//! Invariant: a key is taken byte for byte; nothing in it is decoded or tidied.

use std::fmt;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};

/// How objects are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The store that `--store` names.
    Store,
    /// The S3 server that `--endpoint` names.
    S3,
}

impl Door {
    /// What a name begins with.
    pub fn scheme(self) -> &'static str {
        match self {
            Door::Store => "koine://",
            Door::S3 => "s3://",
        }
    }
}

/// A local path, or a bucket and a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Local(PathBuf),
    /// In a bucket.
    Object {
        /// Where the bucket is.
        door: Door,
        /// The bucket; empty for "all buckets".
        bucket: String,
        /// The key or prefix, byte for byte; may be empty.
        key: String,
    },
}

impl Location {
    /// Reads what the command line says.
    pub fn parse(text: &str) -> Outcome<Self> {
        let found = [Door::Store, Door::S3]
            .into_iter()
            .find_map(|door| text.strip_prefix(door.scheme()).map(|rest| (door, rest)));
        let Some((door, rest)) = found else {
            if text.is_empty() {
                return Err(Failure::usage("an empty path; give a local path, koine://BUCKET/KEY or s3://BUCKET/KEY"));
            }
            return Ok(Location::Local(PathBuf::from(text)));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let scheme = door.scheme();
        if bucket.is_empty() && !key.is_empty() {
            return Err(Failure::usage(format!("{text}: the bucket is missing; write {scheme}BUCKET/KEY")));
        }
        let marks: &[u8] = if door == Door::Store { b"-._@" } else { b"-._" };
        if !bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte)) {
            return Err(Failure::usage(format!("{text}: {bucket:?} is no bucket name")));
        }
        Ok(Location::Object { door, bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Local(path) => path.display().fmt(f),
            Location::Object { door, bucket, key } => write!(f, "{}{bucket}/{key}", door.scheme()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_byte_for_byte() {
        let check = |text: &str, door: Door, bucket: &str, key: &str| {
            let expected = Location::Object { door, bucket: bucket.to_owned(), key: key.to_owned() };
            assert_eq!(Location::parse(text).ok(), Some(expected), "{text}");
        };
        check("s3://", Door::S3, "", "");
        check("s3://b", Door::S3, "b", "");
        check("s3://b/", Door::S3, "b", "");
        check("s3://b//a b+%2F/", Door::S3, "b", "/a b+%2F/");
        check("koine://b/k", Door::Store, "b", "k");
        check("koine://b@monday/k*", Door::Store, "b@monday", "k*");
        assert_eq!(Location::parse("./s3:/b").ok(), Some(Location::Local(PathBuf::from("./s3:/b"))));
        for wrong in ["s3:///k", "koine:///k", "s3://a b/k", "s3://a@b/k", ""] {
            assert!(Location::parse(wrong).is_err(), "{wrong}");
        }
    }
}
