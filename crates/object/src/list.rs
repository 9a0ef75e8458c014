//! Listing names, by prefix and delimiter, resumed by key.
//!
//! Invariants:
//! - A page's work goes with what it tells, not with what it passes over: a common prefix costs one seek however
//!   many names share it.
//! - Every object and every common prefix is told on exactly one page, unless the bucket changes between pages.

use koine_kv::{Direction, Entry, KeyRange, SpaceId, View};

use crate::action::Action;
use crate::error::Result;
use crate::keys;
use crate::local::Local;
use crate::lookup::{find_space, value_of};
use crate::record::summary;
use crate::request::{ListPage, ListQuery};
use crate::walk::{Names, Page};

impl Local {
    pub fn list(&self, bucket: &str, query: &ListQuery) -> Result<ListPage> {
        self.read(
            |rights| rights.listing(Action::ListBucket, bucket, (&query.prefix, &query.delimiter, query.limit)),
            |view| {
                let space = find_space(view, bucket)?;
                list(view.as_ref(), space, query)
            },
        )
    }
}

fn list(view: &dyn View, space: SpaceId, query: &ListQuery) -> Result<ListPage> {
    if query.limit == 0 {
        return Ok(ListPage::default());
    }
    let range = KeyRange::prefix(keys::names_prefix(&query.prefix));
    let names = Names::new(range.start.clone(), view.cursor(space, range, Direction::Forward)?);
    let Page { objects, common_prefixes, next } = names.page(query, |name, entry: Entry| {
        let value = value_of(view, space, &entry.key, entry.value)?;
        summary(name, entry.stat.version, &value)
    })?;
    Ok(ListPage { objects, common_prefixes, next })
}
