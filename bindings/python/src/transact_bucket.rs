//! A bucket in a transaction.
//!
//! Invariant: what a call reads and changes it does in the transaction; bodies are staged before it is told of them.

use koine::kv::Version;
use koine::object::{
    ByteRange, ComposeOptions, DeleteOptions, EditOptions, Expected, ListQuery, ObjectName, Objects, PutCondition,
    RenameOptions, StageOptions, StagedBody,
};
use koine::object::{EtagKind, EtagMatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments::{Key, Making, count, maybe_count};
use crate::buffers::Lent;
use crate::edits::{self, Source};
use crate::errors;
use crate::info::ObjectInfo;
use crate::listing::ListPage;
use crate::transact::Transaction;
use crate::versions::version_id;

#[doc = help!(TransactionBucket)]
#[pyclass(frozen, module = "koine")]
pub struct TransactionBucket {
    transaction: Py<Transaction>,
    name: String,
}

/// A name that a call takes with it.
struct Owned(String, String);

impl Owned {
    fn name(&self) -> ObjectName<'_> {
        ObjectName::new(&self.0, &self.1)
    }
}

impl TransactionBucket {
    pub fn new(transaction: Py<Transaction>, name: String) -> Self {
        TransactionBucket { transaction, name }
    }

    fn of(&self, key: &str) -> Owned {
        Owned(self.name.clone(), key.to_owned())
    }

    fn to(&self, bucket: Option<&str>, key: &str) -> Owned {
        Owned(bucket.unwrap_or(&self.name).to_owned(), key.to_owned())
    }

    fn staged(&self, py: Python<'_>, data: &Bound<'_, PyAny>, etag: EtagKind) -> PyResult<StagedBody> {
        let lent = Lent::of(data)?;
        let bytes = lent.bytes();
        let stage = |session: &Objects| {
            let options = StageOptions { length: Some(bytes.len() as u64), etag, ..StageOptions::default() };
            let mut writer = session.stage(options)?;
            writer.write(bytes)?;
            writer.finish(&Expected::none())
        };
        self.transaction.get().hold().call(py, stage)
    }

    fn found(&self, py: Python<'_>, key: &str) -> PyResult<Option<ObjectInfo>> {
        let of = self.of(key);
        Ok(self.transaction.get().call(py, move |transaction| transaction.head(of.name()))?.map(ObjectInfo))
    }
}

#[pymethods]
impl TransactionBucket {
    #[doc = help!(TransactionBucket name)]
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[doc = help!(TransactionBucket head)]
    fn head(&self, py: Python<'_>, key: Key) -> PyResult<ObjectInfo> {
        let message = || format!("there is no object {key:?} in the bucket {:?}", self.name);
        self.found(py, &key)?.ok_or_else(|| errors::raised("NoSuchKey", &message()))
    }

    fn __contains__(&self, py: Python<'_>, key: Key) -> PyResult<bool> {
        self.found(py, &key).map(|found| found.is_some())
    }

