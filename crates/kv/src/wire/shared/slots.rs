//! Parts of a shared memory, lent and given back: the client's side.
//!
//! Invariants:
//! - A part is lent to one at a time; it comes back when the last who has it is gone, however a request ended.
//! - Parts are taken from the front, so that few of them are used again and again: they stay in the processor's cache.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Mapping, PART_LEN};

/// A shared memory, of which parts are lent.
#[derive(Debug)]
pub struct Slots {
    mapping: Mapping,
    /// Free runs: where each begins, and its length.
    free: Mutex<BTreeMap<usize, usize>>,
}

impl Slots {
    /// All of it is free.
    pub fn new(mapping: Mapping) -> Arc<Slots> {
        let free = Mutex::new(BTreeMap::from([(0, mapping.len())]));
        Arc::new(Slots { mapping, free })
    }

    /// Lends a part of so many bytes; `None` when none is free, and for no bytes.
    pub fn lend(self: &Arc<Self>, length: usize) -> Option<Part> {
        let taken = length.checked_next_multiple_of(PART_LEN).filter(|taken| *taken > 0)?;
        let mut free = self.free.lock();
        let (&offset, &run) = free.iter().find(|(_, run)| **run >= taken)?;
        free.remove(&offset);
        if run > taken {
            free.insert(offset + taken, run - taken);
        }
        drop(free);
        Some(Part { slots: Arc::clone(self), offset, taken, length })
    }

    /// Where bytes lie that were lent and filled, if they are.
    pub fn find(&self, bytes: &[u8]) -> Option<u64> {
        self.mapping.find(bytes)
    }

    /// How many bytes are free.
    #[cfg(test)]
    pub fn free_len(&self) -> usize {
        self.free.lock().values().sum()
    }

    fn give_back(&self, mut offset: usize, mut taken: usize) {
        let mut free = self.free.lock();
        if let Some((&before, &run)) = free.range(..offset).next_back()
            && before + run == offset
        {
            (offset, taken) = (before, run + taken);
        }
        if let Some(run) = free.remove(&(offset + taken)) {
            taken += run;
        }
        free.insert(offset, taken);
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
