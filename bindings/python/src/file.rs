//! An object that is open as a file: what `koine.File` stands on.
//!
//! Invariant: its own lock is taken only while the interpreter's is released.

use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use koine::env::patience;
use koine::object::{FileMode, ObjectFile};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bucket::{STEP_LEN, raise};
use crate::buffers::{Lent, filled};
use crate::errors;
use crate::info::ObjectInfo;
use crate::patience::{is_in_handler, timed_out};
use crate::store::Hold;

/// A mode by its letter.
pub fn mode_of(mode: &str) -> PyResult<FileMode> {
    match mode {
        "r" => Ok(FileMode::Read),
        "r+" => Ok(FileMode::ReadWrite),
        "a" => Ok(FileMode::Append),
        "w" => Ok(FileMode::Create),
        "x" => Ok(FileMode::CreateNew),
        _ => Err(PyValueError::new_err(format!("{mode:?} is no mode of a file: r, r+, w, x or a"))),
    }
}

#[doc = help!(RawFile)]
#[pyclass(frozen, module = "koine")]
pub struct RawFile {
    /// The store stays open for as long as the file.
    hold: Arc<Hold>,
    file: Mutex<Option<ObjectFile>>,
    mode: FileMode,
    process: u32,
}

fn closed() -> PyErr {
    PyValueError::new_err("I/O operation on closed file")
}

impl RawFile {
    pub fn new(hold: Arc<Hold>, file: ObjectFile) -> Self {
        RawFile { hold, mode: file.mode(), file: Mutex::new(Some(file)), process: std::process::id() }
    }

    /// Does something with the file, without the interpreter lock.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut ObjectFile) -> PyResult<T> + Send) -> PyResult<T> {
        self.hold.limit().detached(py, || self.locked(work))
    }

    fn locked<T>(&self, work: impl FnOnce(&mut ObjectFile) -> PyResult<T>) -> PyResult<T> {
        self.check_process()?;
        let mut file = self.guard()?;
        let file = file.as_mut().ok_or_else(closed)?;
        // A store that other sessions hold would go on giving bytes.
        self.hold.check()?;
        work(file)
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(errors::raised("Closed", "the file was opened before this process was forked; open it again"))
    }

    fn take(&self) -> PyResult<Option<ObjectFile>> {
        self.check_process()?;
        Ok(self.guard()?.take())
    }

    fn guard(&self) -> PyResult<MutexGuard<'_, Option<ObjectFile>>> {
        if !is_in_handler() {
            return self.file.lock().map_err(|_| errors::poisoned());
        }
        // As `io` has it.
        let message = "reentrant call: the handler of a signal uses a file that its thread uses already";
        self.file.try_lock().map_err(|_| PyRuntimeError::new_err(message))
    }
}

/// Fills `target` as far as the file goes.
fn fill(file: &mut ObjectFile, target: &mut [u8]) -> PyResult<usize> {
    let mut done = 0;
    while let Some(rest) = target.get_mut(done..).filter(|rest| !rest.is_empty()) {
        if done > 0 && patience::is_over() {
            return Err(timed_out());
        }
        let step = rest.len().min(STEP_LEN);
        let rest = rest.get_mut(..step).unwrap_or_default();
        match file.read(rest).map_err(|error| errors::of_file(&error))? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

impl Drop for RawFile {
    fn drop(&mut self) {
        let Some(file) = self.file.get_mut().ok().and_then(Option::take) else { return };
        if self.process != std::process::id() {
            // The parent's; its threads are not here.
            std::mem::forget(file);
            return;
        }
        let mut file = Some(file);
        let _ = Python::try_attach(|py| py.detach(|| file.take()));
    }
}

#[pymethods]
impl RawFile {
    #[doc = help!(RawFile session)]
    #[getter]
    fn session(&self) -> usize {
        self.hold.number()
    }

    #[doc = help!(RawFile readinto)]
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut lent = Lent::writable(buffer)?;
        let target = lent.bytes_mut();
        self.with(py, |file| fill(file, target))
    }

    #[doc = help!(RawFile read)]
    fn read<'py>(&self, py: Python<'py>, size: i64) -> PyResult<Bound<'py, PyBytes>> {
        let left = self.with(py, |file| Ok(file.size().saturating_sub(file.position())))?;
        let wanted = u64::try_from(size).map_or(left, |size| size.min(left));
        let limit = self.hold.limit();
        filled((py, limit), usize::try_from(wanted)?, |target| self.locked(|file| fill(file, target)))
    }

    #[doc = help!(RawFile write)]
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let lent = Lent::of(data)?;
        let bytes = lent.bytes();
        self.with(py, |file| file.write_all(bytes).map_err(|error| errors::of_file(&error)))?;
        Ok(bytes.len())
    }

    #[doc = help!(RawFile seek)]
    fn seek(&self, py: Python<'_>, offset: i64, whence: u32) -> PyResult<u64> {
        let to = match whence {
            0 => {
                let message = || PyValueError::new_err(format!("negative seek position {offset}"));
                SeekFrom::Start(u64::try_from(offset).map_err(|_| message())?)
            }
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            _ => return Err(PyValueError::new_err(format!("whence is 0, 1 or 2, not {whence}"))),
        };
        self.with(py, |file| file.seek(to).map_err(|error| errors::of_file(&error)))
    }

    #[doc = help!(RawFile truncate)]
    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.with(py, |file| file.truncate(size).map_err(|error| errors::of_objects(&error)))
    }

    #[doc = help!(RawFile tell)]
    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |file| Ok(file.position()))
    }

    #[doc = help!(RawFile size)]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |file| Ok(file.size()))
    }

    #[doc = help!(RawFile info)]
    fn info(&self, py: Python<'_>) -> PyResult<Option<ObjectInfo>> {
        self.with(py, |file| Ok(file.info().cloned().map(ObjectInfo)))
    }

    #[doc = help!(RawFile flush)]
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |file| file.flush().map_err(|error| errors::of_file(&error)))
    }

    #[doc = help!(RawFile close)]
    fn close(&self, py: Python<'_>) -> PyResult<Option<ObjectInfo>> {
        let raise = raise(self.mode == FileMode::CreateNew);
        self.hold.limit().detached(py, || {
            let Some(file) = self.take()? else { return Ok(None) };
            if self.mode != FileMode::Read {
                self.hold.check()?;
            }
            let closed = file.close().map_err(|error| raise(&error))?;
            Ok(closed.map(ObjectInfo))
        })
    }

    #[doc = help!(RawFile discard)]
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.hold.limit().detached(py, || self.take().map(drop))
    }

    fn __repr__(&self) -> String {
        format!("RawFile({:?} of {:?})", self.mode, self.hold.place())
    }
}
