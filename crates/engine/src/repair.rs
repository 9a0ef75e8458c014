//! `repair`: a free list that is damaged or wrong is made anew from what the trees name.
//!
//! Invariants:
//! - Nothing is written unless everything but the free list is sound: every node, every chunk, every count.
//! - What is written is what opening and closing the store writes: a free list and superblocks (and what the log
//!   still held). Nothing that a tree names is touched.

use std::sync::Arc;

use crate::check::{self, Progress, Report};
use crate::checkpoint::Book;
use crate::device::Device;
use crate::engine::{Engine, Options, new_core};
use crate::error::{Error, ErrorKind, Result};
use crate::recovery::stored_book;
use crate::space::Runs;
use crate::superblock::read_newest;

/// What a repair found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// What is wrong beside the free list; when there is anything, nothing was changed.
    pub report: Report,
    /// What was wrong with the free list; `None`: nothing, and nothing was changed.
    pub free_list: Option<String>,
}

impl Engine {
    /// Makes the free list of a store anew where that alone is wrong. The device is closed in the end.
    pub fn repair(device: Arc<dyn Device>, options: Options, progress: &mut dyn FnMut(Progress)) -> Result<Repair> {
        device.sync().map_err(|e| Error::device("cannot make what is on the device durable", e))?;
        let (slot, superblock) = read_newest(device.as_ref())?;
        let stored = stored_book(device.as_ref(), slot, &superblock);
        let (newest, older_cut) = (superblock.clone(), superblock.cut);
        let empty = Book { newest, slot, older_cut, free: Runs::new(), pages: Vec::new(), written: Vec::new() };
        let core = new_core(device, &superblock, options, |_, _| Ok(empty))?;
        let (named, free) = check::unnamed(&core, progress)?;
        core.book.lock().free = free;
        let free_list = match stored {
            Ok(book) if superblock.free.is_none() || is_right(&book, &core.book.lock().free) => None,
            Ok(_) => Some("it names other blocks than those that nothing needs".to_owned()),
            Err(error) if error.kind() == ErrorKind::Damaged => Some(error.message().to_owned()),
            Err(error) => return Err(error),
        };
        if !named.is_sound() {
            core.device.close().map_err(|e| Error::device("cannot close the device", e))?;
            return Ok(Repair { report: named, free_list });
        }
        let (recovered, free) = core.replay(&superblock)?;
        for (start, count) in free.iter() {
            core.allocator.release(start, count)?;
        }
        let report = check::check(&core, progress)?;
        if report.is_sound() && free_list.is_some() {
            core.finish_recovery(superblock.reserve)?;
            Engine::of(core, recovered).close()?;
        } else {
            core.device.close().map_err(|e| Error::device("cannot close the device", e))?;
        }
        Ok(Repair { report, free_list })
    }
}

/// Whether a stored book names the same blocks as free, its own pages aside.
fn is_right(book: &Book, free: &Runs) -> bool {
    let mut named = book.free.clone();
    book.pages.iter().all(|page| named.add(page.start, u64::from(page.count)).is_ok()) && named == *free
}

#[cfg(test)]
mod tests;
