//! Transactions over named objects and keys: a callback that is run again when others changed what it read.
//!
//! Invariants:
//! - The handle of a transaction is good within the callback that got it, on its thread, and nowhere else.
//! - No lock of the library is held while the callback runs, and none of its calls runs within another.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};

use koine::object::{
    ByteRange, Error as ObjectError, ErrorKind, Expected, Objects, StageOptions, StagedBody, Transaction,
};

use crate::arguments::{bytes, bytes_mut};
use crate::errors::{Error, Failure, call};
use crate::handles::Handles;
use crate::named::changes::{COMPOSE, COPY, Change, EDIT, MOVE, attributes, range_of};
use crate::named::listing::table;
use crate::named::options::{Asked, CONDITIONS, DESCRIBED, ListOptions, Name, Options, Page, Segment, array, text};
use crate::rows;
use crate::session::{Session, objects};
use crate::table::{Field, Row, Table, Told, tell};

/// What C holds of a transaction over named objects.
pub enum Txn {}

/// `koine_body` of the header.
pub type Body = Option<unsafe extern "C" fn(*mut Txn, *mut c_void) -> c_int>;

/// The numbers of transactions that run; what they name is in `RUNNING` of their thread.
static TXNS: Handles<u64> = Handles::new("transaction");

/// A transaction whose callback runs on this thread.
struct Running {
    handle: *mut Txn,
    transaction: *mut Transaction<'static>,
    objects: Objects,
    /// The last error of a call in it.
    failed: Option<ObjectError>,
}

thread_local! {
    /// Innermost last.
    static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

/// Ends the innermost transaction of this thread, also when the callback unwinds.
struct Entered;

impl Entered {
    fn new(transaction: &mut Transaction<'_>, objects: &Objects) -> (Entered, *mut Txn) {
        let handle = TXNS.add(0);
        // The lifetime is given up here; `Entered` ends before the reference does.
        let transaction = std::ptr::from_mut(transaction).cast::<Transaction<'static>>();
        let running = Running { handle, transaction, objects: objects.clone(), failed: None };
        RUNNING.with_borrow_mut(|all| all.push(running));
        (Entered, handle)
    }

    /// The last error of a call in the transaction.
    fn failed(&self) -> Option<ObjectError> {
        RUNNING.with_borrow_mut(|all| all.last_mut().and_then(|running| running.failed.take()))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let ended = RUNNING.with_borrow_mut(Vec::pop);
        if let Some(ended) = ended {
            let _ = TXNS.remove(ended.handle);
        }
    }
}

/// Does `work` in a transaction.
pub fn within<T>(
    handle: *mut Txn,
    work: impl FnOnce(&mut Transaction<'_>, &Objects) -> Result<T, ObjectError>,
) -> Result<T, Failure> {
    TXNS.get(handle)?;
    RUNNING.with_borrow_mut(|all| {
        let running = all.iter_mut().find(|running| running.handle == handle);
        let running = running.ok_or_else(|| {
            Failure::invalid("the transaction belongs to another thread: its calls are made by its callback")
        })?;
        // SAFETY: the callback that has the transaction runs on this thread and waits for this call; `RUNNING` is
        // borrowed meanwhile, so no other call is in it.
        let transaction = unsafe { &mut *running.transaction };
        work(transaction, &running.objects).map_err(|error| {
            running.failed = Some(error.clone());
            Failure::from(error)
        })
    })
}

fn staged(objects: &Objects, data: &[u8]) -> Result<StagedBody, ObjectError> {
    let mut writer = objects.stage(StageOptions { length: Some(data.len() as u64), ..StageOptions::default() })?;
    writer.write(data)?;
    writer.finish(&Expected::none())
}

/// Runs a callback and commits all that it changed at once.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_transact(
    session: *mut Session,
    body: Body,
    context: *mut c_void,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        let body = body.ok_or_else(|| Failure::invalid("the callback is NULL"))?;
        let mut gave_up = None;
        let done = objects.transact(None, |transaction| {
            gave_up = None;
            let (entered, handle) = Entered::new(transaction, &objects);
            // SAFETY: the header asks for a function of this kind.
            let answer = unsafe { body(handle, context) };
            if answer == 0 {
                return Ok(());
            }
            let failed = entered.failed();
            let why = failed.as_ref().map_or_else(String::new, |error| format!("; its last error was {error:?}"));
            gave_up = Some(format!("the callback gave the transaction up ({answer}){why}"));
            // One whose view was taken back is run again, whatever the callback made of that.
            let kind = failed.map_or(ErrorKind::InvalidRequest, |error| error.kind());
            Err(ObjectError::new(kind, ""))
        });
        match (done, gave_up) {
            (Ok(((), commit)), _) => {
                // SAFETY: the header asks for NULL or a place.
                unsafe { tell(told, || Row::default().number(Field::Version, commit.version.0).into()) };
                Ok(true)
            }
            (Err(_), Some(message)) => Err(Failure::aborted(message)),
            (Err(error), None) => Err(error.into()),
        }
    })
}

/// What is known of an object; no row where there is none.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_head(transaction: *mut Txn, name: Name, error: *mut *mut Error) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a name.
        let name = unsafe { name.read() }?;
        let found = within(transaction, |transaction, _| transaction.head(name))?;
        Ok(Table::new(found.into_iter().map(rows::object).collect()).give())
    })
}

