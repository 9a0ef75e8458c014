//! The sorted entries of one node, in shared pieces.
//!
//! A node of 16 KiB holds hundreds of entries; copying it whole for each change would cost hundreds
//! of counts on cold cache lines. A [`ChunkedArray`] keeps them in chunks of at most 16 behind `Arc`s, so
//! that a copy shares all chunks and a change copies one. Beside each entry, and beside each chunk for its
//! first one, stand eight bytes of the key, so that a search looks at one key at its end and not at one a step.
//!
//! Invariants: keys ascend strictly over the whole array; no chunk is empty; prefixes are those that the
//! [`Common`] beside them gives.

mod chunk;
mod prefix;

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

pub(super) use chunk::Entry;
use chunk::{Chunk, leave_out, writable};
use prefix::Common;

/// The most entries of a chunk.
const CHUNK_MAX: usize = 16;
/// A chunk that falls below this is joined with a neighbour if both fit into one.
const CHUNK_MIN: usize = 4;
const _: () = assert!(CHUNK_MAX <= u64::BITS as usize);

/// A sorted sequence that is cheap to copy.
#[derive(Clone)]
pub(super) struct ChunkedArray<T> {
    /// Of the first keys of all chunks.
    common: Common,
    heads: Vec<ChunkHead<T>>,
}

/// A chunk and the prefix of its first key.
#[derive(Clone)]
struct ChunkHead<T> {
    prefix: u64,
    chunk: Arc<Chunk<T>>,
}

/// A place in an array: before the entry of this number in this chunk. Valid until the array changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    chunk: usize,
    index: usize,
}

impl Spot {
    /// Before the entry of this number in a node that is one piece.
    pub(super) fn at(index: usize) -> Spot {
        Spot { chunk: 0, index }
    }

    /// The number of the entry after it, in a node that is one piece.
    pub(super) fn index(self) -> usize {
        self.index
    }
}

impl<T: Clone> ChunkedArray<T> {
    /// Without entries.
    pub(super) fn new() -> Self {
        ChunkedArray { common: Common::default(), heads: Vec::new() }
    }

    /// From entries in ascending order.
    pub(super) fn from_sorted(entries: Vec<Entry<T>>) -> Self {
        let mut heads = Vec::with_capacity(entries.len().div_ceil(CHUNK_MAX));
        let mut rest = entries.into_iter().peekable();
        while rest.peek().is_some() {
            heads.push(ChunkHead { prefix: 0, chunk: Arc::new(Chunk::of(rest.by_ref().take(CHUNK_MAX))) });
        }
        let mut run = ChunkedArray { common: Common::default(), heads };
        run.note();
        run
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.heads.iter().map(|head| head.chunk.len()).sum()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The number of chunks.
    pub(super) fn chunk_count(&self) -> usize {
        self.heads.len()
    }

    /// Before the first entry.
    pub(super) fn start(&self) -> Spot {
        Spot { chunk: 0, index: 0 }
    }

    /// After the last entry.
    pub(super) fn end(&self) -> Spot {
        Spot { chunk: self.heads.len(), index: 0 }
    }

    /// The entry of this key, or the place where it would go.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Result<Spot, Spot> {
        let Some(chunk) = self.chunks_up_to(key).checked_sub(1) else { return Err(self.start()) };
        match self.heads[chunk].chunk.find(key) {
            Ok(index) => Ok(Spot { chunk, index }),
            Err(index) => Err(Spot { chunk, index }),
        }
    }

    /// The number of chunks whose first key is not above `key`.
    #[inline]
    fn chunks_up_to(&self, key: &[u8]) -> usize {
        match self.common.side(key, || self.last_head_key()) {
            Ordering::Less => usize::from(self.heads.first().is_some_and(|head| head.chunk.first_key().is_empty())),
            Ordering::Greater => self.heads.len(),
            Ordering::Equal => {
                let prefix = self.common.prefix(key);
                let order =
                    |head: &ChunkHead<T>| head.prefix.cmp(&prefix).then_with(|| head.chunk.first_key().cmp(key));
                self.heads.partition_point(|head| order(head).is_le())
            }
        }
    }

    /// The last entry whose key is not above `key`.
    #[inline]
    pub(super) fn find_covering(&self, key: &[u8]) -> Option<Spot> {
        match self.find(key) {
            Ok(spot) => Some(spot),
            Err(spot) => self.before(spot),
        }
    }

    fn chunk(&self, at: usize) -> Option<&Chunk<T>> {
        self.heads.get(at).map(|head| head.chunk.as_ref())
    }

    /// The entry after a spot.
    #[inline]
    pub(super) fn get(&self, spot: Spot) -> Option<&Entry<T>> {
        match self.chunk(spot.chunk)?.get(spot.index) {
            Some(entry) => Some(entry),
            None => self.chunk(spot.chunk + 1)?.get(0),
        }
    }

