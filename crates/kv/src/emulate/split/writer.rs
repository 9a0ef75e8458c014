//! How a value is written down: what changed of it, and nothing else.
//!
//! Invariants:
//! - A blob is changed in place only where all its extents are those of the one value that is written, at one shift: no
//!   other value, and no other part of this one, shows the change.
//! - Counts are kept while the batch is planned; a blob without extents is removed when all is written. One extent needs
//!   no record, unless the blob may have pieces that no extent shows.
//! - What of a blob no extent shows any more is removed where the blob has only one value; else with the blob.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::{Bytes, BytesMut};
use koine_engine::{ErrorKind, KeyRange, Operation, Payload, Place, Result};

use super::SplitEmulation;
use super::record::{
    BlobId, Extent, HEAD, HEAD_EXTENTS_MAX, Head, Source, count_at, damaged, decode_extents, encode_extents, head_key,
    list_at, number, piece_at, pieces_between, pieces_of, staged_at,
};
use super::view::{SplitBacking, SplitView};
use crate::emulate::SOLE;
use crate::emulate::pending::PendingState;
use crate::emulate::plan::{ValueWriter, prefixed};
use crate::seam::Direction;
use crate::sparse::Sparse;

/// What the store below has of a value.
#[derive(Clone, Default)]
struct Stored {
    extents: Vec<Extent>,
    /// Where they are a list of their own: its name, and how it is encoded.
    list: Option<(BlobId, Bytes)>,
}

/// What the store below has at a key, after the operations so far.
enum Below {
    Nothing,
    /// What this key had before the batch.
    At(Bytes),
    Known(Stored),
}

/// How many extents a blob has.
#[derive(Default)]
struct Count {
    now: u64,
    /// What its record says, if there is one.
    record: Option<u64>,
    /// The length of a stage whose mark it has.
    staged: Option<u64>,
    /// Pieces of extents that were taken away: from which number to which.
    released: Vec<(u64, u64)>,
    /// All of what was staged is in one extent.
    is_whole: bool,
}

/// Up to so many pieces are deleted one by one: a store that keeps deletions of ranges reads through all of them.
const SINGLE_DELETES_MAX: u64 = 32;

/// Writes values in pieces.
pub(super) struct Pieces<'a> {
    emulation: &'a SplitEmulation,
    view: SplitView,
    below: BTreeMap<Bytes, Below>,
    cleared: Vec<KeyRange>,
    counts: BTreeMap<BlobId, Count>,
    /// Blobs that some operation of the batch shows in a second place.
    shared: HashSet<BlobId>,
    /// Lists that go, and how many parts they have.
    lists_gone: Vec<(BlobId, u32)>,
}

impl<'a> Pieces<'a> {
    /// For a batch that names these staged blobs.
    pub(super) fn new(
        emulation: &'a SplitEmulation,
        view: SplitView,
        staged: impl Iterator<Item = (BlobId, u64)>,
    ) -> Self {
        let count = |(blob, length)| (blob, Count { staged: Some(length), ..Count::default() });
        let counts = staged.map(count).collect();
        let (below, cleared, shared, lists_gone) = Default::default();
        Pieces { emulation, view, below, cleared, counts, shared, lists_gone }
    }

    fn load(&self, key: &[u8]) -> Result<Option<Stored>> {
        let Some(head) = self.view.head(key)? else {
            return Ok(None);
        };
        self.stored(head).map(Some)
    }

    fn stored(&self, head: Head) -> Result<Stored> {
        Ok(match head {
            Head::Inline(_) => Stored::default(),
            Head::Extents { extents, .. } => Stored { extents, list: None },
            Head::Listed { list, length, .. } => {
                let encoded = self.view.list(&list, length)?;
                Stored { extents: decode_extents(&encoded)?, list: Some((list, encoded)) }
            }
        })
    }

    /// Takes away what is known to be below at a key.
    fn take(&mut self, key: &Bytes) -> Result<Option<Stored>> {
        match self.below.insert(key.clone(), Below::Nothing) {
            Some(Below::Nothing) => Ok(None),
            Some(Below::Known(stored)) => Ok(Some(stored)),
            Some(Below::At(origin)) => self.load(&origin),
            None if self.is_cleared(key) => Ok(None),
            None => self.load(key),
        }
    }

    fn is_cleared(&self, key: &[u8]) -> bool {
        self.cleared.iter().any(|range| range.contains(key))
    }

