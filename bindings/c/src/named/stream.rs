//! Readers, writers and files of objects.
//!
//! Invariants:
//! - Calls of several threads on one writer or file are taken one after the other; those on a reader run side by side.
//! - A writer or a file that is given up, or whose finish fails, leaves nothing that was not flushed.

use std::ffi::{c_char, c_int, c_void};
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Mutex, PoisonError};

use koine::object::{EditWriter, Expected, FileMode, ObjectFile, ObjectReader, ObjectWriter, Result as ObjectResult};

use crate::arguments::{bytes, bytes_mut};
use crate::errors::{Error, Failure, call};
use crate::handles::Handles;
use crate::named::changes::EDIT;
use crate::named::content::tell_object;
use crate::named::options::{Asked, DESCRIBED, Name, Options, text};
use crate::rows;
use crate::session::{Session, StoreHeld, Within, objects_within};
use crate::table::{Table, Told};

/// What C holds of a reader.
pub enum Reader {}
/// What C holds of a writer.
pub enum Writer {}
/// What C holds of a file.
pub enum ObjectAsFile {}

/// A body on its way in.
enum Writing {
    Put(ObjectWriter),
    Edit(EditWriter),
}

impl Writing {
    fn write(&mut self, piece: &[u8]) -> ObjectResult<()> {
        match self {
            Writing::Put(writer) => writer.write(piece),
            Writing::Edit(writer) => writer.write(piece),
        }
    }
}

/// Something that stays open, and the store that it is of.
struct Of<T> {
    within: Within,
    what: T,
}

/// One that calls take in turn; `None` once it has ended.
type Turned<T> = Of<Mutex<Option<T>>>;

static READERS: Handles<Of<ObjectReader>> = Handles::new("reader");
static WRITERS: Handles<Turned<Writing>> = Handles::new("writer");
static FILES: Handles<Turned<ObjectFile>> = Handles::new("file");

/// A handle of a reader, which stays open.
pub fn reader(within: Within, what: ObjectReader) -> Result<*mut Reader, Failure> {
    what.keep()?;
    Ok(READERS.add(Of { within, what }))
}

/// Does `work` on what a handle names, one call at a time, while its store is open.
fn within<T, H, R>(
    handles: &Handles<Turned<T>>,
    handle: *const H,
    work: impl FnOnce(&mut T) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let shared = handles.get(handle)?;
    let _store = shared.within.hold(handles.kind())?;
    let mut held = shared.what.lock().unwrap_or_else(PoisonError::into_inner);
    work(held.as_mut().ok_or_else(|| Failure::invalid("another thread has ended it"))?)
}

/// Ends a handle; gives what it named, and whether its store is open.
fn end<T, H>(handles: &Handles<Turned<T>>, handle: *const H) -> Result<(T, Result<StoreHeld, Failure>), Failure> {
    let shared = handles.remove(handle)?;
    let store = shared.within.hold(handles.kind());
    let mut held = shared.what.lock().unwrap_or_else(PoisonError::into_inner);
    let what = held.take().ok_or_else(|| Failure::invalid("another thread has ended it"))?;
    Ok((what, store))
}

fn writer(within: Within, writing: Writing) -> *mut Writer {
    WRITERS.add(Of { within, what: Mutex::new(Some(writing)) })
}

/// Begins an object that is put.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_writer_open(
    session: *mut Session,
    name: Name,
    options: *const Options,
    error: *mut *mut Error,
) -> *mut Writer {
    call(error, std::ptr::null_mut(), || {
        let (objects, within) = objects_within(session)?;
        // SAFETY: the header asks for a name and options.
        let (name, asked) = unsafe { (name.read()?, Asked::read(options, DESCRIBED)?) };
        Ok(writer(within, Writing::Put(objects.put(name.bucket, name.key, asked.put(None))?)))
    })
}

