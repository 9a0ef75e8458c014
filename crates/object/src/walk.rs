//! Walks over names in order: pages of them, with what they have in common.
//!
//! Invariant: a walk goes on behind a name, whether or not that is there still.

use bytes::Bytes;
use koine_kv::{Cursor, Entry, SeenEntry, TransactionCursor, after_prefix};

use crate::error::Result;
use crate::keys;
use crate::request::ListQuery;

/// How much of a walk is told by one page.
pub(crate) const PAGE: usize = 1000;

/// What `name` is told as: everything up to the first delimiter after the prefix; `None` when it is told itself.
pub(crate) fn common_prefix<'a>(prefix: &str, delimiter: &str, name: &'a str) -> Option<&'a str> {
    if delimiter.is_empty() {
        return None;
    }
    let at = name.strip_prefix(prefix)?.find(delimiter)?;
    name.get(..prefix.len() + at + delimiter.len())
}

/// What walks over keys: a view's cursor, or a transaction's.
pub(crate) trait Walk {
    /// A key and what is known of it.
    type Entry;
    fn next_entry(&mut self) -> Result<Option<(Bytes, Self::Entry)>>;
    fn go_on_at(&mut self, key: &[u8]) -> Result<()>;
    /// The value, where it is at hand.
    fn value(entry: Self::Entry) -> Option<Bytes>;
}

impl Walk for Box<dyn Cursor> {
    type Entry = Entry;

    fn next_entry(&mut self) -> Result<Option<(Bytes, Entry)>> {
        Ok(self.next()?.map(|entry| (entry.key.clone(), entry)))
    }

    fn go_on_at(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.seek(key)?)
    }

    fn value(entry: Entry) -> Option<Bytes> {
        entry.value
    }
}

impl Walk for TransactionCursor<'_> {
    type Entry = SeenEntry;

    fn next_entry(&mut self) -> Result<Option<(Bytes, SeenEntry)>> {
        Ok(self.next()?.map(|entry| (entry.key.clone(), entry)))
    }

    fn go_on_at(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.seek(key)?)
    }

    fn value(entry: SeenEntry) -> Option<Bytes> {
        entry.value
    }
}

/// A page, with what is told of each object.
pub(crate) struct Page<T> {
    pub objects: Vec<T>,
    pub common_prefixes: Vec<String>,
    pub next: Option<String>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Page { objects: Vec::new(), common_prefixes: Vec::new(), next: None }
    }
}

/// A cursor over names that only goes forward.
pub(crate) struct Names<C> {
    start: Bytes,
    cursor: C,
}

impl<C: Walk> Names<C> {
    /// Over the keys that `cursor` walks, which begin at `start`.
    pub fn new(start: Bytes, cursor: C) -> Self {
        Names { start, cursor }
    }

    /// The page of a query that allows at least one entry.
    pub fn page<T>(
        mut self,
        query: &ListQuery,
        mut tell: impl FnMut(String, C::Entry) -> Result<T>,
    ) -> Result<Page<T>> {
        let mut page = Page::default();
        if let Some(after) = &query.after {
            match common_prefix(&query.prefix, &query.delimiter, after) {
                Some(common) if common == after => self.pass_prefix(common)?,
                _ => self.pass_name(after)?,
            }
        }
        let mut last = None;
        while let Some((key, entry)) = self.cursor.next_entry()? {
            let (name, newest) = keys::name_of(&key)?;
            if !newest {
                self.pass_name(&name)?;
                continue;
            }
            if page.objects.len() + page.common_prefixes.len() == query.limit {
                page.next = last;
                break;
            }
            if let Some(common) = common_prefix(&query.prefix, &query.delimiter, &name) {
                self.pass_prefix(common)?;
                page.common_prefixes.push(common.to_owned());
                last = Some(common.to_owned());
                continue;
            }
            last = Some(name.clone());
            page.objects.push(tell(name, entry)?);
        }
        Ok(page)
    }

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
            Some(key) if key > self.start => self.cursor.go_on_at(&key),
            _ => Ok(()),
        }
    }
}
