//! A synced change that finds nobody writing: its group is on its way to the ring before the change is made in memory,
//! and the data that it names is written beside it.
//!
//! Invariants:
//! - Only a write into a value is begun so, or a few puts and deletions that fit into the ring, when all is known that
//!   could refuse them: what can still fail is to read the nodes that they change. Then the group is written over and that is synced before anybody is told. A power cut in
//!   between may leave the commit in the log: nobody was told yet that it did not happen.
//! - The sync is issued after the group and its data were written. The head says which data is not yet
//!   ([`CommitState::unwritten`]): no checkpoint is made meanwhile.
//! - A begun group always ends: by its ticket's waiter, or when the ticket is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use parking_lot::MutexGuard;

use super::form::{blocks_of_operation, encoded};
use super::next_version;
use crate::allocator::Class;
use crate::apply::condition;
use crate::batch::{
    Batch, Commit, Condition, Durability, KEY_LEN_MAX, Operation, Payload, Place, SpaceId, VALUE_LEN_MAX,
};
use crate::commit_state::{CommitState, QueuedCommit};
use crate::core::Core;
use crate::device::{AlignedBuffer, BLOCK_LEN};
use crate::error::Result;
use crate::log::record::{Outcome, Record, Step, inline_len};
use crate::staged::Staged;
use crate::ticket::{Completer, is_completing};
use crate::tree::value::SpaceRoot;
use crate::writer::{GroupWrite, PreparedGroup};

/// So many operations and conditions a batch of puts and deletions may have: the ring waits while they are judged.
const PLAIN_MAX: usize = 16;

/// A group that was begun, until somebody ends it.
pub(super) struct PendingGroup {
    pub core: Arc<Core>,
    /// `None` once it was ended, and where none was begun.
    pub sealed: Option<PreparedGroup>,
}

impl PendingGroup {
    /// Ends it; where there is none, does what whoever waits does.
    pub fn lead(&mut self) {
        match self.sealed.take() {
            Some(sealed) => self.core.end_begun(sealed),
            None => self.core.lead(),
        }
    }
}

impl Drop for PendingGroup {
    fn drop(&mut self) {
        if let Some(sealed) = self.sealed.take() {
            self.core.end_begun(sealed);
        }
    }
}

impl Core {
    /// Whether a batch is of the kind that can be begun, as far as it alone tells.
    pub(super) fn may_begin(self: &Arc<Core>, batch: &Batch, durability: Durability) -> bool {
        durability == Durability::Sync
            && batch.request.is_none()
            && (self.is_one_write(batch) || self.is_plain(batch))
            && !self.reservations.are_any()
            && self.check_takes_writes().is_ok()
            && !is_completing()
    }

    /// A write into one value.
    fn is_one_write(self: &Arc<Core>, batch: &Batch) -> bool {
        let [Operation::WriteAt { at, offset, data }] = batch.operations.as_slice() else { return false };
        let is_ours = match data {
            Payload::Bytes(bytes) => bytes.len() <= self.limits.pending_len_max,
            Payload::Stage(token) => token.content_ref::<Staged>().is_some_and(|staged| staged.is_fresh_of(self)),
        };
        matches!(batch.conditions.as_slice(), [] | [Condition::Present { .. }])
            && is_ours
            && !data.is_empty()
            && at.key.len() <= KEY_LEN_MAX
            && offset.checked_add(data.len()).is_some_and(|end| end <= VALUE_LEN_MAX)
    }

    /// A few puts of what goes through the ring, and deletions.
    fn is_plain(&self, batch: &Batch) -> bool {
        let plain = |operation: &Operation| match operation {
            Operation::Put { at, value: Payload::Bytes(bytes) } => {
                at.key.len() <= KEY_LEN_MAX && bytes.len() <= self.limits.pending_len_max
            }
            Operation::Delete { at } => at.key.len() <= KEY_LEN_MAX,
            _ => false,
        };
        (1..=PLAIN_MAX).contains(&batch.operations.len())
            && batch.conditions.len() <= PLAIN_MAX
            && !batch.conditions.iter().any(|condition| matches!(condition, Condition::RangeUnchanged { .. }))
            && batch.operations.iter().all(plain)
            && batch.operations.iter().map(inline_len).sum::<usize>() <= self.limits.batch_bytes_max
    }

