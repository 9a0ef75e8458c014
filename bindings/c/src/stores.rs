//! Calls on stores.

use std::ffi::{c_char, c_int};

use std::fs::File;
use std::io::BufReader;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

use koine::GrowTo;
use koine::numbered::{self, CreateStore};

use crate::arguments::{bytes_mut, durability, path, put};
use crate::errors::{Error, Failure, call};
use crate::handles::Handles;
use crate::names;

/// What C holds of a store.
pub enum Store {}

pub static STORES: Handles<numbered::Store> = Handles::new("store");

/// `koine_store_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StoreOptions {
    block_size: u64,
    object_limit: u64,
    size_max: u64,
    memory: u64,
    /// Not a `bool`: C may leave anything there.
    force: c_int,
}

/// `koine_store_status` of the header.
#[repr(C)]
pub struct StoreStatus {
    path: *const c_char,
    store_id: u64,
    block_size: u64,
    objects: u64,
    objects_open: u64,
    object_limit: u64,
    objects_possible: u64,
    size: u64,
    size_max: u64,
    used: u64,
    free: u64,
}

fn some(value: u64) -> Option<u64> {
    (value > 0).then_some(value)
}

/// What C asks for when it makes a store.
///
/// # Safety
/// `options` is NULL or options.
unsafe fn creation(options: *const StoreOptions) -> CreateStore {
    if options.is_null() {
        return CreateStore::default();
    }
    // SAFETY: as the caller of this function promises.
    let given = unsafe { options.read() };
    CreateStore {
        object_limit: some(given.object_limit),
        size_max: some(given.size_max),
        block_size: some(given.block_size),
        force: given.force != 0,
        memory: some(given.memory),
    }
}

/// An open file of the caller's, which stays open.
pub fn file(descriptor: c_int) -> Result<ManuallyDrop<File>, Failure> {
    if descriptor < 0 {
        return Err(Failure::invalid(format!("{descriptor} is no file descriptor")));
    }
    // SAFETY: the header asks for an open one; it is never closed here.
    Ok(ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) }))
}

/// Makes a store and opens it.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_store_create(
    path: *const c_char,
    options: *const StoreOptions,
    error: *mut *mut Error,
) -> *mut Store {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let path = unsafe { self::path(path) }?;
        // SAFETY: the header asks for NULL or options.
        let create = unsafe { creation(options) };
        Ok(STORES.add(numbered::create(path, &create)?))
    })
}

/// Makes a store of an export and opens it.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_store_receive(
    path: *const c_char,
    options: *const StoreOptions,
    descriptor: c_int,
    error: *mut *mut Error,
) -> *mut Store {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let path = unsafe { self::path(path) }?;
        // SAFETY: the header asks for NULL or options.
        let create = unsafe { creation(options) };
        let input = file(descriptor)?;
        Ok(STORES.add(numbered::receive(path, &create, &mut BufReader::new(&*input))?))
    })
}

/// Writes everything in a store, as it is in one version.
#[unsafe(no_mangle)]
pub extern "C" fn koine_store_export(store: *mut Store, descriptor: c_int, error: *mut *mut Error) -> i64 {
    call(error, -1, || {
        let (store, out) = (STORES.get(store)?, file(descriptor)?);
        // What was created and is gathered becomes visible.
        store.sync()?;
        let mut out = &*out;
        let length = store.engine().export(&[])?.write_to(&mut out, &mut |_| ())?;
        Ok(i64::try_from(length).unwrap_or(i64::MAX))
    })
}

/// Lets a store grow.
#[unsafe(no_mangle)]
pub extern "C" fn koine_store_grow(store: *mut Store, size: u64, error: *mut *mut Error) -> bool {
    call(error, false, || {
        let to = match size {
            0 => GrowTo::Device,
            u64::MAX => GrowTo::Unlimited,
            size => GrowTo::Size(size),
        };
        Ok(STORES.get(store)?.engine().grow(to).map(|_| true)?)
    })
}

