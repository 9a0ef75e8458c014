//! Ids of objects and uploads. Invariant: an id is drawn, and stands for nothing else after.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// The identity of an object within its bucket's space: random, stable over write, truncate and rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Names a multipart upload: the time of its creation and 64 random bits, so that ids of one name sort by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(pub [u8; 16]);

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for UploadId {
    type Err = Error;

    /// 32 hexadecimal digits; anything else is an upload that does not exist.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut id = [0; 16];
        hex::decode_to_slice(text, &mut id)
            .map_err(|_| Error::new(ErrorKind::NoSuchUpload, format!("there is no upload {text:?}")))?;
        Ok(UploadId(id))
    }
}
