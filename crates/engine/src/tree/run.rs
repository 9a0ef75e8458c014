//! The sorted entries of one node, in shared pieces.
//!
//! A node of 16 KiB holds hundreds of entries; copying it whole for each change would cost hundreds
//! of counts on cold cache lines. A [`Run`] keeps them in chunks of a few dozen behind `Arc`s, so
//! that a copy shares all chunks and a change copies one.
//!
//! Invariants: keys ascend strictly over the whole run; no chunk is empty.

use std::sync::Arc;

use bytes::Bytes;

/// A key and what it holds.
pub(super) type Entry<T> = (Bytes, T);

/// The most entries of a chunk.
const CHUNK_MAX: usize = 16;
/// A chunk that falls below this is joined with a neighbour if both fit into one.
const CHUNK_MIN: usize = 4;
const _: () = assert!(CHUNK_MAX <= u64::BITS as usize);

/// A sorted sequence that is cheap to copy.
#[derive(Clone)]
pub(super) struct Run<T> {
    chunks: Vec<Arc<Vec<Entry<T>>>>,
}

/// A place in a run: before the entry of this number in this chunk. Valid until the run changes.
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

impl<T: Clone> Run<T> {
    /// Without entries.
    pub(super) fn new() -> Self {
        Run { chunks: Vec::new() }
    }

