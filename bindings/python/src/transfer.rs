//! Objects from and to files: paths, and whatever has `read` or `write`.
//!
//! Invariants:
//! - A path is read and written without the interpreter lock.
//! - A put that fails half-way leaves nothing, and so does a file that was made for an object.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use koine::env::patience;
use koine::object::{ByteRange, EditOptions, Error, Expected, ObjectInfo, ObjectName, ObjectReader, Objects};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::Making;
use crate::bucket::raise;
use crate::buffers::{Lent, filled};
use crate::errors;
use crate::patience::{Limit, timed_out};
use crate::store::Hold;

/// How much goes at once.
const PIECE_LEN: usize = 1 << 20;

fn of_path<'a>(verb: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> PyErr + 'a {
    move |error| errors::of_system(&error, &format!("cannot {verb} {}: {error}", path.display()))
}

/// Who is told how many bytes have gone, and of how many where that is known.
#[derive(Clone, Copy)]
pub struct Progress<'p>(Option<&'p Py<PyAny>>);

impl<'p> Progress<'p> {
    /// Of a callable.
    pub fn new(told: Option<&'p Py<PyAny>>) -> Self {
        Progress(told)
    }

    fn tell(self, done: u64, total: Option<u64>) -> PyResult<()> {
        self.0.map_or(Ok(()), |told| Python::attach(|py| told.call1(py, (done, total)).map(drop)))
    }
}

/// Puts bytes that are all there.
pub fn put_bytes(
    py: Python<'_>,
    hold: &Hold,
    name: ObjectName<'_>,
    data: &Bound<'_, PyAny>,
    making: Making,
) -> PyResult<ObjectInfo> {
    let lent = Lent::of(data)?;
    let (bytes, raise) = (lent.bytes(), raise(making.is_new()));
    let put = |session: &Objects| {
        let mut writer = session.put(name.bucket, name.key, making.put(Some(bytes.len() as u64)))?;
        writer.write(bytes)?;
        writer.finish(&Expected::none()).wait()
    };
    hold.call_or(py, put, raise)
}

/// Puts what a path or a file object gives.
pub fn put(
    py: Python<'_>,
    hold: &Hold,
    name: ObjectName<'_>,
    source: (&Bound<'_, PyAny>, Progress<'_>),
    making: Making,
) -> PyResult<ObjectInfo> {
    let (raise, limit) = (raise(making.is_new()), hold.limit());
    let mut writer = hold.call(py, |session| session.put(name.bucket, name.key, making.put(None)))?;
    pour((py, limit), source, |piece| writer.write(piece))?;
    limit.detached(py, || writer.finish(&Expected::none()).wait().map_err(|error| raise(&error)))
}

/// Writes what a path or a file object gives into an object at an offset.
pub fn write(
    py: Python<'_>,
    hold: &Hold,
    name: ObjectName<'_>,
    offset: u64,
    source: (&Bound<'_, PyAny>, Progress<'_>),
    options: EditOptions,
) -> PyResult<ObjectInfo> {
    let limit = hold.limit();
    let mut writer = hold.call(py, |session| session.write_at(name, offset, options))?;
    pour((py, limit), source, |piece| writer.write(piece))?;
    limit.detached(py, || writer.finish(&Expected::none()).wait().map_err(|error| errors::of_objects(&error)))
}

/// Gives all that a path or a file object has to `write`, piece by piece.
fn pour(
    (py, limit): (Python<'_>, Limit),
    (source, progress): (&Bound<'_, PyAny>, Progress<'_>),
    mut write: impl FnMut(&[u8]) -> Result<(), Error> + Send,
) -> PyResult<()> {
    let path: Option<PathBuf> = if source.hasattr("read")? { None } else { Some(source.extract()?) };
    if let Some(path) = path {
        return limit.detached(py, || pour_path(&path, progress, write));
    }
    let mut done = 0;
    loop {
        let piece = source.call_method1("read", (PIECE_LEN,))?;
        let lent = Lent::of(&piece)?;
        let bytes = lent.bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        limit.detached(py, || write(bytes).map_err(|error| errors::of_objects(&error)))?;
        done += bytes.len() as u64;
        progress.tell(done, None)?;
    }
}

fn pour_path(path: &Path, progress: Progress<'_>, mut write: impl FnMut(&[u8]) -> Result<(), Error>) -> PyResult<()> {
    let mut file = File::open(path).map_err(of_path("open", path))?;
    let total = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    let mut piece = vec![0; PIECE_LEN];
    let mut done = 0;
    loop {
        let count = match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            // A pipe may be waited for.
            Err(error) if error.kind() == ErrorKind::Interrupted && patience::is_over() => return Err(timed_out()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(of_path("read", path)(error)),
        };
        write(piece.get(..count).unwrap_or_default()).map_err(|error| errors::of_objects(&error))?;
        done += count as u64;
        progress.tell(done, total)?;
    }
}

/// Writes a range of an object to a path or a file object; gives its length.
pub fn get(
    (py, limit): (Python<'_>, Limit),
    reader: ObjectReader,
    range: ByteRange,
    (target, progress): (&Bound<'_, PyAny>, Progress<'_>),
) -> PyResult<u64> {
    if !target.hasattr("write")? {
        let path: PathBuf = target.extract()?;
        return limit.detached(py, move || get_to_path(&reader, range, &path, progress));
    }
    let ByteRange { offset, length } = range;
    let mut done = 0;
    while done < length {
        let reader = &reader;
        let piece: Bound<'_, PyBytes> = filled((py, limit), next(length - done), |piece| {
            reader.read(offset + done, piece).map_err(|error| errors::of_objects(&error))
        })?;
        let written = target.call_method1("write", (&piece,))?;
        // What is not buffered may take less; `None` comes of what tells no count.
        if let Ok(count) = written.extract::<usize>()
            && count != piece.as_bytes().len()
        {
            return Err(PyOSError::new_err(format!("the target took {count} bytes of {}", piece.as_bytes().len())));
        }
        done += piece.as_bytes().len() as u64;
        progress.tell(done, Some(length))?;
    }
    Ok(done)
}

fn next(left: u64) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_LEN)
}

fn get_to_path(reader: &ObjectReader, range: ByteRange, path: &Path, progress: Progress<'_>) -> PyResult<u64> {
    let new = OpenOptions::new().write(true).create_new(true).open(path);
    let is_new = new.is_ok();
    let mut file = match new {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => File::create(path),
        opened => opened,
    }
    .map_err(of_path("make", path))?;
    let mut piece = vec![0; PIECE_LEN];
    let mut write = || {
        let mut done = 0;
        while done < range.length {
            if patience::is_over() {
                return Err(timed_out());
            }
            let target = piece.get_mut(..next(range.length - done)).unwrap_or_default();
            let count = reader.read(range.offset + done, target).map_err(|error| errors::of_objects(&error))?;
            file.write_all(target.get(..count).unwrap_or_default()).map_err(of_path("write to", path))?;
            done += count as u64;
            progress.tell(done, Some(range.length))?;
        }
        Ok(done)
    };
    write().inspect_err(|_| {
        if is_new {
            // Else it would look like the object.
            let _gone = std::fs::remove_file(path);
        }
    })
}
