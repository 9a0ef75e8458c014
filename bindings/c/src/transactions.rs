//! Calls on transactions.
//!
//! Invariants:
//! - Calls of several threads on one transaction are taken one after the other.
//! - Buffers of queued reads are written to until the transaction ends, and not after.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use koine::numbered;

use crate::arguments::{bytes, bytes_mut, durability, length};
use crate::errors::{Error, Failure, call};
use crate::handles::Handles;
use crate::objects::{OBJECTS, Object};

/// What C holds of a transaction.
pub enum Transaction {}

/// A place of the caller's, until the transaction ends.
struct Place<T>(*mut T);

// SAFETY: the header gives the place to the transaction, whose threads use it one at a time.
unsafe impl<T> Send for Place<T> {}

impl Place<u8> {
    /// Copies bytes to the place.
    fn fill(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the header asks for a buffer as long as the read, and `at` and `bytes` lie within that. The
        // caller's buffers may overlap: no reference to them is made.
        unsafe { std::ptr::copy(bytes.as_ptr(), self.0.add(at), bytes.len()) };
    }
}

/// A transaction that is gathering, with where the counts of its reads go.
struct Gathering {
    transaction: numbered::Transaction<'static>,
    counts: Vec<Place<i64>>,
}

static TRANSACTIONS: Handles<Mutex<Option<Gathering>>> = Handles::new("transaction");

/// Does `work` on a transaction that has not ended.
fn within<T>(
    transaction: *mut Transaction,
    work: impl FnOnce(&mut Gathering) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let shared = TRANSACTIONS.get(transaction)?;
    let mut gathering = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let gathering =
        gathering.as_mut().ok_or_else(|| Failure::invalid("the transaction was ended by another thread"))?;
    work(gathering)
}

/// Ends the handle; gives the transaction.
fn end(transaction: *mut Transaction) -> Result<Gathering, Failure> {
    let shared = TRANSACTIONS.remove(transaction)?;
    let mut gathering = shared.lock().unwrap_or_else(PoisonError::into_inner);
    gathering.take().ok_or_else(|| Failure::invalid("the transaction was ended by another thread"))
}

/// Starts a transaction in the store of an object.
#[unsafe(no_mangle)]
pub extern "C" fn koine_transaction_start(object: *mut Object, error: *mut *mut Error) -> *mut Transaction {
    call(error, std::ptr::null_mut(), || {
        let transaction = OBJECTS.get(object)?.transaction()?;
        Ok(TRANSACTIONS.add(Mutex::new(Some(Gathering { transaction, counts: Vec::new() }))))
    })
}

/// Queues a write; gives `count`.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_transaction_write(
    transaction: *mut Transaction,
    object: *mut Object,
    offset: u64,
    count: u64,
    buffer: *const c_void,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        let object = OBJECTS.get(object)?;
        // SAFETY: the header asks for a buffer of so many bytes.
        let data = unsafe { bytes(buffer, count) }?;
        within(transaction, |gathering| Ok(gathering.transaction.write(&object, offset, data)?))?;
        Ok(count as i64)
    })
}

/// Reads at once, with what the transaction has queued.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_transaction_read(
    transaction: *mut Transaction,
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
        within(transaction, |gathering| Ok(gathering.transaction.read(&object, offset, buffer)? as i64))
    })
}

/// Queues a read.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_transaction_read_later(
    transaction: *mut Transaction,
    object: *mut Object,
    offset: u64,
    count: u64,
    buffer: *mut c_void,
    done: *mut i64,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let object = OBJECTS.get(object)?;
        let length = length(count)?;
        if buffer.is_null() && length > 0 {
            return Err(Failure::invalid("the buffer is NULL"));
        }
        let place = Place(buffer.cast::<u8>());
        within(transaction, |gathering| {
            let fill = move |at: usize, bytes: &[u8]| place.fill(at, bytes);
            gathering.transaction.read_later_with(&object, offset, length, fill)?;
            gathering.counts.push(Place(done));
            Ok(true)
        })
    })
}

/// Executes a transaction; gives the bytes that it wrote and read. The handle ends.
#[unsafe(no_mangle)]
pub extern "C" fn koine_transaction_execute(transaction: *mut Transaction, sync: c_int, error: *mut *mut Error) -> i64 {
    call(error, -1, || {
        let durability = durability(sync)?;
        let Gathering { transaction, counts } = end(transaction)?;
        let done = transaction.execute(durability)?;
        for (place, count) in counts.iter().zip(&done.reads) {
            if !place.0.is_null() {
                // SAFETY: the header asks for NULL or a place for a count, until the transaction ends.
                unsafe { place.0.write(*count as i64) };
            }
        }
        Ok(i64::try_from(done.bytes()).unwrap_or(i64::MAX))
    })
}

/// Ends a transaction without doing anything of it.
#[unsafe(no_mangle)]
pub extern "C" fn koine_transaction_abandon(transaction: *mut Transaction, error: *mut *mut Error) -> bool {
    call(error, false, || {
        if !TRANSACTIONS.leave(transaction) {
            drop(end(transaction)?);
        }
        Ok(true)
    })
}
