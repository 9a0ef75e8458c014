//! `repair`: a free list that is damaged or wrong is made anew from what the trees name.
//!
//! Invariants:
//! - Nothing is written unless everything but the free list is sound: every node, every chunk, every count.
//! - What is written is what opening and closing the store writes: a free list and superblocks (and what the log
//!   still held). Nothing that a tree names is touched.

use std::sync::Arc;

use bytes::Bytes;

use crate::check::{self, Progress, Report};
use crate::checkpoint::Book;
use crate::device::Device;
use crate::engine::{Engine, Options, new_core};
use crate::error::{Error, ErrorKind, Result};
use crate::node_cache::NodeCache;
use crate::recovery::stored_book;
use crate::space::Runs;
use crate::superblock::{SECOND_SLOT_BLOCK, Slot, Superblock, read_newest};
use crate::tree::{NodeRef, NodeSource, Tree, Visit, Visitor, walk};
use crate::value::{BlockRange, Piece, Value};

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
        let rebuilt = |_: &dyn Device, nodes: &NodeCache| rebuilt_book(slot, &superblock, nodes);
        let core = new_core(device, &superblock, options, rebuilt)?;
        let free_list = match stored {
            Ok(book) if superblock.free.is_none() || is_right(&book, &core.book.lock().free) => None,
            Ok(_) => Some("it names other blocks than those that nothing needs".to_owned()),
            Err(error) if error.kind() == ErrorKind::Damaged => Some(error.message().to_owned()),
            Err(error) => return Err(error),
        };
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

/// The book with everything free that nothing names.
fn rebuilt_book(slot: Slot, superblock: &Superblock, nodes: &dyn NodeSource) -> Result<Book> {
    let master = superblock.root.map_or_else(Tree::new, |root| Tree::at(root, superblock.root_entries));
    let mut named = Named { source: nodes, ranges: Vec::new() };
    walk(&master, nodes, &mut named)?;
    let mut ranges = named.ranges;
    ranges.extend([BlockRange { start: 0, count: 1 }, BlockRange { start: SECOND_SLOT_BLOCK, count: 1 }]);
    ranges.push(superblock.ring);
    ranges.sort_by_key(|range| range.start);
    let (mut free, mut at) = (Runs::new(), 0);
    for range in ranges {
        if range.start > at {
            free.add(at, range.start - at)?;
        }
        at = at.max(range.end());
    }
    if at > superblock.blocks {
        return Err(Error::damaged("the trees name blocks past the end of the store"));
    }
    if at < superblock.blocks {
        free.add(at, superblock.blocks - at)?;
    }
    let newest = superblock.clone();
    Ok(Book { newest, slot, older_cut: superblock.cut, free, pages: Vec::new(), written: Vec::new() })
}

/// Gathers the blocks that a tree, and the trees in it, name. What cannot be read ends it: that is more than a
/// free list can be made from.
struct Named<'a> {
    source: &'a dyn NodeSource,
    ranges: Vec<BlockRange>,
}

impl Visitor for Named<'_> {
    fn node(&mut self, at: &NodeRef) -> Result<Visit> {
        self.ranges.push(at.range());
        Ok(Visit::Into)
    }

    fn entry(&mut self, _: &Bytes, value: &Value) -> Result<()> {
        if let Value::Root(root) = value {
            let source = self.source;
            walk(&root.tree, source, self)?;
        }
        if let Some(Piece::Disk(extent)) = value.piece() {
            self.ranges.push(extent.blocks());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
