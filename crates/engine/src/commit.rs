//! Submitting: conditions are checked and operations applied under the head's lock, in memory; the record
//! waits for the writer.
//!
//! Invariants:
//! - Commits get their log numbers, and are applied, in the order of the queue.
//! - A refusal is told only once the state that refused it is visible and as durable as was asked for: it
//!   joins the queue without a record (with one, when the request has an id).
//! - A batch that can change nothing but take space away is let in while the reserve lasts.

pub(crate) mod begun;
mod enter;
mod form;

use std::sync::Arc;

use parking_lot::Mutex;

use begun::PendingGroup;
use form::{branched, check_keys, encoded, stages_of};

use crate::apply::condition;
use crate::batch::{
    BATCH_OPERATIONS_MAX, Batch, Commit, Condition, Durability, KEY_LEN_MAX, Operation, Payload, RequestId, Version,
};
use crate::changes::ChangeSet;
use crate::commit_state::{CommitState, QueuedCommit};
use crate::core::Core;
use crate::error::{Error, ErrorKind, Refusal, Result};
use crate::log::record::{Outcome, Record, Step, inline_len};
use crate::options::Background;
use crate::requests;
use crate::stage::StageHint;
use crate::staged::Staged;
use crate::staging::Stage;
use crate::state::State;
use crate::ticket::{Completer, Ticket, is_awaited, is_completing};
use crate::writer::LAZY_LEN_MAX;

/// A branch copies up to so many nodes that were not written yet, rather than have them written first.
const UNWRITTEN_MAX: usize = 3;

impl Core {
    /// Asks for a batch.
    pub(crate) fn submit(self: &Arc<Core>, batch: Batch, durability: Durability) -> Ticket {
        if let Err(error) = self.process.check() {
            return Ticket::ready(Err(error));
        }
        let (ticket, completer) = self.new_ticket();
        let is_held = crate::together::join(self);
        if is_held || !is_awaited() || is_completing() || self.background == Background::Manual {
            self.submit_for(batch, durability, completer);
            return ticket;
        }
        self.submit_for(batch, durability, completer.led());
        let (lead, leave) = (Arc::clone(self), Arc::clone(self));
        let leave = move || {
            leave.work.notify_one();
        };
        ticket.with_lead(Arc::new(move || lead.lead())).with_leave(Arc::new(leave))
    }

    /// Asks for a batch and waits; writes the group it is in, if nobody else is writing one.
    pub(crate) fn commit(self: &Arc<Core>, batch: Batch, durability: Durability) -> Result<Commit> {
        self.process.check()?;
        if durability != Durability::Written || self.background == Background::Manual || is_completing() {
            return self.submit_led(batch, durability).wait();
        }
        // Written is quicker than handed over: whoever finds another one committing so waits for that, and then writes itself.
        let turn = self.turn.lock();
        let ticket = self.submit_led(batch, durability);
        self.lead();
        drop(turn);
        ticket.wait()
    }

    /// Asks for a batch on behalf of one who will wait at once, and then writes the group if nobody else does: a ticket
    /// that nobody waits on may take for ever.
    pub(crate) fn submit_led(self: &Arc<Core>, batch: Batch, durability: Durability) -> Ticket {
        let (ticket, completer) = self.new_ticket();
        let sealed = if self.may_begin(&batch, durability) {
            self.begin(batch, completer.led())
        } else {
            self.submit_for(batch, durability, completer.led());
            None
        };
        let unended = Mutex::new(PendingGroup { core: Arc::clone(self), sealed });
        ticket.with_lead(Arc::new(move || unended.lock().lead()))
    }

    fn submit_for(self: &Arc<Core>, mut batch: Batch, durability: Durability, completer: Completer) {
        if let Some(request) = &batch.request {
            // Before anything is placed: a repeat needs no space.
            let mut head = self.head.lock();
            if let Some(outcome) = head.requests.find(request) {
                let item = QueuedCommit::answer(&head, durability, outcome, completer);
                self.enqueue(&mut head, item);
                return;
            }
        }
        let drawn = self.draw(&mut batch);
        let prepared = drawn.and_then(|()| self.prepare(batch.conditions.len(), batch.operations)).and_then(|steps| {
            self.write_what_branches(&steps)?;
            Ok(steps)
        });
        match prepared {
            Ok(steps) => self.sequence(&batch.conditions, steps, batch.request, durability, completer),
            Err(error) => completer.complete(Err(error)),
        }
    }

