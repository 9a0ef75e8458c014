//! Errors as C gets them, and the wall that stops panics.
//!
//! Invariants:
//! - An error is written where the caller wants it only when a call fails; after success the place is untouched.
//! - An error's message lives until the error is freed; freeing NULL or a second time does nothing.

use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use koine::numbered::ErrorKind;

use crate::handles::Handles;

/// What C holds of an error.
pub enum Error {}

/// What went wrong.
#[derive(Debug)]
pub struct Failure {
    /// One of the constants of the header.
    pub kind: c_int,
    /// For people.
    pub message: String,
}

/// `KOINE_INVALID` of the header.
const INVALID: c_int = 2;
/// `KOINE_PANIC` of the header.
const PANIC: c_int = 100;

static ERRORS: Handles<(c_int, CString)> = Handles::new("error");

impl Failure {
    /// A wrong argument.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure { kind: INVALID, message: message.into() }
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
        // A kind that is newer than this binding.
        _ => 99,
    }
}

impl From<koine::numbered::Error> for Failure {
    fn from(error: koine::numbered::Error) -> Self {
        Failure { kind: kind_number(error.kind()), message: error.to_string() }
    }
}

impl From<koine::Error> for Failure {
    fn from(error: koine::Error) -> Self {
        let kind = match &error {
            koine::Error::BadPlace(_) | koine::Error::BadSize(_) => ErrorKind::Invalid,
            koine::Error::Missing(_) => ErrorKind::NotFound,
            koine::Error::Occupied { .. } => ErrorKind::Unknown,
            koine::Error::Io { .. } => ErrorKind::Device,
            other => other.store_kind().unwrap_or(ErrorKind::Device),
        };
        Failure { kind: kind_number(kind), message: error.to_string() }
    }
}

/// Runs a call: gives its result, or `failed` with the error where the caller wants it.
pub fn call<T>(error: *mut *mut Error, failed: T, work: impl FnOnce() -> Result<T, Failure>) -> T {
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Failure { kind: PANIC, message: format!("the library failed within; close the store: {text}") })
    });
    match done {
        Ok(result) => result,
        Err(failure) => {
            if !error.is_null() {
                let message = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
                // SAFETY: the caller gives NULL or a place for one pointer.
                unsafe { error.write(ERRORS.add((failure.kind, message))) };
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

/// The message of an error, until it is freed; an empty one when it is none.
#[unsafe(no_mangle)]
pub extern "C" fn koine_error_message(error: *const Error) -> *const c_char {
    // The error itself lies in the table, so that its text stays where it is until it is removed there.
    catch_unwind(|| ERRORS.get(error).map_or(c"".as_ptr(), |error| error.1.as_ptr())).unwrap_or(c"".as_ptr())
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
