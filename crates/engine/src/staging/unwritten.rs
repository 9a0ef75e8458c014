//! Values of at most one buffer that have their place and their checksums, and are written when their commit is.
//!
//! Invariants:
//! - Whoever asks for the bytes to be written waits until they are, whoever writes them; only then is the outcome of the
//!   token's commit told.
//! - A stage that is dropped before gives its blocks back: nobody is writing to them then.

use std::ops::Range;
use std::sync::Arc;

use super::extent_writer::ExtentWriter;
use super::in_flight::{leave, write};
use super::{CHUNK_LOG2_RANDOM, CHUNK_LOG2_SEQUENTIAL, extent_of};
use crate::address::BlockRange;
use crate::allocator::{Class, PlacementHint};
use crate::buffers::{BUFFER_LEN, Lent};
use crate::core::Core;
use crate::device::BLOCK_LEN;
use crate::error::Result;
use crate::extent::Extent;
use crate::stage::{Access, StageHint, StageToken};
use crate::staged::{Staged, Target, Unwritten};

/// What an extent takes in the log beside its checksums, and more.
const EXTENT_LEN: usize = 40;

/// All of them start in one group of the allocator: writes that lie together, where something was written before, cost a
/// thinly provisioned medium half as much as writes spread over new groups.
pub(super) const TURN: usize = 0;

/// Finished stages that keep their bytes until they are committed: more are written at once, so that memory is bounded.
pub(super) const KEPT_MAX: usize = 4;

impl Unwritten {
    /// What an extent writer has placed, unless enough is kept already.
    pub fn keep(
        core: &Core,
        extent_writer: &mut ExtentWriter,
        name: impl FnMut(&[u8], Range<usize>, BlockRange) -> Option<Extent>,
    ) -> Result<Option<Self>> {
        let kept = Arc::clone(&core.kept);
        // The core's own, and this one.
        if Arc::strong_count(&kept) > KEPT_MAX + 1 {
            return Ok(None);
        }
        let (buffer, targets) = extent_writer.keep(name)?;
        Ok(Some(Unwritten { buffer, targets, _kept: Some(kept) }))
    }

    /// Writes them; a failure stops the store.
    fn write(&self, core: &Core) -> Result<()> {
        self.targets.iter().try_for_each(|target| write(core, target, &self.buffer))
    }
}

impl Core {
    /// Writes what is not written yet of a stage, or waits until somebody else has.
    pub(crate) fn write_out(&self, staged: &Staged) -> Result<()> {
        let mut unwritten = staged.unwritten();
        unwritten.as_ref().map_or(Ok(()), |unwritten| unwritten.write(self))?;
        if let Some(Unwritten { buffer, targets, _kept }) = unwritten.take() {
            leave(self, buffer, targets);
        }
        Ok(())
    }
}

/// Gives bytes their place and leaves it to their commit to write them; `None` where they are more than one buffer, or
/// their checksums more than one record shall hold.
pub(crate) fn place(core: &Arc<Core>, data: &[u8], hint: StageHint) -> Result<Option<StageToken>> {
    let chunk_log2 = if hint.access == Access::Random { CHUNK_LOG2_RANDOM } else { CHUNK_LOG2_SEQUENTIAL };
    let extents_len = EXTENT_LEN + 4 * data.len().div_ceil(1 << chunk_log2);
    if data.len() > BUFFER_LEN || extents_len > core.limits.slab_len_max {
        return Ok(None);
    }
    let padded = data.len().next_multiple_of(BLOCK_LEN);
    let lent = if padded == BUFFER_LEN { core.buffers.lend() } else { None };
    let mut buffer = lent.unwrap_or_else(|| Lent::own(padded));
    buffer[..data.len()].copy_from_slice(data);
    buffer[data.len()..].fill(0);
    let class = if hint.reserved { Class::Reserved } else { Class::Data };
    let placement_hint = PlacementHint { turn: TURN, lifetime: hint.lifetime };
    // Its drop gives back what was taken, should the next part find no room.
    let mut staged = Staged::begun(core.next_stage(), core.as_stage_owner());
    let (mut targets, mut at, mut rest) = (Vec::with_capacity(1), 0, data);
    while !rest.is_empty() {
        let run = core.allocate(rest.len().div_ceil(BLOCK_LEN) as u32, class, placement_hint)?;
        let (part, after) = rest.split_at(rest.len().min(run.count as usize * BLOCK_LEN));
        let extent = extent_of(part, run, hint.access);
        staged.extents_mut().push(extent.clone());
        let end = at + run.count as usize * BLOCK_LEN;
        targets.push(Target { bytes: at..end, block: run.start, extent: Some(extent) });
        (at, rest) = (end, after);
    }
    *staged.unwritten() = Some(Unwritten { buffer, targets, _kept: None });
    Ok(Some(StageToken::new(data.len() as u64, Arc::new(staged))))
}
