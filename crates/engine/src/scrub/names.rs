//! Whose values are damaged: keys of blobs of pieces, and of what names frozen blobs.
//!
//! Invariant: nothing here is paced, and nodes come through the cache: it happens only where something is damaged.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{Concern, Finding, Pass};
use crate::batch::SpaceId;
use crate::content::{piece_key, record_key, split_piece_key, user_key};
use crate::error::Result;
use crate::state::FROZEN;
use crate::stream::each_space;
use crate::tree::value::{BlobId, Content, Frozen, Piece, Value};
use crate::tree::{Gap, ScanVisitor, Tree};

/// A range of frozen blobs that is damaged: from a byte of one to a byte of the same or another.
pub(super) struct FrozenDamage {
    pub from: (BlobId, u64),
    pub end: (BlobId, u64),
    pub message: String,
}

impl FrozenDamage {
    /// Which bytes of a part of a blob it takes: offset in the part, and length.
    fn within(&self, part: &Frozen) -> Option<(u64, u64)> {
        let from = self.from.max((part.blob, part.first));
        let end = self.end.min((part.blob, part.end()));
        // Of another blob, the one before it or behind it.
        (from < end).then(|| (from.1 - part.first, end.1 - from.1))
    }
}

impl Pass<'_> {
    /// Looks for the keys of damaged values that lie in pieces.
    pub(super) fn name(&mut self, space: SpaceId, tree: &Tree, unnamed: Vec<(BlobId, u64, Option<u64>, String)>) {
        if unnamed.is_empty() {
            return;
        }
        let wanted: BTreeSet<BlobId> = unnamed.iter().map(|damage| damage.0).collect();
        let mut names = Names { wanted, found: BTreeMap::new() };
        let (start, end) = (record_key(&[]), piece_key(BlobId(0), 0));
        // Not paced, and through the node cache: it happens only where something is damaged.
        let looked = tree.scan(&self.core.nodes, &start, Some(&end), &mut names);
        debug_assert!(looked.is_ok(), "the tour has no errors of its own");
        for (blob, offset, length, message) in unnamed {
            let key = names.found.get(&blob).cloned();
            self.step.findings.push(Finding { concern: Concern::Value { space, key, offset, length }, message });
        }
    }

    /// Tells the values that damaged parts of frozen blobs belong to.
    pub(super) fn name_owners(&mut self, damage: Vec<FrozenDamage>) -> Result<()> {
        if damage.is_empty() {
            return Ok(());
        }
        let mut spaces = Vec::new();
        each_space(self.state, &self.core.nodes, SpaceId::FIRST, &mut |space, root| spaces.push((space, root.tree)))?;
        let mut orphans: BTreeSet<usize> = (0..damage.len()).collect();
        for (space, tree) in spaces {
            let mut owners = Owners { damage: &damage, named: Vec::new(), unnamed: Vec::new(), met: BTreeSet::new() };
            tree.scan(&self.core.nodes, &[], None, &mut owners)?;
            let Owners { named, unnamed, met, .. } = owners;
            orphans.retain(|number| !met.contains(number));
            for (key, offset, length, message) in named {
                let concern = Concern::Value { space, key: Some(key), offset, length: Some(length) };
                self.step.findings.push(Finding { concern, message });
            }
            self.name(space, &tree, unnamed);
        }
        for message in orphans.into_iter().filter_map(|number| Some(damage.get(number)?.message.clone())) {
            self.step.findings.push(Finding { concern: Concern::Engine(FROZEN), message });
        }
        Ok(())
    }
}

/// Looks for what names damaged parts of frozen blobs.
struct Owners<'a> {
    damage: &'a [FrozenDamage],
    named: Vec<(Bytes, u64, u64, String)>,
    unnamed: Vec<(BlobId, u64, Option<u64>, String)>,
    met: BTreeSet<usize>,
}

impl ScanVisitor for Owners<'_> {
    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool> {
        let Some(Piece::Frozen(part)) = value.piece() else { return Ok(true) };
        for (number, damage) in self.damage.iter().enumerate() {
            let Some((offset, length)) = damage.within(part) else { continue };
            self.met.insert(number);
            let message = damage.message.clone();
            match value {
                Value::Record(_) => self.named.push((user_key(key), offset, length, message)),
                _ => {
                    let (blob, start) = split_piece_key(key)?;
                    self.unnamed.push((blob, start + offset, Some(length), message));
                }
            }
        }
        Ok(true)
    }

    fn gap(&mut self, _: Gap) -> Result<bool> {
        // Told by the scan that found the damage.
        Ok(true)
    }
}

/// Looks for the keys whose values are these blobs.
struct Names {
    wanted: BTreeSet<BlobId>,
    found: BTreeMap<BlobId, Bytes>,
}

impl ScanVisitor for Names {
    fn entry(&mut self, key: &Bytes, value: &Value) -> Result<bool> {
        if let Value::Record(record) = value
            && let Content::Pieces(blob) = record.content
            && self.wanted.contains(&blob)
        {
            self.found.insert(blob, user_key(key));
        }
        Ok(self.found.len() < self.wanted.len())
    }

    fn gap(&mut self, _: Gap) -> Result<bool> {
        // Told by the scan that found the damage; keys that it hides stay unnamed.
        Ok(true)
    }
}
