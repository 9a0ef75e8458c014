//! What is known of buckets, objects and parts, as Python sees it.

use koine::env::Timestamp;
use koine::object;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyDictMethods};

/// A moment as an aware `datetime`, which ends at microseconds.
pub fn moment<'py>(py: Python<'py>, time: Timestamp) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import("datetime")?;
    let utc = module.getattr("timezone")?.getattr("utc")?;
    let epoch = module.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?;
    let since = module.getattr("timedelta")?.call1((0, time.seconds(), time.0 % 1_000_000_000 / 1000))?;
    epoch.call_method1("__add__", (since,))
}

/// Entries of metadata, or tags.
fn pairs<'py>(py: Python<'py>, entries: &[(String, String)]) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (name, value) in entries {
        all.set_item(name, value)?;
    }
    Ok(all)
}

/// What a bucket holds.
pub fn usage(py: Python<'_>, usage: object::BucketUsage) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("objects", usage.objects)?;
    all.set_item("bytes", usage.bytes)?;
    all.set_item("older", usage.older)?;
    all.set_item("older_bytes", usage.older_bytes)?;
    all.set_item("upload_bytes", usage.upload_bytes)?;
    Ok(all)
}

/// What is known of a bucket.
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct BucketInfo(pub object::BucketInfo);

#[pymethods]
impl BucketInfo {
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn created<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.created)
    }

    #[getter]
    fn created_ns(&self) -> u64 {
        self.0.created.0
    }

    #[getter]
    fn versioning(&self) -> &'static str {
        self.0.versioning.name()
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        pairs(py, &self.0.metadata)
    }

    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        pairs(py, &self.0.tags)
    }

    #[getter]
    fn access_times(&self) -> &'static str {
        match self.0.access_times {
            object::AccessTimes::Off => "off",
            object::AccessTimes::Relative => "relative",
        }
    }

    #[getter]
    fn quota_bytes(&self) -> Option<u64> {
        self.0.quota.bytes
    }

    #[getter]
    fn quota_objects(&self) -> Option<u64> {
        self.0.quota.objects
    }

    fn __repr__(&self) -> String {
        format!("BucketInfo({:?})", self.0.name)
    }
}

/// What is known of an object.
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone)]
pub struct ObjectInfo(pub object::ObjectInfo);

/// When it was last read, which some calls tell and others do not, is not of the object.
impl PartialEq for ObjectInfo {
    fn eq(&self, other: &Self) -> bool {
        let accessed = self.0.accessed;
        self.0 == object::ObjectInfo { accessed, ..other.0.clone() }
    }
}

#[pymethods]
impl ObjectInfo {
    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    #[getter]
    fn id(&self) -> String {
        self.0.id.to_string()
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.version.0
    }

    #[getter]
    fn version_id(&self) -> String {
        self.0.version_id.to_string()
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    #[getter]
    fn mode(&self) -> u32 {
        self.0.mode
    }

    #[getter]
    fn owner(&self) -> Option<(u32, u32)> {
        self.0.posix_owner
    }

    #[getter]
    fn etag(&self) -> String {
        self.0.etag.to_string()
    }

    #[getter]
    fn part_count(&self) -> Option<u32> {
        self.0.part_count
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        pairs(py, &self.0.metadata)
    }

    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        pairs(py, &self.0.tags)
    }

    #[getter]
    fn checksums<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for checksum in &self.0.checksums {
            all.set_item(checksum.algorithm.name(), checksum.to_text())?;
        }
        Ok(all)
    }

    #[getter]
    fn content_type(&self) -> Option<&str> {
        self.0.headers.content_type.as_deref()
    }

    #[getter]
    fn cache_control(&self) -> Option<&str> {
        self.0.headers.cache_control.as_deref()
    }

    #[getter]
    fn content_disposition(&self) -> Option<&str> {
        self.0.headers.content_disposition.as_deref()
    }

    #[getter]
    fn content_encoding(&self) -> Option<&str> {
        self.0.headers.content_encoding.as_deref()
    }

    #[getter]
    fn content_language(&self) -> Option<&str> {
        self.0.headers.content_language.as_deref()
    }

    #[getter]
    fn expires(&self) -> Option<&str> {
        self.0.headers.expires.as_deref()
    }

    #[getter]
    fn created<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.created)
    }

    #[getter]
    fn created_ns(&self) -> u64 {
        self.0.created.0
    }

    #[getter]
    fn modified<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.modified)
    }

    #[getter]
    fn modified_ns(&self) -> u64 {
        self.0.modified.0
    }

    #[getter]
    fn changed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.changed)
    }

    #[getter]
    fn changed_ns(&self) -> u64 {
        self.0.changed.0
    }

    #[getter]
    fn accessed<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.accessed.map(|time| moment(py, time)).transpose()
    }

    #[getter]
    fn accessed_ns(&self) -> Option<u64> {
        self.0.accessed.map(|time| time.0)
    }

    fn __repr__(&self) -> String {
        format!("ObjectInfo({:?}, size={}, etag={:?})", self.0.key, self.0.size, self.0.etag.to_string())
    }
}

/// What a listing tells of an object.
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct ObjectSummary(pub object::ObjectSummary);

#[pymethods]
impl ObjectSummary {
    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.version.0
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    #[getter]
    fn etag(&self) -> String {
        self.0.etag.to_string()
    }

    #[getter]
    fn modified<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.modified)
    }

    #[getter]
    fn modified_ns(&self) -> u64 {
        self.0.modified.0
    }

    fn __repr__(&self) -> String {
        format!("ObjectSummary({:?}, size={})", self.0.key, self.0.size)
    }
}

/// What names have in common up to a delimiter.
#[pyclass(frozen, module = "koine", eq, get_all)]
#[derive(Clone, PartialEq)]
pub struct Prefix {
    /// With the delimiter at its end.
    pub key: String,
}

#[pymethods]
impl Prefix {
    fn __repr__(&self) -> String {
        format!("Prefix({:?})", self.key)
    }
}

/// What is known of a part.
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct PartInfo(pub object::PartInfo);

#[pymethods]
impl PartInfo {
    #[getter]
    fn number(&self) -> u32 {
        self.0.number
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    #[getter]
    fn etag(&self) -> String {
        self.0.etag.to_string()
    }

    #[getter]
    fn modified<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.modified)
    }

    #[getter]
    fn modified_ns(&self) -> u64 {
        self.0.modified.0
    }

    fn __repr__(&self) -> String {
        format!("PartInfo({}, size={})", self.0.number, self.0.size)
    }
}

/// What is known of a snapshot of a bucket.
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct SnapshotInfo(pub object::SnapshotInfo);

#[pymethods]
impl SnapshotInfo {
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn created<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.created)
    }

    #[getter]
    fn created_ns(&self) -> u64 {
        self.0.created.0
    }

    fn __repr__(&self) -> String {
        format!("SnapshotInfo({:?})", self.0.name)
    }
}
