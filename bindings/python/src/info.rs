//! What is known of buckets, objects and parts, as Python sees it.

use koine::env::Timestamp;
use koine::object::{self, Portable};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyDictMethods};

use crate::errors;

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

/// What was written down as bytes.
pub fn of_state<T: Portable>(state: &[u8]) -> PyResult<T> {
    T::from_bytes(state).map_err(|error| errors::of_objects(&error))
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

#[doc = help!(BucketInfo)]
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct BucketInfo(pub object::BucketInfo);

#[pymethods]
impl BucketInfo {
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn _of_state(state: &[u8]) -> PyResult<Self> {
        Ok(BucketInfo(of_state(state)?))
    }

    #[doc = help!(BucketInfo name)]
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[doc = help!(BucketInfo created)]
    #[getter]
    fn created<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.created)
    }

    #[doc = help!(BucketInfo created_ns)]
    #[getter]
    fn created_ns(&self) -> u64 {
        self.0.created.0
    }

    #[doc = help!(BucketInfo versioning)]
    #[getter]
    fn versioning(&self) -> &'static str {
        self.0.versioning.name()
    }

    #[doc = help!(BucketInfo metadata)]
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        pairs(py, &self.0.metadata)
    }

    #[doc = help!(BucketInfo tags)]
    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        pairs(py, &self.0.tags)
    }

    #[doc = help!(BucketInfo access_times)]
    #[getter]
    fn access_times(&self) -> &'static str {
        match self.0.access_times {
            object::AccessTimes::Off => "off",
            object::AccessTimes::Relative => "relative",
        }
    }

    #[doc = help!(BucketInfo quota_bytes)]
    #[getter]
    fn quota_bytes(&self) -> Option<u64> {
        self.0.quota.bytes
    }

    #[doc = help!(BucketInfo quota_objects)]
    #[getter]
    fn quota_objects(&self) -> Option<u64> {
        self.0.quota.objects
    }

    fn __repr__(&self) -> String {
        format!("BucketInfo({:?})", self.0.name)
    }
}

#[doc = help!(ObjectInfo)]
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
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn _of_state(state: &[u8]) -> PyResult<Self> {
        Ok(ObjectInfo(of_state(state)?))
    }

    #[doc = help!(ObjectInfo key)]
    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    #[doc = help!(ObjectInfo id)]
    #[getter]
    fn id(&self) -> String {
        self.0.id.to_string()
    }

    #[doc = help!(ObjectInfo version)]
    #[getter]
    fn version(&self) -> u64 {
        self.0.version.0
    }

    #[doc = help!(ObjectInfo version_id)]
    #[getter]
    fn version_id(&self) -> String {
        self.0.version_id.to_string()
    }

    #[doc = help!(ObjectInfo size)]
    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    #[doc = help!(ObjectInfo mode)]
    #[getter]
    fn mode(&self) -> u32 {
        self.0.mode
    }

    #[doc = help!(ObjectInfo owner)]
    #[getter]
    fn owner(&self) -> Option<(u32, u32)> {
        self.0.posix_owner
    }

    #[doc = help!(ObjectInfo etag)]
    #[getter]
    fn etag(&self) -> String {
        self.0.etag.to_string()
    }

    #[doc = help!(ObjectInfo part_count)]
    #[getter]
    fn part_count(&self) -> Option<u32> {
        self.0.part_count
    }

    #[doc = help!(ObjectInfo metadata)]
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        pairs(py, &self.0.metadata)
    }

    #[doc = help!(ObjectInfo tags)]
    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        pairs(py, &self.0.tags)
    }

    #[doc = help!(ObjectInfo checksums)]
    #[getter]
    fn checksums<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for checksum in &self.0.checksums {
            all.set_item(checksum.algorithm.name(), checksum.to_text())?;
        }
        Ok(all)
    }

    #[doc = help!(ObjectInfo content_type)]
    #[getter]
    fn content_type(&self) -> Option<&str> {
        self.0.headers.content_type.as_deref()
    }

    #[doc = help!(ObjectInfo cache_control)]
    #[getter]
    fn cache_control(&self) -> Option<&str> {
        self.0.headers.cache_control.as_deref()
    }

    #[doc = help!(ObjectInfo content_disposition)]
    #[getter]
    fn content_disposition(&self) -> Option<&str> {
        self.0.headers.content_disposition.as_deref()
    }

    #[doc = help!(ObjectInfo content_encoding)]
    #[getter]
    fn content_encoding(&self) -> Option<&str> {
        self.0.headers.content_encoding.as_deref()
    }

    #[doc = help!(ObjectInfo content_language)]
    #[getter]
    fn content_language(&self) -> Option<&str> {
        self.0.headers.content_language.as_deref()
    }

    #[doc = help!(ObjectInfo expires)]
    #[getter]
    fn expires(&self) -> Option<&str> {
        self.0.headers.expires.as_deref()
    }

    #[doc = help!(ObjectInfo created)]
    #[getter]
    fn created<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.created)
    }

    #[doc = help!(ObjectInfo created_ns)]
    #[getter]
    fn created_ns(&self) -> u64 {
        self.0.created.0
    }

    #[doc = help!(ObjectInfo modified)]
    #[getter]
    fn modified<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.modified)
    }

    #[doc = help!(ObjectInfo modified_ns)]
    #[getter]
    fn modified_ns(&self) -> u64 {
        self.0.modified.0
    }

    #[doc = help!(ObjectInfo changed)]
    #[getter]
    fn changed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.changed)
    }

    #[doc = help!(ObjectInfo changed_ns)]
    #[getter]
    fn changed_ns(&self) -> u64 {
        self.0.changed.0
    }

    #[doc = help!(ObjectInfo accessed)]
    #[getter]
    fn accessed<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.accessed.map(|time| moment(py, time)).transpose()
    }

    #[doc = help!(ObjectInfo accessed_ns)]
    #[getter]
    fn accessed_ns(&self) -> Option<u64> {
        self.0.accessed.map(|time| time.0)
    }

    fn __repr__(&self) -> String {
        format!("ObjectInfo({:?}, size={}, etag={:?})", self.0.key, self.0.size, self.0.etag.to_string())
    }
}

