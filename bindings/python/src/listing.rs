//! Listings: pages, and iterators that fetch them.
//!
//! Invariant: an iterator is at most one page ahead of its caller.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use koine::object::{self, BucketQuery, ListQuery};
use pyo3::prelude::*;

use crate::errors;
use crate::info::{BucketInfo, ObjectSummary, Prefix};
use crate::store::Hold;

/// How many names an iterator fetches at once.
const PAGE_LEN: usize = 1000;

#[doc = help!(ListPage)]
#[pyclass(frozen, module = "koine")]
pub struct ListPage(pub object::ListPage);

#[pymethods]
impl ListPage {
    #[doc = help!(ListPage objects)]
    #[getter]
    fn objects(&self) -> Vec<ObjectSummary> {
        self.0.objects.iter().cloned().map(ObjectSummary).collect()
    }

    #[doc = help!(ListPage prefixes)]
    #[getter]
    fn prefixes(&self) -> Vec<String> {
        self.0.common_prefixes.clone()
    }

    #[doc = help!(ListPage next)]
    #[getter]
    fn next(&self) -> Option<&str> {
        self.0.next.as_deref()
    }
}

/// An object or a prefix.
#[derive(IntoPyObject)]
pub enum Listed {
    Object(ObjectSummary),
    Prefix(Prefix),
}

impl Listed {
    fn key(&self) -> &str {
        match self {
            Listed::Object(object) => &object.0.key,
            Listed::Prefix(prefix) => &prefix.key,
        }
    }
}

#[doc = help!(Listing)]
#[pyclass(frozen, module = "koine")]
pub struct Listing {
    hold: Arc<Hold>,
    bucket: String,
    walk: Mutex<Walk>,
}

struct Walk {
    query: ListQuery,
    /// How many are still wanted.
    left: u64,
    fetched: VecDeque<Listed>,
    ended: bool,
}

impl Listing {
    pub fn new(hold: Arc<Hold>, bucket: String, query: ListQuery, left: u64) -> Self {
        Listing { hold, bucket, walk: Mutex::new(Walk { query, left, fetched: VecDeque::new(), ended: false }) }
    }

    fn step(&self, py: Python<'_>) -> PyResult<Option<Listed>> {
        loop {
            let mut query = {
                let mut walk = self.walk.lock().map_err(|_| errors::poisoned())?;
                if walk.left == 0 {
                    return Ok(None);
                }
                if let Some(listed) = walk.fetched.pop_front() {
                    walk.left -= 1;
                    return Ok(Some(listed));
                }
                if walk.ended {
                    return Ok(None);
                }
                walk.query.clone()
            };
            query.limit = PAGE_LEN;
            let page = self.hold.call(py, |session| session.list(&self.bucket, &query))?;
            let mut walk = self.walk.lock().map_err(|_| errors::poisoned())?;
            // Another thread may have fetched the same page meanwhile.
            if walk.query.after == query.after && !walk.ended {
                walk.ended = page.next.is_none();
                walk.query.after = page.next;
                let objects = page.objects.into_iter().map(|object| Listed::Object(ObjectSummary(object)));
                let prefixes = page.common_prefixes.into_iter().map(|key| Listed::Prefix(Prefix { key }));
                let mut all: Vec<Listed> = objects.chain(prefixes).collect();
                all.sort_by(|one, other| one.key().cmp(other.key()));
                walk.fetched.extend(all);
            }
        }
    }
}

#[pymethods]
impl Listing {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Listed>> {
        self.step(py)
    }
}

#[doc = help!(BucketListing)]
#[pyclass(frozen, module = "koine")]
pub struct BucketListing {
    hold: Arc<Hold>,
    query: BucketQuery,
    fetched: Mutex<Option<VecDeque<object::BucketInfo>>>,
}

impl BucketListing {
    pub fn new(hold: Arc<Hold>, query: BucketQuery) -> Self {
        BucketListing { hold, query, fetched: Mutex::new(None) }
    }
}

#[pymethods]
impl BucketListing {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<BucketInfo>> {
        if self.fetched.lock().map_err(|_| errors::poisoned())?.is_none() {
            let page = self.hold.call(py, |session| session.list_buckets(&self.query))?;
            self.fetched.lock().map_err(|_| errors::poisoned())?.get_or_insert(page.buckets.into());
        }
        let mut fetched = self.fetched.lock().map_err(|_| errors::poisoned())?;
        Ok(fetched.as_mut().and_then(VecDeque::pop_front).map(BucketInfo))
    }
}
