//! The calls of the library as C programs make them, from a test that a sanitizer can look into.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use koine_c as _;

type Handle = *mut c_void;
type Fault = *mut Handle;

unsafe extern "C" {
    fn koine_store_create(path: *const c_char, options: *const c_void, error: Fault) -> Handle;
    fn koine_store_open(path: *const c_char, error: Fault) -> Handle;
    fn koine_store_close(store: Handle, error: Fault) -> bool;
    fn koine_store_create_many(store: Handle, count: u64, size: u64, sync: c_int, first: *mut u64, e: Fault) -> bool;
    fn koine_store_delete_many(store: Handle, numbers: *const u64, count: u64, sync: c_int, error: Fault) -> bool;
    fn koine_store_list(store: Handle, from: u64, numbers: *mut u64, count: u64, error: Fault) -> i64;
    fn koine_object_create(store: Handle, size: u64, hint: *const c_void, error: Fault) -> Handle;
    fn koine_object_open(store: Handle, number: u64, hint: *const c_void, error: Fault) -> Handle;
    fn koine_object_close(object: Handle, sync: c_int, error: Fault) -> bool;
    fn koine_object_number(object: Handle) -> u64;
    fn koine_object_write(o: Handle, offset: u64, count: u64, buffer: *const u8, sync: c_int, error: Fault) -> i64;
    fn koine_object_read(object: Handle, offset: u64, count: u64, buffer: *mut u8, error: Fault) -> i64;
    fn koine_transaction_start(object: Handle, error: Fault) -> Handle;
    fn koine_transaction_write(t: Handle, o: Handle, offset: u64, count: u64, buffer: *const u8, e: Fault) -> i64;
    fn koine_transaction_read_later(
        transaction: Handle,
        object: Handle,
        offset: u64,
        count: u64,
        buffer: *mut u8,
        done: *mut i64,
        error: Fault,
    ) -> bool;
    fn koine_transaction_execute(transaction: Handle, sync: c_int, error: Fault) -> i64;
    fn koine_error_message(error: Handle) -> *const c_char;
    fn koine_error_free(error: Handle);
}

/// Durable when the call returns.
const SYNC: c_int = 2;

#[test]
fn buffers_strings_and_handles_pass_the_boundary() {
    let folder = tempfile::tempdir().unwrap();
    let path = CString::new(folder.path().join("store.koine").to_str().unwrap()).unwrap();
    let mut error = null_mut();
    // SAFETY: strings end in a zero, buffers are as long as is said, results have a place.
    unsafe {
        let store = koine_store_create(path.as_ptr(), null(), &mut error);
        assert!(!store.is_null());
        let object = koine_object_create(store, 100_000, null(), &mut error);
        let number = koine_object_number(object);
        let data: Vec<u8> = (0..70_001).map(|at| at as u8).collect();
        assert_eq!(koine_object_write(object, 5, data.len() as u64, data.as_ptr(), SYNC, &mut error), 70_001);
        let transaction = koine_transaction_start(object, &mut error);
        let (mut later, mut done, patch) = ([0u8; 3], 0, [9u8; 10]);
        assert!(koine_transaction_read_later(transaction, object, 5, 3, later.as_mut_ptr(), &mut done, &mut error));
        assert_eq!(koine_transaction_write(transaction, object, 90_000, 10, patch.as_ptr(), &mut error), 10);
        assert!(koine_transaction_execute(transaction, SYNC, &mut error) >= 0);
        assert_eq!((later, done), ([0, 1, 2], 3));
        assert!(koine_object_close(object, SYNC, &mut error) && koine_store_close(store, &mut error));

        let store = koine_store_open(path.as_ptr(), &mut error);
        let object = koine_object_open(store, number, null(), &mut error);
        let mut read = vec![0u8; 90_010];
        assert_eq!(koine_object_read(object, 0, read.len() as u64, read.as_mut_ptr(), &mut error), 90_010);
        assert!(read[5..70_006] == data[..] && read[90_000..] == patch[..]);
        assert!(koine_object_close(object, SYNC, &mut error));
        let (mut first, mut numbers) = (0, [0; 8]);
        assert!(koine_store_create_many(store, 7, 10, SYNC, &mut first, &mut error));
        assert_eq!(koine_store_list(store, 1, numbers.as_mut_ptr(), 8, &mut error), 8);
        assert!(koine_store_delete_many(store, numbers[1..].as_ptr(), 7, SYNC, &mut error));
        assert!(error.is_null());

        assert!(koine_object_open(store, first, null(), &mut error).is_null());
        assert!(!CStr::from_ptr(koine_error_message(error)).to_bytes().is_empty());
        koine_error_free(error);
        assert!(koine_store_close(store, null_mut()));
        // A handle that was closed is refused.
        assert!(!koine_store_close(store, null_mut()));
    }
}
