//! Keys and values in transactions, for who owns the device.
//!
//! Invariant: what lies in spaces of the object library is out of reach.

use std::ffi::c_void;

use koine::kv::{Bytes, Operation, SpaceId};
use koine::object::{Error as ObjectError, Transaction};

use crate::arguments::bytes;
use crate::errors::{Error, Failure, call};
use crate::named::transact::{Txn, within};
use crate::table::{Field, Row, Table, Told};

/// Spaces from here to 2^32 are free for keys of callers; the others hold buckets, their names and the like.
const SPACE_MIN: u64 = 32;

/// A space for keys of callers.
fn space(space: u64) -> Result<SpaceId, Failure> {
    if (SPACE_MIN..1 << 32).contains(&space) {
        return Ok(SpaceId(space));
    }
    Err(Failure::invalid(format!("the space {space} is not for keys of callers: those lie in 32 to 4294967295")))
}

/// The keys below, with the space made where it is missing.
fn keys_in<'a>(
    transaction: &'a mut Transaction<'_>,
    space: SpaceId,
) -> Result<&'a mut koine::kv::Transaction, ObjectError> {
    let keys = transaction.keys()?;
    if !keys.has_space(space)? {
        keys.then(Operation::CreateSpace { space });
    }
    Ok(keys)
}

/// The value of a key; no row where there is none.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_key_get(
    transaction: *mut Txn,
    number: u64,
    key: *const c_void,
    key_length: u64,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for so many bytes.
        let key = unsafe { bytes(key, key_length) }?;
        let space = space(number)?;
        let found = within(transaction, |transaction, _| {
            let keys = transaction.keys()?;
            let value = if keys.has_space(space)? { keys.get(space, key)? } else { None };
            Ok(value.map(|value| value.to_vec()))
        })?;
        let row = |value| Row::default().text(Field::Name, key).text(Field::Body, value);
        Ok(Table::new(found.into_iter().map(row).collect()).give())
    })
}

/// Puts a value under a key.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_key_put(
    transaction: *mut Txn,
    number: u64,
    key: *const c_void,
    key_length: u64,
    value: *const c_void,
    length: u64,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for so many bytes.
        let (key, value) = unsafe { (bytes(key, key_length)?.to_vec(), bytes(value, length)?.to_vec()) };
        let space = space(number)?;
        within(transaction, |transaction, _| {
            keys_in(transaction, space)?.put(space, key, Bytes::from(value));
            Ok(true)
        })
    })
}

/// Deletes a key.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_key_delete(
    transaction: *mut Txn,
    number: u64,
    key: *const c_void,
    key_length: u64,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for so many bytes.
        let key = unsafe { bytes(key, key_length) }?.to_vec();
        let space = space(number)?;
        within(transaction, |transaction, _| {
            keys_in(transaction, space)?.delete(space, key);
            Ok(true)
        })
    })
}
