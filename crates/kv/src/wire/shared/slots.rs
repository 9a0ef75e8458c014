//! Parts of a shared memory, lent and given back: the client's side.
//!
//! Invariants:
//! - A part is lent to one at a time; it comes back when the last who has it is gone, however a request ended.
//! - Parts are taken from the front, or are those that came back last, so that few of them are used again and again: they
//!   stay in the processor's cache.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Mapping, PART_LEN};
use crate::wire::frame::DATA_LEN_MAX;

/// So many parts for the longest data are kept as they are.
const WHOLE_MAX: usize = 32;

/// A shared memory, of which parts are lent.
#[derive(Debug)]
pub struct Slots {
    mapping: Mapping,
    free: Mutex<Free>,
}

/// What is not lent.
#[derive(Debug)]
struct Free {
    /// Runs: where each begins, and its length.
    runs: BTreeMap<usize, usize>,
    /// Parts for the longest data, as every get takes one: where they begin. They are no part of the runs.
    whole: Vec<usize>,
}

impl Free {
    fn take(&mut self, length: usize) -> Option<usize> {
        if length == DATA_LEN_MAX
            && let Some(offset) = self.whole.pop()
        {
            return Some(offset);
        }
        self.take_run(length).or_else(|| {
            while let Some(offset) = self.whole.pop() {
                self.give_back_run(offset, DATA_LEN_MAX);
            }
            self.take_run(length)
        })
    }

    fn take_run(&mut self, length: usize) -> Option<usize> {
        let (&offset, &run) = self.runs.iter().find(|(_, run)| **run >= length)?;
        self.runs.remove(&offset);
        if run > length {
            self.runs.insert(offset + length, run - length);
        }
        Some(offset)
    }

    fn give_back(&mut self, offset: usize, length: usize) {
        if length == DATA_LEN_MAX && self.whole.len() < WHOLE_MAX {
            self.whole.push(offset);
        } else {
            self.give_back_run(offset, length);
        }
    }

    fn give_back_run(&mut self, mut offset: usize, mut length: usize) {
        if let Some((&before, &run)) = self.runs.range(..offset).next_back()
            && before + run == offset
        {
            (offset, length) = (before, run + length);
        }
        if let Some(run) = self.runs.remove(&(offset + length)) {
            length += run;
        }
        self.runs.insert(offset, length);
    }
}

impl Slots {
    /// All of it is free.
    pub fn new(mapping: Mapping) -> Arc<Slots> {
        let free = Free { runs: BTreeMap::from([(0, mapping.len())]), whole: Vec::new() };
        Arc::new(Slots { mapping, free: Mutex::new(free) })
    }

    /// Lends a part of so many bytes; `None` when none is free, and for no bytes.
    pub fn lend(self: &Arc<Self>, length: usize) -> Option<Part> {
        let taken = length.checked_next_multiple_of(PART_LEN).filter(|taken| *taken > 0)?;
        let offset = self.free.lock().take(taken)?;
        Some(Part { slots: Arc::clone(self), offset, taken, length })
    }

    /// Where bytes lie that were lent and filled, if they are.
    pub fn find(&self, bytes: &[u8]) -> Option<u64> {
        self.mapping.find(bytes)
    }

    /// How many bytes are free.
    #[cfg(test)]
    pub fn free_len(&self) -> usize {
        {
            let free = self.free.lock();
            free.runs.values().sum::<usize>() + free.whole.len() * DATA_LEN_MAX
        }
    }

    fn give_back(&self, offset: usize, taken: usize) {
        self.free.lock().give_back(offset, taken);
    }
}

/// A part that is lent.
#[derive(Debug)]
pub struct Part {
    slots: Arc<Slots>,
    offset: usize,
    taken: usize,
    length: usize,
}

impl Part {
    /// Where it begins.
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Fills its beginning with bytes.
    pub fn fill(&self, bytes: &[u8]) -> koine_engine::Result<()> {
        self.slots.mapping.copy_in(self.offset(), bytes)
    }

