//! `repair`: a free list or a table of reference counts that is damaged or wrong is made anew from what the trees name.
//!
//! Invariants:
//! - Nothing is written unless everything else is sound: every node, every chunk, every list of branches.
//! - What is written is what opening and closing the store writes: a free list, the nodes of the table of counts, and
//!   superblocks (and what the log still held). Nothing that another tree names is touched.
//! - The counts are right before the log is applied: it may free what they tell to be shared.

use std::sync::Arc;

use crate::address::BlockRange;
use crate::allocator::Runs;
use crate::apply::reference::Shared;
use crate::check::{self, Progress, Report};
use crate::checkpoint_state::CheckpointState;
use crate::core::Core;
use crate::device::Device;
use crate::engine::{Engine, new_core};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;
use crate::recovery::stored_book;
use crate::superblock::read_newest;

/// What a repair found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// What is wrong beside the free list and the counts; when there is anything, nothing was changed.
    pub report: Report,
    /// What was wrong with the free list; `None`: nothing, and nothing was changed.
    pub free_list: Option<String>,
    /// What was wrong with the counts of references; `None`: nothing.
    pub references: Option<String>,
}

impl Repair {
    /// Whether anything was mended.
    pub fn has_changed(&self) -> bool {
        self.report.is_sound() && (self.free_list.is_some() || self.references.is_some())
    }
}

impl Engine {
    /// Makes the free list and the counts of references of a store anew where those alone are wrong. The device is closed in the end.
    pub fn repair(device: Arc<dyn Device>, options: Options, progress: &mut dyn FnMut(Progress)) -> Result<Repair> {
        device.sync().map_err(|e| Error::device("cannot make what is on the device durable", e))?;
        let (slot, superblock) = read_newest(device.as_ref())?;
        superblock.check_features(true)?;
        let stored = stored_book(device.as_ref(), slot, &superblock);
        let (newest, older_cut) = (superblock.clone(), superblock.cut);
        let empty =
            CheckpointState { newest, slot, older_cut, free: Runs::new(), pages: Vec::new(), written: Vec::new() };
        let core = new_core(device, &superblock, options, |_, _| Ok(empty))?;
        let check::Named { report: named, free, counts, wrong_counts: references, table } =
            check::named(&core, progress)?;
        core.checkpointed.lock().free = free;
        let free_list = match stored {
            Ok(checkpointed)
                if superblock.free.is_none() || is_right(&checkpointed, &core.checkpointed.lock().free) =>
            {
                None
            }
            Ok(_) => Some("it names other blocks than those that nothing needs".to_owned()),
            Err(error) if error.kind() == ErrorKind::Damaged => Some(error.message().to_owned()),
            Err(error) => return Err(error),
        };
        if !named.is_sound() {
            core.device.close().map_err(|e| Error::device("cannot close the device", e))?;
            return Ok(Repair { report: named, free_list, references });
        }
        if references.is_some() {
            core.set_references(&counts, &table)?;
        }
        let (recovered, free) = core.replay(&superblock)?;
        for (start, count) in free.iter() {
            core.allocator.release(start, count)?;
        }
        let report = check::check(&core, progress)?;
        if report.is_sound() && (free_list.is_some() || references.is_some()) {
            core.finish_recovery(superblock.reserve)?;
            Engine::of(core, recovered).close()?;
        } else {
            core.device.close().map_err(|e| Error::device("cannot close the device", e))?;
        }
        Ok(Repair { report, free_list, references })
    }
}

impl Core {
    /// Puts these counts of references in the place of those that the state has, whose nodes are `old`.
    pub(crate) fn set_references(&self, counts: &[Shared], old: &[BlockRange]) -> Result<()> {
        let mut head = self.head.lock();
        let version = head.state.version;
        let mut write_transaction = self.write_transaction(&head, version);
        write_transaction.set_references(counts, old)?;
        let applied = write_transaction.finish()?;
        self.install(&mut head, applied);
        Ok(())
    }
}

/// Whether a stored checkpoint state names the same blocks as free, its own pages aside.
fn is_right(checkpointed: &CheckpointState, free: &Runs) -> bool {
    let mut named = checkpointed.free.clone();
    checkpointed.pages.iter().all(|page| named.add(page.start, u64::from(page.count)).is_ok()) && named == *free
}

#[cfg(test)]
mod tests;