    #[doc = help!(TransactionBucket get)]
    #[pyo3(signature = (key, *, offset=0, length=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Key,
        #[pyo3(from_py_with = count)] offset: u64,
        #[pyo3(from_py_with = maybe_count)] length: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (of, range) = (self.of(&key), ByteRange { offset, length: length.unwrap_or(u64::MAX) });
        let bytes = self.transaction.get().call(py, move |transaction| transaction.read(of.name(), range))?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[doc = help!(TransactionBucket list_page)]
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
        let bucket = self.name.clone();
        self.transaction.get().call(py, move |transaction| transaction.list(&bucket, &query)).map(ListPage)
    }

    #[doc = help!(TransactionBucket put)]
    #[pyo3(signature = (key, data, **options))]
    fn put(
        &self,
        py: Python<'_>,
        key: Key,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let making = Making::read("put", options)?;
        let body = self.staged(py, data, making.etag)?;
        let (of, options) = (self.of(&key), making.put(None));
        self.transaction.get().call(py, move |transaction| transaction.put(of.name(), &body, &options))
    }

    #[doc = help!(TransactionBucket append)]
    #[pyo3(signature = (key, data, *, create=true, **options))]
    fn append(
        &self,
        py: Python<'_>,
        key: Key,
        data: &Bound<'_, PyAny>,
        create: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let editing = Making::read("append", options)?.edit("append", create)?;
        let (of, body) = (self.of(&key), self.staged(py, data, EtagKind::Drawn)?);
        self.transaction.get().call(py, move |transaction| transaction.append(of.name(), &body, &editing))
    }

    #[doc = help!(TransactionBucket write_at)]
    #[pyo3(signature = (key, offset, data, *, create=true, **options))]
    fn write_at(
        &self,
        py: Python<'_>,
        key: Key,
        #[pyo3(from_py_with = count)] offset: u64,
        data: &Bound<'_, PyAny>,
        create: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let editing = Making::read("write_at", options)?.edit("write_at", create)?;
        let (of, body) = (self.of(&key), self.staged(py, data, EtagKind::Drawn)?);
        self.transaction.get().call(py, move |transaction| transaction.write_at(of.name(), offset, &body, &editing))
    }

    #[doc = help!(TransactionBucket truncate)]
    #[pyo3(signature = (key, size, **options))]
    fn truncate(
        &self,
        py: Python<'_>,
        key: Key,
        #[pyo3(from_py_with = count)] size: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let editing = Making::read("truncate", options)?.edit("truncate", false)?;
        let of = self.of(&key);
        self.transaction.get().call(py, move |transaction| transaction.truncate(of.name(), size, &editing))
    }

    #[doc = help!(TransactionBucket write_copy)]
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
    ) -> PyResult<()> {
        let editing = Making::read("write_copy", options)?.edit("write_copy", create)?;
        let (from, to) = (self.of(&key), self.to(bucket, &to));
        let range = ByteRange { offset: range.0, length: range.1 };
        self.transaction
            .get()
            .call(py, move |transaction| transaction.write_copy(from.name(), range, to.name(), offset, &editing))
    }

    #[doc = help!(TransactionBucket compose)]
    #[pyo3(signature = (sources, to, *, source_metadata=false, **options))]
    fn compose(
        &self,
        py: Python<'_>,
        sources: Vec<Source>,
        to: Key,
        source_metadata: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let options = ComposeOptions { put: Making::read("compose", options)?.put(None), source_metadata };
        let to = self.of(&to);
        self.transaction.get().call(py, move |transaction| {
            let segments: Vec<_> = sources.iter().map(|source| source.segment(&to.0)).collect();
            transaction.compose(&segments, to.name(), &options)
        })
    }

    #[doc = help!(TransactionBucket copy)]
    #[pyo3(signature = (key, to, *, bucket=None, version=None, **options))]
    fn copy(
        &self,
        py: Python<'_>,
        key: Key,
        to: Key,
        bucket: Option<&str>,
        version: Option<&str>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let options = Making::read("copy", options)?.copy(version_id(version)?);
        let (from, to) = (self.of(&key), self.to(bucket, &to));
        self.transaction.get().call(py, move |transaction| transaction.copy(from.name(), to.name(), &options))
    }

    #[doc = help!(TransactionBucket move)]
    #[pyo3(signature = (key, to, *, bucket=None, **options))]
    fn r#move(
        &self,
        py: Python<'_>,
        key: Key,
        to: Key,
        bucket: Option<&str>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let condition = Making::read("move", options)?.condition_alone("move")?;
        let options = RenameOptions { condition, ..RenameOptions::default() };
        let (from, to) = (self.of(&key), self.to(bucket, &to));
        self.transaction.get().call(py, move |transaction| transaction.rename(from.name(), to.name(), &options))
    }

    #[doc = help!(TransactionBucket exchange)]
    #[pyo3(signature = (key, other, *, bucket=None))]
    fn exchange(&self, py: Python<'_>, key: Key, other: Key, bucket: Option<&str>) -> PyResult<()> {
        let (one, other) = (self.of(&key), self.to(bucket, &other));
        self.transaction.get().call(py, move |transaction| transaction.exchange(one.name(), other.name()))
    }

    #[doc = help!(TransactionBucket delete)]
    #[pyo3(signature = (key, *, if_match=None, if_version=None, version=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Key,
        if_match: Option<&str>,
        #[pyo3(from_py_with = maybe_count)] if_version: Option<u64>,
        version: Option<&str>,
    ) -> PyResult<bool> {
        let of = self.of(&key);
        let if_match = if_match.map(EtagMatch::parse);
        let deleted = match version_id(version)? {
            Some(_) if if_match.is_some() || if_version.is_some() => {
                return Err(PyValueError::new_err(
                    "a version id says which object is meant: leave if_match and if_version out",
                ));
            }
            Some(id) => self.transaction.get().call(py, move |transaction| transaction.delete_version(of.name(), id)),
            None => {
                let condition = PutCondition { if_match, if_version: if_version.map(Version), ..PutCondition::none() };
                let options = DeleteOptions { condition };
                self.transaction.get().call(py, move |transaction| transaction.delete(of.name(), &options))
            }
        };
        deleted.map(|deleted| deleted.existed)
    }

    #[doc = help!(TransactionBucket set_attributes)]
    #[pyo3(signature = (key, **given))]
    fn set_attributes(&self, py: Python<'_>, key: Key, given: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let change = edits::attributes(given)?;
        let of = self.of(&key);
        self.transaction
            .get()
            .call(py, move |transaction| transaction.set_attributes(of.name(), change, &EditOptions::default()))
    }

    fn __repr__(&self) -> String {
        format!("TransactionBucket({:?})", self.name)
    }
}
