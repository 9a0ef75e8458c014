//! The entries of a stored node, as they were read: the bytes, and where each entry lies in them.
//!
//! Nodes that nobody changes are by far the most read ones. Nothing of them is taken apart: a search looks at an array of
//! slots, which hold four bytes of each key, and compares one key at its end; keys and values that are handed out are
//! slices of the node's bytes.
//!
//! Invariants:
//! - Every slot lies within the bytes, keys ascend strictly, and what an entry holds was decoded once before
//!   ([`Packed::verified`]) or was encoded by ourselves ([`Packed::trusted`]).
//! - `common_len` bytes are the same in all keys that are searched: in a leaf all, in an inner node all but the first,
//!   which is empty and stands for the lowest key.

use std::cmp::Ordering;

use bytes::Bytes;

use super::chunked_array::ChunkedArray;
use super::layout::{ENTRY_HEAD_LEN, NODE_HEADER_LEN};
use super::slice::Stored;
use super::value::Value;
use super::{Child, TREE_KEY_LEN_MAX};
use crate::address::{NODE_REF_LEN, NodeRef};
use crate::codec::truncated;
use crate::{Error, Result};

/// An entry of the node.
#[derive(Clone, Copy)]
struct Slot {
    /// Four bytes of the key behind what all have in common, zeros where it ends.
    prefix: u32,
    /// Where the entry begins.
    at: u16,
    /// The length of its key.
    key_len: u16,
}

/// So many of the common bytes are kept beside the slots: a search looks at one key of the node then, not at two.
const COMMON_KEPT: usize = 16;

/// The entries of a stored node.
#[derive(Clone)]
pub(super) struct Packed {
    bytes: Bytes,
    slots: Box<[Slot]>,
    common_len: usize,
    common: [u8; COMMON_KEPT],
    is_leaf: bool,
}

impl Packed {
    /// From the bytes of a node whose header and checksum hold; looks at every entry.
    pub(super) fn verified(bytes: Bytes, count: u16, payload_len: usize, is_leaf: bool) -> Result<Packed> {
        let packed = Packed::trusted(bytes, count, payload_len, is_leaf)?;
        let mut last: Option<&[u8]> = None;
        for index in 0..packed.len() {
            let key = packed.key(index);
            if key.len() > TREE_KEY_LEN_MAX {
                return Err(Error::damaged(format!("an entry has a key of {} bytes", key.len())));
            }
            if last.is_some_and(|last| last >= key) {
                return Err(Error::damaged("keys are out of order"));
            }
            last = Some(key);
            match is_leaf {
                true => Value::check(&packed.held(index))?,
                false => drop(packed.child(index)?),
            }
        }
        if !is_leaf && packed.slots.first().is_some_and(|first| first.key_len > 0) {
            return Err(Error::damaged("the first separator is not empty"));
        }
        Ok(packed)
    }

    /// From the bytes of a node that was just encoded: only where entries lie is looked at.
    pub(super) fn trusted(bytes: Bytes, count: u16, payload_len: usize, is_leaf: bool) -> Result<Packed> {
        let end = NODE_HEADER_LEN.saturating_add(payload_len);
        let mut slots = Vec::with_capacity(count.into());
        let mut at = NODE_HEADER_LEN;
        for _ in 0..count {
            let head =
                bytes.get(at..at + ENTRY_HEAD_LEN).filter(|_| at + ENTRY_HEAD_LEN <= end).ok_or_else(truncated)?;
            let (key_len, held_len) = (u16_of(head, 0), u16_of(head, 2));
            slots.push(Slot { prefix: 0, at: at as u16, key_len });
            at += ENTRY_HEAD_LEN + usize::from(key_len) + usize::from(held_len);
            if at > end.min(bytes.len()) {
                return Err(Error::damaged(format!("an entry of {key_len} and {held_len} bytes")));
            }
        }
        if at != end {
            return Err(Error::damaged(format!("{} bytes follow the last entry", end.saturating_sub(at))));
        }
        let mut packed =
            Packed { bytes, slots: slots.into_boxed_slice(), common_len: 0, common: [0; COMMON_KEPT], is_leaf };
        packed.note_prefixes();
        Ok(packed)
    }

    /// Fills in what searches look at first.
    fn note_prefixes(&mut self) {
        let from = self.search_start();
        if self.len() <= from {
            return;
        }
        let (first, last) = (self.key(from), self.key(self.len() - 1));
        let common_len = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let mut common = [0; COMMON_KEPT];
        common.iter_mut().zip(first.iter().take(common_len)).for_each(|(to, from)| *to = *from);
        (self.common_len, self.common) = (common_len, common);
        for index in from..self.len() {
            let prefix = prefix_of(self.key(index).get(self.common_len..).unwrap_or_default());
            if let Some(slot) = self.slots.get_mut(index) {
                slot.prefix = prefix;
            }
        }
    }

