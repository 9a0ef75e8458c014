//! Walking over the keys of a view.
//!
//! Invariant: every step looks, after it has read, whether the view still holds.

use bytes::{Buf, Bytes};

use super::{Stat, View};
use crate::batch::KeyRange;
use crate::content::{as_record, record_key, record_range};
use crate::device::ReadMode;
use crate::error::Result;
use crate::tree::Tree;
use crate::tree::value::{INLINE_LEN_MAX, Record, RecordHead};

/// A key met by a cursor.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// Its version and size.
    pub stat: Stat,
    /// Its value where it lies beside the key.
    pub value: Option<Bytes>,
}

/// A key met by a cursor, where it lies.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its version and size.
    pub stat: Stat,
    /// Its value where that lies beside the key.
    pub value: Option<&'a [u8]>,
}

/// Walks a range of keys, pinning its view.
pub struct Cursor {
    view: View,
    cursor: crate::tree::Cursor,
    range: KeyRange,
    backward: bool,
}

impl Cursor {
    /// Before the first entry of a range of a space's tree.
    pub(super) fn new(view: View, tree: &Tree, range: KeyRange, backward: bool) -> Cursor {
        let mut cursor = tree.cursor(record_range(&range));
        if backward {
            cursor.seek_end();
        }
        Cursor { view, cursor, range, backward }
    }

    /// The next entry; `None` after the last.
    #[allow(clippy::should_implement_trait)] // Every step may fail.
    pub fn next(&mut self) -> Result<Option<Entry>> {
        let nodes = &self.view.core().nodes.in_order();
        let found = self.cursor.step(nodes, self.backward);
        self.view.check()?;
        let Some(found) = found? else { return Ok(None) };
        let held = found.held()?;
        let head = RecordHead::of(&held)?;
        let stat = Stat { version: head.version, size: head.size };
        let mut key = found.key_bytes();
        key.advance(1.min(key.len()));
        let value = match head.bytes {
            Some(bytes) => Some(bytes.share(0, usize::MAX)),
            None if stat.size == 0 => Some(Bytes::new()),
            None if stat.size <= INLINE_LEN_MAX as u64 => {
                let record = as_record(held.to_value()?)?;
                Some(self.view.bytes_of(&self.cursor, &record)?)
            }
            None => None,
        };
        Ok(Some(Entry { key, stat, value }))
    }

    /// As [`Cursor::next`], showing the entry where it lies: nothing is copied or counted. Values that do not lie
    /// beside their keys are left out, however short.
    pub fn step(&mut self) -> Result<Option<EntryRef<'_>>> {
        let nodes = &self.view.core().nodes.in_order();
        let found = self.cursor.step(nodes, self.backward);
        self.view.check()?;
        let Some(found) = found? else { return Ok(None) };
        let head = RecordHead::of(&found.held()?)?;
        let stat = Stat { version: head.version, size: head.size };
        let value = match head.bytes {
            Some(bytes) => Some(bytes.as_slice()),
            None if stat.size == 0 => Some(&[][..]),
            None => None,
        };
        Ok(Some(EntryRef { key: found.key().get(1..).unwrap_or_default(), stat, value }))
    }

    /// Goes on at `key`: the next entry is the first at or after it (backward: at or before it).
    pub fn seek(&mut self, key: &[u8]) {
        if key < self.range.start.as_ref() {
            return if self.backward {
                self.cursor.seek_start()
            } else {
                self.cursor.seek(&record_key(&self.range.start))
            };
        }
        let mut at = record_key(key);
        if self.backward {
            // The spot behind the key itself.
            let mut after = bytes::BytesMut::from(at.as_ref());
            after.extend_from_slice(&[0]);
            at = after.freeze();
        }
        self.cursor.seek(&at);
    }
}

impl View {
    /// A small value that does not lie beside its key (it was written in parts).
    fn bytes_of(&self, cursor: &crate::tree::Cursor, record: &Record) -> Result<Bytes> {
        let core = self.core();
        let mut buffer = vec![0; record.size as usize];
        let reading = self.reading(&core.nodes, ReadMode::Cached);
        let read = reading.read(cursor.tree(), record, 0, &mut buffer);
        self.checked(read)?;
        Ok(Bytes::from(buffer))
    }
}
