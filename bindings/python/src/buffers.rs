//! The caller's memory: buffers that Python lends, and `bytes` that are filled in place.
//!
//! Invariants:
//! - A lent buffer stays where it is until it is given back, which happens under the interpreter lock.
//! - A `bytes` is seen by nobody else before it is full.

// The buffer protocol and `PyBytes_FromStringAndSize` hand out addresses.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::{ptr, slice};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::patience::Limit;

/// `Py_buffer`. The stable interface has it from Python 3.11 on, in the shape that 3.10 has too.
#[repr(C)]
struct View {
    bytes: *mut c_void,
    owner: *mut ffi::PyObject,
    length: ffi::Py_ssize_t,
    item_size: ffi::Py_ssize_t,
    read_only: c_int,
    dimensions: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

const WRITABLE: c_int = 1;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut View, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut View);
}

/// Contiguous bytes of a Python object, lent to one call.
pub struct Lent<'py> {
    view: Box<View>,
    _py: Python<'py>,
}

impl<'py> Lent<'py> {
    /// To be read.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Lent::with(object, 0)
    }

    /// To be written to.
    pub fn writable(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Lent::with(object, WRITABLE)
    }

    fn with(object: &Bound<'py, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(View {
            bytes: ptr::null_mut(),
            owner: ptr::null_mut(),
            length: 0,
            item_size: 0,
            read_only: 0,
            dimensions: 0,
            format: ptr::null_mut(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            suboffsets: ptr::null_mut(),
            internal: ptr::null_mut(),
        });
        // SAFETY: the object is alive, the lock is held, and the view lives in one place until it is given back.
        if unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            let error = PyErr::fetch(object.py());
            let message = format!("data: {}", error.value(object.py()));
            return Err(match error.is_instance_of::<PyTypeError>(object.py()) {
                true => PyTypeError::new_err(message),
                false => PyBufferError::new_err(message),
            });
        }
        let lent = Lent { view, _py: object.py() };
        if lent.view.length < 0 {
            return Err(PyBufferError::new_err("a buffer has a negative length"));
        }
        Ok(lent)
    }

    /// Its bytes. As with every buffer in Python, who changes them meanwhile gets a mixture.
    pub fn bytes(&self) -> &[u8] {
        if self.view.length == 0 {
            return &[];
        }
        // SAFETY: the lender keeps so many bytes at this place until they are given back.
        unsafe { slice::from_raw_parts(self.view.bytes.cast(), self.view.length.unsigned_abs()) }
    }

    /// Its bytes, of one that is writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.view.length == 0 {
            return &mut [];
        }
        // SAFETY: as above, and the lender was asked for a buffer that may be written to.
        unsafe { slice::from_raw_parts_mut(self.view.bytes.cast(), self.view.length.unsigned_abs()) }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // SAFETY: the view was lent, and `Python<'py>` says that the lock is held.
        unsafe { PyBuffer_Release(&raw mut *self.view) }
    }
}

/// A `bytes` of `length` bytes, filled by `fill` without the interpreter lock; cut where that gives fewer.
pub fn filled<'py>(
    (py, limit): (Python<'py>, Limit),
    length: usize,
    fill: impl FnOnce(&mut [u8]) -> PyResult<usize> + Send,
) -> PyResult<Bound<'py, PyBytes>> {
    let size = ffi::Py_ssize_t::try_from(length)?;
    // SAFETY: a new object, or NULL with an exception set. One of no or one byte may be shared, and is never written to.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(ptr::null(), size))? };
    let made = made.cast_into::<PyBytes>()?;
    if length < 2 {
        let mut few = [0; 1];
        let count = limit.detached(py, || fill(few.get_mut(..length).unwrap_or_default()))?;
        return Ok(PyBytes::new(py, few.get(..count).unwrap_or_default()));
    }
    // SAFETY: nobody else knows the object yet, which is kept alive here; `fill` only writes.
    let target = unsafe { slice::from_raw_parts_mut(ffi::PyBytes_AsString(made.as_ptr()).cast::<u8>(), length) };
    let count = limit.detached(py, || fill(target))?;
    if count < length { Ok(PyBytes::new(py, made.as_bytes().get(..count).unwrap_or_default())) } else { Ok(made) }
}
