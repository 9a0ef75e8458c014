//! Ids of versions, and whether a bucket keeps versions.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// Names one of the objects that a versioned bucket keeps under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VersionId {
    /// What was put while versions were not enabled.
    Null,
    /// What was put while they were. Of one name the larger is the newer.
    Number(u64),
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionId::Null => f.write_str("null"),
            VersionId::Number(number) => write!(f, "{number:016x}"),
        }
    }
}

impl FromStr for VersionId {
    type Err = Error;

    /// `null`, or 16 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, Error> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u64::from_str_radix(text, 16) {
            Ok(number) if digits => Ok(VersionId::Number(number)),
            _ if text == "null" => Ok(VersionId::Null),
            _ => {
                let message = format!("{text:?} is no version id: it is `null` or 16 hexadecimal digits");
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }
}

impl From<Option<u64>> for VersionId {
    fn from(number: Option<u64>) -> Self {
        number.map_or(VersionId::Null, VersionId::Number)
    }
}

/// What a bucket keeps under one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versioning {
    /// One object.
    #[default]
    Never,
    /// Every object that was put, until its version is deleted.
    Enabled,
    /// What was kept while versions were enabled, and one object beside it.
    Suspended,
}

impl Versioning {
    /// As S3 and the command line write it.
    pub fn name(self) -> &'static str {
        match self {
            Versioning::Never => "never",
            Versioning::Enabled => "enabled",
            Versioning::Suspended => "suspended",
        }
    }
}

impl fmt::Display for Versioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
