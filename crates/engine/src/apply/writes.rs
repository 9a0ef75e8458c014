//! Writes of one value that stand one after the other: its record is read and set once for all of them.
//!
//! Invariant: they do what they do one by one.

use bytes::{Bytes, BytesMut};

use crate::apply::pieces::piece_of;
use crate::apply::write_transaction::WriteTransaction;
use crate::batch::{Operation, Payload, Place};
use crate::error::Result;
use crate::log::record::Step;
use crate::tree::value::{Content, Piece};

fn write(step: &Step) -> Option<(&Place, u64, &Payload)> {
    match step {
        Step::Operation(Operation::WriteAt { at, offset, data }) => Some((at, *offset, data)),
        _ => None,
    }
}

/// How many steps from the first on write to the same value.
pub(super) fn writes_of_one(steps: &[Step]) -> usize {
    let Some((first, ..)) = steps.first().and_then(write) else { return 0 };
    steps.iter().take_while(|step| write(step).is_some_and(|(at, ..)| at == first)).count()
}

impl WriteTransaction<'_> {
    /// Applies writes as [`writes_of_one`] counts them; the first is step `index` of the batch.
    pub(super) fn write_all(&mut self, steps: &[Step], index: u32) -> Result<()> {
        let Some((at, ..)) = steps.first().and_then(write) else { return Ok(()) };
        self.index = index;
        self.must_be_writable(at.space)?;
        let (mut size, mut content) = self.content_at(at)?;
        for (step, index) in steps.iter().zip(index..) {
            let Some((_, offset, data)) = write(step) else { break };
            self.index = index;
            (size, content) = self.write_into(at, size, content, offset, data)?;
        }
        self.set(at, size, content)?;
        Ok(())
    }

    /// Writes into the value at a place.
    pub(super) fn write_at(&mut self, at: &Place, offset: u64, data: &Payload) -> Result<()> {
        let (size, content) = self.content_at(at)?;
        let (size, content) = self.write_into(at, size, content, offset, data)?;
        self.set(at, size, content)?;
        Ok(())
    }

    /// The size and content of the value at a place, which may not be there yet.
    fn content_at(&mut self, at: &Place) -> Result<(u64, Content)> {
        Ok(self.record(at)?.map_or((0, Content::Empty), |record| (record.size, record.content)))
    }

    /// Writes into a value that has a size and a content so far; what it has then.
    fn write_into(
        &mut self,
        at: &Place,
        size: u64,
        content: Content,
        offset: u64,
        data: &Payload,
    ) -> Result<(u64, Content)> {
        let length = data.len();
        let end = self.end_of(offset, length)?;
        if length == 0 {
            return Ok((size, content));
        }
        let new_size = size.max(end);
        if let Payload::Bytes(bytes) = data
            && let Some(merged) = self.merge_in_memory(&content, size, offset, bytes)
        {
            self.bytes_in_memory += merged.len() as u64;
            self.release_content(at.space, content)?;
            return Ok((new_size, Content::Single(piece_of(merged))));
        }
        let pieces = self.payload_pieces(data)?;
        let blob = self.as_blob(at.space, content)?;
        if offset >= size {
            // Nothing lies there.
            self.place(at.space, blob, offset, pieces)?;
        } else {
            self.exchange(at.space, blob, offset, end, pieces)?;
        }
        Ok((new_size, Content::Pieces(blob)))
    }

    /// A small value whose bytes are all in memory is written anew as a whole.
    fn merge_in_memory(&self, content: &Content, size: u64, offset: u64, data: &[u8]) -> Option<Bytes> {
        let new_size = size.max(offset + data.len() as u64);
        if new_size > self.limits.pending_len_max as u64 {
            return None;
        }
        let old: &[u8] = match content {
            Content::Empty => &[],
            Content::Single(Piece::Inline(bytes)) => bytes,
            Content::Single(Piece::Pending(pending)) => &pending.bytes,
            _ => return None,
        };
        let mut bytes = BytesMut::zeroed(new_size as usize);
        bytes[..old.len()].copy_from_slice(old);
        bytes[offset as usize..offset as usize + data.len()].copy_from_slice(data);
        Some(bytes.freeze())
    }
}