    fn count(&mut self, blob: &BlobId) -> Result<&mut Count> {
        if !self.counts.contains_key(blob) {
            let mut record = [0; 8];
            let at = count_at(blob);
            let record = match self.view.below.read(SOLE, &at.key, 0, &mut record) {
                Ok(8) => Some(number(&record, 0)?),
                Ok(_) => return Err(damaged()),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            self.counts.insert(*blob, Count { now: record.unwrap_or(1), record, ..Count::default() });
        }
        self.counts.get_mut(blob).ok_or_else(damaged)
    }

    fn release(&mut self, stored: &Stored) -> Result<()> {
        let piece_len = self.view.piece_len;
        for extent in &stored.extents {
            let count = self.count(&extent.blob)?;
            count.released.push(extent.pieces(piece_len));
            count.now = count.now.checked_sub(1).ok_or_else(damaged)?;
        }
        Ok(())
    }

    fn keep(&mut self, extents: &[Extent]) -> Result<()> {
        for extent in extents {
            let count = self.count(&extent.blob)?;
            count.now += 1;
            count.is_whole |= count.staged == Some(extent.length);
        }
        Ok(())
    }

    fn let_go(&mut self, stored: Option<Stored>) -> Result<()> {
        if let Some(stored) = stored {
            self.release(&stored)?;
            self.list_gone(stored.list);
        }
        Ok(())
    }

    fn list_gone(&mut self, list: Option<(BlobId, Bytes)>) {
        let part_len = self.emulation.piece_len();
        self.lists_gone.extend(list.map(|(list, encoded)| (list, encoded.len().div_ceil(part_len) as u32)));
    }

    /// The blobs that are this value's alone, each with how far its offsets are from the value's where that is the same
    /// for all its extents.
    fn own_blobs(&mut self, extents: &[Extent]) -> Result<Vec<(BlobId, Option<i128>)>> {
        let mut users: BTreeMap<BlobId, (u64, i128, bool)> = BTreeMap::new();
        for extent in extents {
            let user = users.entry(extent.blob).or_insert((0, extent.shift(), true));
            user.0 += 1;
            user.2 &= user.1 == extent.shift();
        }
        let mut own = Vec::new();
        for (blob, (used, shift, is_even)) in users {
            if !self.shared.contains(&blob) && self.count(&blob)?.now == used {
                own.push((blob, is_even.then_some(shift)));
            }
        }
        Ok(own)
    }

    /// Removes the pieces of this value's own blobs that it no longer shows.
    fn cut(
        &mut self,
        own: &[(BlobId, Option<i128>)],
        before: &[Extent],
        now: &[Extent],
        out: &mut Vec<Operation>,
    ) -> Result<()> {
        let piece_len = self.view.piece_len;
        for (blob, _) in own {
            let pieces = |extents: &[Extent]| {
                let own = extents.iter().filter(|extent| extent.blob == *blob);
                own.map(|extent| extent.pieces(piece_len)).collect::<Vec<_>>()
            };
            // Of one that goes altogether, all pieces go when the batch is written.
            if self.count(blob)?.now > 0 {
                delete_pieces(blob, &uncovered(&pieces(before), &pieces(now)), out);
            }
        }
        Ok(())
    }

    /// Writes the bytes of a value that are in memory; gives its extents.
    fn write(
        &mut self,
        value: &Sparse<Source>,
        own: Option<(BlobId, i128)>,
        out: &mut Vec<Operation>,
    ) -> Result<Vec<Extent>> {
        let mut sources = Vec::new();
        value.each_within(0, value.length(), |at, source| sources.push((at, source)));
        let mut made = None;
        // Pieces of the new blob that are there already.
        let mut begun = BTreeSet::new();
        let mut extents: Vec<Extent> = Vec::new();
        for (at, source) in sources {
            let extent = match source {
                Source::Blob { blob, from, length } => Extent { at, length, blob, from },
                Source::Inline(bytes) => {
                    let target = own
                        .and_then(|(blob, shift)| u64::try_from(i128::from(at) - shift).ok().map(|from| (blob, from)));
                    let (blob, from) = match target {
                        Some(target) => target,
                        None => (*made.get_or_insert_with(|| self.emulation.new_id()), at),
                    };
                    let begun = if target.is_some() { None } else { Some(&mut begun) };
                    put_pieces(self.view.piece_len, &blob, from, &bytes, begun, out);
                    Extent { at, length: bytes.len() as u64, blob, from }
                }
            };
            match extents.last_mut() {
                Some(last)
                    if last.blob == extent.blob && last.at + last.length == at && last.shift() == extent.shift() =>
                {
                    last.length += extent.length;
                }
                _ => extents.push(extent),
            }
        }
        if let Some(blob) = made {
            self.counts.insert(blob, Count::default());
        }
        Ok(extents)
    }

    /// The list of a value that has too many extents for its head; parts that stay as they are, are left.
    fn write_list(
        &mut self,
        extents: &[Extent],
        before: Option<(BlobId, Bytes)>,
        out: &mut Vec<Operation>,
    ) -> Option<(BlobId, Bytes)> {
        if extents.len() <= HEAD_EXTENTS_MAX {
            self.list_gone(before);
            return None;
        }
        let encoded = encode_extents(extents);
        let (list, old) = before.unwrap_or_else(|| (self.emulation.new_id(), Bytes::new()));
        let part_len = self.emulation.piece_len();
        let parts = (0u32..).zip(encoded.chunks(part_len));
        let mut old_parts = old.chunks(part_len);
        for (number, part) in parts {
            if old_parts.next() != Some(part) {
                let value = Payload::Bytes(encoded.slice_ref(part));
                out.push(Operation::Put { at: list_at(&list, number), value });
            }
        }
        let used = encoded.len().div_ceil(part_len) as u32;
        out.extend((used..).zip(old_parts).map(|(number, _)| Operation::Delete { at: list_at(&list, number) }));
        Some((list, encoded))
    }
}

/// Puts bytes where they belong in the pieces of a blob. Of a new one it is known which pieces are there.
fn put_pieces(
    piece_len: u64,
    blob: &BlobId,
    from: u64,
    bytes: &Bytes,
    mut begun: Option<&mut BTreeSet<u64>>,
    out: &mut Vec<Operation>,
) {
    let (mut from, mut rest) = (from, bytes.clone());
    while !rest.is_empty() {
        let offset = from % piece_len;
        let part = rest.split_to(rest.len().min((piece_len - offset) as usize));
        let number = from / piece_len;
        let is_new = begun.as_mut().is_some_and(|begun| begun.insert(number));
        from += part.len() as u64;
        let (at, is_whole) = (piece_at(blob, number), part.len() as u64 == piece_len);
        let data = Payload::Bytes(part);
        out.push(if is_whole || (is_new && offset == 0) {
            Operation::Put { at, value: data }
        } else {
            Operation::WriteAt { at, offset, data }
        });
    }
}

/// Deletes runs of pieces, some of which may be absent.
fn delete_pieces(blob: &BlobId, runs: &[(u64, u64)], out: &mut Vec<Operation>) {
    let count = runs.iter().map(|(first, last)| last - first + 1).fold(0, u64::saturating_add);
    if count <= SINGLE_DELETES_MAX {
        let numbers: BTreeSet<u64> = runs.iter().flat_map(|(first, last)| *first..=*last).collect();
        out.extend(numbers.into_iter().map(|number| Operation::Delete { at: piece_at(blob, number) }));
        return;
    }
    let ranges = runs.iter().map(|(first, last)| pieces_between(blob, *first, *last));
    out.extend(ranges.map(|range| Operation::DeleteRange { space: SOLE, range }));
}

/// The runs of pieces that `before` has and `now` has not.
fn uncovered(before: &[(u64, u64)], now: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut now = now.to_vec();
    now.sort_unstable();
    let mut gone = Vec::new();
    for (first, last) in before {
        let mut next = *first;
        for (from, to) in now.iter().filter(|(from, to)| to >= first && from <= last) {
            if *from > next {
                gone.push((next, from - 1));
            }
            next = next.max(to + 1);
        }
        if next <= *last {
            gone.push((next, *last));
        }
    }
    gone
}

impl ValueWriter for Pieces<'_> {
    type BackingStore = SplitBacking;