    /// Asks for a batch that may be begun; gives what the one who waits has to end. None where it goes the usual way.
    pub(super) fn begin(self: &Arc<Core>, batch: Batch, completer: Completer) -> Option<PreparedGroup> {
        let begun = self.enter_free(&batch).and_then(|head| Some((next_version(&head).ok()?, head)));
        let Some((version, head)) = begun else {
            self.submit_for(batch, Durability::Sync, completer);
            return None;
        };
        let (staged, conditions) = (unwritten_of(&batch), batch.conditions);
        let steps = batch.operations.into_iter().map(Step::Operation).collect();
        let record = Record { version, request: None, outcome: Outcome::Applied(steps) };
        let sealed = match self.begin_record(head, record, staged.as_ref(), completer) {
            Ok(sealed) => sealed,
            Err((record, completer)) => {
                // The ring is full: the usual way waits for it.
                let steps = match record.outcome {
                    Outcome::Applied(steps) => steps,
                    Outcome::Refused(_) => Vec::new(),
                };
                self.sequence(&conditions, steps, None, Durability::Sync, completer);
                None
            }
        };
        self.run_deferred_drops();
        sealed
    }

    /// The head, when nobody writes a group, nothing waits to be written, and nothing refuses the batch.
    fn enter_free(&self, batch: &Batch) -> Option<MutexGuard<'_, CommitState>> {
        let head = self.head.lock();
        if head.in_flight || !head.queue.is_empty() || head.closing || self.check_running().is_err() {
            return None;
        }
        // What shares a block of the log with commits that nobody has synced is synced with them.
        if head.open.is_some() && !matches!(batch.operations.as_slice(), [Operation::WriteAt { .. }]) {
            return None;
        }
        let need = batch.operations.iter().map(blocks_of_operation).sum();
        let is_dirty = head.dirty.exceeds(self.dirty_budget(&head).with_half());
        if is_dirty || (need > 0 && !self.has_room(&head, need, Class::Data)) {
            return None;
        }
        let broken = condition::first_broken(&batch.conditions, &head.state, &self.nodes, &self.filters, &head.changes);
        let is_writable = |space: SpaceId| {
            let writable = |root: Option<&SpaceRoot>| Ok(root.is_some_and(|root| !root.is_read_only()));
            head.state.look(&self.nodes, space, writable).is_ok_and(|writable| writable)
        };
        let mut seen = None;
        let all_writable = batch.operations.iter().all(|operation| match place_of(operation) {
            Some(at) if seen == Some(at.space) => true,
            Some(at) => is_writable(*seen.insert(at.space)),
            None => false,
        });
        // What is not known now is told by the usual way.
        (matches!(broken, Ok(None)) && all_writable).then_some(head)
    }

    /// Begins the group of one record and makes the change; gives the record back where the ring has no room.
    /// `None`: the change could not be made, and that was told.
    fn begin_record(
        &self,
        mut head: MutexGuard<'_, CommitState>,
        record: Record,
        staged: Option<&(Place, Arc<Staged>)>,
        completer: Completer,
    ) -> std::result::Result<Option<PreparedGroup>, (Record, Completer)> {
        let bytes = encoded(&record);
        let Some(begun) = self.begin_group(&mut head, record.version, &bytes) else { return Err((record, completer)) };
        match self.apply_record(&mut head, &record, bytes.len()) {
            Ok(changes) => {
                let outcome = Ok(Commit { version: record.version, repeated: false });
                let state = head.state.clone();
                let item = QueuedCommit::new(bytes, state, Durability::Sync, outcome, completer, changes);
                head.unwritten = staged.cloned();
                Ok(Some(self.seal_begun(&mut head, item, begun, staged.map(|(_, staged)| Arc::clone(staged)))))
            }
            Err(error) => {
                let undone = self.undo(begun);
                drop(head);
                completer.complete(undone.and(Err(error)));
                Ok(None)
            }
        }
    }

    /// Takes a group back that was begun: from now on nobody finds it.
    fn undo(&self, begun: GroupWrite) -> Result<()> {
        let offset = begun.offset;
        drop(self.end_write(begun.writing, offset)?);
        self.write(&AlignedBuffer::zeroed(BLOCK_LEN), offset)?;
        self.sync_device()
    }

    /// Ends a group in the thread that waits for it.
    fn end_begun(&self, sealed: PreparedGroup) {
        // A panic must not leave others waiting for a group that never ends. A failure completes every ticket.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(self.end_or_fail(sealed)))) {
            self.fail_after_panic();
            resume_unwind(panic);
        }
    }
}

/// What an operation that may be begun changes.
fn place_of(operation: &Operation) -> Option<&Place> {
    match operation {
        Operation::WriteAt { at, .. } | Operation::Put { at, .. } | Operation::Delete { at } => Some(at),
        _ => None,
    }
}

/// The data that a batch names and nobody has written, and where it belongs.
fn unwritten_of(batch: &Batch) -> Option<(Place, Arc<Staged>)> {
    match batch.operations.first()? {
        Operation::WriteAt { at, data: Payload::Stage(token), .. } => Some((at.clone(), token.content::<Staged>()?)),
        _ => None,
    }
}

#[cfg(test)]
mod plain_tests;
#[cfg(test)]
pub(crate) mod tests;
