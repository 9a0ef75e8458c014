//! The steps of a commit, one after the other; those that are cheaper together are applied together.
//!
//! Invariant: what stands together does what its steps do one after the other.

use crate::apply::deletes::deletes_in_order;
use crate::apply::write_transaction::WriteTransaction;
use crate::apply::writes::writes_of_one;
use crate::error::Result;
use crate::log::record::Step;

impl WriteTransaction<'_> {
    /// Applies every step of a commit.
    pub fn apply(&mut self, steps: &[Step]) -> Result<()> {
        let (mut index, mut rest) = (0, steps);
        while let Some((step, after)) = rest.split_first() {
            self.index = index;
            let (deletes, others) = rest.split_at(deletes_in_order(rest));
            if deletes.len() > 1 {
                self.delete_all(deletes)?;
                index += deletes.len() as u32;
                rest = others;
                continue;
            }
            let (writes, others) = rest.split_at(writes_of_one(rest));
            if writes.len() > 1 {
                self.write_all(writes, index)?;
                index += writes.len() as u32;
                rest = others;
                continue;
            }
            match step {
                Step::Operation(operation) => {
                    self.operation(operation)?;
                    index += 1;
                }
                Step::StageSlab { stage, offset, extents } => self.stage_slab(*stage, *offset, extents)?,
                Step::StageDrop { stage } => self.stage_drop(*stage)?,
                Step::Relocate { at, offset, data } => self.relocate(at, *offset, data)?,
                Step::Reclaim { leaves } => self.reclaim(*leaves)?,
            }
            rest = after;
        }
        Ok(())
    }
}
