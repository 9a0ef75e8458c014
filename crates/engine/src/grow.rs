//! Growing: a store takes more of its medium, by itself as it fills or because its owner asks.
//!
//! A store of larger blocks grows before it cuts new data up into the gaps between whole blocks, as long as those are
//! less than half of it.
//!
//! A file is made longer, up to the store's limit. A block device is as long as it is; when its owner has made
//! it (or its partition) longer, [`Engine::grow`] takes what is new, while the store is in use.
//!
//! Invariants:
//! - New blocks are there for certain before a superblock names them: a file was synced at its new length; the
//!   end of a longer device was written, synced and read back.
//! - The new length becomes known by one superblock over the older slot, between two syncs, as any other.
//! - A store never becomes shorter; a medium that has become shorter is refused.

use std::io;
use std::sync::atomic::Ordering;

use crate::allocator::{Allocator, Class};
use crate::checkpoint_state::CheckpointState;
use crate::core::Core;
use crate::device::{AlignedBuffer, BLOCK_LEN, ReadMode};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::superblock::Superblock;

/// How much a store may grow at once: 1 GiB.
const GROW_BLOCKS_MAX: u64 = 1 << 18;

/// Up to where a store is to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowTo {
    /// All of a device or partition that was made longer.
    Device,
    /// So many bytes: of a device now, of a file as they are needed.
    Size(u64),
    /// As far as a file can; nothing is taken now.
    Unlimited,
}

/// A store of larger blocks grows for whole ones while less than one part of so many of it is free between them.
const GAPS_SHARE: u64 = 2;

/// What growing did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    /// The store's length in bytes before.
    pub before: u64,
    /// Its length in bytes now.
    pub after: u64,
    /// Up to what it grows by itself; `None`: as far as the medium goes.
    pub limit: Option<u64>,
}

impl Engine {
    /// Lets the store grow: takes what was added to its device, or changes the limit of its file. It may be in use.
    pub fn grow(&self, to: GrowTo) -> Result<Grown> {
        let core = self.shared();
        core.check_takes_writes()?;
        let mut checkpointed = core.checkpointed.lock();
        let before = checkpointed.newest.blocks;
        if core.device.is_fixed() {
            core.take_device(&mut checkpointed, to)?
        } else {
            core.change_limit(&mut checkpointed, to)?
        }
        core.after_switch(&checkpointed)?;
        let bytes = |blocks: u64| blocks * BLOCK_LEN as u64;
        let limit = if core.device.is_fixed() { checkpointed.newest.blocks } else { checkpointed.newest.blocks_max };
        let limit = Some(limit).filter(|limit| *limit > 0).map(bytes);
        Ok(Grown { before: bytes(before), after: bytes(checkpointed.newest.blocks), limit })
    }
}

impl Core {
    /// Takes what a device has more than the store.
    fn take_device(&self, checkpointed: &mut CheckpointState, to: GrowTo) -> Result<()> {
        let length = self.device.refresh().map_err(|e| Error::device("cannot tell the length of the device", e))?;
        let blocks = checkpointed.newest.blocks;
        let there = length / BLOCK_LEN as u64;
        if there < blocks {
            return Err(Error::damaged(format!(
                "the device has only {length} bytes now, the store on it {}: it was cut; make it as long again before anything is written",
                blocks * BLOCK_LEN as u64
            )));
        }
        let target = match to {
            GrowTo::Device => there,
            GrowTo::Size(size) => size / BLOCK_LEN as u64,
            GrowTo::Unlimited => {
                return Err(Error::invalid("a device has an end: let the store grow to all of it, or give a size"));
            }
        };
        if target < blocks {
            return Err(too_small(blocks));
        }
        if target > there {
            return Err(Error::invalid(format!(
                "the device has {length} bytes: make it or its partition longer first"
            )));
        }
        if target == blocks {
            return Ok(());
        }
        let blocks_max =
            if checkpointed.newest.blocks_max == 0 { 0 } else { checkpointed.newest.blocks_max.max(target) };
        let sequence = checkpointed.newest.sequence + 1;
        let next = Superblock { sequence, blocks: target, blocks_max, ..checkpointed.newest.clone() };
        self.prove_end(&next)?;
        self.extend(checkpointed, next)
    }

