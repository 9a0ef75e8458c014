//! Checkpoints: what the log says becomes part of the stored tree, and the log may go on over old ground.
//!
//! Order: nodes and packed values, the free list, sync, superblock (over the older slot), sync.
//!
//! Invariants:
//! - A checkpoint stores the state at a cut: exactly the commits up to one group's end.
//! - `CheckpointState::free` is the set of blocks that the state at the last cut does not need, so that stages under way
//!   and blocks freed but not yet reusable count as free in what is stored.
//! - The log is kept from the older superblock's cut on.

mod sink;

use std::sync::Arc;
use std::time::Duration;

use crate::address::{BlockRange, Generation, NodeRef};
use crate::allocator::{Class, PlacementHint, free_list};
use crate::batch::Version;
use crate::checkpoint_state::CheckpointState;
use crate::commit_state::{CheckpointPosition, CommitState, Delta};
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::log::ring::Position;
use crate::options::Background;
use crate::superblock::{Superblock, write_slot};
use crate::tree::{DirtySize, Stamp, unplaced, write_dirty};
use sink::Sink;

/// Space is asked for in runs of this many blocks.
pub(crate) const RUN_BLOCKS: u32 = 256;
/// A store without commits for [`IDLE_TIME`] makes a checkpoint when more than this would be written by it, in bytes.
const IDLE_LEN: u64 = 1 << 20;
/// See [`IDLE_LEN`].
const IDLE_TIME: Duration = Duration::from_secs(1);
/// The same where much waits: a checkpoint would have come soon anyway.
const IDLE_LEN_MUCH: u64 = 16 << 20;
/// See [`IDLE_LEN_MUCH`].
const IDLE_TIME_MUCH: Duration = Duration::from_millis(100);

fn is_full<T>(done: &Result<T>) -> bool {
    done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full)
}

