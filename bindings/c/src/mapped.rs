//! Calls on bytes of objects that are seen without a copy.

use std::ffi::c_void;

use koine::numbered::ObjectBytes;

use crate::errors::{Error, Failure, call};
use crate::handles::Handles;
use crate::objects::{OBJECTS, Object};

/// What C holds of mapped bytes.
pub enum Mapped {}

static MAPPED: Handles<ObjectBytes> = Handles::new("mapped bytes");

/// Maps a range of an object.
#[unsafe(no_mangle)]
pub extern "C" fn koine_object_map(
    object: *mut Object,
    offset: u64,
    count: u64,
    error: *mut *mut Error,
) -> *mut Mapped {
    call(error, std::ptr::null_mut(), || {
        let object = OBJECTS.get(object)?;
        let length = usize::try_from(count).unwrap_or(usize::MAX);
        Ok(MAPPED.add(object.map(offset, length)?))
    })
}

/// Where mapped bytes lie; NULL when the handle is none.
#[unsafe(no_mangle)]
pub extern "C" fn koine_mapped_bytes(mapped: *const Mapped) -> *const c_void {
    call(std::ptr::null_mut(), std::ptr::null(), || Ok::<*const c_void, Failure>(MAPPED.get(mapped)?.as_ptr().cast()))
}

/// How many they are; 0 when the handle is none.
#[unsafe(no_mangle)]
pub extern "C" fn koine_mapped_length(mapped: *const Mapped) -> u64 {
    call(std::ptr::null_mut(), 0, || Ok::<u64, Failure>(MAPPED.get(mapped)?.len() as u64))
}

/// Whether they are a copy.
#[unsafe(no_mangle)]
pub extern "C" fn koine_mapped_is_copy(mapped: *const Mapped) -> bool {
    call(std::ptr::null_mut(), false, || Ok::<bool, Failure>(!MAPPED.get(mapped)?.is_mapping()))
}

/// Gives mapped bytes back.
#[unsafe(no_mangle)]
pub extern "C" fn koine_mapped_free(mapped: *mut Mapped, error: *mut *mut Error) -> bool {
    call(error, false, || Ok(MAPPED.leave(mapped) || MAPPED.remove(mapped).map(|_| true)?))
}