    fn key(&self, key: &[u8]) -> Bytes {
        head_key(key)
    }

    fn shares(&mut self, pending: &mut PendingState<SplitBacking>, source: &Place) -> Result<()> {
        // Where it is absent or elsewhere the pending state says so itself.
        let Ok(Some(value)) = pending.value(source) else {
            return Ok(());
        };
        value.each_within(0, value.length(), |_, source| {
            if let Source::Blob { blob, .. } = source {
                self.shared.insert(blob);
            }
        });
        Ok(())
    }

    fn put(&mut self, pending: &mut PendingState<SplitBacking>, key: &Bytes, out: &mut Vec<Operation>) -> Result<()> {
        let Some(value) = pending.value(&Place { space: SOLE, key: key.clone() })? else {
            return Ok(());
        };
        let at = Place::new(SOLE, head_key(key));
        let before = self.take(key)?.unwrap_or_default();
        let size = value.length();
        if size <= self.emulation.inline_len() as u64 {
            let mut bytes = BytesMut::zeroed(size as usize);
            self.view.read_value(&value, &mut bytes)?;
            self.let_go(Some(before))?;
            out.push(Operation::Put { at, value: Payload::Bytes(Head::Inline(bytes.freeze()).encode()) });
            self.below.insert(key.clone(), Below::Known(Stored::default()));
            return Ok(());
        }
        let own = self.own_blobs(&before.extents)?;
        let target = own.iter().find_map(|(blob, shift)| Some((*blob, (*shift)?)));
        let extents = self.write(&value, target, out)?;
        self.keep(&extents)?;
        self.release(&before)?;
        self.cut(&own, &before.extents, &extents, out)?;
        let list = self.write_list(&extents, before.list, out);
        let head = match &list {
            Some((list, encoded)) => Head::Listed { size, list: *list, length: encoded.len() as u32 },
            None => Head::Extents { size, extents: extents.clone() },
        };
        out.push(Operation::Put { at, value: Payload::Bytes(head.encode()) });
        self.below.insert(key.clone(), Below::Known(Stored { extents, list }));
        Ok(())
    }

