//! Entries of a view in order, fetched page by page.
//!
//! Invariant: the view stays pinned while a cursor walks it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use koine_engine::{KeyRange, Result, SpaceId};

use super::view::Pinned;
use crate::seam::{Cursor, Direction, Entry};
use crate::wire::fields::malformed;
use crate::wire::request::Request;

/// The first page is short, since many look at a few entries alone; each one after it is twice as long.
const ENTRIES_FIRST: u32 = 32;
const ENTRIES_MAX: u32 = 2048;
/// About so many bytes of entries at once.
const PAGE_LEN: u32 = 256 << 10;

pub(super) struct WireCursor {
    pinned: Arc<Pinned>,
    space: SpaceId,
    /// What it walks, for ever.
    range: KeyRange,
    direction: Direction,
    /// Entries that were fetched and are to come.
    page: VecDeque<Entry>,
    /// What is not fetched yet; `None` after the last.
    rest: Option<KeyRange>,
    entries: u32,
}

impl WireCursor {
    pub fn new(pinned: Arc<Pinned>, space: SpaceId, range: KeyRange, direction: Direction) -> WireCursor {
        let rest = Some(range.clone());
        WireCursor { pinned, space, range, direction, page: VecDeque::new(), rest, entries: ENTRIES_FIRST }
    }

    fn fetch(&mut self) -> Result<()> {
        let Some(range) = self.rest.take() else { return Ok(()) };
        let fetched = self.pinned.page(|view| Request::List {
            view,
            space: self.space,
            range: range.clone(),
            direction: self.direction,
            entries: self.entries,
            bytes: PAGE_LEN,
        });
        let (page, is_last) = match fetched {
            Ok(fetched) => fetched,
            Err(error) => {
                // The next call asks again.
                self.rest = Some(range);
                return Err(error);
            }
        };
        // Otherwise an end would be believed that is none, or the same page asked for without end.
        let goes_on = is_last || page.last().is_some_and(|last| range.contains(&last.key));
        if !goes_on {
            self.rest = Some(range);
            return Err(malformed("a page of entries that were not asked for"));
        }
        self.entries = (self.entries * 2).min(ENTRIES_MAX);
        self.rest = match page.last() {
            Some(last) if !is_last => Some(after(range, &last.key, self.direction)),
            _ => None,
        };
        self.page = page.into();
        Ok(())
    }
}

/// What of a range lies behind a key.
fn after(range: KeyRange, key: &Bytes, direction: Direction) -> KeyRange {
    match direction {
        Direction::Forward => KeyRange { start: [key.as_ref(), &[0]].concat().into(), end: range.end },
        Direction::Backward => KeyRange { start: range.start, end: Some(key.clone()) },
    }
}

impl Cursor for WireCursor {
    fn next(&mut self) -> Result<Option<Entry>> {
        if self.page.is_empty() {
            self.fetch()?;
        }
        Ok(self.page.pop_front())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let KeyRange { start, end } = self.range.clone();
        let key = Bytes::copy_from_slice(key);
        // What was fetched is of no use where the key lies before it; where it lies within, the page goes on from there.
        let reached = |entry: &Entry| match self.direction {
            Direction::Forward => entry.key >= key,
            Direction::Backward => entry.key <= key,
        };
        if let Some(first) = self.page.front()
            && !reached(first)
            && let Some(at) = self.page.iter().position(reached)
        {
            self.page.drain(..at);
            return Ok(());
        }
        self.page.clear();
        self.entries = ENTRIES_FIRST;
        self.rest = Some(match self.direction {
            Direction::Forward => KeyRange { start: start.max(key), end },
            Direction::Backward => {
                let behind = Bytes::from([key.as_ref(), &[0]].concat());
                KeyRange { start, end: Some(end.map_or(behind.clone(), |end| end.min(behind))) }
            }
        });
        Ok(())
    }
}
