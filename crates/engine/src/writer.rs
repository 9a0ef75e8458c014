//! The writer: takes what is queued, writes it as one group, makes it durable, shows it.
//!
//! Invariants:
//! - One thread writes groups; the next is gathered in the queue while this one is written and synced.
//! - The sync is issued after every data write and ring write of the group's commits has returned.
//! - Nothing of a group is visible or acknowledged before it is as durable as its strictest member asked.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;

use crate::batch::{Durability, Version};
use crate::commit::telling;
use crate::core::{Core, Cut, Head, Item};
use crate::engine::Background;
use crate::error::{Error, ErrorKind, Result};
use crate::log::group::{self, GroupHeader};
use crate::log::ring::Position;

/// How long the writer waits, when idle, before it marks in the ring what is durable.
const MARK_DELAY: Duration = Duration::from_millis(50);

/// So few freed blocks are not worth a checkpoint.
const WAITING_BLOCKS_MIN: u64 = 64;

/// A group on its way.
struct Sealed {
    items: Vec<Item>,
    /// Where it goes and its bytes; none where only outcomes wait.
    write: Option<(Position, Vec<u8>)>,
    version: Version,
    sync: bool,
}

impl Core {
    /// Writes one group, if anything waits. Called by the writer's thread, or by whoever waits where there is none.
    pub(crate) fn write_group(&self) -> Result<bool> {
        let result = self.write_next();
        if let Err(error) = &result {
            self.fail(error);
            self.fail_queue();
        }
        result
    }

    fn write_next(&self) -> Result<bool> {
        self.check_running()?;
        let Some(sealed) = self.seal()? else { return Ok(false) };
        let written = self.write_sealed(&sealed);
        let mut head = self.head.lock();
        head.in_flight = false;
        if let Err(error) = written {
            drop(head);
            self.fail(&error);
            let stopped = self.check_running().err().unwrap_or(error);
            sealed.items.into_iter().for_each(|item| item.completer.complete(Err(stopped.clone())));
            return Err(stopped);
        }
        if sealed.sync {
            head.flushed = head.flushed.max(sealed.version);
            head.unflushed_len = 0;
        }
        self.publish(head, sealed.items);
        Ok(true)
    }

    fn write_sealed(&self, sealed: &Sealed) -> Result<()> {
        if let Some((position, bytes)) = &sealed.write {
            self.write(bytes, self.ring.offset(*position))?;
        }
        if sealed.sync { self.sync_device() } else { Ok(()) }
    }

    /// Shows a group and tells everyone who waits for it.
    fn publish(&self, head: MutexGuard<'_, Head>, items: Vec<Item>) {
        // Told under the head's lock, so that a watch that begins now misses nothing and sees nothing twice.
        for item in &items {
            if item.record.is_some() {
                self.watchers.tell(item.state.version, &item.changes);
            }
        }
        if let Some(last) = items.iter().rev().find(|item| item.record.is_some()) {
            *self.visible.write() = last.state.clone();
        }
        let wanted = self.wants_checkpoint(&head);
        drop(head);
        self.room.notify_all();
        telling(|| items.into_iter().for_each(|item| item.completer.complete(item.outcome)));
        if wanted {
            self.checkpoint_work.notify_one();
        }
    }

    /// Whether a checkpoint is due.
    pub(crate) fn wants_checkpoint(&self, head: &Head) -> bool {
        let log_len = head.sealed.position.0.saturating_sub(head.cut_at.0);
        head.checkpoint_wanted
            || log_len > self.limits.checkpoint_log_len
            || head.dirty_len > self.limits.checkpoint_dirty_len
            || self.reuse.lock().waits_for_checkpoint() > (self.allocator.free_blocks() / 4).max(WAITING_BLOCKS_MIN)
    }

    /// Takes what is queued and gives it its place in the ring.
    fn seal(&self) -> Result<Option<Sealed>> {
        loop {
            let mut head = self.head.lock();
            if head.queue.is_empty() {
                return Ok(None);
            }
            let count = self.count_for_group(&head);
            let payload_len: usize = head.queue.iter().take(count).map(record_len).sum();
            if payload_len == 0 {
                let items: Vec<Item> = head.queue.drain(..count).collect();
                return Ok(Some(self.seal_outcomes(&mut head, items)));
            }
            let length = (group::HEADER_LEN + payload_len).next_multiple_of(crate::device::BLOCK_LEN) as u64;
            let position = self.ring.place(head.sealed.position, length);
            if position.0 + length - head.tail.0 <= self.ring.length() {
                let items: Vec<Item> = head.queue.drain(..count).collect();
                return Ok(Some(self.seal_records(&mut head, items, position)));
            }
            self.wait_for_ring(head)?;
        }
    }