    /// From entries in ascending order.
    pub(super) fn from_sorted(entries: Vec<Entry<T>>) -> Self {
        let mut chunks = Vec::with_capacity(entries.len().div_ceil(CHUNK_MAX));
        let mut rest = entries.into_iter();
        loop {
            let chunk: Vec<Entry<T>> = rest.by_ref().take(CHUNK_MAX).collect();
            if chunk.is_empty() {
                return Run { chunks };
            }
            chunks.push(Arc::new(chunk));
        }
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The number of chunks.
    pub(super) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Before the first entry.
    pub(super) fn start(&self) -> Spot {
        Spot { chunk: 0, index: 0 }
    }

    /// After the last entry.
    pub(super) fn end(&self) -> Spot {
        Spot { chunk: self.chunks.len(), index: 0 }
    }

    /// The entry of this key, or the place where it would go.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Result<Spot, Spot> {
        let after = self.chunks.partition_point(|chunk| chunk.first().is_some_and(|entry| entry.0.as_ref() <= key));
        let Some(chunk) = after.checked_sub(1) else { return Err(self.start()) };
        match self.chunks[chunk].binary_search_by(|entry| entry.0.as_ref().cmp(key)) {
            Ok(index) => Ok(Spot { chunk, index }),
            Err(index) => Err(Spot { chunk, index }),
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

    /// The entry after a spot.
    #[inline]
    pub(super) fn get(&self, spot: Spot) -> Option<&Entry<T>> {
        let chunk = self.chunks.get(spot.chunk)?;
        match chunk.get(spot.index) {
            Some(entry) => Some(entry),
            None => self.chunks.get(spot.chunk + 1)?.first(),
        }
    }

    /// The first entry.
    pub(super) fn first(&self) -> Option<&Entry<T>> {
        self.chunks.first()?.first()
    }

    /// The spot behind the entry after this one; `None` when there is no entry.
    pub(super) fn after(&self, spot: Spot) -> Option<Spot> {
        let len = self.chunks.get(spot.chunk)?.len();
        if spot.index < len {
            return Some(Spot { chunk: spot.chunk, index: spot.index + 1 });
        }
        self.chunks.get(spot.chunk + 1)?;
        Some(Spot { chunk: spot.chunk + 1, index: 1 })
    }

    /// The spot before the entry before this one; `None` when there is no entry.
    pub(super) fn before(&self, spot: Spot) -> Option<Spot> {
        if spot.index > 0 {
            return Some(Spot { chunk: spot.chunk, index: spot.index - 1 });
        }
        let chunk = spot.chunk.checked_sub(1)?;
        let index = self.chunks.get(chunk)?.len().checked_sub(1)?;
        Some(Spot { chunk, index })
    }

    /// Whether no entry lies after the spot.
    pub(super) fn is_end(&self, spot: Spot) -> bool {
        self.get(spot).is_none()
    }

    /// The entry after a spot, to change. The key may change only within its neighbours.
    pub(super) fn get_mut(&mut self, spot: Spot) -> Option<&mut Entry<T>> {
        let past = spot.index >= self.chunks.get(spot.chunk)?.len();
        let (chunk, index) = if past { (spot.chunk + 1, 0) } else { (spot.chunk, spot.index) };
        writable(self.chunks.get_mut(chunk)?).get_mut(index)
    }

    /// Puts an entry at a spot; the caller has found that its key belongs there.
    pub(super) fn insert(&mut self, spot: Spot, key: Bytes, value: T) {
        let mut spot = spot;
        if let (0, Some(last)) = (spot.index, self.chunks.last())
            && spot.chunk == self.chunks.len()
        {
            spot = Spot { chunk: spot.chunk - 1, index: last.len() };
        }
        let count = self.chunks.len();
        let Some(shared) = self.chunks.get_mut(spot.chunk) else {
            self.chunks.push(Arc::new(vec![(key, value)]));
            return;
        };
        if shared.len() < CHUNK_MAX {
            writable(shared).insert(spot.index, (key, value));
            return;
        }
        if spot.chunk + 1 == count && spot.index == shared.len() {
            // Ascending keys leave full chunks behind.
            self.chunks.push(Arc::new(vec![(key, value)]));
            return;
        }
        let chunk = writable(shared);
        let mut upper = chunk.split_off(CHUNK_MAX / 2);
        if spot.index <= chunk.len() {
            chunk.insert(spot.index, (key, value));
        } else {
            upper.insert(spot.index - chunk.len(), (key, value));
        }
        self.chunks.insert(spot.chunk + 1, Arc::new(upper));
    }

    /// Takes the entry after a spot away.
    pub(super) fn remove(&mut self, spot: Spot) -> Option<Entry<T>> {
        let past = spot.index >= self.chunks.get(spot.chunk)?.len();
        let (at, index) = if past { (spot.chunk + 1, 0) } else { (spot.chunk, spot.index) };
        let chunk = writable(self.chunks.get_mut(at)?);
        if index >= chunk.len() {
            return None;
        }
        let entry = chunk.remove(index);
        if chunk.is_empty() {
            self.chunks.remove(at);
        } else if chunk.len() < CHUNK_MIN {
            self.join(at);
            if let Some(before) = at.checked_sub(1) {
                self.join(before);
            }
        }
        Some(entry)
    }

    /// Takes entries away whose keys ascend; `taken` hears the number of each key that was there, and its entry.
    pub(super) fn remove_sorted(
        &mut self,
        keys: &[&[u8]],
        taken: &mut dyn FnMut(usize, &Entry<T>) -> crate::Result<()>,
    ) -> crate::Result<()> {
        let Some(first) = keys.first() else { return Ok(()) };
        let after = self.chunks.partition_point(|chunk| chunk.first().is_some_and(|entry| entry.0.as_ref() <= *first));
        let begin = after.saturating_sub(1);
        let (mut at, mut number, mut small) = (begin, 0, false);
        while let Some(chunk) = self.chunks.get(at).filter(|_| number < keys.len()) {
            let end = self.chunks.get(at + 1).and_then(|next| next.first()).map(|entry| entry.0.as_ref());
            let mut gone = 0u64;
            while let Some(key) = keys.get(number).filter(|key| end.is_none_or(|end| **key < end)) {
                if let Ok(index) = chunk.binary_search_by(|entry| entry.0.as_ref().cmp(key)) {
                    taken(number, &chunk[index])?;
                    gone |= 1 << index;
                }
                number += 1;
            }
            if gone == 0 {
                at += 1;
                continue;
            }
            leave_out(&mut self.chunks[at], gone);
            match self.chunks[at].len() {
                0 => drop(self.chunks.remove(at)),
                left => {
                    small |= left < CHUNK_MIN;
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
        let (Some(left), Some(right)) = (self.chunks.get(at), self.chunks.get(at + 1)) else { return };
        let small = left.len().min(right.len()) < CHUNK_MIN;
        if !small || left.len() + right.len() > CHUNK_MAX * 3 / 4 {
            return;
        }
        let right = self.chunks.remove(at + 1);
        let left = writable(&mut self.chunks[at]);
        match Arc::try_unwrap(right) {
            Ok(entries) => left.extend(entries),
            Err(shared) => left.extend(shared.iter().cloned()),
        }
    }

    /// Cuts off all entries after a spot.
    pub(super) fn split_off(&mut self, spot: Spot) -> Run<T> {
        if spot.chunk >= self.chunks.len() {
            return Run::new();
        }
        let mut upper = Vec::with_capacity(self.chunks.len() - spot.chunk + 1);
        let cut = self.chunks[spot.chunk].len() > spot.index && spot.index > 0;
        if cut {
            upper.push(Arc::new(writable(&mut self.chunks[spot.chunk]).split_off(spot.index)));
        }
        let keep = if spot.index > 0 { spot.chunk + 1 } else { spot.chunk };
        upper.extend(self.chunks.drain(keep..));
        Run { chunks: upper }
    }

    /// Adds the entries of a run whose keys are all above those of this one.
    pub(super) fn append(&mut self, upper: Run<T>) {
        let seam = self.chunks.len();
        self.chunks.extend(upper.chunks);
        if let Some(before) = seam.checked_sub(1) {
            self.join(before);
        }
    }

    /// All entries in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry<T>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Changes every entry of a chunk for which `wanted` holds; a chunk without one stays shared.
    pub(super) fn change_chunk(&mut self, at: usize, wanted: impl Fn(&T) -> bool, mut change: impl FnMut(&mut T)) {
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        if !chunk.iter().any(|entry| wanted(&entry.1)) {
            return;
        }
        writable(chunk).iter_mut().filter(|entry| wanted(&entry.1)).for_each(|entry| change(&mut entry.1));
    }
}

/// The chunk itself where nobody shares it, else a copy with room for one more.
fn writable<T: Clone>(chunk: &mut Arc<Vec<Entry<T>>>) -> &mut Vec<Entry<T>> {
    if Arc::get_mut(chunk).is_none() {
        let mut copy = Vec::with_capacity(chunk.len() + 1);
        copy.extend(chunk.iter().cloned());
        *chunk = Arc::new(copy);
    }
    Arc::make_mut(chunk)
}

/// Takes the entries away whose bits are set: in place where nobody shares the chunk.
fn leave_out<T: Clone>(chunk: &mut Arc<Vec<Entry<T>>>, gone: u64) {
    let stays = |index: usize| gone & (1 << index) == 0;
    match Arc::get_mut(chunk) {
        Some(own) => {
            let mut index = 0;
            own.retain(|_| {
                index += 1;
                stays(index - 1)
            });
        }
        None => {
            let left = chunk.iter().enumerate().filter(|(index, _)| stays(*index)).map(|(_, entry)| entry.clone());
            *chunk = Arc::new(left.collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(number: u16) -> Bytes {
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    fn content(run: &Run<u32>) -> Vec<(Bytes, u32)> {
        assert!(run.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_MAX));
        run.iter().cloned().collect()
    }

    proptest! {
        #[test]
        fn many_entries_are_taken_as_one_by_one(count in 0u16..300, keys in prop::collection::vec(0u16..300, 0..200)) {
            let all: Vec<_> = (0..count).map(|number| (key(number), u32::from(number))).collect();
            let mut keys: Vec<Bytes> = keys.into_iter().map(key).collect();
            keys.sort();
            keys.dedup();
            let slices: Vec<&[u8]> = keys.iter().map(Bytes::as_ref).collect();
            for shared in [false, true] {
                let mut run = Run::from_sorted(all.clone());
                let held = shared.then(|| run.clone());
                let mut told = Vec::new();
                run.remove_sorted(&slices, &mut |number, entry| {
                    told.push((number, entry.clone()));
                    Ok(())
                }).unwrap();
                let is_gone = |entry: &&(Bytes, u32)| keys.binary_search(&entry.0).is_ok();
                prop_assert!(all.iter().filter(is_gone).eq(told.iter().map(|(_, entry)| entry)));
                prop_assert!(told.iter().all(|(number, entry)| keys[*number] == entry.0));
                prop_assert!(all.iter().filter(|entry| !is_gone(entry)).eq(content(&run).iter()));
                prop_assert!(held.is_none_or(|held| content(&held) == all));
                let small = run.chunks.windows(2).filter(|pair| pair[0].len() < CHUNK_MIN && pair[1].len() < CHUNK_MIN);
                prop_assert_eq!(small.count(), 0);
            }
        }

        #[test]
        fn a_run_is_a_sorted_map(steps in prop::collection::vec((any::<bool>(), 0u16..300), 1..600), cut in 0u16..300) {
            let mut run = Run::new();
            let mut model = BTreeMap::new();
            for (number, (put, at)) in steps.iter().enumerate() {
                let held = run.clone();
                let before = content(&held);
                let found = run.find(&key(*at));
                prop_assert_eq!(found.is_ok(), model.contains_key(&key(*at)));
                match (put, found) {
                    (true, Ok(spot)) => run.get_mut(spot).unwrap().1 = number as u32,
                    (true, Err(spot)) => run.insert(spot, key(*at), number as u32),
                    (false, Ok(spot)) => prop_assert_eq!(run.remove(spot).unwrap().0, key(*at)),
                    (false, Err(_)) => {}
                }
                if *put { model.insert(key(*at), number as u32); } else { model.remove(&key(*at)); }
                prop_assert_eq!(content(&held), before);
            }
            let whole: Vec<_> = model.into_iter().collect();
            prop_assert_eq!(content(&run), whole.clone());
            prop_assert_eq!(run.len(), whole.len());
            let mut spot = run.start();
            for entry in &whole {
                prop_assert_eq!(run.get(spot).unwrap(), entry);
                spot = run.after(spot).unwrap();
            }
            prop_assert!(run.after(spot).is_none() && run.is_end(spot));
            let mut spot = run.end();
            for entry in whole.iter().rev() {
                spot = run.before(spot).unwrap();
                prop_assert_eq!(run.get(spot).unwrap(), entry);
            }
            prop_assert!(run.before(spot).is_none());
            let at = run.find(&key(cut)).unwrap_or_else(|spot| spot);
            let upper = run.split_off(at);
            prop_assert!(run.iter().all(|entry| entry.0 < key(cut)) && upper.iter().all(|entry| entry.0 >= key(cut)));
            run.append(upper);
            prop_assert_eq!(content(&run), whole);
        }
    }
}
