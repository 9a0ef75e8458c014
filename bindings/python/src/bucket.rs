//! A bucket's calls.

use std::sync::Arc;

use koine::env::patience;
use koine::kv::{LOOKUP_COPY_MAX, Version};
use koine::object::{self, ByteRange, DeleteOptions, Error, ErrorKind, FileMode, ListQuery, ObjectName, PutCondition};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::arguments::{Key, Making, count, maybe_count};
use crate::buffers::{Lent, filled};
use crate::errors;
use crate::file::{self, RawFile};
use crate::info::{BucketInfo, ObjectInfo};
use crate::listing::{ListPage, Listing};
use crate::store::Hold;
use crate::transfer::{self, Progress};
use crate::versions::{self, version_id};

#[doc = help!(Bucket)]
#[pyclass(frozen, module = "koine")]
pub struct Bucket {
    hold: Arc<Hold>,
    name: String,
}

impl Bucket {
    pub fn new(hold: Arc<Hold>, name: String) -> Self {
        Bucket { hold, name }
    }

    /// The store.
    pub fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deletes an object where its ETag and its version are these, or one of its versions; whether there was one.
    fn remove(
        &self,
        py: Python<'_>,
        key: &str,
        (if_match, if_version): (Option<&str>, Option<u64>),
        version: Option<&str>,
    ) -> PyResult<bool> {
        if let Some(version) = version_id(version)? {
            if if_match.is_some() || if_version.is_some() {
                return Err(PyValueError::new_err(
                    "a version id says which object is meant: leave if_match and if_version out",
                ));
            }
            return versions::delete(py, &self.hold, ObjectName::new(&self.name, key), version);
        }
        let if_match = if_match.map(object::EtagMatch::parse);
        let condition = PutCondition { if_match, if_version: if_version.map(Version), ..PutCondition::none() };
        let options = DeleteOptions { condition };
        self.hold.call(py, |session| session.delete(&self.name, key, options).wait()).map(|done| done.existed)
    }

    /// An object that is open, or one of its versions.
    fn reader(&self, py: Python<'_>, key: &str, version: Option<&str>) -> PyResult<object::ObjectReader> {
        let name = ObjectName::new(&self.name, key);
        match version_id(version)? {
            None => self.hold.call(py, |session| session.get(&self.name, key)),
            Some(version) => self.hold.call(py, |session| session.get_version(name, version)),
        }
    }

    /// The part of an object that is asked for, where it is short and in memory.
    fn few_bytes<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        offset: u64,
        length: Option<u64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let few = self.hold.at_once(|session| {
            let reader = session.get(&self.name, key)?;
            let range = Bucket::range(&reader, offset, length);
            match usize::try_from(range.length) {
                Ok(length) if length <= LOOKUP_COPY_MAX => reader.bytes(range.offset, length).map(Some),
                _ => Ok(None),
            }
        });
        Ok(few?.flatten().map(|few| PyBytes::new(py, &few)))
    }

    /// The part of an object that is asked for.
    fn range(reader: &object::ObjectReader, offset: u64, length: Option<u64>) -> ByteRange {
        let left = reader.info().size.saturating_sub(offset);
        ByteRange { offset, length: length.map_or(left, |length| length.min(left)) }
    }
}

/// So much is read at once: between such steps a call can be ended.
pub const STEP_LEN: usize = 32 << 20;

/// Fills the target as far as the object goes; how many bytes.
fn read(reader: &object::ObjectReader, offset: u64, target: &mut [u8]) -> Result<usize, Error> {
    let mut done = 0;
    for step in target.chunks_mut(STEP_LEN) {
        if done > 0 && patience::is_over() {
            return Err(Error::new(ErrorKind::Interrupted, "the read was ended"));
        }
        let count = reader.read(offset + done as u64, step)?;
        done += count;
        if count < step.len() {
            break;
        }
    }
    Ok(done)
}

/// The most objects that are deleted in one commit.
const DELETED_MAX: usize = 1000;

/// What raises for a change that the caller may have wanted for a new name only.
pub fn raise(is_new: bool) -> fn(&Error) -> PyErr {
    if is_new { errors::of_new } else { errors::of_objects }
}

#[pymethods]
impl Bucket {
    #[doc = help!(Bucket name)]
    #[getter(name)]
    fn its_name(&self) -> &str {
        &self.name
    }

    #[doc = help!(Bucket info)]
    fn info(&self, py: Python<'_>) -> PyResult<BucketInfo> {
        self.hold.call(py, |session| session.head_bucket(&self.name)).map(BucketInfo)
    }

