//! Indexes, and their entries against the objects that they stand for.
//!
//! Invariant: an entry that stands for no object in one version stands for none in a later one, unless it was put again:
//! then it has another version, and stays.

use koine_kv::{Direction, Entry, KeyRange};

use super::bucket::Seen;
use super::{Found, LeftOver, Run};
use crate::error::{ErrorKind, Result};
use crate::keys;
use crate::lookup::read_value;
use crate::record::indexed_value;

impl Run<'_> {
    /// The entries of all indexes of a bucket, and of those that it has no more.
    pub(super) fn entries(&mut self, name: &str) -> Result<()> {
        let Some(seen) = self.see(name)? else { return Ok(()) };
        let mut removal = self.removal(seen.record.space);
        let mut cursor = seen.view.cursor(seen.record.space, KeyRange::prefix(keys::indexes()), Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            self.read(entry.key.len());
            if !stands(&seen, &entry)? {
                let what = LeftOver::Entry;
                let found = Found { bucket: Some(seen.name), what, key: &entry.key, bytes: entry.stat.size };
                self.found(&mut removal, &found, entry.stat.version)?;
            }
        }
        self.finish(removal)
    }
}

impl Run<'_> {
    /// Indexes of a bucket that are not whole: who built them was interrupted, or builds them now. They are built to
    /// their end, as by the same call again.
    pub(super) fn indexes(&mut self, name: &str) -> Result<()> {
        let Some(seen) = self.see(name)? else { return Ok(()) };
        for index in seen.record.indexes.iter().filter(|index| !index.whole) {
            let over = index.of.to_string();
            let found = Found { bucket: Some(name), what: LeftOver::Index, key: over.as_bytes(), bytes: 0 };
            self.tell_of(&found);
            if self.options.remove {
                match self.local.add_index(name, index.of.clone()) {
                    Ok(_) => self.collected.removed += 1,
                    // Who builds it was faster, or it is gone, or its bucket is.
                    Err(error) => match error.kind() {
                        ErrorKind::AlreadyExists | ErrorKind::NoSuchIndex | ErrorKind::NoSuchBucket => {}
                        _ => return Err(error),
                    },
                }
            }
        }
        Ok(())
    }
}

/// Whether the object of an entry has what the entry says.
fn stands(seen: &Seen<'_>, entry: &Entry) -> Result<bool> {
    // A key of another form is none that this program makes.
    let Ok((part, name)) = keys::index_entry_of(&entry.key) else { return Ok(true) };
    let number = keys::index_number_of(&entry.key);
    let Some(index) = seen.record.indexes.iter().find(|index| Some(index.number) == number) else {
        return Ok(false);
    };
    let Some((_, record)) = read_value(seen.view.as_ref(), seen.record.space, &keys::name(&name))? else {
        return Ok(false);
    };
    Ok(indexed_value(&index.of, &record)?.is_some_and(|value| keys::indexed_part(&value) == part))
}