    /// The first entry that searches look at.
    fn search_start(&self) -> usize {
        usize::from(!self.is_leaf)
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// What it takes in memory, in bytes.
    pub(super) fn memory_len(&self) -> usize {
        self.bytes.len() + self.slots.len() * size_of::<Slot>()
    }

    /// The key of an entry; empty where there is no such entry.
    #[inline]
    pub(super) fn key(&self, index: usize) -> &[u8] {
        self.slots.get(index).map_or(&[], |slot| self.key_of(slot))
    }

    #[inline]
    fn key_of(&self, slot: &Slot) -> &[u8] {
        let start = usize::from(slot.at) + ENTRY_HEAD_LEN;
        self.bytes.get(start..start + usize::from(slot.key_len)).unwrap_or_default()
    }

    /// The key of an entry, sharing the node's bytes.
    pub(super) fn key_bytes(&self, index: usize) -> Bytes {
        let Some(slot) = self.slots.get(index) else { return Bytes::new() };
        let start = usize::from(slot.at) + ENTRY_HEAD_LEN;
        self.bytes.slice(start..start + usize::from(slot.key_len))
    }

    /// An entry as it is stored: lengths, key and what it holds.
    pub(super) fn entry_bytes(&self, index: usize) -> &[u8] {
        let Some(slot) = self.slots.get(index) else { return &[] };
        self.bytes.get(usize::from(slot.at)..self.held_range(index).end).unwrap_or_default()
    }

    /// Where in the node's bytes that lies which an entry holds.
    #[inline]
    fn held_range(&self, index: usize) -> std::ops::Range<usize> {
        let Some(slot) = self.slots.get(index) else { return 0..0 };
        let at = usize::from(slot.at);
        let held_len = self.bytes.get(at + 2..at + 4).map_or(0, |field| usize::from(u16_of(field, 0)));
        let start = at + ENTRY_HEAD_LEN + usize::from(slot.key_len);
        start..start + held_len
    }

    /// What an entry holds, in its stored form.
    #[inline]
    pub(super) fn held(&self, index: usize) -> Stored<'_> {
        Stored::new(&self.bytes, self.held_range(index))
    }

    /// The value of an entry of a leaf.
    pub(super) fn value(&self, index: usize) -> Result<Value> {
        Value::decode(self.held(index).to_bytes())
    }

    /// The child of an entry of an inner node.
    #[inline]
    pub(super) fn child(&self, index: usize) -> Result<NodeRef> {
        match self.held(index).as_slice() {
            mut held if held.len() == NODE_REF_LEN => NodeRef::decode(&mut held),
            held => Err(Error::damaged(format!("a node reference of {} bytes", held.len()))),
        }
    }

    /// The entry of this key, or the place where it would go.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> std::result::Result<usize, usize> {
        let start = self.search_start();
        let searched = self.slots.get(start..).unwrap_or_default();
        let common = match self.common.get(..self.common_len) {
            Some(common) => common,
            None => searched.first().and_then(|first| self.key_of(first).get(..self.common_len)).unwrap_or_default(),
        };
        let head = key.get(..self.common_len).unwrap_or(key);
        match head.cmp(common) {
            Ordering::Less => return Err(start),
            Ordering::Greater => return Err(self.len()),
            Ordering::Equal => {}
        }
        let rest = key.get(self.common_len..).unwrap_or_default();
        let prefix = prefix_of(rest);
        let mut at = searched.partition_point(|slot| slot.prefix < prefix);
        while let Some(slot) = searched.get(at).filter(|slot| slot.prefix == prefix) {
            match self.key_of(slot).get(self.common_len..).unwrap_or_default().cmp(rest) {
                Ordering::Less => at += 1,
                Ordering::Equal => return Ok(start + at),
                Ordering::Greater => break,
            }
            if let Some(beyond) = searched.get(at + 8)
                && beyond.prefix == prefix
            {
                return self.find_among(searched, at, prefix, rest);
            }
        }
        Err(start + at)
    }

    /// Goes on where many keys have the same prefix.
    #[cold]
    fn find_among(
        &self,
        searched: &[Slot],
        from: usize,
        prefix: u32,
        rest: &[u8],
    ) -> std::result::Result<usize, usize> {
        let start = self.search_start() + from;
        let alike = searched.get(from..).unwrap_or_default();
        let alike = alike.get(..alike.partition_point(|slot| slot.prefix == prefix)).unwrap_or_default();
        let tail = |slot: &Slot| self.key_of(slot).get(self.common_len..).unwrap_or_default();
        match alike.binary_search_by(|slot| tail(slot).cmp(rest)) {
            Ok(index) => Ok(start + index),
            Err(index) => Err(start + index),
        }
    }

    /// The values of a leaf, to be changed.
    pub(super) fn open_leaf(&self) -> Result<ChunkedArray<Value>> {
        self.entries().map(ChunkedArray::from_sorted)
    }

    /// The entries of a leaf, taken out.
    pub(super) fn entries(&self) -> Result<Vec<(Bytes, Value)>> {
        (0..self.len()).map(|index| Ok((self.key_bytes(index), self.value(index)?))).collect()
    }

    /// The children of an inner node, to be changed.
    pub(super) fn open_inner(&self) -> Result<ChunkedArray<Child>> {
        let entries = (0..self.len()).map(|index| Ok((self.key_bytes(index), Child::Disk(self.child(index)?))));
        Ok(ChunkedArray::from_sorted(entries.collect::<Result<_>>()?))
    }
}

#[inline]
fn u16_of(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|field| field.try_into().ok()).map_or(0, u16::from_le_bytes)
}

/// The first four bytes, as a number that sorts as they do.
#[inline]
fn prefix_of(key: &[u8]) -> u32 {
    match key.first_chunk::<4>() {
        Some(chunk) => u32::from_be_bytes(*chunk),
        None => key.iter().enumerate().fold(0, |sum, (index, byte)| sum | u32::from(*byte) << (24 - 8 * index)),
    }
}
