//! An upload in parts.

use std::sync::Arc;

use koine::object::{
    self, ByteRange, CompleteOptions, CompletedPart, Error, Expected, ObjectName, PART_NUMBER_MAX, PartOptions,
    ReadCondition, UploadId, UploadQuery,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{Key, Making, count, maybe_count};
use crate::bucket::raise;
use crate::buffers::Lent;
use crate::info::{ObjectInfo, PartInfo};
use crate::store::Hold;

#[doc = help!(Upload)]
#[pyclass(frozen, module = "koine")]
pub struct Upload {
    hold: Arc<Hold>,
    bucket: String,
    key: String,
    id: UploadId,
}

/// All uploads of a bucket under a prefix.
pub fn all_of(py: Python<'_>, hold: &Arc<Hold>, bucket: &str, prefix: &str) -> PyResult<Vec<Upload>> {
    let mut query = UploadQuery { prefix: prefix.to_owned(), limit: 1000, ..UploadQuery::default() };
    let mut all = Vec::new();
    loop {
        let page = hold.call(py, |session| session.list_uploads(bucket, &query))?;
        let made = |found: object::UploadInfo| Upload::new(Arc::clone(hold), bucket.to_owned(), found.key, found.id);
        all.extend(page.uploads.into_iter().map(made));
        let Some((key, upload)) = page.next else { return Ok(all) };
        (query.key_after, query.upload_after) = (Some(key), upload);
    }
}

impl Upload {
    pub fn new(hold: Arc<Hold>, bucket: String, key: String, id: UploadId) -> Self {
        Upload { hold, bucket, key, id }
    }

    fn target(&self) -> ObjectName<'_> {
        ObjectName::new(&self.bucket, &self.key)
    }

    /// All of its parts.
    fn all_parts(&self, session: &object::Objects) -> Result<Vec<object::PartInfo>, Error> {
        let (mut parts, mut after) = (Vec::new(), 0);
        loop {
            let page = session.list_parts(self.target(), self.id, after, PART_NUMBER_MAX as usize)?;
            parts.extend(page.parts);
            match page.next {
                Some(next) => after = next,
                None => return Ok(parts),
            }
        }
    }
}

#[pymethods]
impl Upload {
    #[doc = help!(Upload id)]
    #[getter]
    fn id(&self) -> String {
        self.id.to_string()
    }

    #[doc = help!(Upload key)]
    #[getter]
    fn key(&self) -> &str {
        &self.key
    }

    #[doc = help!(Upload bucket)]
    #[getter]
    fn bucket(&self) -> &str {
        &self.bucket
    }

    #[doc = help!(Upload put)]
    fn put(&self, py: Python<'_>, number: u32, data: &Bound<'_, PyAny>) -> PyResult<PartInfo> {
        let lent = Lent::of(data)?;
        let bytes = lent.bytes();
        let part = self.hold.call(py, |session| {
            let options = PartOptions { length: Some(bytes.len() as u64), ..PartOptions::default() };
            let mut writer = session.put_part(self.target(), self.id, number, options)?;
            writer.write(bytes)?;
            writer.finish(&Expected::none()).wait()
        })?;
        Ok(PartInfo(part))
    }

    #[doc = help!(Upload copy)]
    #[pyo3(signature = (number, key, *, bucket=None, offset=0, length=None))]
    fn copy(
        &self,
        py: Python<'_>,
        number: u32,
        key: Key,
        bucket: Option<&str>,
        #[pyo3(from_py_with = count)] offset: u64,
        #[pyo3(from_py_with = maybe_count)] length: Option<u64>,
    ) -> PyResult<PartInfo> {
        let from = ObjectName::new(bucket.unwrap_or(&self.bucket), &key);
        let part = self.hold.call(py, |session| {
            let range = match (offset, length) {
                (0, None) => None,
                (_, Some(length)) => Some(ByteRange { offset, length }),
                (_, None) => {
                    let size = session.head(from.bucket, from.key)?.size;
                    Some(ByteRange { offset, length: size.saturating_sub(offset) })
                }
            };
            session.copy_part(from, range, &ReadCondition::default(), self.target(), self.id, number).wait()
        })?;
        Ok(PartInfo(part))
    }

    #[doc = help!(Upload parts)]
    fn parts(&self, py: Python<'_>) -> PyResult<Vec<PartInfo>> {
        let parts = self.hold.call(py, |session| self.all_parts(session))?;
        Ok(parts.into_iter().map(PartInfo).collect())
    }

    #[doc = help!(Upload abort)]
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.hold.call(py, |session| session.abort_upload(self.target(), self.id).wait())
    }

    #[doc = help!(Upload complete)]
    #[pyo3(signature = (parts=None, **options))]
    fn complete(
        &self,
        py: Python<'_>,
        parts: Option<Vec<PyRef<'_, PartInfo>>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ObjectInfo> {
        let making = Making::read("complete", options)?;
        let raise = raise(making.is_new());
        let given: Option<Vec<_>> = parts.map(|parts| parts.iter().map(|part| part.0.clone()).collect());
        let done = self.hold.call_or(
            py,
            |session| {
                let all_parts = given.is_none();
                let named = |part: object::PartInfo| CompletedPart {
                    number: part.number,
                    etag: part.etag.to_string(),
                    checksums: Vec::new(),
                };
                let parts = given.into_iter().flatten().map(named).collect();
                let condition = making.condition;
                let options = CompleteOptions { parts, all_parts, condition, ..CompleteOptions::default() };
                session.complete_upload(self.target(), self.id, options).wait()
            },
            raise,
        )?;
        Ok(ObjectInfo(done))
    }

    fn __repr__(&self) -> String {
        format!("Upload({:?} in {:?}, {})", self.key, self.bucket, self.id)
    }
}
