//! Errors of this floor as failures of the wire: the text begins with the name of the kind.
//!
//! Invariant: kind and message come out as they went in.

use koine_kv::ErrorKind as Kv;

use super::field::{Field, Taken};
use crate::error::{Error, ErrorKind, Result};

/// Every kind.
const KINDS: &[ErrorKind] = &[
    ErrorKind::NoSuchBucket,
    ErrorKind::NoSuchKey,
    ErrorKind::NoSuchUpload,
    ErrorKind::NoSuchPart,
    ErrorKind::NoSuchVersion,
    ErrorKind::NoSuchSnapshot,
    ErrorKind::NoSuchIndex,
    ErrorKind::NoSuchGroup,
    ErrorKind::NoSuchUser,
    ErrorKind::NoSuchAccessKey,
    ErrorKind::NoSuchPolicy,
    ErrorKind::PreconditionFailed,
    ErrorKind::NotModified,
    ErrorKind::BucketAlreadyOwnedByYou,
    ErrorKind::BucketAlreadyExists,
    ErrorKind::BucketNotEmpty,
    ErrorKind::AlreadyExists,
    ErrorKind::NotEmpty,
    ErrorKind::AccessDenied,
    ErrorKind::LogInFailed,
    ErrorKind::MalformedPolicy,
    ErrorKind::ReadOnly,
    ErrorKind::QuotaExceeded,
    ErrorKind::InvalidBucketName,
    ErrorKind::InvalidArgument,
    ErrorKind::InvalidRequest,
    ErrorKind::InvalidRange,
    ErrorKind::BadDigest,
    ErrorKind::InvalidDigest,
    ErrorKind::EntityTooSmall,
    ErrorKind::EntityTooLarge,
    ErrorKind::IncompleteBody,
    ErrorKind::InvalidPart,
    ErrorKind::InvalidPartOrder,
    ErrorKind::KeyTooLong,
    ErrorKind::MetadataTooLarge,
    ErrorKind::InvalidTag,
    ErrorKind::TransactionTooLarge,
    ErrorKind::Conflict,
    ErrorKind::Full,
    ErrorKind::Expired,
    ErrorKind::Damaged,
    ErrorKind::Stopped,
    ErrorKind::Busy,
    ErrorKind::Unsupported,
    ErrorKind::Device,
    ErrorKind::Disconnected,
    ErrorKind::TimedOut,
    ErrorKind::Interrupted,
];

/// The kind that the failure of the wire has.
fn kind_below(kind: ErrorKind) -> Kv {
    match kind {
        ErrorKind::NoSuchBucket
        | ErrorKind::NoSuchKey
        | ErrorKind::NoSuchUpload
        | ErrorKind::NoSuchPart
        | ErrorKind::NoSuchVersion
        | ErrorKind::NoSuchSnapshot
        | ErrorKind::NoSuchIndex
        | ErrorKind::NoSuchGroup
        | ErrorKind::NoSuchUser
        | ErrorKind::NoSuchAccessKey
        | ErrorKind::NoSuchPolicy => Kv::NotFound,
        ErrorKind::PreconditionFailed | ErrorKind::Conflict => Kv::Refused,
        ErrorKind::Full | ErrorKind::QuotaExceeded => Kv::Full,
        ErrorKind::Expired => Kv::Expired,
        ErrorKind::Damaged => Kv::Damaged,
        ErrorKind::Stopped => Kv::Stopped,
        ErrorKind::Busy => Kv::Busy,
        ErrorKind::Unsupported => Kv::Unsupported,
        ErrorKind::Device => Kv::Device,
        ErrorKind::Disconnected => Kv::Disconnected,
        ErrorKind::TimedOut => Kv::TimedOut,
        ErrorKind::Interrupted => Kv::Interrupted,
        _ => Kv::Invalid,
    }
}

/// The error of the wire.
pub(crate) fn below(error: &Error) -> koine_kv::Error {
    koine_kv::Error::new(kind_below(error.kind()), text(error))
}

fn text(error: &Error) -> String {
    format!("{:?}: {}", error.kind(), error.message())
}

/// The error that an error of the wire tells; one that no handler made is the wire's own.
pub(crate) fn above(error: koine_kv::Error) -> Error {
    told(error.message()).unwrap_or_else(|| match error.kind() {
        // Of the connection, not of a stored record.
        Kv::NotFound | Kv::Unknown => Error::new(ErrorKind::Stopped, error.message().to_owned()),
        _ => error.into(),
    })
}

fn told(text: &str) -> Option<Error> {
    let (name, message) = text.split_once(": ")?;
    let kind = KINDS.iter().find(|kind| format!("{kind:?}") == name)?;
    Some(Error::new(*kind, message))
}

/// What became of one of several.
impl<T: Field> Field for Result<T> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Ok(field) => {
                out.push(0);
                field.put(out);
            }
            Err(error) => {
                out.push(1);
                text(error).put(out);
            }
        }
    }

    fn take(from: &mut Taken<'_>) -> Result<Self> {
        match from.tag()? {
            0 => Ok(Ok(T::take(from)?)),
            1 => {
                let text = String::take(from)?;
                Ok(Err(told(&text).ok_or_else(|| super::field::malformed("an error of no kind"))?))
            }
            other => Err(super::field::malformed(format!("an outcome {other}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_out_as_it_went_in() {
        for kind in KINDS {
            let error = Error::new(*kind, "what: it was");
            let again = above(below(&error));
            assert_eq!((again.kind(), again.message()), (*kind, "what: it was"));
        }
        // The last one of the enumeration: one that is added behind it belongs into the list.
        assert_eq!(KINDS.len(), ErrorKind::Interrupted as usize + 1);
    }

    #[test]
    fn errors_of_the_wire_itself_keep_what_they_say() {
        let lost = above(koine_kv::Error::new(Kv::Stopped, "the server is gone: connect again"));
        assert_eq!((lost.kind(), lost.message()), (ErrorKind::Stopped, "the server is gone: connect again"));
    }
}
