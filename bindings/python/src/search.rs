//! Searching by metadata and tags, and the indexes that make it fast.
//!
//! Invariant: an iterator is at most one page ahead of its caller.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use koine::object::{self, AccessTimes, BucketChange, Indexed, SearchQuery, Wanted};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::edits;
use crate::errors;
use crate::info::ObjectSummary;
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
        match name.extract::<String>()?.as_str() {
            "replace" => {}
            "metadata" => change.metadata = edits::change(Some(&value), replace)?,
            "tags" => change.tags = edits::change(Some(&value), replace)?,
            "quota_bytes" => change.quota_bytes = Some(value.extract()?),
            "quota_objects" => change.quota_objects = Some(value.extract()?),
            "access_times" => {
                change.access_times = match value.extract::<Option<String>>()?.as_deref() {
                    None => None,
                    Some("off") => Some(AccessTimes::Off),
                    Some("relative") => Some(AccessTimes::Relative),
                    Some(other) => {
                        let message = format!("{other:?} is no kind of access times: off or relative");
                        return Err(PyValueError::new_err(message));
                    }
                }
            }
            other => {
                let message = format!("set() got an unexpected keyword argument {other:?}");
                return Err(pyo3::exceptions::PyTypeError::new_err(message));
            }
        }
    }
    Ok(change)
}

/// An index of a bucket.
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct IndexInfo(pub object::IndexInfo);

#[pymethods]
impl IndexInfo {
    #[getter]
    fn of(&self) -> &'static str {
        match self.0.of {
            Indexed::Metadata(_) => "metadata",
            Indexed::Tag(_) => "tag",
        }
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.of.name()
    }

    #[getter]
    fn whole(&self) -> bool {
        self.0.whole
    }

    fn __repr__(&self) -> String {
        format!("IndexInfo({:?}, {:?})", self.of(), self.name())
    }
}

/// Objects that are found, page by page.
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
