//! A bucket's calls.

use std::sync::Arc;

use koine::kv::Version;
use koine::object::{
    self, ByteRange, ComposeOptions, DeleteOptions, EditOptions, Error, ErrorKind, ExchangeOptions, FileMode,
    ListQuery, ObjectName, PutCondition, RenameOptions, SearchQuery,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments::Making;
use crate::buffers::{Lent, filled};
use crate::edits;
use crate::errors;
use crate::file::{self, RawFile};
use crate::info::{self, BucketInfo, ObjectInfo, SnapshotInfo};
use crate::listing::{ListPage, Listing};
use crate::search::{self, IndexInfo, Search};
use crate::store::Hold;
use crate::transfer;
use crate::upload::{self, Upload};
use crate::versions::{self, VersionListing, version_id};

/// A bucket of a store, whether it is there or not.
#[pyclass(frozen, module = "koine")]
pub struct Bucket {
    hold: Arc<Hold>,
    name: String,
}

impl Bucket {
    pub fn new(hold: Arc<Hold>, name: String) -> Self {
        Bucket { hold, name }
    }

    /// The part of an object that is asked for.
    fn range(reader: &object::ObjectReader, offset: u64, length: Option<u64>) -> ByteRange {
        let left = reader.info().size.saturating_sub(offset);
        ByteRange { offset, length: length.map_or(left, |length| length.min(left)) }
    }
}

/// What raises for a change that the caller may have wanted for a new name only.
pub fn raise(is_new: bool) -> fn(&Error) -> PyErr {
    if is_new { errors::of_new } else { errors::of_objects }
}

#[pymethods]
impl Bucket {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self, py: Python<'_>) -> PyResult<BucketInfo> {
        self.hold.call(py, |session| session.head_bucket(&self.name)).map(BucketInfo)
    }

    fn exists(&self, py: Python<'_>) -> PyResult<bool> {
        self.hold.call(py, |session| match session.head_bucket(&self.name) {
            Err(error) if error.kind() == ErrorKind::NoSuchBucket => Ok(false),
            found => found.map(|_| true),
        })
    }

    #[pyo3(signature = (key, data, **options))]
    fn put(
        &self,
        py: Python<'_>,
        key: &str,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let making = Making::read("put", options)?;
        transfer::put_bytes(py, &self.hold, ObjectName::new(&self.name, key), data, making).map(ObjectInfo)
    }

    #[pyo3(signature = (key, *, offset=0, length=None, version=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        offset: u64,
        length: Option<u64>,
        version: Option<&str>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let name = ObjectName::new(&self.name, key);
        let reader = match version_id(version)? {
            None => self.hold.call(py, |session| session.get(&self.name, key))?,
            Some(version) => self.hold.call(py, |session| session.get_version(name, version))?,
        };
        let range = Bucket::range(&reader, offset, length);
        let length = usize::try_from(range.length)?;
        filled(py, length, move |target| reader.read(range.offset, target).map_err(|error| errors::of_objects(&error)))
    }

    #[pyo3(signature = (key, buffer, *, offset=0))]
    fn get_into(&self, py: Python<'_>, key: &str, buffer: &Bound<'_, PyAny>, offset: u64) -> PyResult<usize> {
        let mut lent = Lent::writable(buffer)?;
        let target = lent.bytes_mut();
        self.hold.call(py, |session| session.get(&self.name, key)?.read(offset, target))
    }

    #[pyo3(signature = (key, *, version=None))]
    fn head(&self, py: Python<'_>, key: &str, version: Option<&str>) -> PyResult<ObjectInfo> {
        let name = ObjectName::new(&self.name, key);
        let info = match version_id(version)? {
            None => self.hold.call(py, |session| session.head(&self.name, key)),
            Some(version) => self.hold.call(py, |session| session.head_version(name, version)),
        };
        info.map(ObjectInfo)
    }

    fn __contains__(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        self.hold.call(py, |session| match session.head(&self.name, key) {
            Err(error) if error.kind() == ErrorKind::NoSuchKey => Ok(false),
            found => found.map(|_| true),
        })
    }

    #[pyo3(signature = (key, *, if_match=None, if_version=None, version=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &str,
        if_match: Option<&str>,
        if_version: Option<u64>,
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

    fn delete_many(&self, py: Python<'_>, keys: Vec<String>) -> PyResult<usize> {
        self.hold.call(py, |session| {
            let outcomes = session.delete_many(&self.name, &keys).wait()?;
            let each: Result<Vec<_>, _> = outcomes.into_iter().collect();
            Ok(each?.into_iter().filter(|deleted| deleted.existed).count())
        })
    }

    #[pyo3(signature = (prefix="", *, delimiter="", after=None, limit=None))]
    fn list(&self, prefix: &str, delimiter: &str, after: Option<String>, limit: Option<u64>) -> Listing {
        let query = ListQuery { prefix: prefix.to_owned(), delimiter: delimiter.to_owned(), after, limit: 0 };
        Listing::new(Arc::clone(&self.hold), self.name.clone(), query, limit.unwrap_or(u64::MAX))
    }

    fn __iter__(&self) -> Listing {
        self.list("", "", None, None)
    }

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

    #[pyo3(signature = (prefix=""))]
    fn versions(&self, prefix: &str) -> VersionListing {
        VersionListing::new(Arc::clone(&self.hold), self.name.clone(), prefix)
    }

    fn set_versioning(&self, py: Python<'_>, versioning: &str) -> PyResult<()> {
        let versioning = versions::versioning(versioning)?;
        self.hold.call(py, |session| session.set_versioning(&self.name, versioning).wait())
    }

    #[pyo3(signature = (key, to, *, bucket=None, version=None, **options))]
    fn copy(
        &self,
        py: Python<'_>,
        key: &str,
        to: &str,
        bucket: Option<&str>,
        version: Option<&str>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let making = Making::read("copy", options)?;
        let raise = raise(making.is_new());
        let options = making.copy(version_id(version)?);
        let from = ObjectName::new(&self.name, key);
        let to = ObjectName::new(bucket.unwrap_or(&self.name), to);
        self.hold.call_or(py, |session| session.copy(from, to, options).wait(), raise).map(ObjectInfo)
    }

    #[pyo3(signature = (key, source, **options))]
    fn put_file(
        &self,
        py: Python<'_>,
        key: &str,
        source: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let making = Making::read("put_file", options)?;
        transfer::put(py, &self.hold, ObjectName::new(&self.name, key), source, making).map(ObjectInfo)
    }

    #[pyo3(signature = (key, target, *, offset=0, length=None))]
    fn get_file(
        &self,
        py: Python<'_>,
        key: &str,
        target: &Bound<'_, PyAny>,
        offset: u64,
        length: Option<u64>,
    ) -> PyResult<u64> {
        let reader = self.hold.call(py, |session| session.get(&self.name, key))?;
        let range = Bucket::range(&reader, offset, length);
        transfer::get(py, reader, range, target)
    }

    #[pyo3(signature = (key, mode="rb", **options))]
    fn open<'py>(
        this: Bound<'py, Self>,
        key: &str,
        mode: &str,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let open = this.py().import("koine._files")?.getattr("open_in")?;
        open.call((this, key, mode), options)
    }

    /// What `open` stands on: without text, buffers and names.
    #[pyo3(signature = (key, mode, **options))]
    fn open_raw(
        &self,
        py: Python<'_>,
        key: &str,
        mode: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<RawFile> {
        let file_mode = file::mode_of(mode)?;
        let put = Making::read("open", options)?.put(None);
        let name = ObjectName::new(&self.name, key);
        let raise = raise(file_mode == FileMode::CreateNew);
        let file = self.hold.call_or(py, |session| session.open_file(name, file_mode, put), raise)?;
        Ok(RawFile::new(Arc::clone(&self.hold), file))
    }

    #[pyo3(signature = (key, **options))]
    fn upload(&self, py: Python<'_>, key: String, options: Option<&Bound<'_, PyDict>>) -> PyResult<Upload> {
        let options = Making::read("upload", options)?.upload()?;
        let id = self.hold.call(py, |session| session.create_upload(&self.name, &key, options).wait())?;
        Ok(Upload::new(Arc::clone(&self.hold), self.name.clone(), key, id))
    }

    #[pyo3(signature = (prefix=""))]
    fn uploads(&self, py: Python<'_>, prefix: &str) -> PyResult<Vec<Upload>> {
        upload::all_of(py, &self.hold, &self.name, prefix)
    }

    #[pyo3(signature = (key, data, *, create=true, **options))]
    fn append(
        &self,
        py: Python<'_>,
        key: &str,
        data: &Bound<'_, PyAny>,
        create: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let editing = Making::read("append", options)?.edit("append", create)?;
        edits::write(py, &self.hold, ObjectName::new(&self.name, key), None, data, editing).map(ObjectInfo)
    }

    #[pyo3(signature = (key, offset, data, *, create=true, **options))]
    fn write_at(
        &self,
        py: Python<'_>,
        key: &str,
        offset: u64,
        data: &Bound<'_, PyAny>,
        create: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let editing = Making::read("write_at", options)?.edit("write_at", create)?;
        edits::write(py, &self.hold, ObjectName::new(&self.name, key), Some(offset), data, editing).map(ObjectInfo)
    }

    #[pyo3(signature = (key, to, *, range, offset, bucket=None, create=true, **options))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn write_copy(
        &self,
        py: Python<'_>,
        key: &str,
        to: &str,
        range: (u64, u64),
        offset: u64,
        bucket: Option<&str>,
        create: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let editing = Making::read("write_copy", options)?.edit("write_copy", create)?;
        let (from, to) = (ObjectName::new(&self.name, key), ObjectName::new(bucket.unwrap_or(&self.name), to));
        let range = ByteRange { offset: range.0, length: range.1 };
        self.hold.call(py, |session| session.write_copy(from, range, to, offset, editing).wait()).map(ObjectInfo)
    }

    #[pyo3(signature = (key, offset, source, *, create=true, **options))]
    fn write_file(
        &self,
        py: Python<'_>,
        key: &str,
        offset: u64,
        source: &Bound<'_, PyAny>,
        create: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let editing = Making::read("write_file", options)?.edit("write_file", create)?;
        let name = ObjectName::new(&self.name, key);
        transfer::write(py, &self.hold, name, offset, source, editing).map(ObjectInfo)
    }

    #[pyo3(signature = (key, size, **options))]
    fn truncate(
        &self,
        py: Python<'_>,
        key: &str,
        size: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let editing = Making::read("truncate", options)?.edit("truncate", false)?;
        let name = ObjectName::new(&self.name, key);
        self.hold.call(py, |session| session.truncate(name, size, editing).wait()).map(ObjectInfo)
    }

    #[pyo3(signature = (key, to, *, bucket=None, **options))]
    fn r#move(
        &self,
        py: Python<'_>,
        key: &str,
        to: &str,
        bucket: Option<&str>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let condition = Making::read("move", options)?.condition_alone("move")?;
        let raise = raise(condition.if_absent);
        let (from, to) = (ObjectName::new(&self.name, key), ObjectName::new(bucket.unwrap_or(&self.name), to));
        let options = RenameOptions { condition, ..RenameOptions::default() };
        self.hold.call_or(py, |session| session.rename(from, to, options).wait(), raise).map(ObjectInfo)
    }

    #[pyo3(signature = (key, other, *, bucket=None))]
    fn exchange(
        &self,
        py: Python<'_>,
        key: &str,
        other: &str,
        bucket: Option<&str>,
    ) -> PyResult<(ObjectInfo, ObjectInfo)> {
        let (one, other) = (ObjectName::new(&self.name, key), ObjectName::new(bucket.unwrap_or(&self.name), other));
        let both = self.hold.call(py, |session| session.exchange(one, other, ExchangeOptions::default()).wait())?;
        Ok((ObjectInfo(both.0), ObjectInfo(both.1)))
    }

    #[pyo3(signature = (sources, to, *, source_metadata=false, **options))]
    fn compose(
        &self,
        py: Python<'_>,
        sources: Vec<edits::Source>,
        to: &str,
        source_metadata: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let making = Making::read("compose", options)?;
        let raise = raise(making.is_new());
        let options = ComposeOptions { put: making.put(None), source_metadata };
        let segments: Vec<_> = sources.iter().map(|source| source.segment(&self.name)).collect();
        let to = ObjectName::new(&self.name, to);
        self.hold.call_or(py, |session| session.compose(&segments, to, options).wait(), raise).map(ObjectInfo)
    }

    #[pyo3(signature = (prefix, to, *, bucket=None))]
    fn copy_prefix(&self, py: Python<'_>, prefix: &str, to: &str, bucket: Option<&str>) -> PyResult<u64> {
        let (from, to) = (ObjectName::new(&self.name, prefix), ObjectName::new(bucket.unwrap_or(&self.name), to));
        self.hold.call(py, |session| edits::copy_prefix(session, from, to))
    }

    fn move_prefix(&self, py: Python<'_>, prefix: &str, to: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.rename_prefix(&self.name, prefix, to).wait())
    }

    #[pyo3(signature = (key, **given))]
    fn set_attributes(&self, py: Python<'_>, key: &str, given: Option<&Bound<'_, PyDict>>) -> PyResult<ObjectInfo> {
        let change = edits::attributes(given)?;
        let name = ObjectName::new(&self.name, key);
        let set = self.hold.call(py, |session| session.set_attributes(name, change, EditOptions::default()).wait())?;
        Ok(ObjectInfo(set))
    }

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
        limit: Option<u64>,
    ) -> PyResult<Search> {
        let (of, wanted) = (search::indexed(metadata, tag)?, search::wanted(equal, begins, between)?);
        let query = SearchQuery { wanted, prefix: prefix.to_owned(), ..SearchQuery::new(of) };
        Ok(Search::new(Arc::clone(&self.hold), self.name.clone(), query, limit.unwrap_or(u64::MAX)))
    }

    #[pyo3(signature = (*, metadata=None, tag=None))]
    fn add_index(&self, py: Python<'_>, metadata: Option<String>, tag: Option<String>) -> PyResult<IndexInfo> {
        let of = search::indexed(metadata, tag)?;
        self.hold.call(py, |session| session.add_index(&self.name, of)).map(IndexInfo)
    }

    #[pyo3(signature = (*, metadata=None, tag=None))]
    fn drop_index(&self, py: Python<'_>, metadata: Option<String>, tag: Option<String>) -> PyResult<()> {
        let of = search::indexed(metadata, tag)?;
        self.hold.call(py, |session| session.drop_index(&self.name, of).wait())
    }

    fn indexes(&self, py: Python<'_>) -> PyResult<Vec<IndexInfo>> {
        let all = self.hold.call(py, |session| session.indexes(&self.name))?;
        Ok(all.into_iter().map(IndexInfo).collect())
    }

    #[pyo3(signature = (**change))]
    fn set(&self, py: Python<'_>, change: Option<&Bound<'_, PyDict>>) -> PyResult<BucketInfo> {
        let change = search::change(change)?;
        self.hold.call(py, |session| session.set_bucket(&self.name, change).wait()).map(BucketInfo)
    }

    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info::usage(py, self.hold.call(py, |session| session.bucket_usage(&self.name))?)
    }

    fn snapshot(&self, py: Python<'_>, name: &str) -> PyResult<SnapshotInfo> {
        self.hold.call(py, |session| session.snapshot_bucket(&self.name, name).wait()).map(SnapshotInfo)
    }

    fn snapshots(&self, py: Python<'_>) -> PyResult<Vec<SnapshotInfo>> {
        let all = self.hold.call(py, |session| session.list_snapshots(&self.name))?;
        Ok(all.into_iter().map(SnapshotInfo).collect())
    }

    fn delete_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.delete_snapshot(&self.name, name).wait())
    }

    fn restore(&self, py: Python<'_>, snapshot: &str) -> PyResult<()> {
        self.hold.call(py, |session| session.restore_bucket(&self.name, snapshot).wait())
    }

    fn branch(&self, py: Python<'_>, to: String) -> PyResult<Bucket> {
        self.hold.call(py, |session| session.branch_bucket(&self.name, &to).wait())?;
        Ok(Bucket::new(Arc::clone(&self.hold), to))
    }

    fn purge(&self, py: Python<'_>) -> PyResult<()> {
        self.hold.call(py, |session| session.purge_bucket(&self.name).wait())
    }

    fn __repr__(&self) -> String {
        format!("Bucket({:?} in {:?})", self.name, self.hold.place())
    }
}
