//! Calls on objects.

use std::ffi::{c_char, c_int, c_void};

use koine::numbered::{self, CreateOptions};

use crate::arguments::{HintArgument, bytes, bytes_mut, durability, hint, put};
use crate::errors::{Error, Failure, call};
use crate::handles::Handles;
use crate::names;
use crate::stores::{STORES, Store};

/// What C holds of an object.
pub enum Object {}

pub static OBJECTS: Handles<numbered::Object> = Handles::new("object");

/// `koine_object_status` of the header.
#[repr(C)]
pub struct ObjectStatus {
    store: *const c_char,
    number: u64,
    size: u64,
    allocated: u64,
    reserved: u64,
    version: u64,
}

/// Creates an object and opens it.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_object_create(
    store: *mut Store,
    size: u64,
    hint: *const HintArgument,
    error: *mut *mut Error,
) -> *mut Object {
    call(error, std::ptr::null_mut(), || {
        let store = STORES.get(store)?;
        // SAFETY: the header asks for NULL or a hint.
        let hint = unsafe { self::hint(hint) }?;
        Ok(OBJECTS.add(store.create_with(CreateOptions { size, hint, ..CreateOptions::default() })?))
    })
}

/// Opens an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_object_open(
    store: *mut Store,
    number: u64,
    hint: *const HintArgument,
    error: *mut *mut Error,
) -> *mut Object {
    call(error, std::ptr::null_mut(), || {
        let store = STORES.get(store)?;
        // SAFETY: the header asks for NULL or a hint.
        let hint = unsafe { self::hint(hint) }?;
        Ok(OBJECTS.add(store.open_with(number, hint)?))
    })
}

/// Closes an object. The handle ends also when this fails, but not for a wrong argument.
#[unsafe(no_mangle)]
pub extern "C" fn koine_object_close(object: *mut Object, sync: c_int, error: *mut *mut Error) -> bool {
    call(error, false, || {
        let durability = durability(sync)?;
        if OBJECTS.leave(object) {
            return Ok(true);
        }
        Ok(OBJECTS.remove(object)?.close(durability).map(|()| true)?)
    })
}

/// Deletes an object and closes it.
#[unsafe(no_mangle)]
pub extern "C" fn koine_object_delete(object: *mut Object, sync: c_int, error: *mut *mut Error) -> bool {
    call(error, false, || {
        OBJECTS.get(object)?.delete(durability(sync)?)?;
        // Another thread may have been faster: then it is closed all the same.
        drop(OBJECTS.remove(object));
        Ok(true)
    })
}

/// Sets an object's size.
#[unsafe(no_mangle)]
pub extern "C" fn koine_object_resize(object: *mut Object, size: u64, sync: c_int, error: *mut *mut Error) -> bool {
    call(error, false, || Ok(OBJECTS.get(object)?.resize(size, durability(sync)?).map(|()| true)?))
}

/// Makes everything so far durable.
#[unsafe(no_mangle)]
pub extern "C" fn koine_object_sync(object: *mut Object, error: *mut *mut Error) -> bool {
    call(error, false, || Ok(OBJECTS.get(object)?.sync().map(|()| true)?))
}

/// Writes; gives `count`.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_object_write(
    object: *mut Object,
    offset: u64,
    count: u64,
    buffer: *const c_void,
    sync: c_int,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        let object = OBJECTS.get(object)?;
        // SAFETY: the header asks for a buffer of so many bytes.
        let data = unsafe { bytes(buffer, count) }?;
        object.write(offset, data, durability(sync)?)?;
        Ok(count as i64)
    })
}

/// Reads; gives a short count at the object's end only.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_object_read(
    object: *mut Object,
    offset: u64,
    count: u64,
    buffer: *mut c_void,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        let object = OBJECTS.get(object)?;
        // SAFETY: the header asks for a buffer of so many bytes.
        let buffer = unsafe { bytes_mut(buffer, count) }?;
        Ok(object.read(offset, buffer)? as i64)
    })
}

/// Says that a range will be read soon.
#[unsafe(no_mangle)]
pub extern "C" fn koine_object_will_need(object: *mut Object, offset: u64, count: u64, error: *mut *mut Error) -> bool {
    call(error, false, || Ok(OBJECTS.get(object)?.will_need(offset, count).map(|()| true)?))
}

/// The number of an object; 0, which no object has, when the handle is none.
#[unsafe(no_mangle)]
pub extern "C" fn koine_object_number(object: *const Object) -> u64 {
    call(std::ptr::null_mut(), 0, || Ok::<u64, Failure>(OBJECTS.get(object)?.number()))
}

/// The status of an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_object_get_status(
    object: *const Object,
    status: *mut ObjectStatus,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let told = OBJECTS.get(object)?.status()?;
        let value = ObjectStatus {
            store: names::keep(&told.store),
            number: told.number,
            size: told.size,
            allocated: told.allocated,
            reserved: told.reserved,
            version: told.version.0,
        };
        // SAFETY: the header asks for a place for a status.
        unsafe { put(status, "status", value) }.map(|()| true)
    })
}