    /// What the server has put there, where it lies; at most as long as the part is.
    #[allow(unsafe_code)]
    pub fn received(mut self, length: usize) -> Bytes {
        struct Received(Part);
        impl AsRef<[u8]> for Received {
            fn as_ref(&self) -> &[u8] {
                // SAFETY: the part is lent to this value alone, and nobody of this process writes a mapping that it has for
                // reading. A server of ours writes a part between the request that lends it and its answer, and this is
                // made of an answer. The server was looked at (`identity::shares_memory`): it runs as the same user or as
                // root, who could as well write any other memory of this process.
                unsafe { self.0.slots.mapping.read_only(self.0.offset, self.0.length) }
            }
        }
        self.length = self.length.min(length);
        // What was lent for more than has come is free again.
        let kept = self.length.next_multiple_of(PART_LEN).clamp(PART_LEN, self.taken);
        if kept < self.taken {
            self.slots.give_back(self.offset + kept, self.taken - kept);
            self.taken = kept;
        }
        Bytes::from_owner(Received(self))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.slots.give_back(self.offset, self.taken);
    }
}

/// Memory that a value can be put from without a copy on this side: fill it, and make it [`Bytes`].
#[derive(Debug)]
pub struct Buffer(Part);

impl Buffer {
    /// Of a part of the memory for the server, which nobody else can write.
    pub(in crate::wire) fn new(part: Part) -> Buffer {
        Buffer(part)
    }

    /// No more is written; a put of these bytes, or of a part of them, copies nothing on this side.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the part is lent to this value alone, and a seal keeps every other process from writing the file.
        unsafe { self.0.slots.mapping.read_only(self.0.offset, self.0.length) }
    }
}

impl DerefMut for Buffer {
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the server reads it by raw copies, and only once a request has named it.
        unsafe { self.0.slots.mapping.exclusive(self.0.offset, self.0.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::offer::make;
    use super::*;

    #[test]
    fn parts_are_lent_once_and_come_back_whole() {
        let (slots, _files) = make(64 << 10).unwrap();
        let slots = slots.to_server;
        let one = slots.lend(1).unwrap();
        let two = slots.lend(PART_LEN + 1).unwrap();
        let rest = slots.lend((64 << 10) - 3 * PART_LEN).unwrap();
        assert_eq!((one.offset(), two.offset(), rest.offset()), (0, 4096, 3 * 4096));
        assert!(slots.lend(1).is_none() && slots.lend(0).is_none() && slots.lend(usize::MAX).is_none());
        drop(one);
        assert_eq!(slots.lend(PART_LEN).unwrap().offset(), 0);
        drop((rest, two));
        assert_eq!(slots.free_len(), 64 << 10);
        assert_eq!(slots.lend(64 << 10).unwrap().offset(), 0);
    }

    #[test]
    fn parts_for_the_longest_data_are_lent_again_and_are_room_for_others() {
        let (slots, _files) = make(3 * DATA_LEN_MAX).unwrap();
        let slots = slots.to_server;
        let parts: Vec<Part> = (0..3).filter_map(|_| slots.lend(DATA_LEN_MAX)).collect();
        assert!(parts.len() == 3 && slots.lend(1).is_none());
        drop(parts);
        assert_eq!(slots.lend(DATA_LEN_MAX).unwrap().offset(), 2 << 20);
        assert_eq!(slots.lend(3 * DATA_LEN_MAX).unwrap().offset(), 0);
        assert_eq!(slots.free_len(), 3 * DATA_LEN_MAX);
    }

    #[test]
    fn a_buffer_is_found_while_any_of_it_is_held() {
        let (slots, _files) = make(64 << 10).unwrap();
        let slots = slots.to_server;
        let mut buffer = Buffer::new(slots.lend(5000).unwrap());
        buffer.fill(7);
        buffer[4999] = 8;
        let bytes = buffer.freeze();
        assert_eq!((bytes.len(), bytes[0], bytes[4999]), (5000, 7, 8));
        assert_eq!(slots.find(&bytes), Some(0));
        let tail = bytes.slice(4096..);
        drop(bytes);
        assert_eq!((slots.find(&tail), slots.free_len()), (Some(4096), 14 * 4096));
        drop(tail);
        assert_eq!(slots.free_len(), 16 * 4096);
        assert_eq!(slots.find(&[1, 2, 3]), None);
    }
}