/// Begins a write into an object at an offset; at its end for `UINT64_MAX`.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_writer_open_at(
    session: *mut Session,
    name: Name,
    offset: u64,
    options: *const Options,
    error: *mut *mut Error,
) -> *mut Writer {
    call(error, std::ptr::null_mut(), || {
        let (objects, within) = objects_within(session)?;
        // SAFETY: the header asks for a name and options.
        let (name, asked) = unsafe { (name.read()?, Asked::read(options, EDIT)?) };
        let edit = match offset {
            u64::MAX => objects.append(name, asked.edit(None))?,
            offset => objects.write_at(name, offset, asked.edit(None))?,
        };
        Ok(writer(within, Writing::Edit(edit)))
    })
}

/// Adds a piece; gives its length.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_writer_write(
    writer: *mut Writer,
    data: *const c_void,
    length: u64,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        // SAFETY: the header asks for so many bytes.
        let data = unsafe { bytes(data, length) }?;
        within(&WRITERS, writer, |writing| Ok(writing.write(data)?))?;
        Ok(length as i64)
    })
}

/// Makes what was written visible. The handle ends.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_writer_finish(
    writer: *mut Writer,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let (writing, store) = end(&WRITERS, writer)?;
        let _store = store?;
        let info = match writing {
            Writing::Put(writer) => writer.finish(&Expected::none()).wait()?,
            Writing::Edit(writer) => writer.finish(&Expected::none()).wait()?,
        };
        // SAFETY: the header asks for NULL or a place.
        unsafe { tell_object(told, info) };
        Ok(true)
    })
}

/// Gives up what was written. The handle ends.
#[unsafe(no_mangle)]
pub extern "C" fn koine_writer_drop(writer: *mut Writer, error: *mut *mut Error) -> bool {
    call(error, false, || Ok(WRITERS.leave(writer) || end(&WRITERS, writer).map(|_| true)?))
}

/// Opens an object for reading, as it is now.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_reader_open(session: *const Session, name: Name, error: *mut *mut Error) -> *mut Reader {
    call(error, std::ptr::null_mut(), || {
        // SAFETY: the header asks for a name.
        let name = unsafe { name.read() }?;
        let (objects, within) = objects_within(session)?;
        reader(within, objects.get(name.bucket, name.key)?)
    })
}

/// What is known of what a reader reads.
#[unsafe(no_mangle)]
pub extern "C" fn koine_reader_info(reader: *const Reader, error: *mut *mut Error) -> *mut Told {
    call(error, std::ptr::null_mut(), || Ok(Table::from(rows::object(READERS.get(reader)?.what.info().clone())).give()))
}

/// Reads at an offset; gives how many bytes.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_reader_read(
    reader: *const Reader,
    offset: u64,
    length: u64,
    buffer: *mut c_void,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        // SAFETY: the header asks for a buffer.
        let buffer = unsafe { bytes_mut(buffer, length) }?;
        let reader = READERS.get(reader)?;
        let _store = reader.within.hold("reader")?;
        Ok(reader.what.read(offset, buffer)? as i64)
    })
}

/// Ends a reader.
#[unsafe(no_mangle)]
pub extern "C" fn koine_reader_close(reader: *mut Reader, error: *mut *mut Error) -> bool {
    call(error, false, || Ok(READERS.leave(reader) || READERS.remove(reader).map(|_| true)?))
}

/// Opens an object as a file.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_file_open(
    session: *mut Session,
    name: Name,
    mode: *const c_char,
    options: *const Options,
    error: *mut *mut Error,
) -> *mut ObjectAsFile {
    call(error, std::ptr::null_mut(), || {
        let (objects, within) = objects_within(session)?;
        // SAFETY: the header asks for a name, a C string and options.
        let (name, mode, asked) = unsafe { (name.read()?, text(mode, "mode")?, Asked::read(options, DESCRIBED)?) };
        let file = objects.open_file(name, file_mode(mode)?, asked.put(None))?;
        Ok(FILES.add(Of { within, what: Mutex::new(Some(file)) }))
    })
}

