//! What edits, composes and describes objects that are there.

use koine::env::Timestamp;
use koine::object::{
    AttributeChange, CopyPrefixOptions, EditOptions, Error, Expected, MetadataChange, ObjectInfo, ObjectName, Objects,
    Segment,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};

use crate::arguments::{Key, maybe_count, named, unexpected};
use crate::buffers::Lent;
use crate::store::Hold;

/// Writes at an offset, or at the end.
pub fn write(
    py: Python<'_>,
    hold: &Hold,
    name: ObjectName<'_>,
    offset: Option<u64>,
    data: &Bound<'_, PyAny>,
    options: EditOptions,
) -> PyResult<ObjectInfo> {
    let lent = Lent::of(data)?;
    let bytes = lent.bytes();
    let options = EditOptions { length: Some(bytes.len() as u64), ..options };
    hold.call(py, |session| {
        let mut writer = match offset {
            Some(offset) => session.write_at(name, offset, options)?,
            None => session.append(name, options)?,
        };
        writer.write(bytes)?;
        writer.finish(&Expected::none()).wait()
    })
}

/// A key, or some bytes of one: offset and length.
#[derive(FromPyObject)]
pub enum Source {
    Whole(Key),
    Range(Key, u64, u64),
}

impl Source {
    pub fn segment<'a>(&'a self, bucket: &'a str) -> Segment<'a> {
        match self {
            Source::Whole(key) => Segment::whole(ObjectName::new(bucket, key)),
            Source::Range(key, offset, length) => Segment::range(ObjectName::new(bucket, key), *offset, *length),
        }
    }
}

/// Copies all that begins so, batch by batch.
pub fn copy_prefix(session: &Objects, from: ObjectName<'_>, to: ObjectName<'_>) -> Result<u64, Error> {
    let (mut count, mut options) = (0, CopyPrefixOptions::default());
    loop {
        let copied = session.copy_prefix(from, to, options.clone())?;
        count += copied.objects;
        match copied.next {
            Some(next) => options.after = Some(next),
            None => return Ok(count),
        }
    }
}

/// A change of metadata or tags: what has no value is taken away.
pub fn change(given: Option<&Bound<'_, PyAny>>, replace: bool) -> PyResult<Option<MetadataChange>> {
    let Some(given) = given else { return Ok(None) };
    let (mut set, mut remove) = (Vec::new(), Vec::new());
    for pair in given.cast::<PyMapping>()?.items()?.iter() {
        match pair.extract::<(String, Option<String>)>()? {
            (name, Some(value)) => set.push((name, value)),
            (name, None) => remove.push(name),
        }
    }
    Ok(Some(if replace { MetadataChange::Replace(set) } else { MetadataChange::Merge { set, remove } }))
}

/// What is known of an object beside its bytes, as `set_attributes` is told to change it.
pub fn attributes(given: Option<&Bound<'_, PyDict>>) -> PyResult<AttributeChange> {
    let (mut wanted, mut replace) = (AttributeChange::default(), false);
    let (mut metadata, mut tags) = (None, None);
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        let mut set = || -> PyResult<()> {
            match name.as_str() {
                "metadata" => {
                    metadata = change(Some(&value).filter(|value| !value.is_none()), false)?.and(Some(value.clone()))
                }
                "tags" => tags = change(Some(&value).filter(|value| !value.is_none()), false)?.and(Some(value.clone())),
                "replace" => replace = value.extract()?,
                "mode" => wanted.mode = value.extract()?,
                "owner" => wanted.posix_owner = value.extract()?,
                "modified_ns" => wanted.modified = maybe_count(&value)?.map(Timestamp),
                "accessed_ns" => wanted.accessed = maybe_count(&value)?.map(Timestamp),
                _ => return Err(unexpected("set_attributes", &name)),
            }
            Ok(())
        };
        set().map_err(|error| named(value.py(), "set_attributes", &name, error))?;
    }
    wanted.metadata = change(metadata.as_ref(), replace)?;
    wanted.tags = change(tags.as_ref(), replace)?;
    Ok(wanted)
}
