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

/// What S3 calls an error.
pub fn s3(error: Error) -> S3Error {
    use http::StatusCode as Status;
    let code = match error.kind() {
        ErrorKind::NoSuchBucket => S3ErrorCode::NoSuchBucket,
        ErrorKind::NoSuchKey => S3ErrorCode::NoSuchKey,
        ErrorKind::NoSuchUpload => S3ErrorCode::NoSuchUpload,
        ErrorKind::NoSuchPart => return coded("InvalidPartNumber", Status::RANGE_NOT_SATISFIABLE, error.message()),
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
        kind => {
            tracing::error!(?kind, %error, "the store failed");
            let message = "We encountered an internal error. The server's log names its cause.";
            return S3Error::with_message(S3ErrorCode::InternalError, message);
        }
    };
    S3Error::with_message(code, error.message().to_owned())
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
    fn places_in_the_store_are_not_told() {
        let error = s3(Error::new(ErrorKind::Damaged, "extent at 4096 of /secret/place"));
        assert!(!error.message().unwrap().contains("secret"));
    }
}