    #[doc = help!(Bucket exists)]
    fn exists(&self, py: Python<'_>) -> PyResult<bool> {
        self.hold.call(py, |session| match session.head_bucket(&self.name) {
            Err(error) if error.kind() == ErrorKind::NoSuchBucket => Ok(false),
            found => found.map(|_| true),
        })
    }

    #[doc = help!(Bucket put)]
    #[pyo3(signature = (key, data, **options))]
    fn put(
        &self,
        py: Python<'_>,
        key: Key,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let making = Making::read("put", options)?;
        transfer::put_bytes(py, &self.hold, ObjectName::new(&self.name, &key), data, making).map(ObjectInfo)
    }

    #[doc = help!(Bucket get)]
    #[pyo3(signature = (key, *, offset=0, length=None, version=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Key,
        #[pyo3(from_py_with = count)] offset: u64,
        #[pyo3(from_py_with = maybe_count)] length: Option<u64>,
        version: Option<&str>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if version.is_none()
            && let Some(few) = self.few_bytes(py, &key, offset, length)?
        {
            return Ok(few);
        }
        let reader = self.reader(py, &key, version)?;
        let range = Bucket::range(&reader, offset, length);
        let length = usize::try_from(range.length)?;
        filled((py, self.hold.limit()), length, move |target| {
            read(&reader, range.offset, target).map_err(|error| errors::of_objects(&error))
        })
    }

    #[doc = help!(Bucket get_into)]
    #[pyo3(signature = (key, buffer, *, offset=0))]
    fn get_into(
        &self,
        py: Python<'_>,
        key: Key,
        buffer: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] offset: u64,
    ) -> PyResult<usize> {
        let mut lent = Lent::writable(buffer)?;
        let target = lent.bytes_mut();
        self.hold.call(py, |session| read(&session.get(&self.name, &key)?, offset, target))
    }

    #[doc = help!(Bucket head)]
    #[pyo3(signature = (key, *, version=None))]
    fn head(&self, py: Python<'_>, key: Key, version: Option<&str>) -> PyResult<ObjectInfo> {
        let name = ObjectName::new(&self.name, &key);
        let info = match version_id(version)? {
            None => self.hold.read(py, |session| session.head(&self.name, &key)),
            Some(version) => self.hold.read(py, |session| session.head_version(name, version)),
        };
        info.map(ObjectInfo)
    }

    fn __contains__(&self, py: Python<'_>, key: Key) -> PyResult<bool> {
        self.hold.read(py, |session| match session.head(&self.name, &key) {
            Err(error) if error.kind() == ErrorKind::NoSuchKey => Ok(false),
            found => found.map(|_| true),
        })
    }

    #[doc = help!(Bucket delete)]
    #[pyo3(signature = (key, *, if_match=None, if_version=None, version=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Key,
        if_match: Option<&str>,
        #[pyo3(from_py_with = maybe_count)] if_version: Option<u64>,
        version: Option<&str>,
    ) -> PyResult<bool> {
        self.remove(py, &key, (if_match, if_version), version)
    }

    #[doc = help!(Bucket delete_many)]
    fn delete_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        if keys.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("keys: one of several keys is wanted, not a str; delete() takes one key"));
        }
        let mut keys = keys.try_iter()?;
        let mut count = 0;
        loop {
            let mut some = Vec::new();
            for key in keys.by_ref().take(DELETED_MAX) {
                some.push(key?.extract::<Key>()?.to_string());
            }
            if some.is_empty() {
                return Ok(count);
            }
            count += self.hold.call(py, |session| {
                let outcomes = session.delete_many(&self.name, &some).wait()?;
                let each: Result<Vec<_>, _> = outcomes.into_iter().collect();
                Ok(each?.into_iter().filter(|deleted| deleted.existed).count())
            })?;
        }
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Key) -> PyResult<Bound<'py, PyBytes>> {
        self.get(py, key, 0, None, None)
    }

    fn __setitem__(&self, py: Python<'_>, key: Key, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(py, key, data, None).map(drop)
    }

    fn __delitem__(&self, py: Python<'_>, key: Key) -> PyResult<()> {
        match self.remove(py, &key, (None, None), None)? {
            true => Ok(()),
            false => {
                Err(errors::raised("NoSuchKey", &format!("there is no object {key:?} in the bucket {:?}", self.name)))
            }
        }
    }

    fn __truediv__<'py>(this: Bound<'py, Self>, key: Key) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("koine._paths")?.getattr("Path")?.call1((this, &*key))
    }

    #[doc = help!(Bucket list)]
    #[pyo3(signature = (prefix="", *, delimiter="", after=None, limit=None))]
    fn list(
        &self,
        prefix: &str,
        delimiter: &str,
        after: Option<String>,
        #[pyo3(from_py_with = maybe_count)] limit: Option<u64>,
    ) -> Listing {
        let query = ListQuery { prefix: prefix.to_owned(), delimiter: delimiter.to_owned(), after, limit: 0 };
        Listing::new(Arc::clone(&self.hold), self.name.clone(), query, limit.unwrap_or(u64::MAX))
    }

    fn __iter__(&self) -> Listing {
        self.list("", "", None, None)
    }

    #[doc = help!(Bucket list_page)]
    #[pyo3(signature = (prefix="", *, delimiter="", after=None, limit=1000))]
    fn list_page(
        &self,
        py: Python<'_>,
        prefix: &str,
        delimiter: &str,
        after: Option<String>,
        limit: usize,
    ) -> PyResult<ListPage> {
        let query = ListQuery { prefix: prefix.to_owned(), delimiter: delimiter.to_owned(), after, limit };
        self.hold.call(py, |session| session.list(&self.name, &query)).map(ListPage)
    }

    #[doc = help!(Bucket copy)]
    #[pyo3(signature = (key, to, *, bucket=None, version=None, **options))]
    fn copy(
        &self,
        py: Python<'_>,
        key: Key,
        to: Key,
        bucket: Option<&str>,
        version: Option<&str>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let making = Making::read("copy", options)?;
        let raise = raise(making.is_new());
        let options = making.copy(version_id(version)?);
        let from = ObjectName::new(&self.name, &key);
        let to = ObjectName::new(bucket.unwrap_or(&self.name), &to);
        self.hold.call_or(py, |session| session.copy(from, to, options).wait(), raise).map(ObjectInfo)
    }

    #[doc = help!(Bucket put_file)]
    #[pyo3(signature = (key, source, *, progress=None, **options))]
    fn put_file(
        &self,
        py: Python<'_>,
        key: Key,
        source: &Bound<'_, PyAny>,
        progress: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let making = Making::read("put_file", options)?;
        let source = (source, Progress::new(progress.as_ref()));
        transfer::put(py, &self.hold, ObjectName::new(&self.name, &key), source, making).map(ObjectInfo)
    }

    #[doc = help!(Bucket get_file)]
    #[pyo3(signature = (key, target, *, offset=0, length=None, version=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn get_file(
        &self,
        py: Python<'_>,
        key: Key,
        target: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] offset: u64,
        #[pyo3(from_py_with = maybe_count)] length: Option<u64>,
        version: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<u64> {
        let reader = self.reader(py, &key, version)?;
        let range = Bucket::range(&reader, offset, length);
        transfer::get((py, self.hold.limit()), reader, range, (target, Progress::new(progress.as_ref())))
    }

    #[doc = help!(Bucket open)]
    #[pyo3(signature = (key, mode="rb", **options))]
    fn open<'py>(
        this: Bound<'py, Self>,
        key: Key,
        mode: &str,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let open = this.py().import("koine._files")?.getattr("open_in")?;
        open.call((this, &*key, mode), options)
    }

    #[doc = help!(Bucket open_raw)]
    #[pyo3(signature = (key, mode, *, version=None, **options))]
    fn open_raw(
        &self,
        py: Python<'_>,
        key: Key,
        mode: &str,
        version: Option<&str>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<RawFile> {
        let file_mode = file::mode_of(mode)?;
        if let Some(version) = version_id(version)? {
            if file_mode != FileMode::Read {
                return Err(PyValueError::new_err("a version can only be read: open it in mode r"));
            }
            let name = ObjectName::new(&self.name, &key);
            let file = self.hold.call(py, |session| session.open_file_version(name, version))?;
            return Ok(RawFile::new(Arc::clone(&self.hold), file));
        }
        let put = Making::read("open", options)?.put(None);
        let name = ObjectName::new(&self.name, &key);
        let raise = raise(file_mode == FileMode::CreateNew);
        let file = self.hold.call_or(py, |session| session.open_file(name, file_mode, put), raise)?;
        Ok(RawFile::new(Arc::clone(&self.hold), file))
    }

    fn __repr__(&self) -> String {
        format!("Bucket({:?} in {:?})", self.name, self.hold.place())
    }
}
