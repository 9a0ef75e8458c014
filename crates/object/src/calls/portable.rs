//! What is known of things as bytes, for programs that keep it or give it to each other.
//!
//! Invariant: bytes of another protocol are refused, and never taken for something else.

use super::PROTOCOL;
use super::field::{malformed, message, whole};
use crate::error::Result;
use crate::identity::{GroupInfo, UserInfo};
use crate::info::{BucketInfo, ObjectInfo, ObjectSummary, PartInfo, SnapshotInfo};
use crate::rights::Decision;
use crate::search_query::IndexInfo;
use crate::version::VersionSummary;

/// Something that is told by calls, and can be written down as bytes. What is equal has equal bytes.
pub trait Portable: Sized {
    /// As bytes, which programs of the same version read.
    fn to_bytes(&self) -> Vec<u8>;

    /// Out of such bytes; others are `InvalidArgument`.
    fn from_bytes(bytes: &[u8]) -> Result<Self>;
}

macro_rules! portable {
    ($($info:ty),* $(,)?) => {
        $(
            impl Portable for $info {
                fn to_bytes(&self) -> Vec<u8> {
                    message(&(PROTOCOL, self.clone()))
                }

                fn from_bytes(bytes: &[u8]) -> Result<Self> {
                    match bytes.strip_prefix(&message(&PROTOCOL)[..]) {
                        Some(rest) => whole(rest),
                        None => Err(malformed("it is of another version of Koine")),
                    }
                }
            }
        )*
    };
}

portable! {
    BucketInfo, Decision, GroupInfo, IndexInfo, ObjectInfo, ObjectSummary, PartInfo, SnapshotInfo, UserInfo, VersionSummary,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search_query::Indexed;

    #[test]
    fn what_is_known_comes_out_of_its_bytes() {
        let index = IndexInfo { of: Indexed::Tag("colour".to_owned()), whole: true };
        let bytes = index.to_bytes();
        assert_eq!(IndexInfo::from_bytes(&bytes).unwrap(), index);
        for wrong in [&bytes[..bytes.len() - 1], &bytes[1..], &[][..], &[bytes.as_slice(), &[0]].concat()] {
            assert!(IndexInfo::from_bytes(wrong).is_err());
        }
        assert!(UserInfo::from_bytes(&bytes).is_err());
    }
}
