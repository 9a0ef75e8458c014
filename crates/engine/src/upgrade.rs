//! Upgrading: a store of an older format whose bytes are otherwise the same gets superblocks of this one.
//!
//! Invariants:
//! - Nothing is upgraded by opening: the owner asks for it.
//! - A store is upgraded only when it can be opened: its log is read, as opening does, and what is wrong is told.
//! - Each superblock is written between two syncs, the older one first: at every moment one of them is whole, and
//!   both name the same state.
//! - To upgrade again changes nothing, and finishes what a crash has left half done.

use std::sync::Arc;

use crate::device::Device;
use crate::engine::{Engine, first_book, new_core};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::superblock::{FORMAT, Slot, Superblock, read_newest, read_slot, write_slot};

/// What upgrading did, or would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The format before.
    pub from: u32,
    /// The format now.
    pub to: u32,
    /// Superblocks that were written, or would be.
    pub superblocks: u32,
}

impl Engine {
    /// Gives a store of an older format this program's; with `dry_run` only tells what would be done. The device is
    /// closed in the end.
    pub fn upgrade(device: Arc<dyn Device>, dry_run: bool) -> Result<Upgrade> {
        let done = upgrade(&device, dry_run);
        let closed = device.close().map_err(|e| Error::device("cannot close the device", e));
        done.and_then(|done| closed.map(|()| done))
    }
}

fn upgrade(device: &Arc<dyn Device>, dry_run: bool) -> Result<Upgrade> {
    if !dry_run {
        sync(device.as_ref())?;
    }
    let (slot, newest) = read_newest(device.as_ref())?;
    newest.check_features(true)?;
    let other = read_slot(device.as_ref(), slot.other());
    let from = other.map_or(newest.format, |other| other.format).min(newest.format);
    // The newest itself comes second, and only when it is older: the other slot is then of this format already.
    let slots: &[Slot] = match (newest.format < FORMAT, from < FORMAT) {
        (true, _) => &[slot.other(), slot],
        (false, true) => &[slot.other()],
        (false, false) => &[],
    };
    let told = Upgrade { from, to: FORMAT, superblocks: slots.len() as u32 };
    if slots.is_empty() {
        return Ok(told);
    }
    opens(device, slot, &newest)?;
    if dry_run {
        return Ok(told);
    }
    for (slot, sequence) in slots.iter().zip(newest.sequence + 1..) {
        write_slot(device.as_ref(), *slot, &Superblock { format: FORMAT, sequence, ..newest.clone() })?;
        sync(device.as_ref())?;
    }
    Ok(told)
}

/// Reads the log as opening does, in memory only.
fn opens(device: &Arc<dyn Device>, slot: Slot, newest: &Superblock) -> Result<()> {
    let options = Options { read_only: true, ..Options::default() };
    let checkpointed = |device: &dyn Device, _: &_| first_book(device, slot, newest);
    new_core(Arc::clone(device), newest, options, checkpointed)?.replay(newest).map(drop)
}

fn sync(device: &dyn Device) -> Result<()> {
    device.sync().map_err(|e| Error::device("cannot make what is on the device durable", e))
}

#[cfg(test)]
mod tests;
