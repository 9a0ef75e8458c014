//! Arguments from C: strings, buffers, durabilities, hints, places for results.
//!
//! Invariant: NULL where something must be, and values that no constant of the header has, are errors.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use koine::numbered::{Access, Durability, Hint, Lifetime};

use crate::errors::Failure;

/// `koine_hint` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HintArgument {
    access: c_int,
    lifetime: c_int,
    expected_size: u64,
}

/// A path.
///
/// # Safety
/// `path` is NULL or a C string that outlives the result.
pub unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path, Failure> {
    if path.is_null() {
        return Err(Failure::invalid("the path is NULL"));
    }
    // SAFETY: as the caller of this function promises.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if bytes.is_empty() {
        return Err(Failure::invalid("the path is empty"));
    }
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// How many bytes a buffer has.
pub fn length(count: u64) -> Result<usize, Failure> {
    match usize::try_from(count) {
        Ok(count) if count <= isize::MAX as usize => Ok(count),
        _ => Err(Failure::invalid(format!("{count} bytes are more than memory can hold"))),
    }
}

/// Bytes to write.
///
/// # Safety
/// `buffer` is NULL, or has `count` bytes that nobody changes while the result is used.
pub unsafe fn bytes<'a>(buffer: *const c_void, count: u64) -> Result<&'a [u8], Failure> {
    let length = length(count)?;
    match (buffer.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::invalid("the buffer is NULL")),
        // SAFETY: as the caller of this function promises.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(buffer.cast(), length) }),
    }
}

/// A buffer to read into.
///
/// # Safety
/// `buffer` is NULL, or has `count` bytes, set to anything, that nobody else touches while the result is used.
pub unsafe fn bytes_mut<'a>(buffer: *mut c_void, count: u64) -> Result<&'a mut [u8], Failure> {
    let length = length(count)?;
    match (buffer.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Failure::invalid("the buffer is NULL")),
        // SAFETY: as the caller of this function promises.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(buffer.cast(), length) }),
    }
}

/// A `koine_sync`.
pub fn durability(sync: c_int) -> Result<Durability, Failure> {
    match sync {
        0 => Ok(Durability::Memory),
        1 => Ok(Durability::Written),
        2 => Ok(Durability::Sync),
        other => Err(Failure::invalid(format!("{other} is no koine_sync"))),
    }
}

/// A `koine_hint`; NULL says nothing.
///
/// # Safety
/// `hint` is NULL or points to a `koine_hint`.
pub unsafe fn hint(hint: *const HintArgument) -> Result<Hint, Failure> {
    if hint.is_null() {
        return Ok(Hint::default());
    }
    // SAFETY: as the caller of this function promises.
    let HintArgument { access, lifetime, expected_size } = unsafe { hint.read() };
    let access = match access {
        0 => None,
        1 => Some(Access::Sequential),
        2 => Some(Access::Random),
        other => return Err(Failure::invalid(format!("{other} is no koine_access"))),
    };
    let lifetime = match lifetime {
        0 => Lifetime::Unknown,
        1 => Lifetime::Short,
        2 => Lifetime::Long,
        other => return Err(Failure::invalid(format!("{other} is no koine_lifetime"))),
    };
    Ok(Hint { access, expected_len: (expected_size > 0).then_some(expected_size), lifetime })
}

/// Puts a result where the caller wants it.
///
/// # Safety
/// `place` is NULL or points to a place for a `T`.
pub unsafe fn put<T>(place: *mut T, what: &str, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::invalid(format!("the place for the {what} is NULL")));
    }
    // SAFETY: as the caller of this function promises.
    unsafe { place.write(value) };
    Ok(())
}