/// Opens a store.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_store_open(path: *const c_char, error: *mut *mut Error) -> *mut Store {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string.
        let path = unsafe { self::path(path) }?;
        Ok(STORES.add(numbered::open(path, None)?))
    })
}

/// Closes a store.
#[unsafe(no_mangle)]
pub extern "C" fn koine_store_close(store: *mut Store, error: *mut *mut Error) -> bool {
    call(error, false, || {
        // `KOINE_BUSY` of the header: it stays open.
        const BUSY: c_int = 12;
        if STORES.leave(store) {
            return Ok(true);
        }
        let open = STORES.get(store)?;
        let closed = open.close().map_err(Failure::from);
        if !matches!(&closed, Err(failure) if failure.kind == BUSY) {
            drop(STORES.remove(store));
        }
        closed.map(|()| true)
    })
}

/// Makes everything so far durable.
#[unsafe(no_mangle)]
pub extern "C" fn koine_store_sync(store: *mut Store, error: *mut *mut Error) -> bool {
    call(error, false, || Ok(STORES.get(store)?.sync().map(|()| true)?))
}

/// The status of a store.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_store_get_status(
    store: *const Store,
    status: *mut StoreStatus,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let told = STORES.get(store)?.status()?;
        let value = StoreStatus {
            path: names::keep(&told.store),
            store_id: told.store_id,
            block_size: told.block_len,
            objects: told.objects,
            objects_open: told.open,
            object_limit: told.limit.unwrap_or(u64::MAX),
            objects_possible: told.possible.unwrap_or(u64::MAX),
            size: told.total,
            size_max: told.total_max.unwrap_or(u64::MAX),
            used: told.used,
            free: told.free,
        };
        // SAFETY: the header asks for a place for a status.
        unsafe { put(status, "status", value) }.map(|()| true)
    })
}

/// Creates many objects in one commit.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_store_create_many(
    store: *mut Store,
    count: u64,
    size: u64,
    sync: c_int,
    first: *mut u64,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let (store, durability) = (STORES.get(store)?, durability(sync)?);
        if first.is_null() {
            return Err(Failure::invalid("the place for the first number is NULL"));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let numbers = store.create_many(count, size, durability)?;
        // SAFETY: the header asks for a place for a number.
        unsafe { put(first, "first number", numbers.start) }.map(|()| true)
    })
}

/// Deletes objects by number in one commit.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_store_delete_many(
    store: *mut Store,
    numbers: *const u64,
    count: u64,
    sync: c_int,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let (store, durability) = (STORES.get(store)?, durability(sync)?);
        if count > numbered::CREATE_MANY_MAX as u64 {
            let most = numbered::CREATE_MANY_MAX;
            return Err(Failure::invalid(format!(
                "{count} objects in one call; the most is {most}: make several calls"
            )));
        }
        if numbers.is_null() && count > 0 {
            return Err(Failure::invalid("the list of numbers is NULL"));
        }
        // SAFETY: the header asks for a list of so many numbers, whose bytes are read as they come.
        let numbers: Vec<u64> = (0..count as usize).map(|at| unsafe { numbers.add(at).read() }).collect();
        Ok(store.delete_many(&numbers, durability).map(|()| true)?)
    })
}

/// Lists objects.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_store_list(
    store: *const Store,
    from: u64,
    numbers: *mut u64,
    count: u64,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        let store = STORES.get(store)?;
        let bytes = count.checked_mul(8).ok_or_else(|| Failure::invalid("more numbers than memory can hold"))?;
        // SAFETY: the header asks for a place for so many numbers; it is used as bytes.
        let place = unsafe { bytes_mut(numbers.cast(), bytes) }?;
        let found = store.list(from, count as usize)?;
        for (target, number) in place.chunks_exact_mut(8).zip(&found) {
            // As the machine holds numbers: C reads them as such.
            #[allow(clippy::host_endian_bytes)]
            target.copy_from_slice(&number.to_ne_bytes());
        }
        Ok(found.len() as i64)
    })
}
