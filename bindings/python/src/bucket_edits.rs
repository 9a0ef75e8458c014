//! A bucket's calls that change objects that are there, or make one of others.

use koine::object::{ByteRange, ComposeOptions, EditOptions, ExchangeOptions, ObjectName, RenameOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{Key, Making, count};
use crate::bucket::{Bucket, raise};
use crate::edits;
use crate::info::ObjectInfo;
use crate::transfer::{self, Progress};

#[pymethods]
impl Bucket {
    #[doc = help!(Bucket append)]
    #[pyo3(signature = (key, data, *, create=true, **options))]
    fn append(
        &self,
        py: Python<'_>,
        key: Key,
        data: &Bound<'_, PyAny>,
        create: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let editing = Making::read("append", options)?.edit("append", create)?;
        edits::write(py, self.hold(), ObjectName::new(self.name(), &key), None, data, editing).map(ObjectInfo)
    }

    #[doc = help!(Bucket write_at)]
    #[pyo3(signature = (key, offset, data, *, create=true, **options))]
    fn write_at(
        &self,
        py: Python<'_>,
        key: Key,
        #[pyo3(from_py_with = count)] offset: u64,
        data: &Bound<'_, PyAny>,
        create: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let editing = Making::read("write_at", options)?.edit("write_at", create)?;
        edits::write(py, self.hold(), ObjectName::new(self.name(), &key), Some(offset), data, editing).map(ObjectInfo)
    }

    #[doc = help!(Bucket write_copy)]
    #[pyo3(signature = (key, to, *, range, offset, bucket=None, create=true, **options))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn write_copy(
        &self,
        py: Python<'_>,
        key: Key,
        to: Key,
        range: (u64, u64),
        #[pyo3(from_py_with = count)] offset: u64,
        bucket: Option<&str>,
        create: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let editing = Making::read("write_copy", options)?.edit("write_copy", create)?;
        let (from, to) = (ObjectName::new(self.name(), &key), ObjectName::new(bucket.unwrap_or(self.name()), &to));
        let range = ByteRange { offset: range.0, length: range.1 };
        self.hold().call(py, |session| session.write_copy(from, range, to, offset, editing).wait()).map(ObjectInfo)
    }

    #[doc = help!(Bucket write_file)]
    #[pyo3(signature = (key, offset, source, *, create=true, progress=None, **options))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn write_file(
        &self,
        py: Python<'_>,
        key: Key,
        #[pyo3(from_py_with = count)] offset: u64,
        source: &Bound<'_, PyAny>,
        create: bool,
        progress: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let editing = Making::read("write_file", options)?.edit("write_file", create)?;
        let name = ObjectName::new(self.name(), &key);
        let source = (source, Progress::new(progress.as_ref()));
        transfer::write(py, self.hold(), name, offset, source, editing).map(ObjectInfo)
    }

    #[doc = help!(Bucket truncate)]
    #[pyo3(signature = (key, size, **options))]
    fn truncate(
        &self,
        py: Python<'_>,
        key: Key,
        #[pyo3(from_py_with = count)] size: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let editing = Making::read("truncate", options)?.edit("truncate", false)?;
        let name = ObjectName::new(self.name(), &key);
        self.hold().call(py, |session| session.truncate(name, size, editing).wait()).map(ObjectInfo)
    }

    #[doc = help!(Bucket move)]
    #[pyo3(signature = (key, to, *, bucket=None, **options))]
    fn r#move(
        &self,
        py: Python<'_>,
        key: Key,
        to: Key,
        bucket: Option<&str>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let condition = Making::read("move", options)?.condition_alone("move")?;
        let raise = raise(condition.if_absent);
        let (from, to) = (ObjectName::new(self.name(), &key), ObjectName::new(bucket.unwrap_or(self.name()), &to));
        let options = RenameOptions { condition, ..RenameOptions::default() };
        self.hold().call_or(py, |session| session.rename(from, to, options).wait(), raise).map(ObjectInfo)
    }

    #[doc = help!(Bucket exchange)]
    #[pyo3(signature = (key, other, *, bucket=None))]
    fn exchange(
        &self,
        py: Python<'_>,
        key: Key,
        other: Key,
        bucket: Option<&str>,
    ) -> PyResult<(ObjectInfo, ObjectInfo)> {
        let (one, other) = (ObjectName::new(self.name(), &key), ObjectName::new(bucket.unwrap_or(self.name()), &other));
        let both = self.hold().call(py, |session| session.exchange(one, other, ExchangeOptions::default()).wait())?;
        Ok((ObjectInfo(both.0), ObjectInfo(both.1)))
    }

    #[doc = help!(Bucket compose)]
    #[pyo3(signature = (sources, to, *, source_metadata=false, **options))]
    fn compose(
        &self,
        py: Python<'_>,
        sources: Vec<edits::Source>,
        to: Key,
        source_metadata: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let making = Making::read("compose", options)?;
        let raise = raise(making.is_new());
        let options = ComposeOptions { put: making.put(None), source_metadata };
        let segments: Vec<_> = sources.iter().map(|source| source.segment(self.name())).collect();
        let to = ObjectName::new(self.name(), &to);
        self.hold().call_or(py, |session| session.compose(&segments, to, options).wait(), raise).map(ObjectInfo)
    }

    #[doc = help!(Bucket copy_prefix)]
    #[pyo3(signature = (prefix, to, *, bucket=None))]
    fn copy_prefix(&self, py: Python<'_>, prefix: &str, to: Key, bucket: Option<&str>) -> PyResult<u64> {
        let (from, to) = (ObjectName::new(self.name(), prefix), ObjectName::new(bucket.unwrap_or(self.name()), &to));
        self.hold().call(py, |session| edits::copy_prefix(session, from, to))
    }

    #[doc = help!(Bucket move_prefix)]
    fn move_prefix(&self, py: Python<'_>, prefix: &str, to: Key) -> PyResult<()> {
        self.hold().call(py, |session| session.rename_prefix(self.name(), prefix, &to).wait())
    }

    #[doc = help!(Bucket set_attributes)]
    #[pyo3(signature = (key, **given))]
    fn set_attributes(&self, py: Python<'_>, key: Key, given: Option<&Bound<'_, PyDict>>) -> PyResult<ObjectInfo> {
        let change = edits::attributes(given)?;
        let name = ObjectName::new(self.name(), &key);
        let set =
            self.hold().call(py, |session| session.set_attributes(name, change, EditOptions::default()).wait())?;
        Ok(ObjectInfo(set))
    }
}
