//! From the errors of the object floor to the codes of S3: the only place where one becomes the other.
//!
//! Invariants:
//! - A store that fails says so with a 5xx; nothing that failed is told as absent.
//! - Messages of the device (places, paths) go to the log, not to the client.

use koine_object::{Error, ErrorKind};
use s3s::{S3Error, S3ErrorCode};

/// An S3 error of a code that the library may not know, with its status.
pub fn coded(code: &'static str, status: http::StatusCode, message: impl Into<String>) -> S3Error {
    let code = S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InternalError);
    let mut error = S3Error::with_message(code, message.into());
    error.set_status_code(status);
    error
}

/// An error of the store's own kinds, with a code that S3 has not.
fn named(code: &'static str, status: u16, error: &Error) -> S3Error {
    let status = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    coded(code, status, error.message())
}

/// An error that is the caller's.
pub fn invalid_argument(message: impl Into<String>) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidArgument, message.into())
}

/// A document that is not what it should be.
pub fn malformed_xml() -> S3Error {
    S3Error::with_message(S3ErrorCode::MalformedXML, MALFORMED_XML)
}

/// What S3 says of a document that is not what it should be.
pub const MALFORMED_XML: &str =
    "The XML you provided was not well-formed or did not validate against our published schema.";

/// The words of S3 for errors that it describes always alike. Clients compare them; of other errors the store's own
/// explanation is told.
fn fixed(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::NoSuchBucket => "The specified bucket does not exist.",
        ErrorKind::NoSuchKey => "The specified key does not exist.",
        ErrorKind::NoSuchUpload => {
            "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been \
             aborted or completed."
        }
        ErrorKind::NoSuchPart => "The requested partnumber is not satisfiable.",
        ErrorKind::NoSuchVersion => "The specified version does not exist.",
        ErrorKind::NoSuchPolicy => "The bucket policy does not exist.",
        ErrorKind::PreconditionFailed => "At least one of the pre-conditions you specified did not hold.",
        ErrorKind::NotModified => "Not Modified",
        ErrorKind::BucketAlreadyOwnedByYou => {
            "Your previous request to create the named bucket succeeded and you already own it."
        }
        ErrorKind::BucketAlreadyExists => {
            "The requested bucket name is not available. The bucket name can not be an existing collection, and the \
             bucket namespace is shared by all users of the system. Please select a different name and try again."
        }
        ErrorKind::BucketNotEmpty => "The bucket you tried to delete is not empty.",
        ErrorKind::InvalidBucketName => "The specified bucket is not valid.",
        ErrorKind::InvalidDigest => "The Content-Md5 you specified is not valid.",
        ErrorKind::EntityTooSmall => "Your proposed upload is smaller than the minimum allowed size",
        ErrorKind::EntityTooLarge => "Your proposed upload exceeds the maximum allowed object size.",
        // S3 has two spaces there.
        ErrorKind::InvalidPart => {
            "One or more of the specified parts could not be found.  The part may not have been uploaded, or the \
             specified entity tag may not match the part's entity tag."
        }
        ErrorKind::InvalidPartOrder => {
            "The list of parts was not in ascending order. Parts must be ordered by part number."
        }
        ErrorKind::KeyTooLong => "Your key is too long.",
        ErrorKind::MetadataTooLarge => "Your metadata headers exceed the maximum allowed metadata size",
        ErrorKind::Busy => "Please reduce your request rate.",
        _ => return None,
    })
}

