//! Before a batch gets its place in the order of commits: room, what it reads, and its data.
//!
//! Invariants:
//! - What is named by a commit is written before that is queued; but one stage, of a commit that is the first of the next
//!   group and waits for the medium, is left to whoever writes the group ([`CommitState::unwritten`]).
//! - No commit that reads those bytes, or has them in another place too, comes in before they are there.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::form::{blocks_needed, branched, reads_from, unwritten_of};
use crate::allocator::Class;
use crate::batch::{Durability, Place};
use crate::commit_state::CommitState;
use crate::core::Core;
use crate::device::BLOCK_LEN;
use crate::error::{Error, ErrorKind, Result};
use crate::log::record::Step;
use crate::options::Background;
use crate::reservations::draws;
use crate::staged::Staged;
use crate::ticket::is_completing;

/// The head's lock, and data that is written beside the group of what comes next.
pub(super) type Entered<'c> = (MutexGuard<'c, CommitState>, Option<(Place, Arc<Staged>)>);

impl CommitState {
    /// Whether the next commit is the first record of the next group, and nothing that was told shares its block.
    fn is_idle(&self) -> bool {
        !self.in_flight && self.queue.is_empty() && self.open.is_none() && self.unwritten.is_none()
    }
}

impl Core {
    /// Takes the head's lock once there is room for a batch whose data is written; but what it names that can be written
    /// beside its group, which is given.
    pub(super) fn enter_with_data(self: &Arc<Core>, steps: &[Step], durability: Durability) -> Result<Entered<'_>> {
        let mut unwritten = unwritten_of(steps);
        if let ([_], Durability::Sync) = (unwritten.as_slice(), durability)
            && !steps.iter().any(|step| branched(step).is_some())
            && self.head.lock().is_idle()
        {
            let head = self.enter(steps)?;
            if head.is_idle() {
                return Ok((head, unwritten.pop()));
            }
        }
        unwritten.iter().try_for_each(|(_, staged)| self.write_out(staged))?;
        Ok((self.enter(steps)?, None))
    }

    /// Waits until there is room for a batch and takes the head's lock.
    pub(super) fn enter(self: &Arc<Core>, steps: &[Step]) -> Result<MutexGuard<'_, CommitState>> {
        let need = blocks_needed(steps);
        let class = if draws(steps) { Class::Reserved } else { Class::Data };
        let mut tries = 0;
        self.pace()?;
        loop {
            let head = self.enter_at_once()?;
            // Where no checkpoint finds room, what takes space is refused and what gives it back goes on.
            let dirty = head.dirty.exceeds(self.dirty_budget(&head).with_half());
            if dirty && head.checkpoint_full && need > 0 {
                return Err(Error::new(ErrorKind::Full, "the store is full: delete something, or give it more space"));
            }
            let waits = head.queue_len > self.limits.group_len_max / 2 || (dirty && !head.checkpoint_full);
            if waits && !is_completing() {
                self.wait_for_writer(head, dirty)?;
                continue;
            }
            if self.waits_for_data(&head, steps) {
                self.wait_for_writer(head, false)?;
                continue;
            }
            if need == 0 || self.has_room(&head, need, class) {
                return Ok(head);
            }
            let promised = reserved_blocks(&head);
            drop(head);
            tries += 1;
            self.make_room(promised + need).or_else(|error| if tries > 1 { Err(error) } else { Ok(()) })?;
        }
    }

    /// Slows down who commits while a checkpoint is under way and what waits for the next one grows, so that nobody has to
    /// wait for the end of it.
    fn pace(&self) -> Result<()> {
        if self.background == Background::Manual || is_completing() {
            return Ok(());
        }
        let mut head = self.enter_at_once()?;
        if let Some(pause) = self.pause(&head) {
            self.room.wait_for(&mut head, pause);
        }
        Ok(())
    }

    /// Whether there is room for so many blocks, with what waits for a checkpoint.
    pub(super) fn has_room(&self, head: &CommitState, need: u64, class: Class) -> bool {
        self.allocator.admits(reserved_blocks(head) + need, class)
    }

    /// Whether a step reads bytes of a value whose newest are still on their way, which only counters do here, or has
    /// them in another place too.
    fn waits_for_data(&self, head: &CommitState, steps: &[Step]) -> bool {
        let reads = |(unwritten, _): &(Place, Arc<Staged>)| steps.iter().any(|step| reads_from(step, unwritten));
        head.unwritten.as_ref().is_some_and(reads) && !is_completing()
    }

    /// Takes the head's lock, whether there is room or not.
    pub(super) fn enter_at_once(&self) -> Result<MutexGuard<'_, CommitState>> {
        let head = self.head.lock();
        self.check_running()?;
        if head.closing {
            return Err(Error::new(ErrorKind::Stopped, "the store is being closed"));
        }
        Ok(head)
    }

    /// Waits until the writer or a checkpoint has made progress, or makes it where nobody else does.
    fn wait_for_writer(&self, mut head: MutexGuard<'_, CommitState>, dirty: bool) -> Result<()> {
        if self.background == Background::Threads {
            head.checkpoint_wanted |= dirty;
            self.checkpoint_work.notify_one();
            self.work.notify_one();
            self.room.wait_for(&mut head, Duration::from_millis(100));
            return Ok(());
        }
        drop(head);
        if !self.write_group()? && dirty {
            match self.checkpoint() {
                // Remembered in the head: the caller decides.
                Err(error) if error.kind() == ErrorKind::Full => {}
                done => return done,
            }
        }
        Ok(())
    }
}

/// Blocks that what waits for a checkpoint is going to take from those that are free.
fn reserved_blocks(head: &CommitState) -> u64 {
    head.dirty.device_len.min(head.dirty_budget.device_len) / BLOCK_LEN as u64
}
