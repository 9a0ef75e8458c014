//! Keyword arguments that several calls share.

use koine::kv::Version;
use koine::object::{
    ContentHeaders, CopiedMetadata, CopyOptions, EditOptions, EtagKind, EtagMatch, PutCondition, PutOptions,
    UploadOptions, VersionId,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};

/// What a caller says of an object that it makes.
#[derive(Clone, Default)]
pub struct Making {
    /// What must hold of the name.
    pub condition: PutCondition,
    /// Stored headers.
    pub headers: ContentHeaders,
    /// User metadata.
    pub metadata: Vec<(String, String)>,
    /// Which ETag the object gets.
    pub etag: EtagKind,
    /// Whether headers or metadata were given at all.
    pub described: bool,
}

impl Making {
    /// `if_absent`, `if_present`, `if_match`, `if_version`, `metadata`, `md5`, and the headers by their names in Python.
    pub fn read(call: &str, given: Option<&Bound<'_, PyDict>>) -> PyResult<Making> {
        let mut making = Making::default();
        let Some(given) = given else { return Ok(making) };
        for (name, value) in given.iter() {
            let name: String = name.extract()?;
            let headers = &mut making.headers;
            let header = match name.as_str() {
                "if_absent" => {
                    making.condition.if_absent = value.extract()?;
                    continue;
                }
                "if_present" => {
                    if value.extract()? {
                        making.condition.if_match.get_or_insert(EtagMatch::Any);
                    }
                    continue;
                }
                "if_match" => {
                    if let Some(etag) = value.extract::<Option<String>>()? {
                        making.condition.if_match = Some(EtagMatch::parse(&etag));
                    }
                    continue;
                }
                "if_version" => {
                    making.condition.if_version = value.extract::<Option<u64>>()?.map(Version);
                    continue;
                }
                "md5" => {
                    making.etag = if value.extract()? { EtagKind::Md5 } else { EtagKind::Drawn };
                    making.described = true;
                    continue;
                }
                "metadata" => {
                    if !value.is_none() {
                        making.metadata = metadata(&value)?;
                        making.described = true;
                    }
                    continue;
                }
                "content_type" => &mut headers.content_type,
                "cache_control" => &mut headers.cache_control,
                "content_disposition" => &mut headers.content_disposition,
                "content_encoding" => &mut headers.content_encoding,
                "content_language" => &mut headers.content_language,
                "expires" => &mut headers.expires,
                _ => {
                    let message = format!("{call}() got an unexpected keyword argument {name:?}");
                    return Err(PyTypeError::new_err(message));
                }
            };
            *header = value.extract()?;
            making.described |= header.is_some();
        }
        let wants_one = making.condition.if_match.is_some() || making.condition.if_version.is_some();
        if making.condition.if_absent && wants_one {
            return Err(PyValueError::new_err("if_absent goes with no condition on what is there"));
        }
        Ok(making)
    }

    /// Whether it is only asked that nothing have the name.
    pub fn is_new(&self) -> bool {
        self.condition.if_absent
    }

    /// For a call that describes nothing: what must hold of the name.
    pub fn condition_alone(self, call: &str) -> PyResult<PutCondition> {
        if self.described {
            let message = format!("{call}() takes conditions, but neither metadata nor headers");
            return Err(PyTypeError::new_err(message));
        }
        Ok(self.condition)
    }

    /// For an edit.
    pub fn edit(self, call: &str, create: bool) -> PyResult<EditOptions> {
        Ok(EditOptions { condition: self.condition_alone(call)?, create, ..EditOptions::default() })
    }

    /// For a copy, of a version where one is named: what is described takes the place of what the source has.
    pub fn copy(self, source_version: Option<VersionId>) -> CopyOptions {
        let metadata = match self.described {
            true => CopiedMetadata::Replace { headers: self.headers, metadata: self.metadata },
            false => CopiedMetadata::Copy,
        };
        CopyOptions { metadata, source_version, condition: self.condition, ..CopyOptions::default() }
    }

    /// For an upload in parts.
    pub fn upload(self) -> PyResult<UploadOptions> {
        if self.condition != PutCondition::none() {
            return Err(PyValueError::new_err("conditions are given to complete()"));
        }
        Ok(UploadOptions { headers: self.headers, metadata: self.metadata, checksum: None, etag: self.etag })
    }

    /// For a put of so many bytes, where that is known.
    pub fn put(self, length: Option<u64>) -> PutOptions {
        let Making { condition, headers, metadata, etag, .. } = self;
        PutOptions { condition, headers, metadata, etag, length, ..PutOptions::default() }
    }
}

fn metadata(value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let pairs = value.cast::<PyMapping>()?.items()?;
    pairs.iter().map(|pair| pair.extract()).collect()
}
