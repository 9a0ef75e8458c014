//! Listing names, by prefix and delimiter, resumed by key.
//!
//! Invariants:
//! - A page's work goes with what it tells, not with what it passes over: a common prefix costs one seek however
//!   many names share it.
//! - Every object and every common prefix is told on exactly one page, unless the bucket changes between pages.

use std::ops::ControlFlow;

use bytes::Bytes;
use koine_kv::{Cursor, Direction, KeyRange, SpaceId, View, after_prefix};

use crate::error::{Error, Result};
use crate::info::ObjectSummary;
use crate::keys;
use crate::lookup::{find_space, read_value};
use crate::objects::Objects;
use crate::record::summary;
use crate::request::{ListPage, ListQuery};
use crate::rights::Action;

/// How much of a walk is told by one page.
pub(crate) const PAGE: usize = 1000;

impl Objects {
    /// A page of the objects of a bucket.
    pub fn list(&self, bucket: &str, query: &ListQuery) -> Result<ListPage> {
        self.read(
            |rights| rights.listing(Action::ListBucket, bucket, (&query.prefix, &query.delimiter, query.limit)),
            |view| {
                let space = find_space(view, bucket)?;
                list(view.as_ref(), space, query)
            },
        )
    }

    /// Calls `each` for every object of a bucket that begins with `prefix`, in the order of names, until it breaks.
    /// A walk over pages: what stays is told once, what comes or goes meanwhile at most once.
    pub fn for_each(
        &self,
        bucket: &str,
        prefix: &str,
        mut each: impl FnMut(ObjectSummary) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut query = ListQuery { prefix: prefix.to_owned(), limit: PAGE, ..ListQuery::default() };
        loop {
            let page = self.list(bucket, &query)?;
            if page.objects.into_iter().try_for_each(&mut each).is_break() || page.next.is_none() {
                return Ok(());
            }
            query.after = page.next;
        }
    }
}

fn list(view: &dyn View, space: SpaceId, query: &ListQuery) -> Result<ListPage> {
    let mut page = ListPage::default();
    if query.limit == 0 {
        return Ok(page);
    }
    let range = KeyRange::prefix(keys::names_prefix(&query.prefix));
    let mut cursor = Names { start: range.start.clone(), cursor: view.cursor(space, range, Direction::Forward)? };
    if let Some(after) = &query.after {
        match common_prefix(&query.prefix, &query.delimiter, after) {
            Some(common) if common == after => cursor.pass_prefix(common)?,
            _ => cursor.pass_name(after)?,
        }
    }
    let mut last = None;
    while let Some(entry) = cursor.cursor.next()? {
        let (name, newest) = keys::name_of(&entry.key)?;
        if !newest {
            cursor.pass_name(&name)?;
            continue;
        }
        if page.objects.len() + page.common_prefixes.len() == query.limit {
            page.next = last;
            break;
        }
        if let Some(common) = common_prefix(&query.prefix, &query.delimiter, &name) {
            cursor.pass_prefix(common)?;
            page.common_prefixes.push(common.to_owned());
            last = Some(common.to_owned());
            continue;
        }
        last = Some(name.clone());
        let value = value_of(view, space, &entry.key, entry.value)?;
        page.objects.push(summary(name, entry.stat.version, &value)?);
    }
    Ok(page)
}

/// The value of a cursor's entry, which lies beside its key or must be read.
pub(crate) fn value_of(view: &dyn View, space: SpaceId, key: &[u8], value: Option<Bytes>) -> Result<Bytes> {
    if let Some(value) = value {
        return Ok(value);
    }
    let read = read_value(view, space, key)?;
    read.map(|(_, bytes)| bytes)
        .ok_or_else(|| Error::damaged(format!("the key {} was listed and is not there", hex::encode(key))))
}

/// What `name` is told as: everything up to the first delimiter after the prefix; `None` when it is told itself.
pub(crate) fn common_prefix<'a>(prefix: &str, delimiter: &str, name: &'a str) -> Option<&'a str> {
    if delimiter.is_empty() {
        return None;
    }
    let at = name.strip_prefix(prefix)?.find(delimiter)?;
    name.get(..prefix.len() + at + delimiter.len())
}

/// A cursor over names that only goes forward.
struct Names {
    start: Bytes,
    cursor: Box<dyn Cursor>,
}

impl Names {
    /// Goes on after every version of `name`.
    fn pass_name(&mut self, name: &str) -> Result<()> {
        self.pass(&keys::name(name))
    }

    /// Goes on after every name that begins with `prefix`.
    fn pass_prefix(&mut self, prefix: &str) -> Result<()> {
        self.pass(&keys::names_prefix(prefix))
    }

    fn pass(&mut self, begin: &[u8]) -> Result<()> {
        match after_prefix(begin) {
            Some(key) if key > self.start => Ok(self.cursor.seek(&key)?),
            _ => Ok(()),
        }
    }
}
