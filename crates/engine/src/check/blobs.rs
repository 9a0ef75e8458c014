//! Frozen blobs against what names them.
//!
//! Invariant: a blob that is there has names, or was let go of and has none; what names it lies within it; its extents leave no hole,
//! but in front where it is being taken down.

use std::collections::{BTreeMap, BTreeSet};

use crate::apply::reference::Shared;
use crate::tree::value::{BlobId, Frozen, Piece, blob_of, block_of};

/// What is known of one blob.
#[derive(Default)]
struct Blob {
    /// How many pieces and entries of dead lists name it.
    names: u32,
    /// The furthest byte that is named, and what names it.
    reach: u64,
    by: String,
    /// Where its extents begin and end, where there are any.
    held: Option<(u64, u64)>,
    wrong: Vec<String>,
}

/// What is known of all.
#[derive(Default)]
pub(super) struct Blobs {
    blobs: BTreeMap<BlobId, Blob>,
    buried: BTreeSet<BlobId>,
    /// As the table of references says.
    counts: BTreeMap<BlobId, u32>,
}

impl Blobs {
    /// A piece of a value names a part of a blob.
    pub fn name(&mut self, part: &Frozen, place: &str) {
        let blob = self.blobs.entry(part.blob).or_default();
        blob.names = blob.names.saturating_add(1);
        if part.end() > blob.reach {
            blob.reach = part.end();
            place.clone_into(&mut blob.by);
        }
    }

    /// A dead list names a blob.
    pub fn name_dead(&mut self, blob: BlobId) {
        let blob = self.blobs.entry(blob).or_default();
        blob.names = blob.names.saturating_add(1);
    }

    /// A blob has an extent, told in order.
    pub fn extent(&mut self, blob: BlobId, offset: u64, piece: &Piece) {
        let known = self.blobs.entry(blob).or_default();
        if !matches!(piece, Piece::Disk(_)) {
            known.wrong.push(format!("byte {offset} of frozen blob {} lies in no extent", blob.0));
        }
        let (start, end) = known.held.unwrap_or((offset, offset));
        if end != offset {
            known.wrong.push(format!("frozen blob {} has a hole from byte {end} to {offset}", blob.0));
        }
        known.held = Some((start, offset.saturating_add(piece.len())));
    }

    /// A blob waits to be taken down.
    pub fn bury(&mut self, blob: BlobId) {
        self.buried.insert(blob);
    }

    /// The table of references counts blobs.
    pub fn count(&mut self, shared: Shared) {
        // A table that is damaged may count more of them than there can be.
        let blobs = (shared.start..shared.end).take(1 << 20).filter_map(blob_of);
        self.counts.extend(blobs.map(|blob| (blob, shared.count)));
    }

    /// What is wrong beside the counts.
    pub fn compare(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (id, blob) in &self.blobs {
            found.extend(blob.wrong.iter().cloned());
            let (is_buried, id) = (self.buried.contains(id), id.0);
            match blob.held {
                None if blob.names > 0 => found.push(format!("{}: frozen blob {id} is not there", blob.place())),
                Some((_, end)) if end < blob.reach => {
                    found.push(format!(
                        "{}: byte {} is named of frozen blob {id}, which ends at {end}",
                        blob.by, blob.reach
                    ));
                }
                Some((1.., _)) if !is_buried => found.push(format!("frozen blob {id} lacks its beginning")),
                Some(_) if blob.names == 0 && !is_buried => {
                    found.push(format!("frozen blob {id} is named by nothing, and is not taken down"));
                }
                _ => {}
            }
            if is_buried && blob.names > 0 {
                found.push(format!("{}: frozen blob {id} is being taken down", blob.place()));
            }
        }
        found
    }

    /// What is wrong with the table of references.
    pub fn wrong_counts(&self) -> Vec<String> {
        let mut ids: BTreeSet<BlobId> = self.counts.keys().copied().collect();
        ids.extend(self.blobs.keys());
        let named = |id: &BlobId| self.blobs.get(id).map_or(0, |blob| blob.names);
        let counted = |id: &BlobId| self.counts.get(id).copied();
        ids.iter()
            .filter(|id| named(id).max(1) != counted(id).unwrap_or(1))
            .map(|id| {
                let (id, named, counted) = (id.0, named(id), counted(id).unwrap_or(1));
                format!("frozen blob {id} is named {named} times, its count of references is {counted}")
            })
            .collect()
    }

    /// The counts that there should be, in order.
    pub fn names(&self) -> impl Iterator<Item = Shared> {
        let shared = |(id, blob): (&BlobId, &Blob)| {
            let block = block_of(*id);
            (blob.names > 1).then(|| Shared { start: block.start, end: block.end(), count: blob.names })
        };
        self.blobs.iter().filter_map(shared)
    }

    /// The counts that there are, in order.
    pub fn counted(&self) -> impl Iterator<Item = Shared> {
        self.counts.iter().map(|(id, count)| {
            let block = block_of(*id);
            Shared { start: block.start, end: block.end(), count: *count }
        })
    }
}

impl Blob {
    fn place(&self) -> &str {
        if self.by.is_empty() { "a dead list" } else { &self.by }
    }
}
