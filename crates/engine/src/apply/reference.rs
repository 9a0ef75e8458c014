//! Counts of blocks that more than one piece names.
//!
//! Invariants:
//! - A block that one piece names has no entry; entries exist for two references and more, as intervals,
//!   so that data nobody shares pays nothing.
//! - Intervals do not overlap.
//! - A frozen blob counts as a block past the end of any device.

use bytes::Bytes;

use crate::address::BlockRange;
use crate::apply::write_transaction::WriteTransaction;
use crate::batch::KeyRange;
use crate::codec::{Reader, Writer};
use crate::error::{Error, Result};
use crate::state::REFERENCES;
use crate::tree::value::{SpaceRoot, Value};

/// An interval of blocks with the same count of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The first block.
    pub start: u64,
    /// The block after the last.
    pub end: u64,
    /// How many pieces name each: two or more.
    pub count: u32,
}

/// Reads an entry of the space of references.
pub fn decode(key: &[u8], value: &Value) -> Result<Shared> {
    let (Value::Raw(bytes), Ok(start)) = (value, <[u8; 8]>::try_from(key)) else {
        return Err(Error::damaged("the table of references holds something else"));
    };
    let mut reader = Reader::new(bytes);
    let (start, blocks, count) = (u64::from_be_bytes(start), reader.u32()?, reader.u32()?);
    reader.end()?;
    if count < 2 || blocks == 0 {
        return Err(Error::damaged(format!("the count of references of block {start} cannot be")));
    }
    Ok(Shared { start, end: start.saturating_add(u64::from(blocks)), count })
}

impl WriteTransaction<'_> {
    /// One more piece names these blocks.
    pub(super) fn share(&mut self, range: BlockRange) -> Result<()> {
        self.ensure_space(REFERENCES)?;
        let parts = self.take_shared(range)?;
        self.each_part(range, &parts, |write_transaction, start, end, count| {
            write_transaction.put_shared(start, end, count + 1)
        })
    }

    /// One piece less names these blocks: those that nobody else does are free.
    pub(super) fn unshare(&mut self, range: BlockRange) -> Result<()> {
        let alone = self.find_space(REFERENCES)?.is_none_or(|space| space.tree.is_empty());
        if alone {
            return self.give_up(range);
        }
        let parts = self.take_shared(range)?;
        self.each_part(range, &parts, |write_transaction, start, end, count| {
            if count == 1 {
                return write_transaction.give_up(BlockRange { start, count: (end - start) as u32 });
            }
            write_transaction.put_shared(start, end, count - 1)
        })
    }

    /// Calls `act` for the parts of a range, in order, with their count (1 where there is no entry).
    fn each_part(
        &mut self,
        range: BlockRange,
        parts: &[Shared],
        mut act: impl FnMut(&mut Self, u64, u64, u32) -> Result<()>,
    ) -> Result<()> {
        let mut at = range.start;
        for part in parts {
            if at < part.start {
                act(self, at, part.start, 1)?;
            }
            act(self, part.start, part.end, part.count)?;
            at = part.end;
        }
        if at < range.end() { act(self, at, range.end(), 1) } else { Ok(()) }
    }

    /// Takes the intervals inside a range out of the table, cutting those that reach past it.
    fn take_shared(&mut self, range: BlockRange) -> Result<Vec<Shared>> {
        let tree = self.tree(REFERENCES)?;
        let source = self.source();
        let mut found = Vec::new();
        if let Some((key, value)) = tree.last_before(source, &range.start.to_be_bytes())? {
            found.push(decode(&key, &value)?);
        }
        let start = Bytes::copy_from_slice(&range.start.to_be_bytes());
        let mut cursor = tree.cursor(KeyRange { start, end: Some(Bytes::copy_from_slice(&range.end().to_be_bytes())) });
        while let Some((key, value)) = cursor.next(source)? {
            found.push(decode(&key, &value)?);
        }
        let mut parts = Vec::new();
        for shared in found.into_iter().filter(|shared| shared.end > range.start) {
            self.remove(REFERENCES, &shared.start.to_be_bytes())?;
            if shared.start < range.start {
                self.put_shared(shared.start, range.start, shared.count)?;
            }
            if shared.end > range.end() {
                self.put_shared(range.end(), shared.end, shared.count)?;
            }
            let (start, end) = (shared.start.max(range.start), shared.end.min(range.end()));
            parts.push(Shared { start, end, ..shared });
        }
        Ok(parts)
    }

    /// Puts a table of counts in the place of the one there is, whose nodes are `old`.
    pub fn set_references(&mut self, counts: &[Shared], old: &[BlockRange]) -> Result<()> {
        let created = self.version();
        self.set_space(REFERENCES, Some(SpaceRoot::new(created)))?;
        self.freed.extend_from_slice(old);
        counts.iter().try_for_each(|shared| self.put_shared(shared.start, shared.end, shared.count))
    }

    fn put_shared(&mut self, start: u64, end: u64, count: u32) -> Result<()> {
        if count < 2 {
            return Ok(());
        }
        let mut value = Vec::with_capacity(8);
        value.put_u32((end - start) as u32);
        value.put_u32(count);
        let key = Bytes::copy_from_slice(&start.to_be_bytes());
        self.insert(REFERENCES, key, Value::Raw(Bytes::from(value)))?;
        Ok(())
    }
}