/// A mode as `fopen` takes it: the `b` of bytes changes nothing.
fn file_mode(mode: &str) -> Result<FileMode, Failure> {
    let plain = match mode.match_indices('b').next() {
        Some((1.., _)) => mode.replacen('b', "", 1),
        _ => mode.to_owned(),
    };
    Ok(match plain.as_str() {
        "r" => FileMode::Read,
        "r+" => FileMode::ReadWrite,
        "w" => FileMode::Create,
        "x" | "wx" => FileMode::CreateNew,
        "a" => FileMode::Append,
        _ => return Err(Failure::invalid(format!("{mode:?} is no mode of a file: r, r+, w, x or a, and b behind it"))),
    })
}

/// Reads where the file stands; gives how many bytes.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_file_read(
    file: *mut ObjectAsFile,
    length: u64,
    buffer: *mut c_void,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        // SAFETY: the header asks for a buffer.
        let buffer = unsafe { bytes_mut(buffer, length) }?;
        within(&FILES, file, |file| {
            let mut done = 0;
            while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
                match file.read(rest)? {
                    0 => break,
                    count => done += count,
                }
            }
            Ok(done as i64)
        })
    })
}

/// Writes where the file stands; gives the length.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_file_write(
    file: *mut ObjectAsFile,
    data: *const c_void,
    length: u64,
    error: *mut *mut Error,
) -> i64 {
    call(error, -1, || {
        // SAFETY: the header asks for so many bytes.
        let data = unsafe { bytes(data, length) }?;
        within(&FILES, file, |file| Ok(file.write_all(data)?))?;
        Ok(length as i64)
    })
}

/// Moves to another place; gives it, from the beginning.
#[unsafe(no_mangle)]
pub extern "C" fn koine_file_seek(file: *mut ObjectAsFile, offset: i64, whence: c_int, error: *mut *mut Error) -> i64 {
    call(error, -1, || {
        let to = match whence {
            0 => SeekFrom::Start(
                u64::try_from(offset).map_err(|_| Failure::invalid(format!("{offset} lies before the beginning")))?,
            ),
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            other => return Err(Failure::invalid(format!("{other} is no koine_whence"))),
        };
        within(&FILES, file, |file| Ok(file.seek(to)? as i64))
    })
}

/// How long a file is, with what was written to it.
#[unsafe(no_mangle)]
pub extern "C" fn koine_file_size(file: *const ObjectAsFile, error: *mut *mut Error) -> i64 {
    call(error, -1, || within(&FILES, file, |file| Ok(file.size() as i64)))
}

/// Gives a file another length.
#[unsafe(no_mangle)]
pub extern "C" fn koine_file_truncate(file: *mut ObjectAsFile, size: u64, error: *mut *mut Error) -> bool {
    call(error, false, || within(&FILES, file, |file| Ok(file.truncate(size).map(|()| true)?)))
}

/// Makes what was edited visible.
#[unsafe(no_mangle)]
pub extern "C" fn koine_file_flush(file: *mut ObjectAsFile, error: *mut *mut Error) -> bool {
    call(error, false, || within(&FILES, file, |file| Ok(file.flush().map(|()| true)?)))
}

/// Makes what was written visible. The handle ends.
///
/// # Safety
/// As `koine.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koine_file_close(
    file: *mut ObjectAsFile,
    told: *mut *mut Told,
    error: *mut *mut Error,
) -> bool {
    call(error, false, || {
        let (file, store) = end(&FILES, file)?;
        let _store = store?;
        if let Some(info) = file.close()? {
            // SAFETY: the header asks for NULL or a place.
            unsafe { tell_object(told, info) };
        }
        Ok(true)
    })
}

/// Gives up what was not flushed. The handle ends.
#[unsafe(no_mangle)]
pub extern "C" fn koine_file_drop(file: *mut ObjectAsFile, error: *mut *mut Error) -> bool {
    call(error, false, || Ok(FILES.leave(file) || end(&FILES, file).map(|_| true)?))
}
