//! Versions of objects, page by page.
//!
//! Invariant: an iterator is at most one page ahead of its caller.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use koine::object::{self, ErrorKind, ObjectName, Portable, VersionId, VersionQuery, Versioning};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::info::{self, moment};
use crate::store::Hold;

/// How many versions an iterator fetches at once.
const PAGE_LEN: usize = 1000;

/// A version id as Python has it.
pub fn version_id(text: Option<&str>) -> PyResult<Option<VersionId>> {
    let parse = |text: &str| text.parse().map_err(|error| errors::of_objects(&error));
    text.map(parse).transpose()
}

/// Whether a bucket keeps versions, by its word.
pub fn versioning(word: &str) -> PyResult<Versioning> {
    match word {
        "enabled" => Ok(Versioning::Enabled),
        "suspended" => Ok(Versioning::Suspended),
        other => {
            let message = format!("{other:?}: a bucket's versions are \"enabled\" or \"suspended\"");
            Err(PyValueError::new_err(message))
        }
    }
}

/// Deletes a version for good; whether there was one.
pub fn delete(py: Python<'_>, hold: &Hold, name: ObjectName<'_>, version: VersionId) -> PyResult<bool> {
    hold.call(py, |session| match session.delete_version(name, version).wait() {
        Err(error) if error.kind() == ErrorKind::NoSuchVersion => Ok(false),
        deleted => deleted.map(|_| true),
    })
}

#[doc = help!(Version)]
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct Version(object::VersionSummary);

#[pymethods]
impl Version {
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn _of_state(state: &[u8]) -> PyResult<Self> {
        Ok(Version(info::of_state(state)?))
    }

    #[doc = help!(Version key)]
    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    #[doc = help!(Version version_id)]
    #[getter]
    fn version_id(&self) -> String {
        self.0.id.to_string()
    }

    #[doc = help!(Version newest)]
    #[getter]
    fn newest(&self) -> bool {
        self.0.newest
    }

    #[doc = help!(Version is_marker)]
    #[getter]
    fn is_marker(&self) -> bool {
        self.0.object.is_none()
    }

    #[doc = help!(Version size)]
    #[getter]
    fn size(&self) -> Option<u64> {
        self.0.object.as_ref().map(|object| object.size)
    }

    #[doc = help!(Version etag)]
    #[getter]
    fn etag(&self) -> Option<String> {
        self.0.object.as_ref().map(|object| object.etag.to_string())
    }

    #[doc = help!(Version modified)]
    #[getter]
    fn modified<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.modified)
    }

    #[doc = help!(Version modified_ns)]
    #[getter]
    fn modified_ns(&self) -> u64 {
        self.0.modified.0
    }

    fn __repr__(&self) -> String {
        let what = if self.is_marker() { ", deleted" } else { "" };
        format!("Version({:?}, {:?}{what})", self.0.key, self.version_id())
    }
}

#[doc = help!(VersionListing)]
#[pyclass(frozen, module = "koine")]
pub struct VersionListing {
    hold: Arc<Hold>,
    bucket: String,
    walk: Mutex<Walk>,
}

struct Walk {
    query: VersionQuery,
    fetched: VecDeque<object::VersionSummary>,
    ended: bool,
}

impl VersionListing {
    pub fn new(hold: Arc<Hold>, bucket: String, prefix: &str) -> Self {
        let query = VersionQuery { prefix: prefix.to_owned(), limit: PAGE_LEN, ..VersionQuery::default() };
        VersionListing { hold, bucket, walk: Mutex::new(Walk { query, fetched: VecDeque::new(), ended: false }) }
    }
}

#[pymethods]
impl VersionListing {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Version>> {
        loop {
            let query = {
                let mut walk = self.walk.lock().map_err(|_| errors::poisoned())?;
                if let Some(version) = walk.fetched.pop_front() {
                    return Ok(Some(Version(version)));
                }
                if walk.ended {
                    return Ok(None);
                }
                walk.query.clone()
            };
            let page = self.hold.call(py, |session| session.list_versions(&self.bucket, &query))?;
            let mut walk = self.walk.lock().map_err(|_| errors::poisoned())?;
            let place = |query: &VersionQuery| (query.key_after.clone(), query.version_after);
            // Another thread may have fetched the same page meanwhile.
            if place(&walk.query) == place(&query) && !walk.ended {
                walk.ended = page.next.is_none();
                let (key, version) = page.next.unzip();
                (walk.query.key_after, walk.query.version_after) = (key, version.flatten());
                walk.fetched.extend(page.versions);
            }
        }
    }
}
