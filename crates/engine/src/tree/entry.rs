//! Entries of nodes: what a leaf holds and what an inner node holds have in common.
//!
//! Invariant: the length that an entry says never changes and is never below what its stored form takes.

use bytes::{BufMut, Bytes};

use super::Child;
use super::layout::ENTRY_HEAD_LEN;
use super::value::Value;
use crate::Result;
use crate::address::NODE_REF_LEN;

/// What an entry holds beside its key: a value or a child.
pub(super) trait Payload: Clone {
    /// Bytes of the stored form without key and lengths.
    fn held_len(&self) -> usize;
    /// Whether `settle` would change it.
    fn settles(&self) -> bool;
    /// Forgets the memory form of what was written.
    fn settle(&mut self);
}

impl Payload for Value {
    fn held_len(&self) -> usize {
        self.encoded_len()
    }
    fn settles(&self) -> bool {
        Value::settles(self)
    }
    fn settle(&mut self) {
        Value::settle(self);
    }
}

impl Payload for Child {
    fn held_len(&self) -> usize {
        NODE_REF_LEN
    }
    fn settles(&self) -> bool {
        Child::settles(self)
    }
    fn settle(&mut self) {
        Child::settle(self);
    }
}

/// The stored length of an entry.
pub(super) fn entry_len<T: Payload>(key: &[u8], held: &T) -> usize {
    ENTRY_HEAD_LEN + key.len() + held.held_len()
}

/// Appends the stored form of an entry.
pub(super) fn encode_entry<T: Payload>(
    key: &Bytes,
    held: &T,
    out: &mut Vec<u8>,
    encode: impl Fn(&T, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let start = out.len();
    out.put_u16_le(key.len() as u16);
    out.put_u16_le(0);
    out.put_slice(key);
    let held_start = out.len();
    encode(held, out)?;
    let held_len = (out.len() - held_start) as u16;
    if let Some(field) = out.get_mut(start + 2..start + 4) {
        field.copy_from_slice(&held_len.to_le_bytes());
    }
    debug_assert!(out.len() - start <= entry_len(key, held));
    Ok(())
}