    /// The first entry.
    pub(super) fn first(&self) -> Option<&Entry<T>> {
        self.chunk(0)?.get(0)
    }

    /// The spot behind the entry after this one; `None` when there is no entry.
    pub(super) fn after(&self, spot: Spot) -> Option<Spot> {
        let len = self.chunk(spot.chunk)?.len();
        if spot.index < len {
            return Some(Spot { chunk: spot.chunk, index: spot.index + 1 });
        }
        self.chunk(spot.chunk + 1)?;
        Some(Spot { chunk: spot.chunk + 1, index: 1 })
    }

    /// The spot before the entry before this one; `None` when there is no entry.
    pub(super) fn before(&self, spot: Spot) -> Option<Spot> {
        if spot.index > 0 {
            return Some(Spot { chunk: spot.chunk, index: spot.index - 1 });
        }
        let chunk = spot.chunk.checked_sub(1)?;
        let index = self.chunk(chunk)?.len().checked_sub(1)?;
        Some(Spot { chunk, index })
    }

    /// Whether no entry lies after the spot.
    pub(super) fn is_end(&self, spot: Spot) -> bool {
        self.get(spot).is_none()
    }

    /// The entry after a spot, to change what it holds; its key stays.
    pub(super) fn get_mut(&mut self, spot: Spot) -> Option<&mut Entry<T>> {
        let past = spot.index >= self.chunk(spot.chunk)?.len();
        let (chunk, index) = if past { (spot.chunk + 1, 0) } else { (spot.chunk, spot.index) };
        let slot = writable(&mut self.heads.get_mut(chunk)?.chunk).slots.get_mut(index)?;
        Some(&mut slot.entry)
    }

    /// Gives the first entry another key, which is below that of the second one.
    pub(super) fn rename_first(&mut self, key: Bytes) {
        let Some(head) = self.heads.first_mut().filter(|head| head.chunk.first_key() != key) else { return };
        let chunk = writable(&mut head.chunk);
        if let Some(slot) = chunk.slots.first_mut() {
            slot.entry.0 = key;
            chunk.note();
        }
        self.note_head(0);
    }

    /// Puts an entry at a spot; the caller has found that its key belongs there.
    pub(super) fn insert(&mut self, spot: Spot, key: Bytes, value: T) {
        let mut spot = spot;
        if let (0, Some(last)) = (spot.index, self.heads.last())
            && spot.chunk == self.heads.len()
        {
            spot = Spot { chunk: spot.chunk - 1, index: last.chunk.len() };
        }
        let count = self.heads.len();
        let Some(shared) = self.heads.get_mut(spot.chunk).map(|head| &mut head.chunk) else {
            return self.insert_chunk(count, Chunk::of(std::iter::once((key, value))));
        };
        if shared.len() < CHUNK_MAX {
            writable(shared).insert(spot.index, key, value);
            if spot.index == 0 {
                self.note_head(spot.chunk);
            }
            return;
        }
        if spot.chunk + 1 == count && spot.index == shared.len() {
            // Ascending keys leave full chunks behind.
            return self.insert_chunk(count, Chunk::of(std::iter::once((key, value))));
        }
        let chunk = writable(shared);
        let mut upper = chunk.split_off(CHUNK_MAX / 2);
        if spot.index <= chunk.len() {
            chunk.insert(spot.index, key, value);
        } else {
            upper.insert(spot.index - chunk.len(), key, value);
        }
        self.insert_chunk(spot.chunk + 1, upper);
        if spot.index == 0 {
            self.note_head(spot.chunk);
        }
    }

    /// Takes the entry after a spot away.
    pub(super) fn remove(&mut self, spot: Spot) -> Option<Entry<T>> {
        let past = spot.index >= self.chunk(spot.chunk)?.len();
        let (at, index) = if past { (spot.chunk + 1, 0) } else { (spot.chunk, spot.index) };
        let chunk = writable(&mut self.heads.get_mut(at)?.chunk);
        if index >= chunk.len() {
            return None;
        }
        let slot = chunk.slots.remove(index);
        if chunk.slots.is_empty() {
            self.heads.remove(at);
            return Some(slot.entry);
        }
        let small = chunk.len() < CHUNK_MIN;
        if index == 0 {
            self.note_head(at);
        }
        if small {
            self.join(at);
            if let Some(before) = at.checked_sub(1) {
                self.join(before);
            }
        }
        Some(slot.entry)
    }