    /// Checks a batch's form and places what is too long for the ring.
    fn prepare(self: &Arc<Core>, conditions: usize, operations: Vec<Operation>) -> Result<Vec<Step>> {
        self.check_takes_writes()?;
        if operations.len() > BATCH_OPERATIONS_MAX || conditions > BATCH_OPERATIONS_MAX {
            return Err(Error::invalid(format!("a batch has at most {BATCH_OPERATIONS_MAX} operations: split it")));
        }
        let placed: Vec<Operation> =
            operations.into_iter().map(|operation| self.prepare_operation(operation)).collect::<Result<_>>()?;
        let inline: usize = placed.iter().map(inline_len).sum();
        if inline > self.limits.batch_bytes_max {
            let most = self.limits.batch_bytes_max;
            let message =
                format!("a batch of {inline} inline bytes; the most is {most}: stage large values, or split it");
            return Err(Error::invalid(message));
        }
        Ok(placed.into_iter().map(Step::Operation).collect())
    }

    fn prepare_operation(self: &Arc<Core>, mut operation: Operation) -> Result<Operation> {
        if inline_len(&operation) > KEY_LEN_MAX {
            check_keys(&operation)?;
        }
        let (at, payload) = match &mut operation {
            Operation::Put { at, value } => (at, value),
            Operation::WriteAt { at, data, .. } | Operation::Append { at, data } => (at, data),
            _ => return Ok(operation),
        };
        match payload {
            Payload::Bytes(bytes) if bytes.len() > self.limits.pending_len_max => {
                let reserved = self.reservations.left(at) > 0;
                let hint = StageHint { length: Some(bytes.len() as u64), reserved, ..StageHint::default() };
                let mut stage = Stage::new(Arc::clone(self), hint);
                for piece in bytes.chunks(crate::stage::STAGE_PIECE_LEN_MAX) {
                    stage.write(piece)?;
                }
                *payload = Payload::Stage(stage.finish()?);
            }
            Payload::Bytes(_) => {}
            Payload::Stage(token) => {
                if !token.content_ref::<Staged>().is_some_and(|staged| staged.is_of(self)) {
                    return Err(Error::invalid("the stage belongs to another store"));
                }
            }
        }
        Ok(operation)
    }

    /// Before a space is branched, a checkpoint writes what of it is in memory only: else it would be copied.
    fn write_what_branches(self: &Arc<Core>, steps: &[Step]) -> Result<()> {
        for from in steps.iter().filter_map(branched) {
            let unwritten = {
                let head = self.head.lock();
                let space = head.state.space(&self.nodes, from)?;
                space.map_or(0, |space| space.tree.unwritten(UNWRITTEN_MAX + 1))
            };
            if unwritten > UNWRITTEN_MAX {
                self.write_queued()?;
                match self.checkpoint() {
                    Err(error) if error.kind() == ErrorKind::Full => {}
                    done => done?,
                }
            }
        }
        Ok(())
    }

    /// Gives a batch its place in the order of commits.
    pub(crate) fn sequence(
        self: &Arc<Core>,
        conditions: &[Condition],
        steps: Vec<Step>,
        request: Option<RequestId>,
        durability: Durability,
        completer: Completer,
    ) {
        // Dropped after the head's lock: the end of a stage that was logged takes that lock.
        let _stages = stages_of(&steps);
        let entered = self.enter_with_data(&steps, durability);
        let (_no_checkpoint, entered) = if steps.iter().any(|step| branched(step).is_some()) {
            // A branch shares what checkpoints have written: none may be under way. Its lock goes before the head's.
            let entered = entered.map(drop);
            let checkpointed = self.checkpointed.lock();
            (Some(checkpointed), entered.and_then(|()| self.enter_at_once()).map(|head| (head, None)))
        } else {
            (None, entered)
        };
        match entered {
            Ok((mut head, beside)) => {
                if let Err((completer, error)) =
                    self.try_sequence(&mut head, conditions, steps, request, durability, completer)
                {
                    drop(head);
                    completer.complete(Err(error));
                } else if let Some((at, staged)) = beside
                    && staged.is_taken()
                {
                    head.unwritten = Some((at, staged));
                }
            }
            Err(error) => completer.complete(Err(error)),
        }
        self.run_deferred_drops();
    }

