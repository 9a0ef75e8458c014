//! Listing versions: by name, then newest first.
//!
//! Invariants:
//! - Every version is told on exactly one page, unless the bucket changes between pages; of a name that is changed
//!   meanwhile, what stays is told once.
//! - A page's work goes with what it tells: a common prefix costs one seek whatever is under it.

use bytes::Bytes;
use koine_env::Timestamp;
use koine_kv::{Cursor, Direction, KeyRange, SpaceId, View, after_prefix};
use std::sync::Arc;

use crate::action::Action;
use crate::error::Result;
use crate::info::ObjectSummary;
use crate::keys;
use crate::local::Local;
use crate::lookup::{find_object, find_space, value_of};
use crate::record::OlderRecord;
use crate::version_id::VersionId;
use crate::versions::older_null;
use crate::walk::common_prefix;

/// Which versions are listed.
#[derive(Clone, Debug, Default)]
pub struct VersionQuery {
    /// Names that begin so.
    pub prefix: String,
    /// As in [`ListQuery`](crate::ListQuery); empty is none.
    pub delimiter: String,
    /// Versions of names after this one; with `version_after` also those of this name that are older than that one.
    pub key_after: Option<String>,
    /// See `key_after`.
    pub version_after: Option<VersionId>,
    /// At most so many versions and common prefixes together; 0 gives an empty page.
    pub limit: usize,
}

/// What is told of a version of an object, or of a delete marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionSummary {
    /// Its name.
    pub key: String,
    /// Which of the name's versions it is.
    pub id: VersionId,
    /// Whether it is the newest, which the name stands for.
    pub newest: bool,
    /// When its bytes were last changed, or the name was deleted.
    pub modified: Timestamp,
    /// The object; `None` for a delete marker.
    pub object: Option<ObjectSummary>,
}

/// A page of versions, by name in the order of UTF-8 bytes, then newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionPage {
    /// The versions and delete markers.
    pub versions: Vec<VersionSummary>,
    /// The common prefixes, each ending in the delimiter.
    pub common_prefixes: Vec<String>,
    /// `key_after` and `version_after` of the next page (no version after a common prefix); `None` on the last.
    pub next: Option<(String, Option<VersionId>)>,
}

impl Local {
    pub fn list_versions(&self, bucket: &str, query: &VersionQuery) -> Result<VersionPage> {
        self.read(
            |rights| rights.listing(Action::ListBucketVersions, bucket, (&query.prefix, &query.delimiter, query.limit)),
            |view| {
                let space = find_space(view, bucket)?;
                if query.limit == 0 { Ok(VersionPage::default()) } else { Walk::new(view, space, query)?.page() }
            },
        )
    }
}

/// A walk over names and what stands behind them.
struct Walk<'a> {
    view: &'a Arc<dyn View>,
    space: SpaceId,
    query: &'a VersionQuery,
    start: Bytes,
    cursor: Box<dyn Cursor>,
    /// The name that was met last, and the first key that it has.
    name: Option<(String, Bytes)>,
}

impl<'a> Walk<'a> {
    fn new(view: &'a mut Arc<dyn View>, space: SpaceId, query: &'a VersionQuery) -> Result<Self> {
        let range = KeyRange::prefix(keys::names_prefix(&query.prefix));
        let cursor = view.cursor(space, range.clone(), Direction::Forward)?;
        let begin = match &query.key_after {
            Some(after) => Some(begin(view, space, query, after)?),
            None => None,
        };
        let mut walk = Walk { view, space, query, start: range.start, cursor, name: None };
        if let Some(Begin { name, at }) = begin {
            if let Some(name) = name {
                walk.meet(&name)?;
            }
            walk.go_on_at(at)?;
        }
        Ok(walk)
    }

    /// Notes the first key of a name in the midst of which the walk begins.
    fn meet(&mut self, name: &str) -> Result<()> {
        let first = keys::name(name);
        if first < self.start {
            return Ok(());
        }
        self.cursor.seek(&first)?;
        if let Some(entry) = self.cursor.next()?
            && entry.key.starts_with(&first)
        {
            self.name = Some((name.to_owned(), entry.key));
        }
        Ok(())
    }

    fn go_on_at(&mut self, key: Option<Bytes>) -> Result<()> {
        match key {
            Some(key) if key > self.start => Ok(self.cursor.seek(&key)?),
            _ => Ok(self.cursor.seek(&self.start)?),
        }
    }

    fn page(mut self) -> Result<VersionPage> {
        let mut page = VersionPage::default();
        let mut last = None;
        while let Some(entry) = self.cursor.next()? {
            let (name, number) = keys::version_of(&entry.key)?;
            if page.versions.len() + page.common_prefixes.len() == self.query.limit {
                page.next = last;
                break;
            }
            if let Some(common) = common_prefix(&self.query.prefix, &self.query.delimiter, &name) {
                self.go_on_at(after_prefix(&keys::names_prefix(common)))?;
                page.common_prefixes.push(common.to_owned());
                last = Some((common.to_owned(), None));
                continue;
            }
            if self.name.as_ref().is_none_or(|(known, _)| *known != name) {
                self.name = Some((name.clone(), entry.key.clone()));
            }
            let newest = self.name.as_ref().is_some_and(|(_, first)| *first == entry.key);
            let value = value_of(self.view.as_ref(), self.space, &entry.key, entry.value)?;
            let record = OlderRecord::decode(&value)?;
            let id = record.id();
            last = Some((name.clone(), Some(number.map_or(id, VersionId::Number))));
            let (modified, object) = match record {
                OlderRecord::Object(record) => {
                    let summary = record.into_summary(name.clone(), entry.stat.version);
                    (summary.modified, Some(summary))
                }
                OlderRecord::Marker(marker) => (marker.created, None),
            };
            page.versions.push(VersionSummary { key: name, id, newest, modified, object });
        }
        Ok(page)
    }
}

/// Where a page begins.
struct Begin {
    /// The name in the midst of which that is.
    name: Option<String>,
    at: Option<Bytes>,
}

fn begin(view: &mut Arc<dyn View>, space: SpaceId, query: &VersionQuery, after: &str) -> Result<Begin> {
    let Some(version) = query.version_after else {
        let common = common_prefix(&query.prefix, &query.delimiter, after);
        let passed = match common {
            Some(common) if common == after => keys::names_prefix(common),
            _ => keys::name(after),
        };
        return Ok(Begin { name: None, at: after_prefix(&passed) });
    };
    let number = match version {
        VersionId::Number(number) => Some(number),
        VersionId::Null => number_of_null(view, space, after)?,
    };
    let at = match number {
        Some(number) => KeyRange::single(keys::older(after, number)).end,
        None => Some(keys::older_of(after).start),
    };
    Ok(Begin { name: Some(after.to_owned()), at })
}

/// The number of the version `null` among the older ones. Where it is the newest, or gone, all older ones come after it.
fn number_of_null(view: &mut Arc<dyn View>, space: SpaceId, key: &str) -> Result<Option<u64>> {
    match find_object(view, space, key)? {
        Some(current) if current.record.version_id.is_none() => Ok(None),
        _ => Ok(older_null(view, space, key)?.map(|null| null.number)),
    }
}
