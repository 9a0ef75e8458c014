//! The names that people know spaces and values by: buckets, their snapshots, and objects.
//!
//! Invariant: where the catalogue or a bucket cannot be read, its names are left out, and what asks for them goes on: they
//! stand beside ids, never in their place.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use koine_engine::{Concern, Finding, ScrubOptions, ScrubPosition, SpaceId};
use koine_kv::{EngineKv, Kv, Place};
use koine_object::{BucketQuery, ListQuery, Objects};

use crate::error::{Error, Result};
use crate::inspect::Inspection;

/// The space that names the buckets (docs/format-object.md); a store without it was never served.
pub(crate) const CATALOGUE: SpaceId = SpaceId(16);
/// Names in one page of a listing.
const PAGE: usize = 1000;

/// Which bucket, or which snapshot of one (`BUCKET@SNAPSHOT`), is in which space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceNames(BTreeMap<SpaceId, String>);

impl SpaceNames {
    /// As far as the catalogue can be read.
    pub(crate) fn of(kv: &Arc<EngineKv>) -> SpaceNames {
        let mut names = BTreeMap::new();
        if kv.engine().view().has_space(CATALOGUE).unwrap_or(false) {
            let objects = Objects::inspect(Arc::clone(kv) as Arc<dyn Kv>);
            let mut query = BucketQuery { limit: PAGE, ..BucketQuery::default() };
            while let Ok(page) = objects.list_buckets(&query) {
                for bucket in page.buckets {
                    for snapshot in objects.list_snapshots(&bucket.name).unwrap_or_default() {
                        names.insert(snapshot.space, format!("{}@{}", bucket.name, snapshot.name));
                    }
                    names.insert(bucket.space, bucket.name);
                }
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
        }
        SpaceNames(names)
    }

    /// The bucket, or the snapshot of one, that a space holds.
    pub fn get(&self, space: SpaceId) -> Option<&str> {
        self.0.get(&space).map(String::as_str)
    }

    /// A text that speaks of `space N`, with the names of those that have one behind their ids.
    pub fn beside_ids(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("space ") {
            let (before, from) = rest.split_at(at + "space ".len());
            let digits = from.len() - from.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
            let (id, after) = from.split_at(digits);
            out.push_str(before);
            out.push_str(id);
            if let Some(name) = id.parse().ok().and_then(|id| self.get(SpaceId(id))) {
                out.push_str(&format!(" (bucket {name})"));
            }
            rest = after;
        }
        out + rest
    }
}

/// Whom a finding concerns, in the words of who uses the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whose {
    /// A bucket, or a snapshot of one.
    pub bucket: String,
    /// The object whose bytes it is about, where it is about one.
    pub object: Option<String>,
}

impl Inspection {
    /// Which bucket is in which space.
    pub fn names(&self) -> SpaceNames {
        SpaceNames::of(self.kv())
    }

    /// Reads and verifies the store once more, to tell whose bytes are damaged.
    pub fn damage(&self) -> Result<Vec<Finding>> {
        let mut scrub =
            self.scrub(ScrubOptions { rate_per_second: 0, ..ScrubOptions::default() }, ScrubPosition::default());
        let mut findings = Vec::new();
        loop {
            let step = scrub.step().map_err(Error::from)?;
            findings.extend(step.findings);
            if step.done {
                return Ok(findings);
            }
        }
    }

    /// Whose each finding is, as far as the catalogue and the buckets can be read.
    pub fn whose(&self, findings: &[Finding]) -> Vec<Option<Whose>> {
        let names = self.names();
        let mut wanted: HashMap<Place, Option<String>> = HashMap::new();
        for finding in findings {
            if let Concern::Value { space, key: Some(key), .. } = &finding.concern {
                wanted.insert(Place::new(*space, key.clone()), None);
            }
        }
        let mut spaces: Vec<SpaceId> = wanted.keys().map(|place| place.space).collect();
        spaces.sort();
        spaces.dedup();
        for bucket in spaces.into_iter().filter_map(|space| names.get(space)) {
            self.find_objects(bucket, &mut wanted);
        }
        let whose = |finding: &Finding| {
            let (space, object) = match &finding.concern {
                Concern::Value { space, key, .. } => {
                    let place = key.clone().map(|key| Place::new(*space, key));
                    (*space, place.and_then(|place| wanted.get(&place).cloned().flatten()))
                }
                Concern::Keys(space, ..) | Concern::Values(space) => (*space, None),
                _ => return None,
            };
            Some(Whose { bucket: names.get(space)?.to_owned(), object })
        };
        findings.iter().map(whose).collect()
    }

    /// Looks which objects of a bucket have their bytes at these places. Objects that cannot be opened are passed over.
    fn find_objects(&self, bucket: &str, wanted: &mut HashMap<Place, Option<String>>) {
        let objects = Objects::inspect(Arc::clone(self.kv()) as Arc<dyn Kv>);
        let mut query = ListQuery { limit: PAGE, ..ListQuery::default() };
        while let Ok(page) = objects.list(bucket, &query) {
            for object in page.objects {
                let place = objects.get(bucket, &object.key).ok().and_then(|reader| reader.data_place());
                if let Some(found) = place.and_then(|place| wanted.get_mut(&place)) {
                    *found = Some(object.key);
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_beside_ids() {
        let names = SpaceNames(BTreeMap::from([(SpaceId(7), "photos".to_owned()), (SpaceId(70), "b@s".to_owned())]));
        let told = names.beside_ids("space 7: a node; space 70, key 7; space 71; space x; a space ");
        assert_eq!(told, "space 7 (bucket photos): a node; space 70 (bucket b@s), key 7; space 71; space x; a space ");
    }
}
