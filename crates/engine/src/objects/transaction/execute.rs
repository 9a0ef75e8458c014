//! Executing a transaction: one commit that makes everything visible.
//!
//! Invariants:
//! - The objects are locked in the order of their numbers while their parts are submitted, so that no change of
//!   another thread comes in between.
//! - Where one commit cannot name all ranges, each object's new state is built aside under a scratch key first;
//!   the one commit that counts then puts the new states in place.

use super::writes::Part;
use super::{Executed, Transaction};
use crate::batch::{Batch, Condition, Durability, Operation, Payload, Place};
use crate::device::BLOCK_LEN;
use crate::error::{Error, Refusal, Result};
use crate::objects::layout::{SPACE, object_key, object_place};
use crate::objects::node::{Node, NodeState, absent};
use crate::objects::placing;
use crate::stage::Access;

/// The most operations of one commit of ours; less where the log is small.
const OPERATIONS_MAX: usize = 16_384;
/// More than one of our operations takes in the log, its payload aside.
const OPERATION_LEN: usize = 128;

/// A change of an object, or of its new state aside, at an offset.
struct Change {
    number: u64,
    offset: u64,
    from: Source,
}

enum Source {
    Payload(Payload),
    Spool { at: u64, length: u64 },
}

impl Transaction<'_> {
    /// Makes everything visible in one commit, and waits as the durability asks. After an error nothing of it
    /// has happened (after `Stopped`: open the store again and look).
    pub fn execute(mut self, durability: Durability) -> Result<Executed> {
        self.answer_reads()?;
        let limits = *self.inner.engine.limits();
        // Half of a group of the log; the other half is for bytes.
        let most = OPERATIONS_MAX.min(limits.group_len_max / 2 / OPERATION_LEN);
        let written: usize = self.objects.values().filter(|queue| queue.writes.len() > 0).count();
        if written == 0 {
            if durability > Durability::Memory {
                self.inner.gather.commit(Batch::new(), durability)?;
            }
            return Ok(std::mem::take(&mut self.done));
        }
        if self.memory_len > limits.batch_bytes_max / 2 && self.is_in_short_runs() {
            // In blocks of their own they would take many times their room.
            self.spool_memory()?;
        }
        if 2 * written + 1 > most {
            let message = format!("a transaction over {written} objects; the most is {}: split it", (most - 1) / 2);
            return Err(Error::invalid(message));
        }
        let changes = self.changes()?;
        let aside = changes.len() + written + 1 > most;
        self.commit(changes, aside.then_some(most), durability)?;
        Ok(std::mem::take(&mut self.done))
    }

    /// Whether what is in memory is less than a block a range.
    fn is_in_short_runs(&self) -> bool {
        self.memory_len < self.ranges * BLOCK_LEN
    }

    /// All changes, in order, with what is in memory made ready.
    fn changes(&mut self) -> Result<Vec<Change>> {
        let (mut changes, mut runs) = (Vec::new(), Vec::new());
        for (number, queue) in &mut self.objects {
            let reserved = self.inner.engine.reserved(&object_place(*number)) > 0;
            for (offset, run) in queue.writes.take_memory() {
                runs.push((*number, offset, run, (reserved, queue.lifetime)));
            }
            // Ranges do not overlap: their order does not matter.
            for (offset, part) in queue.writes.iter() {
                if let Part::Spooled { at, length } = part {
                    let from = Source::Spool { at: *at, length: *length };
                    changes.push(Change { number: *number, offset, from });
                }
            }
        }
        self.memory_len = 0;
        let mut ranges = Vec::with_capacity(runs.len());
        for (_, _, run, (reserved, lifetime)) in &runs {
            let (source, length) = (placing::Source::Slice(run), run.len() as u64);
            ranges.push(placing::Range {
                source,
                length,
                access: Access::Random,
                reserved: *reserved,
                lifetime: *lifetime,
            });
        }
        let payloads = placing::payloads(&self.inner.engine, &ranges)?;
        for ((number, offset, ..), payload) in runs.into_iter().zip(payloads) {
            changes.push(Change { number, offset, from: Source::Payload(payload) });
        }
        changes.sort_by_key(|change| (change.number, change.offset));
        Ok(changes)
    }

    /// Submits the changes; aside first, `most` operations a commit, where that is asked for.
    fn commit(&mut self, changes: Vec<Change>, aside: Option<usize>, durability: Durability) -> Result<()> {
        let mut numbers: Vec<u64> = changes.iter().map(|change| change.number).collect();
        numbers.dedup();
        let nodes: Vec<_> =
            numbers.iter().filter_map(|number| self.objects.get(number)).map(|q| q.node.clone()).collect();
        let mut batch = Batch::new();
        for number in &numbers {
            batch.conditions.push(Condition::Present { space: SPACE, key: object_key(*number) });
        }
        let explain = |error: Error| explain(error, &numbers);
        let mut states = lock(&nodes)?;
        match aside {
            None => batch.operations.extend(changes.into_iter().map(|change| {
                let to = object_place(change.number);
                self.operation(change, to)
            })),
            Some(most) => {
                self.spool.mark_used();
                // Nobody changes the objects now; what was changed before is seen by the copies.
                self.build_aside(&numbers, changes, most).map_err(explain)?;
                for number in &numbers {
                    batch
                        .operations
                        .push(Operation::Rename { from: self.spool.place(*number), to: object_place(*number) });
                }
            }
        }
        if self.spool.is_used() {
            batch.operations.push(Operation::DeleteRange { space: SPACE, range: self.spool.range() });
        }
        nodes.iter().for_each(|node| node.forget_status());
        let pending = self.inner.gather.submit(batch, durability).map_err(explain)?;
        self.spool.forget();
        nodes.iter().zip(&mut states).for_each(|(node, state)| node.note(state, &pending, false));
        drop(states);
        if durability > Durability::Memory {
            pending.wait().map_err(explain)?;
        }
        Ok(())
    }

    fn operation(&self, change: Change, to: Place) -> Operation {
        match change.from {
            Source::Payload(data) => Operation::WriteAt { at: to, offset: change.offset, data },
            Source::Spool { at, length } => Operation::CloneRange {
                from: self.spool.place(0),
                from_offset: at,
                length,
                to,
                to_offset: change.offset,
            },
        }
    }

    /// Builds the new state of each object under a scratch key.
    fn build_aside(&self, numbers: &[u64], changes: Vec<Change>, most: usize) -> Result<()> {
        let copies = numbers.iter().map(|number| Operation::CloneRange {
            from: object_place(*number),
            from_offset: 0,
            length: u64::MAX,
            to: self.spool.place(*number),
            to_offset: 0,
        });
        let parts = changes.into_iter().map(|change| {
            let to = self.spool.place(change.number);
            self.operation(change, to)
        });
        let mut operations = copies.chain(parts).peekable();
        while operations.peek().is_some() {
            let mut batch = Batch::new();
            batch.operations.extend(operations.by_ref().take(most));
            self.inner.gather.commit(batch, Durability::Memory)?;
        }
        Ok(())
    }
}

fn lock<'n>(nodes: &'n [std::sync::Arc<Node>]) -> Result<Vec<parking_lot::MutexGuard<'n, NodeState>>> {
    nodes.iter().map(|node| node.lock()).collect()
}

/// Says which object is not there.
fn explain(error: Error, numbers: &[u64]) -> Error {
    match error.refusal() {
        Some(Refusal::Condition(index)) => numbers.get(index as usize).map_or(error, |number| absent(*number)),
        _ => error,
    }
}