#[doc = help!(ObjectSummary)]
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct ObjectSummary(pub object::ObjectSummary);

#[pymethods]
impl ObjectSummary {
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn _of_state(state: &[u8]) -> PyResult<Self> {
        Ok(ObjectSummary(of_state(state)?))
    }

    #[doc = help!(ObjectSummary key)]
    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    #[doc = help!(ObjectSummary version)]
    #[getter]
    fn version(&self) -> u64 {
        self.0.version.0
    }

    #[doc = help!(ObjectSummary size)]
    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    #[doc = help!(ObjectSummary etag)]
    #[getter]
    fn etag(&self) -> String {
        self.0.etag.to_string()
    }

    #[doc = help!(ObjectSummary modified)]
    #[getter]
    fn modified<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.modified)
    }

    #[doc = help!(ObjectSummary modified_ns)]
    #[getter]
    fn modified_ns(&self) -> u64 {
        self.0.modified.0
    }

    fn __repr__(&self) -> String {
        format!("ObjectSummary({:?}, size={})", self.0.key, self.0.size)
    }
}

#[doc = help!(Prefix)]
#[pyclass(frozen, module = "koine", eq, get_all)]
#[derive(Clone, PartialEq)]
pub struct Prefix {
    #[doc = help!(Prefix key)]
    pub key: String,
}

#[pymethods]
impl Prefix {
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.key.as_bytes())
    }

    #[staticmethod]
    fn _of_state(state: Vec<u8>) -> PyResult<Self> {
        let key = String::from_utf8(state);
        key.map(|key| Prefix { key })
            .map_err(|_| errors::raised("InvalidArgument", "the bytes of a prefix are not UTF-8"))
    }

    fn __repr__(&self) -> String {
        format!("Prefix({:?})", self.key)
    }
}

#[doc = help!(PartInfo)]
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct PartInfo(pub object::PartInfo);

#[pymethods]
impl PartInfo {
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn _of_state(state: &[u8]) -> PyResult<Self> {
        Ok(PartInfo(of_state(state)?))
    }

    #[doc = help!(PartInfo number)]
    #[getter]
    fn number(&self) -> u32 {
        self.0.number
    }

    #[doc = help!(PartInfo size)]
    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    #[doc = help!(PartInfo etag)]
    #[getter]
    fn etag(&self) -> String {
        self.0.etag.to_string()
    }

    #[doc = help!(PartInfo modified)]
    #[getter]
    fn modified<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.modified)
    }

    #[doc = help!(PartInfo modified_ns)]
    #[getter]
    fn modified_ns(&self) -> u64 {
        self.0.modified.0
    }

    fn __repr__(&self) -> String {
        format!("PartInfo({}, size={})", self.0.number, self.0.size)
    }
}

#[doc = help!(SnapshotInfo)]
#[pyclass(frozen, module = "koine", eq)]
#[derive(Clone, PartialEq)]
pub struct SnapshotInfo(pub object::SnapshotInfo);

#[pymethods]
impl SnapshotInfo {
    fn _state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn _of_state(state: &[u8]) -> PyResult<Self> {
        Ok(SnapshotInfo(of_state(state)?))
    }

    #[doc = help!(SnapshotInfo name)]
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[doc = help!(SnapshotInfo created)]
    #[getter]
    fn created<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.0.created)
    }

    #[doc = help!(SnapshotInfo created_ns)]
    #[getter]
    fn created_ns(&self) -> u64 {
        self.0.created.0
    }

    fn __repr__(&self) -> String {
        format!("SnapshotInfo({:?})", self.0.name)
    }
}
