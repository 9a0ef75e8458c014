//! Errors of the store as exceptions of `koine.errors`, by their kind.
//!
//! Invariant: an exception says the same as the error, and its class is chosen by the error's kind, and by whether it tells of
//! the connection to a server.

use std::io;

use koine::object::{Error, ErrorKind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::patience;

/// The exception of a kind; `Error` itself where there is none of that name.
pub fn raised(kind: &str, message: &str) -> PyErr {
    Python::attach(|py| {
        let made = py.import("koine.errors").and_then(|module| {
            let class = match module.getattr(kind) {
                Ok(class) if class.cast::<PyType>().is_ok() => class,
                _ => module.getattr("Error")?,
            };
            let made = class.call1((message,))?;
            made.setattr("kind", kind)?;
            Ok(PyErr::from_value(made))
        });
        made.unwrap_or_else(|error| error)
    })
}

/// Of an object's call.
pub fn of_objects(error: &Error) -> PyErr {
    if error.kind() == ErrorKind::Interrupted {
        return patience::timed_out();
    }
    let kind = format!("{:?}", error.kind());
    raised(&kind, error.message())
}

/// The same, where the caller asked that nothing have the name.
pub fn of_new(error: &Error) -> PyErr {
    match error.kind() {
        ErrorKind::PreconditionFailed => raised("AlreadyExists", error.message()),
        _ => of_objects(error),
    }
}

/// Of the store itself.
pub fn of_store(error: &koine::Error) -> PyErr {
    use koine::Error as E;
    let message = error.to_string();
    match error {
        E::Objects(error) => of_objects(error),
        E::Missing(_) | E::MissingAt(_) => raised("NoSuchStore", &message),
        E::BadPlace(_) | E::BadSize(_) => raised("InvalidArgument", &message),
        E::Occupied { .. } | E::NotAStore { .. } | E::Blank { .. } => raised("NotAStore", &message),
        E::Io { source, .. } => of_system(source, &message),
        E::At { source, .. } | E::Store(source) => match source.kind() {
            koine::kv::ErrorKind::Interrupted => patience::timed_out(),
            kind => {
                let kind = format!("{kind:?}");
                raised(&kind, &message)
            }
        },
    }
}

/// Of a file of the operating system: its own exception.
pub fn of_system(error: &io::Error, message: &str) -> PyErr {
    match error.raw_os_error() {
        Some(number) => pyo3::exceptions::PyOSError::new_err((number, message.to_owned())),
        None => pyo3::exceptions::PyOSError::new_err(message.to_owned()),
    }
}

/// Of an object that is open as a file.
pub fn of_file(error: &io::Error) -> PyErr {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    inner.map_or_else(|| of_system(error, &error.to_string()), of_objects)
}

/// Something that cannot happen unless a thread panicked before.
pub fn poisoned() -> PyErr {
    PyRuntimeError::new_err("another thread failed while it held this; open it again")
}