    /// Writes the last block of the store to be, makes it durable and reads it: a device that only says that it is
    /// so long is found out before anything depends on it.
    fn prove_end(&self, next: &Superblock) -> Result<()> {
        let at = (next.blocks - 1) * BLOCK_LEN as u64;
        let written = next.encode();
        let failed = |e| Error::device(format!("the device cannot be used up to its end, at byte {at}"), e);
        // What fails here is not the store's yet: it goes on as it was.
        self.device.write_at(&written, at).map_err(failed)?;
        self.sync_device()?;
        let mut read = AlignedBuffer::zeroed(BLOCK_LEN);
        self.device.read_at(&mut read, at, ReadMode::Direct).map_err(failed)?;
        if read[..] != written[..] {
            let message = format!("the device does not keep what is written to its end, at byte {at}");
            return Err(failed(io::Error::other(message)));
        }
        Ok(())
    }

    /// Sets up to where a file may grow.
    fn change_limit(&self, checkpointed: &mut CheckpointState, to: GrowTo) -> Result<()> {
        let blocks_max = match to {
            GrowTo::Size(size) if size / (BLOCK_LEN as u64) < checkpointed.newest.blocks => {
                return Err(too_small(checkpointed.newest.blocks));
            }
            GrowTo::Size(size) => size / BLOCK_LEN as u64,
            GrowTo::Unlimited => 0,
            GrowTo::Device => {
                return Err(Error::invalid(
                    "the store is in a file, which grows as it is needed: give the size up to which it may",
                ));
            }
        };
        if blocks_max == checkpointed.newest.blocks_max {
            return Ok(());
        }
        self.grows_for_units.store(self.allocator.unit_blocks() > 1, Ordering::Relaxed);
        self.sync_device()?;
        let next = Superblock { sequence: checkpointed.newest.sequence + 1, blocks_max, ..checkpointed.newest.clone() };
        self.switch(checkpointed, next)
    }

    /// The medium has the blocks of `next`, durably: the store has them too from now on.
    fn extend(&self, checkpointed: &mut CheckpointState, next: Superblock) -> Result<()> {
        let (blocks, target) = (checkpointed.newest.blocks, next.blocks);
        self.switch(checkpointed, next)?;
        checkpointed.free.add(blocks, target - blocks)?;
        self.allocator.release(blocks, target - blocks)
    }

    /// Makes the store larger by itself; false when it cannot be.
    pub(crate) fn grow(&self, want: u64) -> Result<bool> {
        self.grow_unless(want, &|space| space.admits(want, Class::Data))
    }

    /// Grows for new data where that would have to lie in the gaps between whole units, and those are few.
    pub(crate) fn grow_for_units(&self, want: u32) -> Result<()> {
        let want = u64::from(want);
        if !self.grows_for_units.load(Ordering::Relaxed) || self.allocator.has_aligned(want) {
            return Ok(());
        }
        let length = self.device.len().map_err(|e| Error::device("cannot tell the length of the store", e))?;
        if self.allocator.free_blocks() < length / BLOCK_LEN as u64 / GAPS_SHARE {
            let grown = self.grow_unless(want, &|space| space.has_aligned(want))?;
            // It is not asked again until its limit is changed.
            self.grows_for_units.store(grown, Ordering::Relaxed);
        }
        Ok(())
    }

    fn grow_unless(&self, want: u64, is_enough: &dyn Fn(&Allocator) -> bool) -> Result<bool> {
        if self.device.is_fixed() {
            return Ok(false);
        }
        let mut checkpointed = self.checkpointed.lock();
        if is_enough(&self.allocator) {
            return Ok(true);
        }
        let blocks = checkpointed.newest.blocks;
        let most = if checkpointed.newest.blocks_max == 0 {
            u64::MAX / BLOCK_LEN as u64
        } else {
            checkpointed.newest.blocks_max
        };
        let step = (blocks / 2).clamp(want.saturating_mul(2).min(GROW_BLOCKS_MAX), GROW_BLOCKS_MAX);
        let target = blocks.saturating_add(step).min(most);
        if target <= blocks {
            return Ok(false);
        }
        if let Err(error) = self.device.grow(target * BLOCK_LEN as u64) {
            return match error.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::Unsupported
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge => Ok(false),
                _ => Err(Error::device("cannot make the store larger", error)),
            };
        }
        self.sync_device()?;
        let next =
            Superblock { sequence: checkpointed.newest.sequence + 1, blocks: target, ..checkpointed.newest.clone() };
        self.extend(&mut checkpointed, next)?;
        self.after_switch(&checkpointed)?;
        Ok(true)
    }
}

fn too_small(blocks: u64) -> Error {
    let bytes = blocks * BLOCK_LEN as u64;
    Error::new(ErrorKind::Invalid, format!("the store has {bytes} bytes already and does not become smaller"))
}

#[cfg(test)]
mod tests;
