//! Giving space back to the medium: discards on a device, holes in a file.
//!
//! Invariants:
//! - Only blocks that writers may have are discarded, by the rule of reuse, and before a writer gets them: nobody can
//!   need them, and no write is under way there.
//! - Discarding is a hint. A medium that fails at it is not asked again until the store is opened anew; nothing depends on it.
//!
//! In a file the blocks go to the file system, which may have given them to somebody else when the store wants them
//! back: such a write fails and stops the store. So it is done only when asked for.

use std::sync::atomic::Ordering;

use crate::address::BlockRange;
use crate::allocator::Runs;
use crate::core::Core;
use crate::device::BLOCK_LEN;
use crate::engine::Engine;
use crate::error::{Error, Result};

/// Runs shorter than this are not worth a request: 64 KiB.
const RUN_BLOCKS_MIN: u64 = 16;
/// The most blocks of one request, 64 MiB: so many are kept from writers meanwhile.
const REQUEST_BLOCKS_MAX: u64 = 1 << 14;

impl Core {
    /// Gives blocks back to the medium that are about to go to the writers, where the store was opened to do so.
    pub(crate) fn discard_freed(&self, freed: &[BlockRange]) -> Result<()> {
        if !self.discards.load(Ordering::Relaxed) || freed.is_empty() {
            return Ok(());
        }
        // What was freed in pieces and lies together is one request.
        let mut runs = Runs::new();
        for range in freed {
            runs.add(range.start, u64::from(range.count))?;
        }
        for (start, count) in runs.iter().filter(|(_, count)| *count >= RUN_BLOCKS_MIN) {
            if self.discard(start, count).is_err() {
                self.discards.store(false, Ordering::Relaxed);
                return Ok(());
            }
        }
        Ok(())
    }

    fn discard(&self, start: u64, count: u64) -> Result<()> {
        let (at, length) = (start * BLOCK_LEN as u64, count * BLOCK_LEN as u64);
        self.device
            .discard(at, length)
            .map_err(|e| Error::device(format!("the medium does not take {length} bytes at byte {at} back"), e))
    }
}

impl Engine {
    /// Gives all free space of at least 64 KiB in a row back to the medium, also what was freed long ago; gives its
    /// bytes. The store may be in use. `progress` is told the bytes so far.
    pub fn trim(&self, progress: &mut dyn FnMut(u64)) -> Result<u64> {
        let core = self.shared();
        core.check_takes_writes()?;
        let (mut from, mut blocks) = (0, 0);
        while let Some((start, count)) = core.allocator.take_run(from, RUN_BLOCKS_MIN, REQUEST_BLOCKS_MAX) {
            let done = core.check_running().and_then(|()| core.discard(start, count));
            core.allocator.release(start, count)?;
            core.room.notify_all();
            done?;
            (from, blocks) = (start + count, blocks + count);
            progress(blocks * BLOCK_LEN as u64);
        }
        Ok(blocks * BLOCK_LEN as u64)
    }
}

#[cfg(test)]
mod tests;