impl Core {
    /// Stores the state of the last group that was built.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.expire_views();
        self.grow_for_dirty_budget()?;
        let mut checkpointed = self.checkpointed.lock();
        let cut = {
            let mut head = self.head.lock();
            // What is queued is not of the cut.
            while head.unwritten.is_some() && head.in_flight {
                // After a failure nobody ends what is under way.
                self.check_running()?;
                self.room.wait(&mut head);
            }
            head.checkpoint_wanted = false;
            // The superblock will name the end of the last group: nothing may be added to that.
            head.open = None;
            head.checkpoint_cut = head.sealed.state.version;
            head.sealed.clone()
        };
        let mut done = self.store(&mut checkpointed, cut.clone(), false);
        if is_full(&done) {
            // What only the older root needs makes room for the newer.
            self.give_up_older(&mut checkpointed)?;
            done = self.store(&mut checkpointed, cut.clone(), false);
        }
        // So does what only views need: without a checkpoint nothing could even be deleted.
        while is_full(&done) && self.expire_for_room()? {
            done = self.store(&mut checkpointed, cut.clone(), false);
        }
        if done.is_ok() && self.reuse.lock().waits_for_checkpoint() > self.allocator.free_blocks() {
            // More waits for the next checkpoint than is left for it.
            self.give_up_older(&mut checkpointed)?;
        }
        let mut head = self.head.lock();
        head.checkpoint_full = is_full(&done);
        head.checkpoint_cut = Version(0);
        done.and_then(|()| self.settle_state(&mut head, cut.state.version))?;
        drop((head, cut));
        // With the memory forms went leases.
        self.release_reusable().inspect_err(|error| self.fail(error))
    }

    /// Where nothing was committed since a cut that is written now, what memory holds of its nodes goes.
    fn settle_state(&self, head: &mut CommitState, cut: Version) -> Result<()> {
        if head.state.version == cut {
            head.state.master = head.state.master.settled()?.with_roots(&self.nodes.now())?;
            head.sealed.state.master = head.state.master.clone();
            self.show_settled(head);
        }
        Ok(())
    }

    /// Views begin with the newest form of a state that is visible already.
    fn show_settled(&self, head: &CommitState) {
        let mut visible = self.visible.write();
        if visible.version == head.state.version {
            visible.master = head.state.master.clone();
        }
    }

    /// Writes the newest superblock over the older one too: space that only the older root needs comes back.
    pub(crate) fn give_up_older(&self, checkpointed: &mut CheckpointState) -> Result<()> {
        if checkpointed.older_cut < checkpointed.newest.cut {
            let again = Superblock { sequence: checkpointed.newest.sequence + 1, ..checkpointed.newest.clone() };
            self.switch(checkpointed, again)?;
        }
        self.after_switch(checkpointed)
    }

    /// Stores the state at a cut; `clean` says that nothing will be logged after it. `Full` changes nothing
    /// and may be tried again; any other error stops the store.
    pub(crate) fn store(&self, checkpointed: &mut CheckpointState, cut: CheckpointPosition, clean: bool) -> Result<()> {
        self.check_running()?;
        self.try_store(checkpointed, cut, clean).inspect_err(|error| {
            if error.kind() != ErrorKind::Full {
                self.fail(error);
            }
        })
    }

    /// Writes what only memory holds of a state.
    fn write_state(
        &self,
        checkpointed: &mut CheckpointState,
        cut: &CheckpointPosition,
        birth: Generation,
    ) -> Result<Option<NodeRef>> {
        let mut sink = Sink::new(self, birth);
        let stamp = Stamp { birth, cut: cut.state.version, store: self.store };
        let mut values = Vec::new();
        unplaced(&cut.state.master, &mut values);
        let placed = sink.place_values(values);
        let root = placed.and_then(|()| write_dirty(&cut.state.master, stamp, &mut sink));
        // Also after a failure: what was placed stays placed, and the next checkpoint names it.
        let (used, written) = sink.finish();
        checkpointed.written.extend(used);
        written.and(root)
    }

    fn try_store(&self, checkpointed: &mut CheckpointState, cut: CheckpointPosition, clean: bool) -> Result<()> {
        // A generation of its own: what is branched off later shares all that this checkpoint writes.
        let generation = {
            let mut head = self.head.lock();
            head.counters.generation.0 += 1;
            head.counters.generation
        };
        let root = self.write_state(checkpointed, &cut, generation)?;
        self.settle_free(checkpointed, &cut)?;
        let pages = self.allocate_pages(checkpointed)?;
        let free = free_list::write(self.device.as_ref(), &checkpointed.free, &pages)?;
        self.sync_device()?;
        let version = cut.state.version;
        let features = cut.state.features(&self.nodes, checkpointed.newest.features);
        let next = Superblock {
            features,
            sequence: checkpointed.newest.sequence + 1,
            epoch: self.epoch,
            cut: version,
            reserve: Version(version.0 + self.ring.length()),
            position: cut.position.0,
            chain: cut.chain,
            next_blob: cut.counters.next_blob,
            generation,
            root,
            root_entries: cut.state.master.len(),
            free,
            free_covers: checkpointed.newest.blocks,
            clean,
            ..checkpointed.newest.clone()
        };
        self.switch(checkpointed, next)?;
        let old_pages = std::mem::replace(&mut checkpointed.pages, pages);
        let mut head = self.head.lock();
        head.dirty = head.dirty.without(cut.dirty);
        head.sealed.dirty = head.sealed.dirty.without(cut.dirty);
        self.keep_for_dirty_budget(&head);
        head.checkpoints += 1;
        {
            let mut reuse = self.reuse.lock();
            old_pages.into_iter().for_each(|page| reuse.queue.push(version, page));
        }
        drop(head);
        self.after_switch(checkpointed)
    }

    /// Writes a superblock over the older slot; it is the newest from then on.
    pub(crate) fn switch(&self, checkpointed: &mut CheckpointState, next: Superblock) -> Result<()> {
        let slot = checkpointed.slot.other();
        self.check_running()?;
        write_slot(self.device.as_ref(), slot, &next).inspect_err(|error| self.fail(error))?;
        self.sync_device()?;
        let older = std::mem::replace(&mut checkpointed.newest, next);
        checkpointed.slot = slot;
        checkpointed.older_cut = older.cut;
        let mut head = self.head.lock();
        head.tail = Position(older.position);
        head.cut_at = Position(checkpointed.newest.position);
        head.reserve = checkpointed.newest.reserve;
        Ok(())
    }

    pub(crate) fn after_switch(&self, checkpointed: &CheckpointState) -> Result<()> {
        self.reuse.lock().safe = checkpointed.older_cut;
        self.release_reusable().inspect_err(|error| self.fail(error))?;
        self.set_reserve(checkpointed);
        self.room.notify_all();
        Ok(())
    }

    /// Brings the set of free blocks to the cut.
    fn settle_free(&self, checkpointed: &mut CheckpointState, cut: &CheckpointPosition) -> Result<()> {
        let mut deltas = self.head.lock().take_deltas(cut.state.version);
        deltas.sort_by_key(|(version, _)| *version);
        for (_, delta) in deltas {
            match delta {
                Delta::Use(range) => checkpointed.free.remove(range.start, u64::from(range.count))?,
                Delta::Free(range) => checkpointed.free.add(range.start, u64::from(range.count))?,
            };
        }
        for range in std::mem::take(&mut checkpointed.written) {
            checkpointed.free.remove(range.start, u64::from(range.count))?;
        }
        Ok(())
    }

    /// Pages for the free list, taken out of it; those of the list before are put in.
    fn allocate_pages(&self, checkpointed: &mut CheckpointState) -> Result<Vec<BlockRange>> {
        for page in &checkpointed.pages {
            checkpointed.free.add(page.start, u64::from(page.count))?;
        }
        let mut pages: Vec<BlockRange> = Vec::new();
        let Err(error) = self.take_pages(checkpointed, &mut pages) else { return Ok(pages) };
        for page in pages {
            checkpointed.free.add(page.start, u64::from(page.count))?;
            self.allocator.release(page.start, u64::from(page.count))?;
        }
        for page in &checkpointed.pages {
            checkpointed.free.remove(page.start, u64::from(page.count))?;
        }
        Err(error)
    }

    fn take_pages(&self, checkpointed: &mut CheckpointState, pages: &mut Vec<BlockRange>) -> Result<()> {
        loop {
            let room = free_list::capacity(pages);
            // One more run than there are: a page may be taken from the middle of one.
            let missing = (checkpointed.free.len() + 1).saturating_sub(room);
            if missing == 0 {
                return Ok(());
            }
            let want = free_list::page_blocks(missing);
            let found = self.allocator.allocate(want, Class::Checkpoint, PlacementHint::default());
            let page = found.ok_or_else(|| Error::new(ErrorKind::Full, "no space is left for the free list"))?;
            checkpointed.free.remove(page.start, u64::from(page.count))?;
            pages.push(page);
        }
    }

    /// Tries to make `want` blocks available to data: by growing, or by checkpoints that make freed blocks
    /// reusable. Fails with `Full` when neither can help.
    pub(crate) fn make_room(self: &Arc<Core>, want: u64) -> Result<()> {
        if self.grow(want)? {
            return Ok(());
        }
        // What was dropped and not taken down yet comes first.
        while self.reuse.lock().queue.blocks() < want && self.reclaim_for_room()? {}
        for _ in 0..2 {
            let waiting = self.reuse.lock().queue.blocks();
            let dirty = self.head.lock().dirty;
            if waiting == 0 && dirty == DirtySize::default() {
                break;
            }
            if self.background == Background::Manual {
                self.write_group()?;
            }
            self.checkpoint()?;
            self.give_up_older(&mut self.checkpointed.lock())?;
            if self.allocator.admits(want, Class::Data) {
                return Ok(());
            }
        }
        if self.allocator.admits(want, Class::Data) {
            return Ok(());
        }
        let message = "the store is full: delete something, or give it more space; deleting still works";
        Err(Error::new(ErrorKind::Full, message))
    }

    /// The checkpointer's thread.
    pub(crate) fn run_checkpointer(self: Arc<Core>) {
        loop {
            {
                let mut head = self.head.lock();
                let mut seen = head.state.version;
                while !self.wants_checkpoint(&head) {
                    if head.closing || self.check_running().is_err() {
                        return;
                    }
                    let much = head.dirty.device_len > IDLE_LEN_MUCH;
                    let (time, length) = if much { (IDLE_TIME_MUCH, IDLE_LEN_MUCH) } else { (IDLE_TIME, IDLE_LEN) };
                    if self.checkpoint_work.wait_for(&mut head, time).timed_out() {
                        self.show_settled(&head);
                        // Reads are fastest, and the next start has least to do, when nothing waits.
                        head.checkpoint_wanted |= seen == head.state.version && head.dirty.device_len > length;
                        seen = head.state.version;
                    }
                }
                if head.closing || self.check_running().is_err() {
                    return;
                }
            }
            match self.checkpoint() {
                Ok(()) => {}
                // Something may be deleted, or a view let go.
                Err(error) if error.kind() == ErrorKind::Full => std::thread::sleep(Duration::from_millis(100)),
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