    fn gone(&mut self, key: &Bytes) -> Result<()> {
        let stored = self.take(key)?;
        self.let_go(stored)
    }

    fn cleared(&mut self, range: &KeyRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let known: Vec<Bytes> = self.below.range::<[u8], _>(range.bounds()).map(|(key, _)| key.clone()).collect();
        let mut cursor = self.view.below.cursor(SOLE, prefixed(HEAD, range), Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            let key = entry.key.slice(HEAD.len()..);
            if self.below.contains_key(&key) || self.is_cleared(&key) {
                continue;
            }
            let stored = match entry.value {
                Some(record) => Some(self.stored(Head::decode(&record)?)?),
                None => self.load(&key)?,
            };
            self.let_go(stored)?;
        }
        known.iter().try_for_each(|key| self.gone(key))?;
        for key in known {
            self.below.remove(&key);
        }
        self.cleared.push(range.clone());
        Ok(())
    }

    fn moved(&mut self, keys: &[(Bytes, Bytes)]) -> Result<()> {
        let mut moved = Vec::with_capacity(keys.len());
        for (from, _) in keys {
            let what = match self.below.insert(from.clone(), Below::Nothing) {
                Some(what) => what,
                None if self.is_cleared(from) => Below::Nothing,
                None => Below::At(from.clone()),
            };
            moved.push(what);
        }
        for ((_, to), what) in keys.iter().zip(moved) {
            self.below.insert(to.clone(), what);
        }
        Ok(())
    }

    fn placeholder(&self) -> Bytes {
        Head::Inline(Bytes::new()).encode()
    }

    fn finish(&mut self, out: &mut Vec<Operation>) -> Result<()> {
        for (list, parts) in std::mem::take(&mut self.lists_gone) {
            out.extend((0..parts).map(|number| Operation::Delete { at: list_at(&list, number) }));
        }
        for (blob, count) in std::mem::take(&mut self.counts) {
            if count.staged.is_some() {
                out.push(Operation::Delete { at: staged_at(&blob) });
            }
            // A blob that was ever shown in two places, or of which only a part was taken, may have pieces that no
            // extent shows. It has a record from then on.
            let is_neat = count.record.is_none()
                && !self.shared.contains(&blob)
                && (count.staged.is_none() || (count.now == 1 && count.is_whole));
            match count.now {
                0 if is_neat => delete_pieces(&blob, &count.released, out),
                0 => out.push(Operation::DeleteRange { space: SOLE, range: pieces_of(&blob) }),
                _ => {}
            }
            if count.now == 0 && count.record.is_some() {
                out.push(Operation::Delete { at: count_at(&blob) });
            } else if count.now > 0 && count.record != Some(count.now) && !(is_neat && count.now == 1) {
                let value = Payload::Bytes(Bytes::copy_from_slice(&count.now.to_le_bytes()));
                out.push(Operation::Put { at: count_at(&blob), value });
            }
        }
        Ok(())
    }
}
