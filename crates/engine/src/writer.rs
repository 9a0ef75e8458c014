//! The writer: takes what is queued, writes it as one group, makes it durable, shows it.
//!
//! Invariants:
//! - One thread at a time writes groups: the writer's own, or one that waits for its commit and finds that
//!   nobody writes ([`Core::lead`]). The next group is gathered in the queue while this one is written and synced.
//! - The sync is issued after every data write and ring write of the group's commits has returned. What the head says is
//!   not written yet ([`CommitState::unwritten`]) is written while the group is, all other data before its commit is queued.
//! - Nothing of a group is visible or acknowledged before it is as durable as its strictest member asked; only
//!   commits for which memory is enough are shown at once, when nothing stands before them that is not.
//! - A group of one block stays open until something was synced after it was begun, a checkpoint names its end, or
//!   another group follows: until then nobody was promised that it outlives a power cut, so it is written anew with the
//!   records that follow. A write of one block into the page cache is whole for whoever reads after the process ended.

mod thread;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use crate::batch::{Durability, Version};
use crate::commit_state::{CheckpointPosition, CommitState, DeferredDrop, OpenGroup, QueuedCommit};
use crate::core::Core;
use crate::device::{AlignedBuffer, BLOCK_LEN, Writing};
use crate::error::{Error, ErrorKind, Result};
use crate::log::group::{self, GroupHeader};
use crate::log::ring::Position;
use crate::options::Background;
use crate::staged::Staged;
use crate::ticket::completing;
use crate::together::GroupWriter;

/// So many bytes of commits that were told already may wait in the queue before the writer is woken for them.
pub(crate) const LAZY_LEN_MAX: usize = 128 << 10;

/// So few freed blocks are not worth a checkpoint.
const WAITING_BLOCKS_MIN: u64 = 64;

/// The least memory for groups, …
const GROUP_BUFFER_LEN: usize = 64 << 10;
/// … and the most that is kept; a longer one gets its own.
const GROUP_BUFFER_LEN_MAX: usize = 2 << 20;

/// A group on its way.
pub(crate) struct PreparedGroup {
    items: Vec<QueuedCommit>,
    write: Write,
    /// To be written beside it: its first record names this.
    data: Option<Arc<Staged>>,
    version: Version,
    sync: bool,
}

/// What is still to be done so that a group is in the ring.
enum Write {
    /// Nothing: only outcomes wait.
    Outcomes,
    /// All of it.
    Whole {
        position: Position,
        buffer: AlignedBuffer,
        /// Through the page cache: where nobody waits for the medium, or part of it is there already.
        is_cached: bool,
        /// A checkpoint was under way when it was built.
        is_beside: bool,
    },
    /// To wait for it.
    GroupWrite(GroupWrite),
}

/// A group that is being written.
pub(crate) struct GroupWrite {
    pub writing: Writing,
    /// Where, in bytes.
    pub offset: u64,
    end: Position,
    checksum: u64,
}

impl GroupWriter for Core {
    fn wake_writer(&self) {
        self.work.notify_one();
    }

    fn lead(&self) {
        Core::lead(self);
    }
}

impl Core {
    /// Writes one group, if anything waits.
    pub(crate) fn write_group(&self) -> Result<bool> {
        let result = self.write_next();
        if let Err(error) = &result {
            self.fail(error);
            self.fail_queue();
        }
        result
    }