/// Reads a range of an object; gives how many bytes.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_get(
    transaction: *mut Txn,
    name: Name,
    offset: u64,
    length: u64,
    buffer: *mut c_void,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        // SAFETY: the header asks for a name and a buffer.
        let (name, buffer) = unsafe { (name.read()?, bytes_mut(buffer, length)?) };
        let bytes = within(transaction, |transaction, _| transaction.read(name, ByteRange { offset, length }))?;
        if let Some(target) = buffer.get_mut(..bytes.len()) {
            target.copy_from_slice(&bytes);
        }
        Ok(bytes.len() as i64)
    })
}

/// A page of a bucket.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_list(
    transaction: *mut Txn,
    bucket: *const c_char,
    options: *const ListOptions,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a C string and options.
        let (bucket, page) = unsafe { (text(bucket, "bucket's name")?, Page::read(options)?) };
        Ok(table(within(transaction, |transaction, _| transaction.list(bucket, &page.objects()))?).give())
    })
}

/// Puts an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_put(
    transaction: *mut Txn,
    name: Name,
    data: *const c_void,
    length: u64,
    options: *const Options,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a name, bytes and options.
        let (name, data, asked) = unsafe { (name.read()?, bytes(data, length)?, Asked::read(options, DESCRIBED)?) };
        within(transaction, |transaction, objects| {
            let body = staged(objects, data)?;
            transaction.put(name, &body, &asked.put(None))
        })?;
        Ok(true)
    })
}

/// Writes into an object at an offset; at its end for `UINT64_MAX`.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_write(
    transaction: *mut Txn,
    name: Name,
    offset: u64,
    data: *const c_void,
    length: u64,
    options: *const Options,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a name, bytes and options.
        let (name, data, asked) = unsafe { (name.read()?, bytes(data, length)?, Asked::read(options, EDIT)?) };
        within(transaction, |transaction, objects| {
            let (body, options) = (staged(objects, data)?, asked.edit(None));
            match offset {
                u64::MAX => transaction.append(name, &body, &options),
                offset => transaction.write_at(name, offset, &body, &options),
            }
        })?;
        Ok(true)
    })
}

/// Gives an object another length.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_truncate(
    transaction: *mut Txn,
    name: Name,
    size: u64,
    options: *const Options,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a name and options.
        let (name, asked) = unsafe { (name.read()?, Asked::read(options, EDIT)?) };
        within(transaction, |transaction, _| transaction.truncate(name, size, &asked.edit(None)))?;
        Ok(true)
    })
}

/// Writes a range of one object into another.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_write_copy(
    transaction: *mut Txn,
    from: *const Segment,
    to: Name,
    offset: u64,
    options: *const Options,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a segment, a name and options.
        let ((from, range), to, asked) = unsafe { (range_of(from)?, to.read()?, Asked::read(options, EDIT)?) };
        within(transaction, |transaction, _| transaction.write_copy(from, range, to, offset, &asked.edit(None)))?;
        Ok(true)
    })
}

/// Makes an object of segments of others.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_compose(
    transaction: *mut Txn,
    segments: *const Segment,
    count: u64,
    to: Name,
    options: *const Options,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for segments, a name and options.
        let (segments, to, asked) =
            unsafe { (array(segments, count, "segments")?, to.read()?, Asked::read(options, COMPOSE)?) };
        // SAFETY: as above.
        let segments = segments.iter().map(|segment| unsafe { segment.read() }).collect::<Result<Vec<_>, _>>()?;
        within(transaction, |transaction, _| transaction.compose(&segments, to, &asked.compose()))?;
        Ok(true)
    })
}

/// Copies an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_copy(
    transaction: *mut Txn,
    from: Name,
    to: Name,
    options: *const Options,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for names and options.
        let (from, to, asked) = unsafe { (from.read()?, to.read()?, Asked::read(options, COPY)?) };
        within(transaction, |transaction, _| transaction.copy(from, to, &asked.copy()))?;
        Ok(true)
    })
}

/// Gives an object another name.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_move(
    transaction: *mut Txn,
    from: Name,
    to: Name,
    options: *const Options,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for names and options.
        let (from, to, asked) = unsafe { (from.read()?, to.read()?, Asked::read(options, MOVE)?) };
        within(transaction, |transaction, _| transaction.rename(from, to, &asked.rename()))?;
        Ok(true)
    })
}

/// Swaps two objects.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_exchange(
    transaction: *mut Txn,
    one: Name,
    other: Name,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for names.
        let (one, other) = unsafe { (one.read()?, other.read()?) };
        within(transaction, |transaction, _| transaction.exchange(one, other))?;
        Ok(true)
    })
}

/// Deletes an object: 1, 0 where there was none, or -1.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_delete(
    transaction: *mut Txn,
    name: Name,
    options: *const Options,
    error: *mut *mut Error,
) -> c_int {
    call(error, -1, || {
        // SAFETY: the header asks for a name and options.
        let (name, asked) = unsafe { (name.read()?, Asked::read(options, CONDITIONS)?) };
        let deleted = within(transaction, |transaction, _| transaction.delete(name, &asked.delete()))?;
        Ok(c_int::from(deleted.existed))
    })
}

/// Changes what is known of an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_txn_set(
    transaction: *mut Txn,
    name: Name,
    change: *const Change,
    options: *const Options,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        // SAFETY: the header asks for a name, a change and options.
        let (name, change, asked) = unsafe { (name.read()?, attributes(change)?, Asked::read(options, CONDITIONS)?) };
        within(transaction, |transaction, _| transaction.set_attributes(name, change, &asked.edit(None)))?;
        Ok(true)
    })
}
