//! Keyword arguments that several calls share.

use std::fmt;
use std::ops::Deref;

use koine::kv::Version;
use koine::object::{
    ContentHeaders, CopiedMetadata, CopyOptions, EditOptions, EtagKind, EtagMatch, PutCondition, PutOptions,
    UploadOptions, VersionId,
};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyDict, PyMapping};

/// A key: text, or a path without a drive.
pub struct Key(PyBackedStr);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'py> FromPyObject<'_, 'py> for Key {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.extract::<PyBackedStr>() {
            return Ok(Key(text));
        }
        if object.hasattr("__fspath__")? {
            // `as_posix` of a path of another system; others say what they are.
            let text = if object.hasattr("as_posix")? { "as_posix" } else { "__fspath__" };
            return Ok(Key(object.call_method0(text)?.extract()?));
        }
        let message = format!("a key is a str or a path, not {}", object.get_type().name()?);
        Err(PyTypeError::new_err(message))
    }
}

/// A number that is counted from 0: how many, or where. What is none is told with the argument's name.
pub fn count(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.extract().map_err(|error: PyErr| match error.is_instance_of::<PyOverflowError>(value.py()) {
        true => PyValueError::new_err(format!("{value} is not within 0 and 2**64-1")),
        false => error,
    })
}

/// The same where it may be left out.
pub fn maybe_count(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if value.is_none() { Ok(None) } else { count(value).map(Some) }
}

/// The error of a keyword argument that there is not.
pub fn unexpected(call: &str, name: &str) -> PyErr {
    PyTypeError::new_err(format!("{call}() got an unexpected keyword argument {name:?}"))
}

/// An error of a keyword argument, with the name of that.
pub fn named(py: Python<'_>, call: &str, name: &str, error: PyErr) -> PyErr {
    let told = error.value(py).to_string();
    if told.starts_with(&format!("{call}()")) {
        return error;
    }
    let message = format!("{call}() argument {name:?}: {told}");
    match error.get_type(py).call1((message,)) {
        Ok(told) if error.is_instance_of::<PyTypeError>(py) => PyErr::from_value(told),
        _ => error,
    }
}

/// What a caller says of an object that it makes.
#[derive(Clone, Default)]
pub struct Making {
    /// What must hold of the name.
    pub condition: PutCondition,
    /// Stored headers.
    pub headers: ContentHeaders,
    /// User metadata.
    pub metadata: Vec<(String, String)>,
    /// Which ETag the object gets.
    pub etag: EtagKind,
    /// Whether headers or metadata were given at all.
    pub described: bool,
}

impl Making {
    /// `if_absent`, `if_present`, `if_match`, `if_version`, `metadata`, `md5`, and the headers by their names in Python.
    pub fn read(call: &str, given: Option<&Bound<'_, PyDict>>) -> PyResult<Making> {
        let mut making = Making::default();
        let Some(given) = given else { return Ok(making) };
        for (name, value) in given.iter() {
            let name: String = name.extract()?;
            let set = making.set(call, &name, &value);
            set.map_err(|error| named(value.py(), call, &name, error))?;
        }
        let wants_one = making.condition.if_match.is_some() || making.condition.if_version.is_some();
        if making.condition.if_absent && wants_one {
            return Err(PyValueError::new_err("if_absent goes with no condition on what is there"));
        }
        Ok(making)
    }

    /// One of the arguments.
    fn set(&mut self, call: &str, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let headers = &mut self.headers;
        let header = match name {
            "if_absent" => {
                self.condition.if_absent = value.extract()?;
                return Ok(());
            }
            "if_present" => {
                if value.extract()? {
                    self.condition.if_match.get_or_insert(EtagMatch::Any);
                }
                return Ok(());
            }
            "if_match" => {
                if let Some(etag) = value.extract::<Option<String>>()? {
                    self.condition.if_match = Some(EtagMatch::parse(&etag));
                }
                return Ok(());
            }
            "if_version" => {
                self.condition.if_version = maybe_count(value)?.map(Version);
                return Ok(());
            }
            "md5" => {
                self.etag = if value.extract()? { EtagKind::Md5 } else { EtagKind::Drawn };
                self.described = true;
                return Ok(());
            }
            "metadata" => {
                if !value.is_none() {
                    self.metadata = metadata(value)?;
                    self.described = true;
                }
                return Ok(());
            }
            "content_type" => &mut headers.content_type,
            "cache_control" => &mut headers.cache_control,
            "content_disposition" => &mut headers.content_disposition,
            "content_encoding" => &mut headers.content_encoding,
            "content_language" => &mut headers.content_language,
            "expires" => &mut headers.expires,
            _ => return Err(unexpected(call, name)),
        };
        *header = value.extract()?;
        self.described |= header.is_some();
        Ok(())
    }

    /// Whether it is only asked that nothing have the name.
    pub fn is_new(&self) -> bool {
        self.condition.if_absent
    }

    /// For a call that describes nothing: what must hold of the name.
    pub fn condition_alone(self, call: &str) -> PyResult<PutCondition> {
        if self.described {
            let message = format!("{call}() takes conditions, but neither metadata nor headers");
            return Err(PyTypeError::new_err(message));
        }
        Ok(self.condition)
    }

    /// For an edit.
    pub fn edit(self, call: &str, create: bool) -> PyResult<EditOptions> {
        Ok(EditOptions { condition: self.condition_alone(call)?, create, ..EditOptions::default() })
    }

    /// For a copy, of a version where one is named: what is described takes the place of what the source has.
    pub fn copy(self, source_version: Option<VersionId>) -> CopyOptions {
        let metadata = match self.described {
            true => CopiedMetadata::Replace { headers: self.headers, metadata: self.metadata },
            false => CopiedMetadata::Copy,
        };
        CopyOptions { metadata, source_version, condition: self.condition, ..CopyOptions::default() }
    }

    /// For an upload in parts.
    pub fn upload(self) -> PyResult<UploadOptions> {
        if self.condition != PutCondition::none() {
            return Err(PyValueError::new_err("conditions are given to complete()"));
        }
        Ok(UploadOptions { headers: self.headers, metadata: self.metadata, checksum: None, etag: self.etag })
    }

    /// For a put of so many bytes, where that is known.
    pub fn put(self, length: Option<u64>) -> PutOptions {
        let Making { condition, headers, metadata, etag, .. } = self;
        PutOptions { condition, headers, metadata, etag, length, ..PutOptions::default() }
    }
}

fn metadata(value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let pairs = value.cast::<PyMapping>()?.items()?;
    pairs.iter().map(|pair| pair.extract()).collect()
}
