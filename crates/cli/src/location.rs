//! What `ls` and `cp` name: a local path, or `s3://BUCKET/KEY`.

use std::fmt;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};

/// A local path, or a bucket and a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// On this machine.
    Local(PathBuf),
    /// In a bucket.
    S3 {
        /// The bucket; empty for "all buckets".
        bucket: String,
        /// The key or prefix, byte for byte; may be empty.
        key: String,
    },
}

impl Location {
    /// Reads what the command line says.
    pub fn parse(text: &str) -> Outcome<Self> {
        let Some(rest) = text.strip_prefix("s3://") else {
            if text.is_empty() {
                return Err(Failure::usage("an empty path; give a local path or s3://BUCKET/KEY"));
            }
            return Ok(Location::Local(PathBuf::from(text)));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() && !key.is_empty() {
            return Err(Failure::usage(format!("{text}: the bucket is missing; write s3://BUCKET/KEY")));
        }
        if !bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')) {
            return Err(Failure::usage(format!("{text}: {bucket:?} is no bucket name")));
        }
        Ok(Location::S3 { bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Local(path) => path.display().fmt(f),
            Location::S3 { bucket, key } => write!(f, "s3://{bucket}/{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_byte_for_byte() {
        let check = |text: &str, bucket: &str, key: &str| {
            let expected = Location::S3 { bucket: bucket.to_owned(), key: key.to_owned() };
            assert_eq!(Location::parse(text).ok(), Some(expected), "{text}");
        };
        check("s3://", "", "");
        check("s3://b", "b", "");
        check("s3://b/", "b", "");
        check("s3://b//a b+%2F/", "b", "/a b+%2F/");
        assert_eq!(Location::parse("./s3:/b").ok(), Some(Location::Local(PathBuf::from("./s3:/b"))));
        assert!(Location::parse("s3:///k").is_err());
        assert!(Location::parse("s3://a b/k").is_err());
        assert!(Location::parse("").is_err());
    }
}
