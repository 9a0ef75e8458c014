//! Listing uploads and their parts.
//!
//! Invariant: as with objects, a page's work goes with what it tells.

use std::sync::Arc;

use koine_kv::{Direction, KeyRange, SpaceId, View, after_prefix};

use crate::action::Action;
use crate::error::Result;
use crate::ids::UploadId;
use crate::keys::{self, OfPart};
use crate::local::Local;
use crate::lookup::{find_space, find_upload, value_of};
use crate::object_name::ObjectName;
use crate::record::{PartRecord, UploadRecord};
use crate::request::{PartPage, UploadPage, UploadQuery};
use crate::walk::common_prefix;

impl Local {
    pub fn list_parts(&self, name: ObjectName<'_>, upload: UploadId, after: u32, limit: usize) -> Result<PartPage> {
        keys::check_object_key(name.key)?;
        self.read(
            |rights| rights.upload(Action::ListMultipartUploadParts, name.bucket, name.key, upload),
            |view| list_parts(view, name, upload, after, limit),
        )
    }

    pub fn list_uploads(&self, bucket: &str, query: &UploadQuery) -> Result<UploadPage> {
        self.read(
            |rights| rights.bucket(Action::ListBucketMultipartUploads, bucket),
            |view| {
                let space = find_space(view, bucket)?;
                list_uploads(view.as_ref(), space, query)
            },
        )
    }
}

fn list_parts(
    view: &mut Arc<dyn View>,
    name: ObjectName<'_>,
    upload: UploadId,
    after: u32,
    limit: usize,
) -> Result<PartPage> {
    let space = find_space(view, name.bucket)?;
    let record = find_upload(view, space, name.key, upload)?;
    let mut page = PartPage { upload: record.info(name.key.to_owned(), upload), parts: Vec::new(), next: None };
    let range = KeyRange::prefix(keys::parts_of(upload, OfPart::Record));
    let mut cursor = view.cursor(space, range, Direction::Forward)?;
    cursor.seek(&keys::part(upload, OfPart::Record, after.saturating_add(1)))?;
    while limit != 0
        && let Some(entry) = cursor.next()?
    {
        if page.parts.len() == limit {
            page.next = page.parts.last().map(|part| part.number);
            break;
        }
        let value = value_of(view.as_ref(), space, &entry.key, entry.value)?;
        page.parts.push(PartRecord::decode(&value)?.info(keys::part_number_of(&entry.key)?));
    }
    Ok(page)
}

fn list_uploads(view: &dyn View, space: SpaceId, query: &UploadQuery) -> Result<UploadPage> {
    let mut page = UploadPage::default();
    let range = KeyRange::prefix(keys::uploads_prefix(&query.prefix));
    let start = range.start.clone();
    let mut cursor = view.cursor(space, range, Direction::Forward)?;
    if let Some(key) = begin_after(query).filter(|key| *key > start) {
        cursor.seek(&key)?;
    }
    let mut last: Option<(String, Option<UploadId>)> = None;
    while query.limit != 0
        && let Some(entry) = cursor.next()?
    {
        let (name, id) = keys::upload_of(&entry.key)?;
        if page.uploads.len() + page.common_prefixes.len() == query.limit {
            page.next = last;
            break;
        }
        if let Some(common) = common_prefix(&query.prefix, &query.delimiter, &name) {
            if let Some(key) = after_prefix(&keys::uploads_prefix(common)) {
                cursor.seek(&key)?;
            }
            page.common_prefixes.push(common.to_owned());
            last = Some((common.to_owned(), None));
            continue;
        }
        let value = value_of(view, space, &entry.key, entry.value)?;
        page.uploads.push(UploadRecord::decode(&value)?.info(name.clone(), id));
        last = Some((name, Some(id)));
    }
    Ok(page)
}

/// The first key of the page.
fn begin_after(query: &UploadQuery) -> Option<Vec<u8>> {
    let name = query.key_after.as_deref()?;
    if let Some(id) = query.upload_after {
        let mut key = keys::upload(name, id).to_vec();
        key.push(0);
        return Some(key);
    }
    let passed = match common_prefix(&query.prefix, &query.delimiter, name) {
        Some(common) if common == name => keys::uploads_prefix(common),
        _ => keys::uploads_of(name),
    };
    after_prefix(&passed).map(Vec::from)
}