    /// Takes entries away whose keys ascend; `taken` hears the number of each key that was there, and its entry.
    pub(super) fn remove_sorted(
        &mut self,
        keys: &[&[u8]],
        taken: &mut dyn FnMut(usize, &Entry<T>) -> crate::Result<()>,
    ) -> crate::Result<()> {
        let Some(first) = keys.first() else { return Ok(()) };
        let begin = self.chunks_up_to(first).saturating_sub(1);
        let (mut at, mut number, mut small) = (begin, 0, false);
        while let Some(chunk) = self.chunk(at).filter(|_| number < keys.len()) {
            let end = self.chunk(at + 1).map(Chunk::first_key);
            let mut gone = 0u64;
            while let Some(key) = keys.get(number).filter(|key| end.is_none_or(|end| **key < end)) {
                if let Ok(index) = chunk.find(key) {
                    taken(number, &chunk.slots[index].entry)?;
                    gone |= 1 << index;
                }
                number += 1;
            }
            if gone == 0 {
                at += 1;
                continue;
            }
            leave_out(&mut self.heads[at].chunk, gone);
            match self.heads[at].chunk.len() {
                0 => drop(self.heads.remove(at)),
                left => {
                    small |= left < CHUNK_MIN;
                    if gone & 1 != 0 {
                        self.note_head(at);
                    }
                    at += 1;
                }
            }
        }
        if small {
            (begin.saturating_sub(1)..at).rev().for_each(|at| self.join(at));
        }
        Ok(())
    }

    /// Joins a chunk with the next when one of them is small and both fit into one with room to grow.
    fn join(&mut self, at: usize) {
        let (Some(left), Some(right)) = (self.chunk(at), self.chunk(at + 1)) else { return };
        let small = left.len().min(right.len()) < CHUNK_MIN;
        if !small || left.len() + right.len() > CHUNK_MAX * 3 / 4 {
            return;
        }
        let right = self.heads.remove(at + 1).chunk;
        let left = writable(&mut self.heads[at].chunk);
        match Arc::try_unwrap(right) {
            Ok(chunk) => left.append(chunk.slots.into_iter()),
            Err(shared) => left.append(shared.slots.iter().cloned()),
        }
    }

    /// Cuts off all entries after a spot.
    pub(super) fn split_off(&mut self, spot: Spot) -> ChunkedArray<T> {
        let mut upper = ChunkedArray { common: self.common, heads: Vec::new() };
        let Some(len) = self.chunk(spot.chunk).map(Chunk::len) else { return upper };
        upper.heads.reserve(self.heads.len() - spot.chunk + 1);
        let cut = len > spot.index && spot.index > 0;
        if cut {
            let chunk = writable(&mut self.heads[spot.chunk].chunk).split_off(spot.index);
            upper.heads.push(ChunkHead { prefix: 0, chunk: Arc::new(chunk) });
        }
        let keep = if spot.index > 0 { spot.chunk + 1 } else { spot.chunk };
        upper.heads.extend(self.heads.drain(keep..));
        upper.note_head(0);
        upper
    }

    /// Adds the entries of an array whose keys are all above those of this one.
    pub(super) fn append(&mut self, upper: ChunkedArray<T>) {
        let seam = self.heads.len();
        self.heads.extend(upper.heads);
        self.note();
        if let Some(before) = seam.checked_sub(1) {
            self.join(before);
        }
    }

    /// All entries in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry<T>> {
        self.heads.iter().flat_map(|head| head.chunk.slots.iter().map(|slot| &slot.entry))
    }

    /// Changes every entry of a chunk for which `wanted` holds; a chunk without one stays shared.
    pub(super) fn change_chunk(&mut self, at: usize, wanted: impl Fn(&T) -> bool, mut change: impl FnMut(&mut T)) {
        let Some(head) = self.heads.get_mut(at) else { return };
        if !head.chunk.slots.iter().any(|slot| wanted(&slot.entry.1)) {
            return;
        }
        let held = writable(&mut head.chunk).slots.iter_mut().map(|slot| &mut slot.entry.1);
        held.filter(|held| wanted(held)).for_each(&mut change);
    }

    fn last_head_key(&self) -> &[u8] {
        self.heads.last().map_or(&[], |head| head.chunk.first_key())
    }

    fn insert_chunk(&mut self, at: usize, chunk: Chunk<T>) {
        self.heads.insert(at, ChunkHead { prefix: 0, chunk: Arc::new(chunk) });
        self.note_head(at);
    }

    /// Notes the first key of a chunk: of all, if it begins otherwise than those of the others.
    fn note_head(&mut self, at: usize) {
        let Some(head) = self.heads.get(at) else { return };
        let key = head.chunk.first_key();
        if !key.is_empty() && !self.common.surely_begins(key) {
            return self.note();
        }
        let prefix = self.common.prefix(key);
        if let Some(head) = self.heads.get_mut(at) {
            head.prefix = prefix;
        }
    }

    /// Notes the first keys of all chunks.
    fn note(&mut self) {
        let first = self.heads.iter().map(|head| head.chunk.first_key()).find(|key| !key.is_empty());
        self.common = first.map_or_else(Common::default, |first| Common::between(first, self.last_head_key()));
        let common = self.common;
        self.heads.iter_mut().for_each(|head| head.prefix = common.prefix(head.chunk.first_key()));
    }
}

#[cfg(test)]
mod tests;
