//! Listings that are longer than an answer: asked for page by page.
//!
//! Invariant: as many entries are told as were asked for, or as there are; over several pages each is of its own moment.

use super::Remote;
use crate::calls::ENTRIES_MAX;
use crate::calls::verbs::{List, ListBuckets, ListParts, ListUploads, ListVersions, Search};
use crate::error::Result;
use crate::ids::UploadId;
use crate::object_name::{Name, ObjectName};
use crate::request::{BucketPage, BucketQuery, ListPage, ListQuery, PartPage, UploadPage, UploadQuery};
use crate::search_query::{SearchPage, SearchQuery};
use crate::version::{VersionPage, VersionQuery};

impl Remote {
    /// A page of objects.
    pub fn list(&self, bucket: &str, query: &ListQuery) -> Result<ListPage> {
        let (mut whole, mut next) = (ListPage::default(), query.clone());
        loop {
            next.limit = query.limit.saturating_sub(whole.objects.len() + whole.common_prefixes.len());
            let page = self.call::<List>((bucket.to_owned(), next.clone()))?;
            let is_empty = page.objects.is_empty() && page.common_prefixes.is_empty();
            whole.objects.extend(page.objects);
            whole.common_prefixes.extend(page.common_prefixes);
            whole.next = page.next;
            let told = whole.objects.len() + whole.common_prefixes.len();
            if whole.next.is_none() || is_empty || told >= query.limit {
                return Ok(whole);
            }
            next.after.clone_from(&whole.next);
        }
    }

    /// A page of versions.
    pub fn list_versions(&self, bucket: &str, query: &VersionQuery) -> Result<VersionPage> {
        let (mut whole, mut next) = (VersionPage::default(), query.clone());
        loop {
            next.limit = query.limit.saturating_sub(whole.versions.len() + whole.common_prefixes.len());
            let page = self.call::<ListVersions>((bucket.to_owned(), next.clone()))?;
            let is_empty = page.versions.is_empty() && page.common_prefixes.is_empty();
            whole.versions.extend(page.versions);
            whole.common_prefixes.extend(page.common_prefixes);
            whole.next = page.next;
            let told = whole.versions.len() + whole.common_prefixes.len();
            if is_empty || told >= query.limit {
                return Ok(whole);
            }
            let Some((key, version)) = whole.next.clone() else { return Ok(whole) };
            (next.key_after, next.version_after) = (Some(key), version);
        }
    }

    /// A page of what is searched for.
    pub fn search(&self, bucket: &str, query: &SearchQuery) -> Result<SearchPage> {
        let (mut whole, mut next) = (SearchPage::default(), query.clone());
        loop {
            next.limit = query.limit.saturating_sub(whole.found.len());
            let page = self.call::<Search>((bucket.to_owned(), next.clone()))?;
            let is_empty = page.found.is_empty();
            whole.found.extend(page.found);
            whole.next = page.next;
            if whole.next.is_none() || is_empty || whole.found.len() >= query.limit {
                return Ok(whole);
            }
            next.after.clone_from(&whole.next);
        }
    }

    /// A page of buckets.
    pub fn list_buckets(&self, query: &BucketQuery) -> Result<BucketPage> {
        let wanted = if query.limit == 0 { usize::MAX } else { query.limit };
        let (mut whole, mut next) = (BucketPage::default(), query.clone());
        loop {
            next.limit = wanted.saturating_sub(whole.buckets.len()).min(ENTRIES_MAX);
            let page = self.call::<ListBuckets>(next.clone())?;
            let is_empty = page.buckets.is_empty();
            whole.buckets.extend(page.buckets);
            whole.next = page.next;
            if whole.next.is_none() || is_empty || whole.buckets.len() >= wanted {
                return Ok(whole);
            }
            next.after.clone_from(&whole.next);
        }
    }

    /// A page of uploads.
    pub fn list_uploads(&self, bucket: &str, query: &UploadQuery) -> Result<UploadPage> {
        let (mut whole, mut next) = (UploadPage::default(), query.clone());
        loop {
            next.limit = query.limit.saturating_sub(whole.uploads.len() + whole.common_prefixes.len());
            let page = self.call::<ListUploads>((bucket.to_owned(), next.clone()))?;
            let is_empty = page.uploads.is_empty() && page.common_prefixes.is_empty();
            whole.uploads.extend(page.uploads);
            whole.common_prefixes.extend(page.common_prefixes);
            whole.next = page.next;
            let told = whole.uploads.len() + whole.common_prefixes.len();
            if is_empty || told >= query.limit {
                return Ok(whole);
            }
            let Some((key, upload)) = whole.next.clone() else { return Ok(whole) };
            (next.key_after, next.upload_after) = (Some(key), upload);
        }
    }

    /// A page of the parts of an upload.
    pub fn list_parts(&self, name: ObjectName<'_>, upload: UploadId, after: u32, limit: usize) -> Result<PartPage> {
        let mut whole = self.call::<ListParts>((Name::new(name), upload, after, limit))?;
        while let Some(after) = whole.next.filter(|_| whole.parts.len() < limit) {
            let page =
                self.call::<ListParts>((Name::new(name), upload, after, limit.saturating_sub(whole.parts.len())))?;
            let is_empty = page.parts.is_empty();
            whole.parts.extend(page.parts);
            whole.next = page.next;
            if is_empty {
                break;
            }
        }
        Ok(whole)
    }
}
