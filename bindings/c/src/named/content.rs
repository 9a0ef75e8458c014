//! Whole objects and ranges of them: put, get, head, delete; from and to memory and file descriptors.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{Read, Write};
use std::mem::ManuallyDrop;

use koine::object::{ErrorKind, Expected, ObjectInfo, ObjectReader, ObjectWriter, Result as ObjectResult};

use crate::arguments::{bytes, bytes_mut};
use crate::errors::{Error, Failure, call};
use crate::named::options::{Asked, CONDITIONS, DESCRIBED, Name, Options, array};
use crate::rows;
use crate::session::{Session, objects};
use crate::stores::file;
use crate::table::{Field, Row, Table, Told, tell};

/// How much goes at once between an object and a file descriptor.
const PIECE_LEN: usize = 1 << 20;

/// Tells of an object.
///
/// # Safety
/// `told` is NULL or points to a place for a pointer.
pub unsafe fn tell_object(told: *mut *mut Told, info: ObjectInfo) {
    // SAFETY: as the caller of this function promises.
    unsafe { tell(told, || rows::object(info).into()) };
}

/// Gives all that a file descriptor has to `write`, from where it stands.
pub fn pour(descriptor: c_int, mut write: impl FnMut(&[u8]) -> ObjectResult<()>) -> Result<(), Failure> {
    let input: ManuallyDrop<File> = file(descriptor)?;
    let mut piece = vec![0; PIECE_LEN];
    loop {
        match (&*input).read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => write(piece.get(..count).unwrap_or_default())?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::system("read", &error)),
        }
    }
}

/// Writes a range of an object to a file descriptor, where it stands; gives how many bytes.
pub fn drain(reader: &ObjectReader, offset: u64, length: u64, descriptor: c_int) -> Result<u64, Failure> {
    let output: ManuallyDrop<File> = file(descriptor)?;
    let wanted = reader.info().size.saturating_sub(offset).min(length);
    let mut piece = vec![0; PIECE_LEN.min(usize::try_from(wanted).unwrap_or(PIECE_LEN))];
    let mut done = 0;
    while done < wanted {
        let next = usize::try_from(wanted - done).unwrap_or(usize::MAX).min(piece.len());
        let count = reader.read(offset + done, piece.get_mut(..next).unwrap_or_default())?;
        let got = piece.get(..count).filter(|got| !got.is_empty());
        let got = got.ok_or_else(|| Failure::invalid("the object ended before its size"))?;
        (&*output).write_all(got).map_err(|error| Failure::system("write to", &error))?;
        done += count as u64;
    }
    Ok(done)
}

fn finish(writer: ObjectWriter) -> ObjectResult<ObjectInfo> {
    writer.finish(&Expected::none()).wait()
}

/// Puts an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_put(
    session: *mut Session,
    name: Name,
    data: *const c_void,
    length: u64,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name, bytes and options.
        let (name, data, asked) = unsafe { (name.read()?, bytes(data, length)?, Asked::read(options, DESCRIBED)?) };
        let mut writer = objects.put(name.bucket, name.key, asked.put(Some(length)))?;
        writer.write(data)?;
        let info = finish(writer)?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Puts what a file descriptor gives.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_put_fd(
    session: *mut Session,
    name: Name,
    descriptor: c_int,
    options: *const Options,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name and options.
        let (name, asked) = unsafe { (name.read()?, Asked::read(options, DESCRIBED)?) };
        let mut writer = objects.put(name.bucket, name.key, asked.put(None))?;
        pour(descriptor, |piece| writer.write(piece))?;
        let info = finish(writer)?;
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Reads a range of an object; gives how many bytes.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_get(
    session: *const Session,
    name: Name,
    offset: u64,
    length: u64,
    buffer: *mut c_void,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name and a buffer.
        let (name, buffer) = unsafe { (name.read()?, bytes_mut(buffer, length)?) };
        Ok(objects.get(name.bucket, name.key)?.read(offset, buffer)? as i64)
    })
}

/// Reads a whole object, with what is known of it.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_get_all(session: *const Session, name: Name, error: *mut *mut Error) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name.
        let name = unsafe { name.read() }?;
        let reader = objects.get(name.bucket, name.key)?;
        let info = reader.info().clone();
        let size = crate::arguments::length(info.size)?;
        let mut body = Vec::new();
        body.try_reserve_exact(size.saturating_add(1))
            .map_err(|_| Failure::invalid(format!("{size} bytes are more than memory can hold; read ranges")))?;
        body.resize(size, 0);
        let count = reader.read(0, &mut body)?;
        body.truncate(count);
        Ok(Table::from(rows::object(info).text(Field::Body, body)).give())
    })
}

/// Writes a range of an object to a file descriptor; gives how many bytes.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_get_fd(
    session: *const Session,
    name: Name,
    offset: u64,
    length: u64,
    descriptor: c_int,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name.
        let name = unsafe { name.read() }?;
        let reader = objects.get(name.bucket, name.key)?;
        Ok(drain(&reader, offset, length, descriptor)? as i64)
    })
}

/// What is known of an object.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_head(session: *const Session, name: Name, error: *mut *mut Error) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a name.
        let name = unsafe { name.read() }?;
        Ok(Table::from(rows::object(objects(session)?.head(name.bucket, name.key)?)).give())
    })
}

/// Whether an object is there: 1, 0, or -1.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_exists(session: *const Session, name: Name, error: *mut *mut Error) -> c_int {
    call(error, -1, || {
        // SAFETY: the header asks for a name.
        let name = unsafe { name.read() }?;
        Ok(c_int::from(objects(session)?.exists(name.bucket, name.key)?))
    })
}

/// Deletes an object: 1, 0 where there was none, or -1.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_delete(
    session: *mut Session,
    name: Name,
    options: *const Options,
    error: *mut *mut Error,
) -> c_int {
    call(error, -1, || {
        let objects = objects(session)?;
        // SAFETY: the header asks for a name and options.
        let (name, asked) = unsafe { (name.read()?, Asked::read(options, CONDITIONS)?) };
        Ok(c_int::from(objects.delete(name.bucket, name.key, asked.delete()).wait()?.existed))
    })
}

/// Deletes many objects of a bucket in one commit; a row each.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_delete_many(
    session: *mut Session,
    names: *const Name,
    count: u64,
    error: *mut *mut Error,
) -> *mut Told {
    call(error, std::ptr::null_mut(), || {
        let objects = objects(session)?;
        let (mut bucket, mut keys) = (None, Vec::new());
        // SAFETY: the header asks for so many names.
        for name in unsafe { array(names, count, "names") }? {
            // SAFETY: as above.
            let name = unsafe { name.read() }?;
            if *bucket.get_or_insert(name.bucket) != name.bucket {
                return Err(Failure::invalid("one call deletes objects of one bucket"));
            }
            keys.push(name.key.to_owned());
        }
        let Some(bucket) = bucket else { return Ok(Table::default().give()) };
        let outcomes = objects.delete_many(bucket, &keys).wait()?;
        let row = |(key, outcome): (String, ObjectResult<_>)| {
            let row = Row::default().text(Field::Name, key);
            match outcome {
                Ok(koine::object::Deleted { existed, .. }) => row.number(Field::Existed, u64::from(existed)),
                Err(error) => row
                    .text(Field::ErrorName, name_of(error.kind()))
                    .text(Field::ErrorMessage, error.message().to_owned()),
            }
        };
        Ok(Table::new(keys.into_iter().zip(outcomes).map(row).collect()).give())
    })
}

fn name_of(kind: ErrorKind) -> String {
    format!("{kind:?}")
}
