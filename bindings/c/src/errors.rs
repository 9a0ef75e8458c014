//! Errors as C gets them, and the wall that stops panics.
//!
//! Invariants:
//! - An error is written where the caller wants it only when a call fails; after success the place is untouched.
//! - An error's message lives until the error is freed; freeing NULL or a second time does nothing.

use std::borrow::Cow;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use koine::numbered::ErrorKind;
use koine::object;

use crate::handles::Handles;

/// What C holds of an error.
pub enum Error {}

/// What went wrong.
#[derive(Debug)]
pub struct Failure {
    /// One of the constants of the header.
    pub kind: c_int,
    /// The kind's name.
    pub name: Cow<'static, str>,
    /// For people.
    pub message: String,
}

/// `KOINE_INVALID` of the header.
const INVALID: c_int = 2;
/// `KOINE_STOPPED` of the header.
const STOPPED: c_int = 10;
/// `KOINE_CLOSED` of the header.
const CLOSED: c_int = 15;
/// `KOINE_OTHER` of the header.
const OTHER: c_int = 99;
/// `KOINE_PANIC` of the header.
const PANIC: c_int = 100;

/// `KOINE_SYSTEM` of the header.
const SYSTEM: c_int = 238;
/// `KOINE_ABORTED` of the header.
const ABORTED: c_int = 239;

/// An error as C holds it: kind, its name, message.
static ERRORS: Handles<(c_int, CString, CString)> = Handles::of_memory("error");

impl Failure {
    /// A wrong argument.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure { kind: INVALID, name: "InvalidArgument".into(), message: message.into() }
    }

    /// What is open of a store that was closed.
    pub fn closed(what: &str) -> Failure {
        let message = format!("the session of the {what} was closed: open the store and the {what} again");
        Failure { kind: CLOSED, name: "Closed".into(), message }
    }

    /// Something of the parent's in a forked copy.
    pub fn forked(message: String) -> Failure {
        Failure { kind: STOPPED, name: "Stopped".into(), message }
    }

    /// A file descriptor of the caller's that failed.
    pub fn system(what: &str, error: &std::io::Error) -> Failure {
        Failure { kind: SYSTEM, name: "System".into(), message: format!("cannot {what} the file descriptor: {error}") }
    }

    /// A callback that gave up.
    pub fn aborted(message: String) -> Failure {
        Failure { kind: ABORTED, name: "Aborted".into(), message }
    }
}

/// The constants `KOINE_…` of `koine_kind`.
fn kind_number(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::Refused => 1,
        ErrorKind::Invalid => INVALID,
        ErrorKind::NotFound => 3,
        ErrorKind::Full => 4,
        ErrorKind::Expired => 5,
        ErrorKind::Owned => 6,
        ErrorKind::Damaged => 7,
        ErrorKind::Unknown => 8,
        ErrorKind::Device => 9,
        ErrorKind::Stopped => 10,
        ErrorKind::Unsupported => 11,
        ErrorKind::Busy => 12,
        ErrorKind::Disconnected => 13,
        ErrorKind::TimedOut => 14,
        // A kind that is newer than this binding.
        _ => OTHER,
    }
}

impl From<koine::numbered::Error> for Failure {
    fn from(error: koine::numbered::Error) -> Self {
        let kind = error.kind();
        Failure { kind: kind_number(kind), name: format!("{kind:?}").into(), message: error.to_string() }
    }
}

/// The constants `KOINE_…` of the kinds of named objects. A kind has one number for ever.
fn object_kind_number(kind: object::ErrorKind) -> c_int {
    use object::ErrorKind as Kind;
    const FROM_200: &[Kind] = &[
        Kind::NoSuchBucket,
        Kind::NoSuchKey,
        Kind::NoSuchUpload,
        Kind::NoSuchPart,
        Kind::NoSuchVersion,
        Kind::NoSuchSnapshot,
        Kind::NoSuchIndex,
        Kind::NoSuchGroup,
        Kind::NoSuchUser,
        Kind::NoSuchAccessKey,
        Kind::NoSuchPolicy,
        Kind::PreconditionFailed,
        Kind::NotModified,
        Kind::BucketAlreadyOwnedByYou,
        Kind::BucketAlreadyExists,
        Kind::BucketNotEmpty,
        Kind::AlreadyExists,
        Kind::NotEmpty,
        Kind::AccessDenied,
        Kind::LogInFailed,
        Kind::MalformedPolicy,
        Kind::ReadOnly,
        Kind::QuotaExceeded,
        Kind::InvalidBucketName,
        Kind::InvalidRequest,
        Kind::InvalidRange,
        Kind::BadDigest,
        Kind::InvalidDigest,
        Kind::EntityTooSmall,
        Kind::EntityTooLarge,
        Kind::IncompleteBody,
        Kind::InvalidPart,
        Kind::InvalidPartOrder,
        Kind::KeyTooLong,
        Kind::MetadataTooLarge,
        Kind::InvalidTag,
        Kind::TransactionTooLarge,
        Kind::Conflict,
    ];
    let below = match kind {
        Kind::InvalidArgument => ErrorKind::Invalid,
        Kind::Full => ErrorKind::Full,
        Kind::Expired => ErrorKind::Expired,
        Kind::Damaged => ErrorKind::Damaged,
        Kind::Device => ErrorKind::Device,
        Kind::Stopped => ErrorKind::Stopped,
        Kind::Unsupported => ErrorKind::Unsupported,
        Kind::Busy => ErrorKind::Busy,
        Kind::Disconnected => ErrorKind::Disconnected,
        Kind::TimedOut => ErrorKind::TimedOut,
        kind => return FROM_200.iter().position(|of| *of == kind).map_or(OTHER, |at| 200 + at as c_int),
    };
    kind_number(below)
}