    fn try_sequence(
        &self,
        head: &mut CommitState,
        conditions: &[Condition],
        steps: Vec<Step>,
        request: Option<RequestId>,
        durability: Durability,
        completer: Completer,
    ) -> Result<(), (Completer, Error)> {
        if let Some(outcome) = request.as_ref().and_then(|request| head.requests.find(request)) {
            self.enqueue(head, QueuedCommit::answer(head, durability, outcome, completer));
            return Ok(());
        }
        if conditions.iter().any(|condition| matches!(condition, Condition::RangeUnchanged { .. })) {
            head.changes.put_in_order();
        }
        let broken = match condition::first_broken(conditions, &head.state, &self.nodes, &self.filters, &head.changes) {
            Ok(broken) => broken,
            Err(error) => return Err((completer, error)),
        };
        if let Some(index) = broken {
            return self.refuse(head, Refusal::Condition(index), request, durability, completer);
        }
        match self.apply(head, steps, request) {
            Ok((record, changes)) => {
                let commit = Commit { version: head.state.version, repeated: false };
                let state = head.state.clone();
                let item = QueuedCommit::new(record, state, durability, Ok(commit), completer, changes);
                self.enqueue(head, item);
                Ok(())
            }
            Err(error) => match error.refusal() {
                Some(refusal) => self.refuse(head, refusal, request, durability, completer),
                None => Err((completer, error)),
            },
        }
    }

    /// Applies a commit to the head and gives its record.
    fn apply(
        &self,
        head: &mut CommitState,
        steps: Vec<Step>,
        request: Option<RequestId>,
    ) -> Result<(Vec<u8>, ChangeSet)> {
        let version = next_version(head)?;
        let record = Record { version, request, outcome: Outcome::Applied(steps) };
        let bytes = encoded(&record);
        let changes = self.apply_record(head, &record, bytes.len())?;
        Ok((bytes, changes))
    }

    /// Applies the record of the next commit, which takes so many bytes, to the head; after an error nothing has happened.
    fn apply_record(&self, head: &mut CommitState, record: &Record, record_len: usize) -> Result<ChangeSet> {
        let Outcome::Applied(steps) = &record.outcome else { return Ok(ChangeSet::default()) };
        let mut write_transaction = self.write_transaction(head, record.version);
        let mut done = write_transaction.apply(steps);
        if let (Ok(()), Some(request)) = (&done, record.request) {
            done = write_transaction.remember(request, None, head.requests.to_forget());
        }
        if done.is_ok() && record_len > self.limits.group_len_max {
            done = Err(Error::invalid("the batch does not fit into the log: split it"));
        }
        if let Err(error) = done {
            write_transaction.roll_back();
            return Err(error);
        }
        let applied = write_transaction.finish()?;
        let changes = Arc::clone(&applied.changes);
        self.install(head, applied);
        if let Some(blocks) = self.reservations.settle(record) {
            self.allocator.set_reserved(blocks);
        }
        if let Some(request) = record.request {
            head.requests.push(record.version, request, None);
        }
        Ok(changes)
    }

    /// Tells of a refusal; remembers it for a request with an id.
    fn refuse(
        &self,
        head: &mut CommitState,
        refusal: Refusal,
        request: Option<RequestId>,
        durability: Durability,
        completer: Completer,
    ) -> Result<(), (Completer, Error)> {
        let outcome = Err(requests::refused(refusal));
        let Some(request) = request else {
            self.enqueue(head, QueuedCommit::answer(head, durability, outcome, completer));
            return Ok(());
        };
        let remembered = self.remember(head, request, refusal);
        match remembered {
            Ok(record) => {
                let state = head.state.clone();
                let item = QueuedCommit::new(record, state, durability, outcome, completer, ChangeSet::default());
                self.enqueue(head, item);
                Ok(())
            }
            Err(error) => Err((completer, error)),
        }
    }

