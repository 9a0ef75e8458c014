//! Searching for objects by an entry of their metadata or a tag.
//!
//! Invariants:
//! - A page is of one view, and is the same with an index and without: in the order of the parts of the texts that
//!   indexes sort by, then of names.
//! - With an index a page costs as much as it tells, and one step for each text that no name under the prefix has;
//!   without one as much as lies under the prefix, in the memory of one page.
//! - What is told was read from the object's own record.

use std::collections::BTreeMap;

use bytes::Bytes;
use koine_kv::{Cursor, Direction, Entry, KeyRange, SpaceId, Version, View, after_prefix};

use crate::action::Action;
use crate::error::{Error, Result};
use crate::info::ObjectSummary;
use crate::keys;
use crate::local::Local;
use crate::lookup::{find_bucket_to_read, read_value, value_of};
use crate::record::{IndexRecord, indexed_value, summary};
use crate::request::ListQuery;
use crate::search_query::{Indexed, SearchPage, SearchQuery, Wanted};
use crate::walk::Names;

impl Local {
    pub fn search(&self, bucket: &str, query: &SearchQuery) -> Result<SearchPage> {
        self.read(
            |rights| {
                rights.listing(Action::ListBucket, bucket, (&query.prefix, "", query.limit))?;
                // Where a name is found its text is told.
                let reading = match &query.of {
                    Indexed::Metadata(_) => Action::GetObject,
                    Indexed::Tag(_) => Action::GetObjectTagging,
                };
                rights.prefix(reading, bucket, &query.prefix)
            },
            |view| {
                let record = find_bucket_to_read(view, bucket)?;
                let index = record.indexes.iter().find(|index| index.of == query.of && index.whole);
                match index {
                    _ if query.limit == 0 || wants_nothing(&query.wanted) => Ok(SearchPage::default()),
                    Some(index) => Walk::new(view.as_ref(), record.space, index, query)?.page(),
                    None => scan(view.as_ref(), record.space, query),
                }
            },
        )
    }
}

/// What an object is found by: the part of its text that is sorted by, and its name.
type Found = (Vec<u8>, String);

fn wants_nothing(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Between(first, last) if first > last)
}

fn after(query: &SearchQuery) -> Option<Found> {
    query.after.as_ref().map(|(value, name)| (keys::indexed_part(value).to_vec(), name.clone()))
}

fn page_of(mut found: Vec<(String, ObjectSummary)>, limit: usize) -> SearchPage {
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| more);
    let next = last.map(|(value, object)| (value.clone(), object.key.clone()));
    SearchPage { found, next }
}

/// Looks at everything under the prefix and keeps the first of what is wanted.
fn scan(view: &dyn View, space: SpaceId, query: &SearchQuery) -> Result<SearchPage> {
    let after = after(query);
    let mut first: BTreeMap<Found, (String, Version, Bytes)> = BTreeMap::new();
    let range = KeyRange::prefix(keys::names_prefix(&query.prefix));
    let names = Names::new(range.start.clone(), view.cursor(space, range, Direction::Forward)?);
    let everything = ListQuery { prefix: query.prefix.clone(), limit: usize::MAX, ..ListQuery::default() };
    names.page(&everything, |name, entry: Entry| {
        Error::check_patience()?;
        let record = value_of(view, space, &entry.key, entry.value)?;
        let Some(value) = indexed_value(&query.of, &record)?.filter(|value| query.wanted.matches(value)) else {
            return Ok(());
        };
        let found = (keys::indexed_part(&value).to_vec(), name);
        if after.as_ref().is_none_or(|after| found > *after) {
            first.insert(found, (value, entry.stat.version, record));
        }
        // One more tells whether the page is the last.
        if first.len() > query.limit.saturating_add(1) {
            first.pop_last();
        }
        Ok(())
    })?;
    let tell = |((_, name), (value, version, record)): (Found, (String, Version, Bytes))| {
        Ok((value, summary(name, version, &record)?))
    };
    Ok(page_of(first.into_iter().map(tell).collect::<Result<_>>()?, query.limit))
}

/// The entries of an index that may be wanted, in order.
struct Walk<'a> {
    view: &'a dyn View,
    space: SpaceId,
    number: u32,
    query: &'a SearchQuery,
    cursor: Box<dyn Cursor>,
}

impl<'a> Walk<'a> {
    fn new(view: &'a dyn View, space: SpaceId, index: &IndexRecord, query: &'a SearchQuery) -> Result<Self> {
        let number = index.number;
        let range = match &query.wanted {
            Wanted::Any => KeyRange::prefix(keys::index(number)),
            Wanted::Equal(value) => KeyRange::prefix(keys::index_names(number, keys::indexed_part(value), "")),
            Wanted::BeginsWith(prefix) => KeyRange::prefix(keys::index_values(number, keys::indexed_part(prefix))),
            Wanted::Between(first, last) => KeyRange {
                start: keys::index_values(number, keys::indexed_part(first)),
                end: after_prefix(&keys::index_names(number, keys::indexed_part(last), "")),
            },
        };
        let start = range.start.clone();
        let mut cursor = view.cursor(space, range, Direction::Forward)?;
        if let Some((value, name)) = after(query) {
            let after = after_prefix(&keys::index_entry(number, &value, &name));
            if let Some(after) = after.filter(|after| *after > start) {
                cursor.seek(&after)?;
            }
        }
        Ok(Walk { view, space, number, query, cursor })
    }

    fn page(mut self) -> Result<SearchPage> {
        let mut found = Vec::new();
        while found.len() <= self.query.limit
            && let Some(entry) = self.cursor.next()?
        {
            Error::check_patience()?;
            let (part, name) = keys::index_entry_of(&entry.key)?;
            if !name.starts_with(self.query.prefix.as_str()) {
                self.pass(&part, &name)?;
                continue;
            }
            let Some((version, record)) = read_value(self.view, self.space, &keys::name(&name))? else {
                continue;
            };
            let value = indexed_value(&self.query.of, &record)?;
            // Texts may go on after the part that is sorted by.
            if let Some(value) =
                value.filter(|value| keys::indexed_part(value) == part && self.query.wanted.matches(value))
            {
                found.push((value, summary(name, version, &record)?));
            }
        }
        Ok(page_of(found, self.query.limit))
    }

    /// Goes on at the first name under the prefix: of the same text, or of the next.
    fn pass(&mut self, part: &[u8], name: &str) -> Result<()> {
        let prefix = keys::index_names(self.number, part, &self.query.prefix);
        if name < self.query.prefix.as_str() {
            return Ok(self.cursor.seek(&prefix)?);
        }
        match after_prefix(&keys::index_names(self.number, part, "")) {
            Some(next) => Ok(self.cursor.seek(&next)?),
            None => Ok(()),
        }
    }
}
