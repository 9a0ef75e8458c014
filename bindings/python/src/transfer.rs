//! Objects from and to files: paths, and whatever has `read` or `write`.
//!
//! Invariants:
//! - A path is read and written without the interpreter lock.
//! - A put that fails half-way leaves nothing.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use koine::object::{ByteRange, EditOptions, Error, Expected, ObjectInfo, ObjectName, ObjectReader, Objects};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::Making;
use crate::bucket::raise;
use crate::buffers::{Lent, filled};
use crate::errors;
use crate::store::Hold;

/// How much goes at once.
const PIECE_LEN: usize = 1 << 20;

fn of_path<'a>(verb: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> PyErr + 'a {
    move |error| errors::of_system(&error, &format!("cannot {verb} {}: {error}", path.display()))
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
    source: &Bound<'_, PyAny>,
    making: Making,
) -> PyResult<ObjectInfo> {
    let raise = raise(making.is_new());
    let mut writer = hold.call(py, |session| session.put(name.bucket, name.key, making.put(None)))?;
    pour(py, source, |piece| writer.write(piece))?;
    py.detach(|| writer.finish(&Expected::none()).wait()).map_err(|error| raise(&error))
}

/// Writes what a path or a file object gives into an object at an offset.
pub fn write(
    py: Python<'_>,
    hold: &Hold,
    name: ObjectName<'_>,
    offset: u64,
    source: &Bound<'_, PyAny>,
    options: EditOptions,
) -> PyResult<ObjectInfo> {
    let mut writer = hold.call(py, |session| session.write_at(name, offset, options))?;
    pour(py, source, |piece| writer.write(piece))?;
    py.detach(|| writer.finish(&Expected::none()).wait()).map_err(|error| errors::of_objects(&error))
}

/// Gives all that a path or a file object has to `write`, piece by piece.
fn pour(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    mut write: impl FnMut(&[u8]) -> Result<(), Error> + Send,
) -> PyResult<()> {
    let path: Option<PathBuf> = if source.hasattr("read")? { None } else { Some(source.extract()?) };
    match path {
        Some(path) => {
            let path = &path;
            py.detach(|| {
                let mut file = File::open(path).map_err(of_path("open", path))?;
                let mut piece = vec![0; PIECE_LEN];
                loop {
                    let count = file.read(&mut piece).map_err(of_path("read", path))?;
                    if count == 0 {
                        return PyResult::Ok(());
                    }
                    let read = piece.get(..count).unwrap_or_default();
                    write(read).map_err(|error| errors::of_objects(&error))?;
                }
            })?;
        }
        None => loop {
            let piece = source.call_method1("read", (PIECE_LEN,))?;
            let lent = Lent::of(&piece)?;
            let bytes = lent.bytes();
            if bytes.is_empty() {
                break;
            }
            py.detach(|| write(bytes)).map_err(|error| errors::of_objects(&error))?;
        },
    }
    Ok(())
}

/// Writes a range of an object to a path or a file object; gives its length.
pub fn get(py: Python<'_>, reader: ObjectReader, range: ByteRange, target: &Bound<'_, PyAny>) -> PyResult<u64> {
    let ByteRange { offset, length } = range;
    let next = |done: u64| usize::try_from(length - done).unwrap_or(usize::MAX).min(PIECE_LEN);
    let mut done = 0;
    if !target.hasattr("write")? {
        let path: PathBuf = target.extract()?;
        let path = &path;
        return py.detach(move || {
            let mut file = File::create(path).map_err(of_path("make", path))?;
            let mut piece = vec![0; PIECE_LEN];
            while done < length {
                let target = piece.get_mut(..next(done)).unwrap_or_default();
                let count = reader.read(offset + done, target).map_err(|error| errors::of_objects(&error))?;
                file.write_all(target.get(..count).unwrap_or_default()).map_err(of_path("write to", path))?;
                done += count as u64;
            }
            Ok(done)
        });
    }
    while done < length {
        let reader = &reader;
        let piece: Bound<'_, PyBytes> = filled(py, next(done), |piece| {
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
    }
    Ok(done)
}