    /// Writes one group in the thread that waits for it, if nobody else writes. Who finds somebody writing may
    /// just wait: whoever ends a group wakes the writer for the next.
    pub(crate) fn lead(&self) {
        if self.background == Background::Manual {
            return; // The ticket does it.
        }
        let free = {
            let head = self.head.lock();
            !head.in_flight && !head.queue.is_empty()
        };
        if !free {
            return;
        }
        // A panic must not leave others waiting for a group that never ends. A failure completes every ticket.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(self.write_group()))) {
            self.fail_after_panic();
            resume_unwind(panic);
        }
    }

    /// Whoever wrote a group has panicked: nobody knows how far it came.
    pub(crate) fn fail_after_panic(&self) {
        {
            let mut head = self.head.lock();
            head.in_flight = false;
            head.unwritten = None;
        }
        self.fail(&Error::new(ErrorKind::Stopped, "the store panicked while it wrote its log"));
        self.fail_queue();
    }

    fn write_next(&self) -> Result<bool> {
        self.check_running()?;
        let Some(sealed) = self.seal()? else { return Ok(false) };
        self.end(sealed).map(|()| true)
    }

    /// Ends a group; when that fails, so does everything that waits.
    pub(crate) fn end_or_fail(&self, sealed: PreparedGroup) -> Result<()> {
        self.end(sealed).inspect_err(|error| {
            self.fail(error);
            self.fail_queue();
        })
    }

    /// Writes what is not written of a group, makes it durable, and shows it.
    fn end(&self, sealed: PreparedGroup) -> Result<()> {
        let PreparedGroup { items, write, data, version, sync } = sealed;
        let written = self.write_whole(write, data);
        let written = written.and_then(|buffer| if sync { self.sync_device().map(|()| buffer) } else { Ok(buffer) });
        let mut head = self.head.lock();
        head.in_flight = false;
        head.unwritten = None;
        match written {
            Ok(Some(buffer)) if buffer.len() <= GROUP_BUFFER_LEN_MAX => head.group_buffer = Some(buffer),
            Ok(_) => {}
            Err(error) => {
                drop(head);
                self.fail(&error);
                let stopped = self.check_running().err().unwrap_or(error);
                items.into_iter().for_each(|mut item| item.tell(Err(stopped.clone())));
                return Err(stopped);
            }
        }
        if sync {
            head.flushed = head.flushed.max(version);
            head.unflushed_len = 0;
        }
        self.publish(head, items);
        Ok(())
    }

    /// Gives back the memory of the group.
    fn write_whole(&self, write: Write, data: Option<Arc<Staged>>) -> Result<Option<AlignedBuffer>> {
        match (write, data) {
            (Write::Outcomes, _) => Ok(None),
            (Write::Whole { position, buffer, is_cached: false, .. }, Some(data)) => {
                let offset = self.ring.offset(position);
                let writing = self.begin_write(buffer, offset);
                self.write_beside(writing, offset, Some(data)).map(Some)
            }
            (Write::Whole { position, buffer, is_cached, is_beside }, data) => {
                data.map_or(Ok(()), |data| self.write_out(&data))?;
                let offset = self.ring.offset(position);
                if is_cached {
                    let begun = Instant::now();
                    self.write_cached(&buffer, offset)?;
                    self.longest.note(is_beside, begun.elapsed());
                } else {
                    self.write(&buffer, offset)?;
                }
                Ok(Some(buffer))
            }
            (Write::GroupWrite(begun), data) => self.write_beside(begun.writing, begun.offset, data).map(Some),
        }
    }

    /// Writes the data of a group that is being written, and waits for that.
    fn write_beside(&self, writing: Writing, offset: u64, data: Option<Arc<Staged>>) -> Result<AlignedBuffer> {
        let placed = data.map_or(Ok(()), |data| self.write_out(&data));
        let buffer = self.end_write(writing, offset);
        placed.and(buffer)
    }

    /// Shows a group and tells everyone who waits for it.
    fn publish(&self, mut head: MutexGuard<'_, CommitState>, items: Vec<QueuedCommit>) {
        // Told under the head's lock, so that a watch that begins now misses nothing and sees nothing twice.
        let uncompleted = || items.iter().filter(|item| item.completer.is_some());
        for item in uncompleted().filter(|item| item.record.is_some()) {
            self.watchers.tell(item.state.version, &item.changes);
        }
        let newest = items.iter().rfind(|item| item.completer.is_some() && item.record.is_some());
        let before = newest.map(|last| std::mem::replace(&mut *self.visible.write(), last.state.clone()));
        head.uncompleted -= uncompleted().count();
        let wanted = self.wants_checkpoint(&head);
        // The writer takes over what has come in the meantime; its marks begin with something flushed.
        let mark = !head.writer_armed && head.flushed == head.sealed.state.version;
        let left = !head.queue.is_empty() && (head.uncompleted > 0 || !head.writer_armed);
        // Whoever waits for the next group anyway had best write it, and begin before the others are told.
        let led = || head.queue.iter().find_map(|item| item.completer.as_ref()?.leader());
        let leader = if left { led() } else { None };
        let wake = mark || (left && leader.is_none()) || head.closing;
        drop(head);
        if let Some(leader) = leader {
            leader.ask();
        }
        if wake {
            self.work.notify_one();
        }
        self.room.notify_all();
        let mut past: Vec<DeferredDrop> = completing(|| items.into_iter().map(QueuedCommit::told).collect());
        past.extend(before.map(DeferredDrop::of));
        self.defer_drop(past);
        if wanted {
            self.checkpoint_work.notify_one();
        }
    }

    /// Whether a checkpoint is due.
    pub(crate) fn wants_checkpoint(&self, head: &CommitState) -> bool {
        let log_len = head.sealed.position.0.saturating_sub(head.cut_at.0);
        head.checkpoint_wanted
            || log_len > self.limits.checkpoint_log_len
            || head.dirty.exceeds(self.dirty_budget(head))
            || self.reuse.lock().waits_for_checkpoint() > self.allocator.free_blocks().max(WAITING_BLOCKS_MIN)
    }

    /// Takes what is queued and gives it its place in the ring.
    fn seal(&self) -> Result<Option<PreparedGroup>> {
        loop {
            let mut head = self.head.lock();
            while head.in_flight {
                // After a failure nobody ends what is under way.
                self.check_running()?;
                self.room.wait(&mut head);
            }
            if head.queue.is_empty() {
                return Ok(None);
            }
            let count = self.count_for_group(&head);
            let payload_len: usize = head.queue.iter().take(count).map(record_len).sum();
            if payload_len == 0 {
                let items: Vec<QueuedCommit> = head.queue.drain(..count).collect();
                return Ok(Some(self.seal_outcomes(&mut head, items)));
            }
            // Its bytes are gone where a larger group came between.
            if head.group_buffer.is_none()
                || head.open.is_some_and(|open| group::length_with(open.payload_len + payload_len) > BLOCK_LEN)
            {
                head.open = None;
            }
            let position = match head.open {
                Some(open) => open.position,
                None => self.ring.place(head.sealed.position, group::length_with(payload_len) as u64),
            };
            if position.0 + group::length_with(payload_len) as u64 - head.tail.0 <= self.ring.length() {
                let items: Vec<QueuedCommit> = head.queue.drain(..count).collect();
                return Ok(Some(self.seal_records(&mut head, items, position)));
            }
            self.wait_for_ring(head)?;
        }
    }

    fn count_for_group(&self, head: &CommitState) -> usize {
        let mut len = 0;
        let fits = |item: &&QueuedCommit| {
            len += record_len(item);
            len <= self.limits.group_len_max
        };
        head.queue.iter().take_while(fits).count().max(1)
    }

    /// The ring is full: checkpoints make room.
    fn wait_for_ring(&self, mut head: MutexGuard<'_, CommitState>) -> Result<()> {
        if self.background == Background::Manual {
            drop(head);
            return self.checkpoint().map(|_| ());
        }
        if head.checkpoint_full {
            let message = "the log is full and no space is left for a checkpoint: make the store larger, then open it";
            return Err(Error::new(ErrorKind::Full, message));
        }
        head.checkpoint_wanted = true;
        self.checkpoint_work.notify_one();
        self.room.wait_for(&mut head, Duration::from_millis(100));
        drop(head);
        self.check_running()
    }

    fn seal_outcomes(&self, head: &mut CommitState, items: Vec<QueuedCommit>) -> PreparedGroup {
        let sync = items.iter().any(|item| item.durability == Durability::Sync) && head.unflushed_len > 0;
        head.in_flight = true;
        if sync {
            head.open = None;
        }
        PreparedGroup { items, write: Write::Outcomes, data: None, version: head.sealed.state.version, sync }
    }

    fn seal_records(&self, head: &mut CommitState, items: Vec<QueuedCommit>, position: Position) -> PreparedGroup {
        let added = head.open.take();
        let next = Version(head.sealed.state.version.0 + 1);
        let mut group = added.unwrap_or(OpenGroup {
            position,
            first: next,
            records: 0,
            payload_len: 0,
            previous: head.sealed.chain,
        });
        let is_cached_before = added.is_some();
        let payload_len: usize = items.iter().map(record_len).sum();
        let mut buffer = group_memory(head, group::length_with(group.payload_len + payload_len));
        let mut last = &head.sealed.state;
        let mut at = group::HEADER_LEN + group.payload_len;
        for item in &items {
            if let Some(record) = &item.record {
                buffer[at..at + record.len()].copy_from_slice(record);
                at += record.len();
                group.records += 1;
                last = &item.state;
            }
        }
        group.payload_len += payload_len;
        let last = last.clone();
        let header = group::seal(self.header(head, &group), group.payload_len, &mut buffer);
        let end = Position(position.0 + buffer.len() as u64);
        head.queue_len -= payload_len;
        head.unflushed_len += end.0.saturating_sub(head.sealed.position.0);
        head.sealed = CheckpointPosition {
            position: end,
            chain: header.checksum,
            counters: head.counters,
            dirty: head.dirty,
            state: last,
        };
        head.in_flight = true;
        let sync = items.iter().any(|item| item.durability == Durability::Sync)
            || head.unflushed_len > self.limits.unflushed_len_max;
        head.open = (!sync && buffer.len() == BLOCK_LEN).then_some(group);
        let is_cached = !sync || is_cached_before;
        let data = head.unwritten.as_ref().map(|(_, staged)| Arc::clone(staged));
        let write = Write::Whole { position, buffer, is_cached, is_beside: head.checkpoint_cut > Version(0) };
        PreparedGroup { items, version: head.sealed.state.version, write, data, sync }
    }

    /// Begins to write a group of one record, which the head is to be changed by; `None` where the ring has no room.
    /// Nothing of the head has changed.
    pub(crate) fn begin_group(&self, head: &mut CommitState, version: Version, record: &[u8]) -> Option<GroupWrite> {
        let length = group::length_with(record.len());
        let position = self.ring.place(head.sealed.position, length as u64);
        let end = Position(position.0 + length as u64);
        if end.0 - head.tail.0 > self.ring.length() || record.len() > self.limits.group_len_max {
            return None;
        }
        // What was open is over, and its bytes are not needed any more.
        head.open = None;
        let mut buffer = group_memory(head, length);
        buffer[group::HEADER_LEN..group::HEADER_LEN + record.len()].copy_from_slice(record);
        let alone =
            OpenGroup { position, first: version, records: 1, payload_len: record.len(), previous: head.sealed.chain };
        let checksum = group::seal(self.header(head, &alone), record.len(), &mut buffer).checksum;
        let offset = self.ring.offset(position);
        Some(GroupWrite { writing: self.begin_write(buffer, offset), offset, end, checksum })
    }

    /// The change of a begun group was made: the group has its place.
    pub(crate) fn seal_begun(
        &self,
        head: &mut CommitState,
        item: QueuedCommit,
        begun: GroupWrite,
        data: Option<Arc<Staged>>,
    ) -> PreparedGroup {
        head.uncompleted += 1;
        head.unflushed_len += begun.end.0.saturating_sub(head.sealed.position.0);
        let version = item.state.version;
        head.sealed = CheckpointPosition {
            position: begun.end,
            chain: begun.checksum,
            counters: head.counters,
            dirty: head.dirty,
            state: item.state.clone(),
        };
        head.in_flight = true;
        PreparedGroup { items: vec![item], write: Write::GroupWrite(begun), data, version, sync: true }
    }

    fn header(&self, head: &CommitState, group: &OpenGroup) -> GroupHeader {
        GroupHeader {
            checksum: 0,
            length: 0,
            payload: 0,
            records: group.records,
            store_id: self.store.0,
            epoch: self.epoch,
            first: group.first,
            previous: group.previous,
            flushed: head.flushed,
        }
    }

    fn fail_queue(&self) {
        let error = self.check_running().err().unwrap_or_else(|| Error::new(ErrorKind::Stopped, "the store stopped"));
        let items: Vec<QueuedCommit> = self.head.lock().queue.drain(..).collect();
        for mut item in items {
            item.tell(Err(error.clone()));
        }
        self.room.notify_all();
    }
}

/// Memory for a group of this length; what an open group has there stays.
fn group_memory(head: &mut CommitState, length: usize) -> AlignedBuffer {
    if length > GROUP_BUFFER_LEN_MAX {
        return AlignedBuffer::zeroed(length);
    }
    let mut kept = head.group_buffer.take();
    if let Some(buffer) = kept.take_if(|buffer| buffer.resize(length)) {
        return buffer;
    }
    let mut buffer = AlignedBuffer::zeroed(length.next_power_of_two().max(GROUP_BUFFER_LEN));
    buffer.resize(length);
    buffer
}

fn record_len(item: &QueuedCommit) -> usize {
    item.record.as_ref().map_or(0, Vec::len)
}

#[cfg(test)]
mod tests;