    fn remember(&self, head: &mut CommitState, request: RequestId, refusal: Refusal) -> Result<Vec<u8>> {
        let version = next_version(head)?;
        let mut write_transaction = self.write_transaction(head, version);
        write_transaction.remember(request, Some(refusal), head.requests.to_forget())?;
        let applied = write_transaction.finish()?;
        self.install(head, applied);
        head.requests.push(version, request, Some(refusal));
        let mut bytes = Vec::new();
        Record { version, request: Some(request), outcome: Outcome::Refused(refusal) }.encode(&mut bytes);
        Ok(bytes)
    }

    fn enqueue(&self, head: &mut CommitState, mut item: QueuedCommit) {
        // Looked at under the head's lock: the writer ends after a failure, and empties the queue under that lock.
        if let Err(error) = self.check_running() {
            item.tell(Err(error));
            return;
        }
        // A commit that memory is enough for is visible at once, unless it stands behind one that is not.
        if item.durability == Durability::Memory && head.uncompleted == 0 {
            let outcome = item.outcome.clone();
            if item.record.is_some() {
                self.watchers.tell(item.state.version, &item.changes);
                *self.visible.write() = item.state.clone();
            }
            item.tell(outcome);
        }
        let settled = head.queue.is_empty() && !head.in_flight;
        let durable = item.durability < Durability::Sync || head.unflushed_len == 0;
        if item.record.is_none() && (item.completer.is_none() || (settled && durable)) {
            let outcome = item.outcome.clone();
            item.tell(outcome);
            return;
        }
        head.queue_len += item.record.as_ref().map_or(0, Vec::len);
        let wake = match &item.completer {
            // It can wait for others, but not for ever.
            None => !head.writer_armed || head.queue_len > LAZY_LEN_MAX,
            Some(completer) => {
                head.uncompleted += 1;
                !completer.is_led()
            }
        };
        // Whoever writes now looks at the queue when done.
        let is_for_writer = item.completer.is_none() || item.durability == Durability::Sync;
        let wake = wake && !head.in_flight && !crate::together::holds(self, is_for_writer);
        head.queue.push_back(item);
        if wake {
            self.work.notify_one();
        }
    }

    /// Has everything written that is queued, also what was told already.
    pub(crate) fn write_queued(self: &Arc<Core>) -> Result<()> {
        // The queue holds nothing in a store that is read only.
        if self.head.lock().queue.is_empty() {
            return Ok(());
        }
        if self.background == Background::Manual {
            while self.write_group()? {}
            return Ok(());
        }
        if is_completing() {
            return Ok(());
        }
        self.wait_for(Durability::Written)
    }

    /// Waits until everything so far is durable.
    pub(crate) fn sync(self: &Arc<Core>) -> Result<()> {
        self.check_running()?;
        if self.read_only {
            return Ok(());
        }
        self.wait_for(Durability::Sync)
    }

    /// Waits until everything so far is as durable as this.
    fn wait_for(self: &Arc<Core>, durability: Durability) -> Result<()> {
        let (ticket, completer) = self.new_ticket();
        {
            let mut head = self.head.lock();
            let version = head.state.version;
            let outcome = Ok(Commit { version, repeated: false });
            let item = QueuedCommit::answer(&head, durability, outcome, completer.led());
            self.enqueue(&mut head, item);
        }
        let core = Arc::clone(self);
        ticket.with_lead(Arc::new(move || core.lead())).wait().map(|_| ())
    }
}

impl QueuedCommit {
    /// An outcome that waits for what stands before it in the queue.
    fn answer(
        head: &CommitState,
        durability: Durability,
        outcome: Result<Commit>,
        completer: Completer,
    ) -> QueuedCommit {
        let completer = Some(completer);
        QueuedCommit {
            record: None,
            state: head.state.clone(),
            durability,
            outcome,
            completer,
            changes: ChangeSet::default(),
        }
    }

    /// A commit, or a refusal that is remembered.
    fn new(
        record: Vec<u8>,
        state: State,
        durability: Durability,
        outcome: Result<Commit>,
        completer: Completer,
        changes: ChangeSet,
    ) -> QueuedCommit {
        QueuedCommit { record: Some(record), state, durability, outcome, completer: Some(completer), changes }
    }
}

fn next_version(head: &CommitState) -> Result<Version> {
    let next = Version(head.state.version.0 + 1);
    if next > head.reserve {
        return Err(Error::new(ErrorKind::Busy, "the log numbers at hand are used up until the next checkpoint"));
    }
    Ok(next)
}