    fn count_for_group(&self, head: &Head) -> usize {
        let mut len = 0;
        let fits = |item: &&Item| {
            len += record_len(item);
            len <= self.limits.group_len_max
        };
        head.queue.iter().take_while(fits).count().max(1)
    }

    /// The ring is full: checkpoints make room.
    fn wait_for_ring(&self, mut head: MutexGuard<'_, Head>) -> Result<()> {
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

    fn seal_outcomes(&self, head: &mut Head, items: Vec<Item>) -> Sealed {
        let sync = items.iter().any(|item| item.durability == Durability::Sync) && head.unflushed_len > 0;
        head.in_flight = true;
        Sealed { items, write: None, version: head.sealed.state.version, sync }
    }

    fn seal_records(&self, head: &mut Head, items: Vec<Item>, position: Position) -> Sealed {
        let mut payload = Vec::with_capacity(items.iter().map(record_len).sum());
        let mut records = 0;
        let mut last = &head.sealed.state;
        for item in &items {
            if let Some(record) = &item.record {
                payload.extend_from_slice(record);
                records += 1;
                last = &item.state;
            }
        }
        let last = last.clone();
        let first = Version(head.sealed.state.version.0 + 1);
        let (header, bytes) = self.group(head, first, records, &payload);
        head.queue_len -= payload.len();
        head.sealed = Cut {
            position: Position(position.0 + bytes.len() as u64),
            chain: header.checksum,
            counters: head.counters,
            dirty_len: head.dirty_len,
            state: last,
        };
        head.unflushed_len += bytes.len() as u64;
        head.in_flight = true;
        let sync = items.iter().any(|item| item.durability == Durability::Sync)
            || head.unflushed_len > self.limits.unflushed_len_max;
        Sealed { items, version: head.sealed.state.version, write: Some((position, bytes)), sync }
    }

    fn group(&self, head: &Head, first: Version, records: u32, payload: &[u8]) -> (GroupHeader, Vec<u8>) {
        let header = GroupHeader {
            checksum: 0,
            length: 0,
            payload: 0,
            records,
            store_id: self.store.0,
            epoch: self.epoch,
            first,
            previous: head.sealed.chain,
            flushed: head.flushed,
        };
        group::encode(header, payload)
    }

    /// Marks in the ring what is durable, so that recovery can tell damage from an unfinished end.
    pub(crate) fn write_mark(&self) -> Result<()> {
        let (position, bytes) = {
            let mut head = self.head.lock();
            let position = self.ring.place(head.sealed.position, crate::device::BLOCK_LEN as u64);
            let full = position.0 + crate::device::BLOCK_LEN as u64 - head.tail.0 > self.ring.length();
            if full || !head.queue.is_empty() || head.in_flight {
                return Ok(());
            }
            let first = Version(head.sealed.state.version.0 + 1);
            let (header, bytes) = self.group(&head, first, 0, &[]);
            head.sealed.position = Position(position.0 + bytes.len() as u64);
            head.sealed.chain = header.checksum;
            (position, bytes)
        };
        self.write(&bytes, self.ring.offset(position))
    }

    fn fail_queue(&self) {
        let error = self.check_running().err().unwrap_or_else(|| Error::new(ErrorKind::Stopped, "the store stopped"));
        let items: Vec<Item> = self.head.lock().queue.drain(..).collect();
        for item in items {
            item.completer.complete(Err(error.clone()));
        }
        self.room.notify_all();
    }

    /// The writer's thread.
    pub(crate) fn run_writer(self: Arc<Core>) {
        let mut marked = Version(0);
        loop {
            let mark = {
                let mut head = self.head.lock();
                let mut idle = false;
                while head.queue.is_empty() && self.check_running().is_ok() {
                    if head.closing {
                        return;
                    }
                    let due = head.flushed > marked && head.flushed == head.sealed.state.version;
                    if idle && due {
                        break;
                    }
                    if due {
                        idle = self.work.wait_for(&mut head, MARK_DELAY).timed_out();
                    } else {
                        self.work.wait(&mut head);
                    }
                }
                head.queue.is_empty().then_some(head.flushed)
            };
            let done = match mark {
                Some(flushed) => {
                    marked = flushed;
                    self.write_mark()
                }
                None => self.write_group().map(|_| ()),
            };
            if done.is_err() {
                self.fail_queue();
                return;
            }
        }
    }
}

fn record_len(item: &Item) -> usize {
    item.record.as_ref().map_or(0, Vec::len)
}
