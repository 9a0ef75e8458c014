//! The writer's thread: groups that nobody who waits writes, commits that were told before they are written, and marks.
//!
//! Invariant: a mark is written only when nothing waits and nothing is under way; it says what is durable then.

use std::sync::Arc;
use std::time::Duration;

use super::LAZY_LEN_MAX;
use crate::batch::Version;
use crate::commit_state::OpenGroup;
use crate::core::Core;
use crate::device::{AlignedBuffer, BLOCK_LEN};
use crate::error::Result;
use crate::log::group;
use crate::log::ring::Position;

/// How long the writer waits, when idle, before it marks in the ring what is durable.
const MARK_DELAY: Duration = Duration::from_millis(50);

/// How long a commit that was told already waits in the queue for others to be written with.
const LAZY_DELAY: Duration = Duration::from_millis(10);

impl Core {
    /// The writer's thread.
    pub(crate) fn run_writer(self: Arc<Core>) {
        let mut marked = Version(0);
        while let Some(mark) = self.next_task(marked) {
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

    /// Waits for something to do: a group to write, or, when idle, a mark of what was flushed since `marked`.
    /// None when the store is closed and nothing waits.
    fn next_task(&self, marked: Version) -> Option<Option<Version>> {
        let mut head = self.head.lock();
        let (mut late, mut idle) = (false, false);
        while self.check_running().is_ok() {
            let waiting = !head.queue.is_empty() && !head.in_flight;
            let lazy = head.uncompleted == 0 && head.queue_len <= LAZY_LEN_MAX && !head.closing;
            if waiting && (late || !lazy) {
                break;
            }
            if head.closing && head.queue.is_empty() && !head.in_flight {
                return None;
            }
            let due = head.flushed > marked && head.flushed == head.sealed.state.version;
            if idle && due && !head.in_flight {
                head.writer_armed = false;
                return Some(Some(head.flushed));
            }
            let before = head.sealed.position;
            head.writer_armed = waiting || due;
            late = match (waiting, due) {
                (true, _) => self.work.wait_for(&mut head, LAZY_DELAY).timed_out(),
                (false, true) => self.work.wait_for(&mut head, MARK_DELAY).timed_out(),
                (false, false) => {
                    self.work.wait(&mut head);
                    false
                }
            };
            idle = late && !waiting && head.sealed.position == before;
        }
        head.writer_armed = false;
        Some(None)
    }

    /// Marks in the ring what is durable, so that recovery can tell damage from an unfinished end.
    pub(crate) fn write_mark(&self) -> Result<()> {
        let (position, bytes) = {
            let mut head = self.head.lock();
            let position = self.ring.place(head.sealed.position, BLOCK_LEN as u64);
            let full = position.0 + BLOCK_LEN as u64 - head.tail.0 > self.ring.length();
            if full || !head.queue.is_empty() || head.in_flight {
                return Ok(());
            }
            let first = Version(head.sealed.state.version.0 + 1);
            let mark = OpenGroup { position, first, records: 0, payload_len: 0, previous: head.sealed.chain };
            let mut bytes = AlignedBuffer::zeroed(BLOCK_LEN);
            let header = group::seal(self.header(&head, &mark), 0, &mut bytes);
            head.sealed.position = Position(position.0 + bytes.len() as u64);
            head.sealed.chain = header.checksum;
            head.open = None;
            head.in_flight = true;
            (position, bytes)
        };
        let written = self.write(&bytes, self.ring.offset(position));
        self.head.lock().in_flight = false;
        self.room.notify_all();
        written
    }
}
