//! What lies under ids in a bucket's space, against the names that lead to them.
//!
//! Invariants:
//! - A slice of ids is compared in one view: all names of the bucket, and what lies under the ids of the slice.
//! - A record that this program does not know ends the collection: what it leads to cannot be known.
//! - What an object has under its id, and which records lead to ids, is told here once, by [`ROOMS`] and [`lead`].

use std::sync::Arc;

use koine_kv::{Direction, Entry, KeyRange, View};

use super::counts::Counts;
use super::ids::Ids;
use super::{Found, LeftOver, Run};
use crate::error::Result;
use crate::ids::ObjectId;
use crate::keys::{self, OfId};
use crate::lookup::{read_value, value_of};
use crate::record::{BucketRecord, OlderRecord};

/// The rooms whose keys are ids of objects.
const ROOMS: [(OfId, LeftOver); 3] =
    [(OfId::Data, LeftOver::Data), (OfId::PartTable, LeftOver::Table), (OfId::AccessTime, LeftOver::AccessTime)];

/// The name of the first bucket after this one.
pub(super) fn next_after(view: &dyn View, after: &str) -> Result<Option<String>> {
    let range = KeyRange::prefix(keys::bucket(""));
    let mut cursor = view.cursor(keys::CATALOGUE, range, Direction::Forward)?;
    if !after.is_empty() {
        cursor.seek(&[&keys::bucket(after), &[0][..]].concat())?;
    }
    cursor.next()?.map(|entry| keys::bucket_name(&entry.key)).transpose()
}

/// A bucket as one view has it.
pub(super) struct Seen<'a> {
    pub view: Arc<dyn View>,
    pub name: &'a str,
    pub record: BucketRecord,
}

/// What a record under a name leads to.
pub(super) struct Lead {
    /// `None` for a delete marker, which has nothing.
    pub id: Option<ObjectId>,
    pub size: u64,
    pub has_table: bool,
    /// Whether it is of the newest version.
    pub newest: bool,
}

fn lead(key: &[u8], value: &[u8]) -> Result<Lead> {
    let (_, newest) = keys::name_of(key)?;
    Ok(match OlderRecord::decode(value)? {
        OlderRecord::Object(record) => {
            Lead { id: Some(record.id), size: record.size, has_table: record.part_count.is_some(), newest }
        }
        OlderRecord::Marker(_) => Lead { id: None, size: 0, has_table: false, newest },
    })
}

/// An id and whether it has a table, as one number, so that a set of them tells both.
fn coded(id: ObjectId, has_table: bool) -> u128 {
    u128::from(id.0) << 1 | u128::from(has_table)
}

impl Run<'_> {
    /// The bucket in a view of its own; `None` when it is gone.
    pub(super) fn see<'a>(&self, name: &'a str) -> Result<Option<Seen<'a>>> {
        let view = self.view()?;
        let found = read_value(view.as_ref(), keys::CATALOGUE, &keys::bucket(name))?;
        let record = found.map(|(_, bytes)| BucketRecord::decode(&bytes)).transpose()?;
        Ok(record.map(|record| Seen { view, name, record }))
    }

    /// All of a bucket.
    pub(super) fn bucket(&mut self, name: &str) -> Result<()> {
        let mut first = Some(ObjectId(0));
        while let Some(from) = first {
            // The bucket may have got another space since the slice before: each is right by itself.
            let Some(seen) = self.see(name)? else { return Ok(()) };
            first = self.slice(&seen, from)?;
        }
        self.entries(name)?;
        self.indexes(name)?;
        self.uploads(name)
    }

    /// The counts of a bucket alone.
    pub(super) fn count_bucket(&mut self, name: &str) -> Result<()> {
        let Some(seen) = self.see(name)? else { return Ok(()) };
        let counts = self.count_names(&seen, &mut |_| ())?;
        self.recount(&seen, counts)
    }

    /// Walks over all names of a bucket.
    fn count_names(&mut self, seen: &Seen<'_>, met: &mut dyn FnMut(&Lead)) -> Result<Counts> {
        let mut counts = Counts::default();
        let names = KeyRange::prefix(keys::names_prefix(""));
        let mut cursor = seen.view.cursor(seen.record.space, names, Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            let lead = self.lead_of(seen, entry)?;
            met(&lead);
            counts.add(&lead);
        }
        Ok(counts)
    }

    /// What lies under as many ids as are compared at once; tells the first of the next slice.
    fn slice(&mut self, seen: &Seen<'_>, first: ObjectId) -> Result<Option<ObjectId>> {
        let mut ids = Ids::new(coded(first, false), self.options.ids_at_once);
        let counts = self.count_names(seen, &mut |lead| {
            if let Some(id) = lead.id {
                ids.add(coded(id, lead.has_table));
            }
        })?;
        let next = ids.finish().and_then(|end| u64::try_from(end >> 1).ok()).map(ObjectId);
        if first == ObjectId(0) {
            self.collected.names += counts.names();
            self.recount(seen, counts)?;
        }
        for (room, what) in ROOMS {
            self.room(seen, (room, what), (first, next), &ids)?;
        }
        Ok(next)
    }

    fn lead_of(&mut self, seen: &Seen<'_>, entry: Entry) -> Result<Lead> {
        let value = value_of(seen.view.as_ref(), seen.record.space, &entry.key, entry.value)?;
        self.read(entry.key.len() + value.len());
        lead(&entry.key, &value)
    }

    /// One room of what lies under ids.
    fn room(
        &mut self,
        seen: &Seen<'_>,
        (room, what): (OfId, LeftOver),
        (first, next): (ObjectId, Option<ObjectId>),
        ids: &Ids,
    ) -> Result<()> {
        let mut range = KeyRange::prefix(keys::all_of_ids(room));
        range.start = keys::of_id(room, first);
        if let Some(next) = next {
            range.end = Some(keys::of_id(room, next));
        }
        let mut removal = self.removal(seen.record.space);
        let mut cursor = seen.view.cursor(seen.record.space, range, Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            self.read(entry.key.len());
            // A key of another length is none that this program makes.
            let Some(id) = keys::id_of(&entry.key) else { continue };
            let with_table = ids.has(coded(id, true));
            let led_to = with_table || room != OfId::PartTable && ids.has(coded(id, false));
            if !led_to {
                let found = Found { bucket: Some(seen.name), what, key: &entry.key, bytes: entry.stat.size };
                self.found(&mut removal, &found, entry.stat.version)?;
            }
        }
        self.finish(removal)
    }
}
