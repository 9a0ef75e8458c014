//! Cursors over those of the store below.

use bytes::Bytes;
use koine_engine::Result;

use crate::seam::{Cursor, Entry};

/// What a view makes of keys and entries.
pub(super) trait Translate: Send {
    /// The key below.
    fn key_below(&self, key: &[u8]) -> Bytes;

    /// The entry here.
    fn entry(&self, below: Entry) -> Result<Entry>;
}

/// A cursor whose entries are translated.
pub(super) struct Translated<T> {
    below: Box<dyn Cursor>,
    translate: T,
}

impl<T: Translate> Translated<T> {
    pub(super) fn new(below: Box<dyn Cursor>, translate: T) -> Self {
        Translated { below, translate }
    }
}

impl<T: Translate> Cursor for Translated<T> {
    fn next(&mut self) -> Result<Option<Entry>> {
        self.below.next()?.map(|entry| self.translate.entry(entry)).transpose()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.below.seek(&self.translate.key_below(key))
    }
}
