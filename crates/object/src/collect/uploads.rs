//! Parts, against the uploads that they are of.
//!
//! Invariant: an upload that is not there in one version never comes back: its id has the time of its creation and 64
//! random bits.

use koine_kv::{Direction, Entry, KeyRange};

use super::bucket::Seen;
use super::ids::Ids;
use super::{Found, LeftOver, Run};
use crate::error::Result;
use crate::ids::UploadId;
use crate::keys::{self, OfPart};
use crate::lookup::value_of;
use crate::record::PartRecord;

impl Run<'_> {
    /// The parts of all uploads of a bucket.
    pub(super) fn uploads(&mut self, name: &str) -> Result<()> {
        let mut first = Some(0);
        while let Some(from) = first {
            let Some(seen) = self.see(name)? else { return Ok(()) };
            let mut removal = self.removal(seen.record.space);
            first = self.parts(&seen, from, &mut |run, upload_is_there, entry| {
                if upload_is_there && run.belongs(&seen, entry)? {
                    return Ok(());
                }
                let what = LeftOver::Part;
                let found = Found { bucket: Some(seen.name), what, key: &entry.key, bytes: entry.stat.size };
                run.found(&mut removal, &found, entry.stat.version)
            })?;
            self.finish(removal)?;
        }
        Ok(())
    }

    /// The bytes of the parts of uploads that are there, as their records tell them.
    pub(super) fn bytes_of_parts(&mut self, seen: &Seen<'_>) -> Result<i64> {
        let (mut first, mut sum) = (Some(0), 0i64);
        while let Some(from) = first {
            first = self.parts(seen, from, &mut |_, upload_is_there, entry| {
                if upload_is_there && matches!(keys::part_of(&entry.key), Some((_, OfPart::Record, _))) {
                    let (view, space) = (seen.view.as_ref(), seen.record.space);
                    let value = value_of(view, space, &entry.key, entry.value.clone())?;
                    let size = i64::try_from(PartRecord::decode(&value)?.size).unwrap_or(i64::MAX);
                    sum = sum.saturating_add(size);
                }
                Ok(())
            })?;
        }
        Ok(sum)
    }

    /// Calls `each` for what belongs to parts of as many uploads as are compared at once, with whether the upload is
    /// there; tells where the next slice begins.
    fn parts(
        &mut self,
        seen: &Seen<'_>,
        first: u128,
        each: &mut dyn FnMut(&mut Self, bool, &Entry) -> Result<()>,
    ) -> Result<Option<u128>> {
        let mut ids = Ids::new(first, self.options.ids_at_once);
        let uploads = KeyRange::prefix(keys::uploads_prefix(""));
        let mut cursor = seen.view.cursor(seen.record.space, uploads, Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            self.read(entry.key.len());
            ids.add(u128::from_be_bytes(keys::upload_of(&entry.key)?.1.0));
        }
        let next = ids.finish();
        let mut range = KeyRange::prefix(keys::all_parts());
        range.start = keys::parts_prefix(UploadId(first.to_be_bytes()));
        if let Some(next) = next {
            range.end = Some(keys::parts_prefix(UploadId(next.to_be_bytes())));
        }
        let mut cursor = seen.view.cursor(seen.record.space, range, Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            self.read(entry.key.len());
            // A key of another form is none that this program makes.
            if let Some((upload, _, _)) = keys::part_of(&entry.key) {
                each(self, ids.has(u128::from_be_bytes(upload.0)), &entry)?;
            }
        }
        Ok(next)
    }

    /// Whether a key of an upload that is there belongs to it: bytes do where their record is.
    fn belongs(&self, seen: &Seen<'_>, entry: &Entry) -> Result<bool> {
        match keys::part_of(&entry.key) {
            Some((upload, OfPart::Data, number)) => {
                let record = keys::part(upload, OfPart::Record, number);
                Ok(seen.view.stat(seen.record.space, &record)?.is_some())
            }
            _ => Ok(true),
        }
    }
}