impl From<object::Error> for Failure {
    fn from(error: object::Error) -> Self {
        let kind = error.kind();
        let name = format!("{kind:?}").into();
        Failure { kind: object_kind_number(kind), name, message: error.message().to_owned() }
    }
}

/// Of an object that is open as a file.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<object::Error>());
        inner.map_or_else(|| Failure::system("use", &error), |inner| inner.clone().into())
    }
}

impl From<koine::Error> for Failure {
    fn from(error: koine::Error) -> Self {
        if let koine::Error::Objects(error) = error {
            return error.into();
        }
        let kind = match &error {
            koine::Error::BadPlace(_) | koine::Error::BadSize(_) => ErrorKind::Invalid,
            koine::Error::Missing(_) | koine::Error::MissingAt(_) => ErrorKind::NotFound,
            koine::Error::Occupied { .. } | koine::Error::NotAStore { .. } | koine::Error::Blank { .. } => {
                ErrorKind::Unknown
            }
            koine::Error::Io { .. } => ErrorKind::Device,
            other => other.store_kind().unwrap_or(ErrorKind::Device),
        };
        Failure { kind: kind_number(kind), name: format!("{kind:?}").into(), message: error.to_string() }
    }
}

/// Runs a call: gives its result, or `failed` with the error where the caller wants it.
pub fn call<T>(error: *mut *mut Error, failed: T, work: impl FnOnce() -> Result<T, Failure>) -> T {
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let message = format!("the library failed within; close the store: {text}");
        Err(Failure { kind: PANIC, name: "Panic".into(), message })
    });
    match done {
        Ok(result) => result,
        Err(failure) => {
            if !error.is_null() {
                let plain = |text: &str| CString::new(text.replace('\0', " ")).unwrap_or_default();
                let (name, message) = (plain(&failure.name), plain(&failure.message));
                // SAFETY: the caller gives NULL or a place for one pointer.
                unsafe { error.write(ERRORS.add((failure.kind, name, message))) };
            }
            failed
        }
    }
}

/// The kind of an error; 0 when it is none.
#[unsafe(no_mangle)]
pub extern "C" fn koine_error_kind(error: *const Error) -> c_int {
    catch_unwind(|| ERRORS.get(error).map_or(0, |error| error.0)).unwrap_or(PANIC)
}

/// The name of the kind of an error, until it is freed; an empty one when it is none.
#[unsafe(no_mangle)]
pub extern "C" fn koine_error_name(error: *const Error) -> *const c_char {
    catch_unwind(|| ERRORS.get(error).map_or(c"".as_ptr(), |error| error.1.as_ptr())).unwrap_or(c"".as_ptr())
}

/// The message of an error, until it is freed; an empty one when it is none.
#[unsafe(no_mangle)]
pub extern "C" fn koine_error_message(error: *const Error) -> *const c_char {
    // The error itself lies in the table, so that its text stays where it is until it is removed there.
    catch_unwind(|| ERRORS.get(error).map_or(c"".as_ptr(), |error| error.2.as_ptr())).unwrap_or(c"".as_ptr())
}

/// Frees an error.
#[unsafe(no_mangle)]
pub extern "C" fn koine_error_free(error: *mut Error) {
    let _ = catch_unwind(|| drop(ERRORS.remove(error)));
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let mut error = std::ptr::null_mut();
        let result: i64 = call(&raw mut error, -1, || panic!("at {}", 7));
        assert_eq!((result, koine_error_kind(error)), (-1, PANIC));
        // SAFETY: the error is not freed yet.
        let message = unsafe { CStr::from_ptr(koine_error_message(error)) };
        assert!(message.to_str().unwrap().ends_with("at 7"), "{message:?}");
        koine_error_free(error);
        koine_error_free(error);
        koine_error_free(std::ptr::null_mut());
        assert_eq!(koine_error_kind(error), 0);
        // Nobody wants to know.
        assert_eq!(call(std::ptr::null_mut(), 1, || Err(Failure::invalid("x"))), 1);
    }
}
