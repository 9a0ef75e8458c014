//! Searching by metadata and tags, and the indexes that make it fast.
//!
//! Invariant: an iterator is at most one page ahead of its caller.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use koine::object::{self, AccessTimes, BucketChange, Indexed, Portable, SearchQuery, Wanted};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments::{maybe_count, named, unexpected};
use crate::edits;
use crate::errors;
use crate::info::{self, ObjectSummary};
use crate::store::Hold;

/// How many objects are fetched at once.
const PAGE_LEN: usize = 1000;

/// An entry of metadata or a tag: one of the two.
pub fn indexed(metadata: Option<String>, tag: Option<String>) -> PyResult<Indexed> {
    match (metadata, tag) {
        (Some(name), None) => Ok(Indexed::Metadata(name)),
        (None, Some(name)) => Ok(Indexed::Tag(name)),
        _ => Err(PyValueError::new_err("name either metadata or a tag")),
    }
}

/// At most one of these says what a text is to be.
pub fn wanted(equal: Option<String>, begins: Option<String>, between: Option<(String, String)>) -> PyResult<Wanted> {
    match (equal, begins, between) {
        (None, None, None) => Ok(Wanted::Any),
        (Some(text), None, None) => Ok(Wanted::Equal(text)),
        (None, Some(text), None) => Ok(Wanted::BeginsWith(text)),
        (None, None, Some((first, last))) => Ok(Wanted::Between(first, last)),
        _ => Err(PyValueError::new_err("only one of equal, begins and between goes at once")),
    }
}

/// What the arguments of `set` change of a bucket.
pub fn change(given: Option<&Bound<'_, PyDict>>) -> PyResult<BucketChange> {
    let mut change = BucketChange::default();
    let Some(given) = given else { return Ok(change) };
    let replace = given.get_item("replace")?.map_or(Ok(false), |replace| replace.extract())?;
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        set(&mut change, &name, &value, replace).map_err(|error| named(value.py(), "set", &name, error))?;
    }
    Ok(change)
}

fn set(change: &mut BucketChange, name: &str, value: &Bound<'_, PyAny>, replace: bool) -> PyResult<()> {
    match name {
        "replace" => {}
        "metadata" => change.metadata = edits::change(Some(value), replace)?,
        "tags" => change.tags = edits::change(Some(value), replace)?,
        "quota_bytes" => change.quota_bytes = Some(maybe_count(value)?),
        "quota_objects" => change.quota_objects = Some(maybe_count(value)?),
        "access_times" => {
            change.access_times = match value.extract::<Option<String>>()?.as_deref() {
                None => None,
                Some("off") => Some(AccessTimes::Off),
                Some("relative") => Some(AccessTimes::Relative),
                Some(other) => {
                    let message =
                        format!("set() argument \"access_times\": {other:?} is none of them: off or relative");
                    return Err(PyValueError::new_err(message));
                }
            }
        }
        _ => return Err(unexpected("set", name)),
    }
    Ok(())
}

#[doc = help!(IndexInfo)]
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct IndexInfo(pub object::IndexInfo);

#[pymethods]
impl IndexInfo {
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn _of_state(state: &[u8]) -> PyResult<Self> {
        Ok(IndexInfo(info::of_state(state)?))
    }

    #[doc = help!(IndexInfo of)]
    #[getter]
    fn of(&self) -> &'static str {
        match self.0.of {
            Indexed::Metadata(_) => "metadata",
            Indexed::Tag(_) => "tag",
        }
    }

    #[doc = help!(IndexInfo name)]
    #[getter]
    fn name(&self) -> &str {
        self.0.of.name()
    }

    #[doc = help!(IndexInfo whole)]
    #[getter]
    fn whole(&self) -> bool {
        self.0.whole
    }

    fn __repr__(&self) -> String {
        format!("IndexInfo({:?}, {:?})", self.of(), self.name())
    }
}

#[doc = help!(Search)]
#[pyclass(frozen, module = "koine")]
pub struct Search {
    hold: Arc<Hold>,
    bucket: String,
    walk: Mutex<Walk>,
}

struct Walk {
    query: SearchQuery,
    /// How many are still wanted.
    left: u64,
    fetched: VecDeque<(String, object::ObjectSummary)>,
    ended: bool,
}

impl Search {
    pub fn new(hold: Arc<Hold>, bucket: String, query: SearchQuery, left: u64) -> Self {
        Search { hold, bucket, walk: Mutex::new(Walk { query, left, fetched: VecDeque::new(), ended: false }) }
    }
}

#[pymethods]
impl Search {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(String, ObjectSummary)>> {
        loop {
            let query = {
                let mut walk = self.walk.lock().map_err(|_| errors::poisoned())?;
                if walk.left == 0 {
                    return Ok(None);
                }
                if let Some((value, object)) = walk.fetched.pop_front() {
                    walk.left -= 1;
                    return Ok(Some((value, ObjectSummary(object))));
                }
                if walk.ended {
                    return Ok(None);
                }
                let limit = usize::try_from(walk.left).unwrap_or(PAGE_LEN).min(PAGE_LEN);
                SearchQuery { limit, ..walk.query.clone() }
            };
            let page = self.hold.call(py, |session| session.search(&self.bucket, &query))?;
            let mut walk = self.walk.lock().map_err(|_| errors::poisoned())?;
            // Another thread may have fetched the same page meanwhile.
            if walk.query.after == query.after && !walk.ended {
                walk.ended = page.next.is_none();
                walk.query.after = page.next;
                walk.fetched.extend(page.found);
            }
        }
    }
}
