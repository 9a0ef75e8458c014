//! A store that is open: `koine.connect` and `Session`.

use std::path::PathBuf;
use std::sync::Arc;

use koine::OpenOptions;
use koine::kv::wire::Key;
use koine::object::BucketQuery;
use pyo3::prelude::*;

use crate::bucket::Bucket;
use crate::errors;
use crate::info::BucketInfo;
use crate::listing::BucketListing;
use crate::store::Hold;

/// Opens the store at a path or URL.
#[pyfunction]
#[pyo3(signature = (place, *, create=false, size=None, memory=None, key_file=None))]
pub fn connect(
    py: Python<'_>,
    place: PathBuf,
    create: bool,
    size: Option<u64>,
    memory: Option<u64>,
    key_file: Option<PathBuf>,
) -> PyResult<Session> {
    let place = place.into_os_string().into_string();
    let place = place.map_err(|_| errors::raised("InvalidArgument", "the place of a store is not UTF-8"))?;
    py.detach(|| {
        let key = key_file.map(|path| read_key(&path)).transpose()?;
        let options = OpenOptions { create, size_max: size, memory, key, ..OpenOptions::default() };
        Ok(Session { hold: Arc::new(Hold::open(&place, &options)?) })
    })
}

fn read_key(path: &std::path::Path) -> PyResult<Key> {
    let cannot = |error: std::io::Error| errors::of_system(&error, &format!("cannot read {}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    Key::new(text.trim()).map_err(|error| errors::raised("InvalidArgument", error.message()))
}

/// An open store.
#[pyclass(frozen, module = "koine")]
pub struct Session {
    hold: Arc<Hold>,
}

#[pymethods]
impl Session {
    #[getter]
    fn place(&self) -> &str {
        self.hold.place()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.hold.is_closed()
    }

    #[getter]
    fn is_owner(&self) -> PyResult<bool> {
        self.hold.is_owner()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.hold.close())
    }

    fn bucket(&self, name: String) -> Bucket {
        Bucket::new(Arc::clone(&self.hold), name)
    }

    fn create_bucket(&self, py: Python<'_>, name: String) -> PyResult<Bucket> {
        self.hold.call(py, |session| session.create_bucket(&name).wait())?;
        Ok(self.bucket(name))
    }

    fn delete_bucket(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.delete_bucket(name).wait())
    }

    fn bucket_info(&self, py: Python<'_>, name: &str) -> PyResult<BucketInfo> {
        self.hold.call(py, |session| session.head_bucket(name)).map(BucketInfo)
    }

    #[pyo3(signature = (prefix="", *, after=None))]
    fn buckets(&self, prefix: &str, after: Option<String>) -> BucketListing {
        BucketListing::new(Arc::clone(&self.hold), BucketQuery { prefix: prefix.to_owned(), after, limit: 0 })
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("Session({:?}{})", self.hold.place(), if self.hold.is_closed() { ", closed" } else { "" })
    }
}
