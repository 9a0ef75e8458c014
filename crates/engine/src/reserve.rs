//! Space set aside: what is reserved for a value is there for its first writes, however full the store is.
//!
//! A reservation is a number of blocks for one key. Nobody else's new data gets them; a write to the key draws on them for what
//! had no bytes before. Overwriting takes new space as always (nothing is overwritten in place), which a full store may refuse.
//!
//! Invariants:
//! - A reservation is a counter in space [`RESERVATIONS`], changed in the commit that draws on it: memory, log and trees agree.
//! - New data leaves reserve and reservations untouched; who draws on a reservation leaves the reserve untouched.
//! - A reservation ends with its key.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::allocator::Class;
use crate::batch::{Batch, Condition, Durability, KEY_LEN_MAX, KeyRange, Operation, Place};
use crate::content::{Pieces, Reading, as_record, find_record, record_range, user_key};
use crate::core::Core;
use crate::device::{BLOCK_LEN, ReadMode};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::reservations::{RESERVATIONS, reservation_place, reserved_for};
use crate::state::State;
use crate::tree::value::{Content, Piece};

/// One block of index in so many of data, and at least [`INDEX_BLOCKS_MIN`].
const INDEX_SHARE: u64 = 16;
const INDEX_BLOCKS_MIN: u64 = 8;

impl Engine {
    /// Sets space aside for bytes that a value does not have yet: writing them for the first time will not fail for want of it.
    /// The key must be there. `Full` when so much is not free.
    pub fn reserve(&self, at: &Place, length: u64, durability: Durability) -> Result<()> {
        let there = Condition::Present { space: at.space, key: at.key.clone() };
        self.reserve_with(Batch::new().when(there), std::slice::from_ref(at), length, durability)
    }

    /// Commits a batch, and in the same commit sets so much space aside for each of some keys that are there after it.
    pub(crate) fn reserve_with(
        &self,
        mut batch: Batch,
        places: &[Place],
        length: u64,
        durability: Durability,
    ) -> Result<()> {
        let core = self.shared();
        if places.iter().any(|at| at.key.len() + 8 > KEY_LEN_MAX) {
            return Err(Error::invalid(format!("space is set aside for keys of at most {} bytes", KEY_LEN_MAX - 8)));
        }
        let each = length.div_ceil(BLOCK_LEN as u64);
        let each = each + (each / INDEX_SHARE).max(INDEX_BLOCKS_MIN);
        let too_much = || Error::invalid("more is to be set aside than there can be");
        let blocks = each.checked_mul(places.len() as u64).ok_or_else(too_much)?;
        let delta = i64::try_from(blocks).and_then(|_| i64::try_from(each)).map_err(|_| too_much())?;
        let _giving = core.reservations.giving.lock();
        if !core.allocator.admits(blocks, Class::Data) {
            core.make_room(blocks)?;
            if !core.allocator.admits(blocks, Class::Data) {
                let length = length.saturating_mul(places.len() as u64);
                let message = format!("{length} bytes cannot be set aside: the store has not so much free space");
                return Err(Error::new(ErrorKind::Full, message));
            }
        }
        if core.head.lock().state.space(&core.nodes, RESERVATIONS)?.is_none() {
            batch.operations.push(Operation::CreateSpace { space: RESERVATIONS });
        }
        let promise = |at: &Place| Operation::AddCounter { at: reservation_place(at), delta };
        batch.operations.extend(places.iter().map(promise));
        core.submit(batch, durability).wait().map(drop)
    }

    /// Bytes that are set aside for a key.
    pub fn reserved(&self, at: &Place) -> u64 {
        self.shared().reservations.left(at) * BLOCK_LEN as u64
    }
}

impl Core {
    /// Adds to a batch what it draws on reservations, and ends those of keys that it deletes.
    pub(crate) fn draw(self: &Arc<Core>, batch: &mut Batch) -> Result<()> {
        if !self.reservations.are_any() {
            return Ok(());
        }
        let state = self.head.lock().state.clone();
        let (mut changes, mut drawn) = (Vec::new(), BTreeMap::<Place, u64>::new());
        for operation in &batch.operations {
            let (at, offset, length) = match operation {
                Operation::WriteAt { at, offset, data } => (at, Some(*offset), data.len()),
                Operation::Append { at, data } => (at, None, data.len()),
                Operation::Put { at, value } => (at, Some(0), value.len()),
                Operation::Delete { at } => {
                    if self.reservations.left(at) > 0 {
                        changes.push(Operation::Delete { at: reservation_place(at) });
                    }
                    continue;
                }
                _ => continue,
            };
            let left = self.reservations.left(at);
            if left == 0 || length == 0 {
                continue;
            }
            let unwritten = self.unwritten(&state, at, offset, length)?;
            let sum = drawn.entry(at.clone()).or_default();
            *sum = (*sum + unwritten.div_ceil(BLOCK_LEN as u64)).min(left);
        }
        for (at, blocks) in drawn.into_iter().filter(|(_, blocks)| *blocks > 0) {
            changes.push(Operation::AddCounter { at: reservation_place(&at), delta: -(blocks as i64) });
        }
        batch.operations.append(&mut changes);
        Ok(())
    }

    /// Bytes of a range of a value that it does not have yet; without an offset the range is behind its end.
    fn unwritten(&self, state: &State, at: &Place, offset: Option<u64>, length: u64) -> Result<u64> {
        let Some(root) = state.space(&self.nodes, at.space)? else { return Ok(length) };
        let Some(record) = find_record(&root.tree, &self.nodes, &at.key)? else { return Ok(length) };
        let from = offset.unwrap_or(record.size);
        let to = from.saturating_add(length);
        let overlap =
            |start: u64, piece: &Piece| start.saturating_add(piece.len()).min(to).saturating_sub(start.max(from));
        let written = match &record.content {
            Content::Empty => 0,
            Content::Single(piece) => overlap(0, piece),
            Content::Pieces(blob) => {
                let mut pieces = Pieces::new(&root.tree, &self.nodes, *blob, from, to)?;
                let mut sum = 0;
                while let Some((start, piece)) = pieces.next(&self.nodes)? {
                    sum += overlap(start, &piece);
                }
                sum
            }
        };
        Ok(length.saturating_sub(written))
    }

    /// Loads the reservations of the stored state, without those whose keys are gone.
    pub(crate) fn load_reservations(&self) -> Result<()> {
        let state = self.head.lock().state.clone();
        let Some(root) = state.space(&self.nodes, RESERVATIONS)? else { return Ok(()) };
        let reading = Reading::new(&self.nodes, self.device.as_ref(), ReadMode::Cached).within(&state);
        let mut found = Vec::new();
        let mut cursor = root.tree.cursor(record_range(&KeyRange::all()));
        while let Some((key, value)) = cursor.next(&self.nodes)? {
            let record = as_record(value)?;
            let mut bytes = [0; 8];
            reading.read(&root.tree, &record, 0, &mut bytes)?;
            let Some(whose) = reserved_for(&user_key(&key)) else { continue };
            let space = state.space(&self.nodes, whose.space)?;
            let there = space.map_or(Ok(None), |space| find_record(&space.tree, &self.nodes, &whose.key))?;
            if there.is_some() {
                found.push((whose, Some(i64::from_le_bytes(bytes))));
            }
        }
        self.allocator.set_reserved(self.reservations.change(found));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
