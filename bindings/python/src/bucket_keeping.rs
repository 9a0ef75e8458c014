//! A bucket's calls beside its objects: searches and indexes, settings, versions, snapshots, branches and uploads.

use std::sync::Arc;

use koine::object::SearchQuery;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{Key, Making, maybe_count};
use crate::bucket::Bucket;
use crate::info::{self, BucketInfo, SnapshotInfo};
use crate::search::{self, IndexInfo, Search};
use crate::upload::{self, Upload};
use crate::versions::{self, VersionListing};

#[pymethods]
impl Bucket {
    #[doc = help!(Bucket versions)]
    #[pyo3(signature = (prefix=""))]
    fn versions(&self, prefix: &str) -> VersionListing {
        VersionListing::new(Arc::clone(self.hold()), self.name().to_owned(), prefix)
    }

    #[doc = help!(Bucket set_versioning)]
    fn set_versioning(&self, py: Python<'_>, versioning: &str) -> PyResult<()> {
        let versioning = versions::versioning(versioning)?;
        self.hold().call(py, |session| session.set_versioning(self.name(), versioning).wait())
    }

    #[doc = help!(Bucket upload)]
    #[pyo3(signature = (key, **options))]
    fn upload(&self, py: Python<'_>, key: Key, options: Option<&Bound<'_, PyDict>>) -> PyResult<Upload> {
        let options = Making::read("upload", options)?.upload()?;
        let id = self.hold().call(py, |session| session.create_upload(self.name(), &key, options).wait())?;
        Ok(Upload::new(Arc::clone(self.hold()), self.name().to_owned(), key.to_string(), id))
    }

    #[doc = help!(Bucket uploads)]
    #[pyo3(signature = (prefix=""))]
    fn uploads(&self, py: Python<'_>, prefix: &str) -> PyResult<Vec<Upload>> {
        upload::all_of(py, self.hold(), self.name(), prefix)
    }

    #[doc = help!(Bucket search)]
    #[pyo3(signature = (*, metadata=None, tag=None, equal=None, begins=None, between=None, prefix="", limit=None))]
    #[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
    fn search(
        &self,
        metadata: Option<String>,
        tag: Option<String>,
        equal: Option<String>,
        begins: Option<String>,
        between: Option<(String, String)>,
        prefix: &str,
        #[pyo3(from_py_with = maybe_count)] limit: Option<u64>,
    ) -> PyResult<Search> {
        let (of, wanted) = (search::indexed(metadata, tag)?, search::wanted(equal, begins, between)?);
        let query = SearchQuery { wanted, prefix: prefix.to_owned(), ..SearchQuery::new(of) };
        Ok(Search::new(Arc::clone(self.hold()), self.name().to_owned(), query, limit.unwrap_or(u64::MAX)))
    }

    #[doc = help!(Bucket add_index)]
    #[pyo3(signature = (*, metadata=None, tag=None))]
    fn add_index(&self, py: Python<'_>, metadata: Option<String>, tag: Option<String>) -> PyResult<IndexInfo> {
        let of = search::indexed(metadata, tag)?;
        self.hold().call(py, |session| session.add_index(self.name(), of)).map(IndexInfo)
    }

    #[doc = help!(Bucket drop_index)]
    #[pyo3(signature = (*, metadata=None, tag=None))]
    fn drop_index(&self, py: Python<'_>, metadata: Option<String>, tag: Option<String>) -> PyResult<()> {
        let of = search::indexed(metadata, tag)?;
        self.hold().call(py, |session| session.drop_index(self.name(), of).wait())
    }

    #[doc = help!(Bucket indexes)]
    fn indexes(&self, py: Python<'_>) -> PyResult<Vec<IndexInfo>> {
        let all = self.hold().call(py, |session| session.indexes(self.name()))?;
        Ok(all.into_iter().map(IndexInfo).collect())
    }

    #[doc = help!(Bucket set)]
    #[pyo3(signature = (**change))]
    fn set(&self, py: Python<'_>, change: Option<&Bound<'_, PyDict>>) -> PyResult<BucketInfo> {
        let change = search::change(change)?;
        self.hold().call(py, |session| session.set_bucket(self.name(), change).wait()).map(BucketInfo)
    }

    #[doc = help!(Bucket usage)]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info::usage(py, self.hold().call(py, |session| session.bucket_usage(self.name()))?)
    }

    #[doc = help!(Bucket snapshot)]
    fn snapshot(&self, py: Python<'_>, name: &str) -> PyResult<SnapshotInfo> {
        self.hold().call(py, |session| session.snapshot_bucket(self.name(), name).wait()).map(SnapshotInfo)
    }

    #[doc = help!(Bucket snapshots)]
    fn snapshots(&self, py: Python<'_>) -> PyResult<Vec<SnapshotInfo>> {
        let all = self.hold().call(py, |session| session.list_snapshots(self.name()))?;
        Ok(all.into_iter().map(SnapshotInfo).collect())
    }

    #[doc = help!(Bucket delete_snapshot)]
    fn delete_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.hold().call(py, |session| session.delete_snapshot(self.name(), name).wait())
    }

    #[doc = help!(Bucket restore)]
    fn restore(&self, py: Python<'_>, snapshot: &str) -> PyResult<()> {
        self.hold().call(py, |session| session.restore_bucket(self.name(), snapshot).wait())
    }

    #[doc = help!(Bucket branch)]
    fn branch(&self, py: Python<'_>, to: String) -> PyResult<Bucket> {
        self.hold().call(py, |session| session.branch_bucket(self.name(), &to).wait())?;
        Ok(Bucket::new(Arc::clone(self.hold()), to))
    }

    #[doc = help!(Bucket purge)]
    fn purge(&self, py: Python<'_>) -> PyResult<()> {
        self.hold().call(py, |session| session.purge_bucket(self.name()).wait())
    }
}