/// What S3 calls an error.
pub fn s3(error: Error) -> S3Error {
    use http::StatusCode as Status;
    let code = match error.kind() {
        ErrorKind::NoSuchBucket => S3ErrorCode::NoSuchBucket,
        ErrorKind::NoSuchKey => S3ErrorCode::NoSuchKey,
        ErrorKind::NoSuchUpload => S3ErrorCode::NoSuchUpload,
        ErrorKind::NoSuchPart => {
            let message = fixed(error.kind()).unwrap_or_default();
            return coded("InvalidPartNumber", Status::RANGE_NOT_SATISFIABLE, message);
        }
        ErrorKind::NoSuchVersion => S3ErrorCode::NoSuchVersion,
        ErrorKind::NoSuchPolicy => S3ErrorCode::NoSuchBucketPolicy,
        ErrorKind::NoSuchSnapshot | ErrorKind::NoSuchIndex => return named("NoSuchResource", 404, &error),
        ErrorKind::NoSuchGroup | ErrorKind::NoSuchUser | ErrorKind::NoSuchAccessKey => {
            return named("NoSuchEntity", 404, &error);
        }
        ErrorKind::PreconditionFailed => S3ErrorCode::PreconditionFailed,
        ErrorKind::NotModified => S3ErrorCode::NotModified,
        ErrorKind::BucketAlreadyOwnedByYou => S3ErrorCode::BucketAlreadyOwnedByYou,
        ErrorKind::BucketAlreadyExists => S3ErrorCode::BucketAlreadyExists,
        ErrorKind::AlreadyExists => return named("EntityAlreadyExists", 409, &error),
        ErrorKind::NotEmpty => return named("DeleteConflict", 409, &error),
        ErrorKind::AccessDenied | ErrorKind::LogInFailed => S3ErrorCode::AccessDenied,
        ErrorKind::MalformedPolicy => S3ErrorCode::MalformedPolicy,
        ErrorKind::ReadOnly => S3ErrorCode::MethodNotAllowed,
        ErrorKind::QuotaExceeded => return named("QuotaExceeded", 403, &error),
        ErrorKind::InvalidTag => S3ErrorCode::InvalidTag,
        ErrorKind::TransactionTooLarge => S3ErrorCode::InvalidRequest,
        ErrorKind::BucketNotEmpty => S3ErrorCode::BucketNotEmpty,
        ErrorKind::InvalidBucketName => S3ErrorCode::InvalidBucketName,
        ErrorKind::InvalidArgument => S3ErrorCode::InvalidArgument,
        ErrorKind::InvalidRequest => S3ErrorCode::InvalidRequest,
        ErrorKind::InvalidRange => S3ErrorCode::InvalidRange,
        ErrorKind::BadDigest => S3ErrorCode::BadDigest,
        ErrorKind::InvalidDigest => S3ErrorCode::InvalidDigest,
        ErrorKind::EntityTooSmall => S3ErrorCode::EntityTooSmall,
        ErrorKind::EntityTooLarge => S3ErrorCode::EntityTooLarge,
        ErrorKind::IncompleteBody => S3ErrorCode::IncompleteBody,
        ErrorKind::InvalidPart => S3ErrorCode::InvalidPart,
        ErrorKind::InvalidPartOrder => S3ErrorCode::InvalidPartOrder,
        ErrorKind::KeyTooLong => S3ErrorCode::KeyTooLongError,
        ErrorKind::MetadataTooLarge => S3ErrorCode::MetadataTooLarge,
        ErrorKind::Conflict => return coded("ConditionalRequestConflict", Status::CONFLICT, error.message()),
        ErrorKind::Unsupported => S3ErrorCode::NotImplemented,
        ErrorKind::Busy => S3ErrorCode::SlowDown,
        ErrorKind::Full => {
            tracing::error!(%error, "the store is full");
            let message = "The store has no space left. Deleting objects still works.";
            return coded("InsufficientStorage", Status::INSUFFICIENT_STORAGE, message);
        }
        ErrorKind::Stopped => {
            tracing::error!(%error, "the store refuses work");
            let message = "The store has stopped taking work since a write failed. It must be restarted.";
            return S3Error::with_message(S3ErrorCode::ServiceUnavailable, message);
        }
        ErrorKind::Disconnected | ErrorKind::TimedOut => {
            tracing::error!(%error, "the store is not reached");
            let message = "The store cannot be reached at present. Try again.";
            return S3Error::with_message(S3ErrorCode::ServiceUnavailable, message);
        }
        kind => {
            tracing::error!(?kind, %error, "the store failed");
            let message = "We encountered an internal error. The server's log names its cause.";
            return S3Error::with_message(S3ErrorCode::InternalError, message);
        }
    };
    S3Error::with_message(code, fixed(error.kind()).unwrap_or(error.message()).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_statuses() {
        for (kind, code, status) in [
            (ErrorKind::NoSuchKey, "NoSuchKey", 404),
            (ErrorKind::PreconditionFailed, "PreconditionFailed", 412),
            (ErrorKind::NotModified, "NotModified", 304),
            (ErrorKind::BucketNotEmpty, "BucketNotEmpty", 409),
            (ErrorKind::InvalidRange, "InvalidRange", 416),
            (ErrorKind::Conflict, "ConditionalRequestConflict", 409),
            (ErrorKind::Full, "InsufficientStorage", 507),
            (ErrorKind::Damaged, "InternalError", 500),
            (ErrorKind::Expired, "InternalError", 500),
            (ErrorKind::Stopped, "ServiceUnavailable", 503),
            (ErrorKind::Disconnected, "ServiceUnavailable", 503),
            (ErrorKind::TimedOut, "ServiceUnavailable", 503),
            (ErrorKind::Unsupported, "NotImplemented", 501),
            (ErrorKind::MetadataTooLarge, "MetadataTooLarge", 400),
            (ErrorKind::KeyTooLong, "KeyTooLongError", 400),
            (ErrorKind::NoSuchVersion, "NoSuchVersion", 404),
            (ErrorKind::NoSuchSnapshot, "NoSuchResource", 404),
            (ErrorKind::NoSuchUser, "NoSuchEntity", 404),
            (ErrorKind::BucketAlreadyExists, "BucketAlreadyExists", 409),
            (ErrorKind::AlreadyExists, "EntityAlreadyExists", 409),
            (ErrorKind::NotEmpty, "DeleteConflict", 409),
            (ErrorKind::AccessDenied, "AccessDenied", 403),
            (ErrorKind::LogInFailed, "AccessDenied", 403),
            (ErrorKind::MalformedPolicy, "MalformedPolicy", 400),
            (ErrorKind::ReadOnly, "MethodNotAllowed", 405),
            (ErrorKind::QuotaExceeded, "QuotaExceeded", 403),
            (ErrorKind::InvalidTag, "InvalidTag", 400),
        ] {
            let error = s3(Error::new(kind, "why"));
            assert_eq!(error.code().as_str(), code);
            assert_eq!(error.status_code().unwrap(), status, "{code}");
        }
    }

    #[test]
    fn errors_are_told_in_the_words_of_s3() {
        for (kind, message) in [
            (ErrorKind::NoSuchBucket, "The specified bucket does not exist."),
            (ErrorKind::NoSuchKey, "The specified key does not exist."),
            (ErrorKind::NoSuchPart, "The requested partnumber is not satisfiable."),
            (ErrorKind::PreconditionFailed, "At least one of the pre-conditions you specified did not hold."),
            (ErrorKind::MalformedPolicy, "why"),
            (ErrorKind::QuotaExceeded, "why"),
        ] {
            assert_eq!(s3(Error::new(kind, "why")).message(), Some(message));
        }
    }

    #[test]
    fn places_in_the_store_are_not_told() {
        let error = s3(Error::new(ErrorKind::Damaged, "extent at 4096 of /secret/place"));
        assert!(!error.message().unwrap().contains("secret"));
    }
}
