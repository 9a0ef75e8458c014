//! Writes: kept with their objects, then placed on the device side by side and named by one commit.

use std::sync::Arc;

use super::submit::{Set, Submitted};
use super::{Next, WriteBuffer};
use crate::batch::{Batch, Condition, Operation, Payload};
use crate::error::{Error, ErrorKind, Refusal, Result};
use crate::objects::hint::Hint;
use crate::objects::layout::{SPACE, object_key, object_place};
use crate::objects::node::{Node, NodeState, absent};
use crate::objects::placing::{Range, Source, payloads};
use crate::objects::write_behind::{Taken, Verdict};

/// What is to be written to one object.
pub(super) struct Parts {
    number: u64,
    parts: Vec<(u64, Payload)>,
}

impl WriteBuffer {
    /// Whether a write of so many bytes may be kept.
    pub fn takes(&self, length: usize) -> bool {
        self.budget.takes(length, || self.room_for_writes())
    }

    /// Keeps a write of an object whose node the caller has locked.
    pub fn write(&self, node: &Arc<Node>, state: &mut NodeState, offset: u64, data: &[u8], hint: Hint) -> Next {
        let _gate = self.gate.read();
        let mut next = Next::Nothing;
        if node.behind().write(offset, data, hint, &self.budget) {
            let mut open = self.open.lock();
            if open.nodes.is_empty() {
                open.before_writes = open.operations.len();
            }
            open.nodes.push(Arc::clone(node));
            let (pending, first) = open.begin(&self.me);
            state.keep_behind(pending);
            next = first;
        }
        match self.budget.verdict() {
            Verdict::Wait => next,
            Verdict::Begin => {
                let mut open = self.open.lock();
                if open.urgent { next } else { open.hurry() }
            }
            Verdict::Flush => Next::FlushWrites,
        }
    }

    /// What the writes of a set are as parts of a batch, their bytes on the device where they are many.
    pub(super) fn place(&self, set: &Set) -> Result<Vec<Parts>> {
        let (mut all, mut ranges) = (Vec::with_capacity(set.written.len()), Vec::new());
        for (node, taken) in &set.written {
            let reserved = self.engine.reserved(&object_place(node.number())) > 0;
            let mut offsets = Vec::new();
            for (offset, length) in taken.ranges.runs() {
                let source = Source::Kept(&taken.ranges, offset);
                let Taken { access, lifetime, .. } = *taken;
                ranges.push(Range { source, length, access, reserved, lifetime });
                offsets.push(offset);
            }
            all.push((node.number(), offsets));
        }
        let mut payloads = payloads(&self.engine, &ranges)?.into_iter();
        let parts = |(number, offsets): (u64, Vec<u64>)| Parts {
            number,
            parts: offsets.into_iter().zip(payloads.by_ref()).collect(),
        };
        Ok(all.into_iter().map(parts).collect())
    }

    /// Submits the operations that came after the first write and the writes, in one commit.
    pub(super) fn submit_writes(&self, set: &Set, done: &mut Submitted) {
        let operations = set.with_writes();
        let mut parts = match self.place(set) {
            Ok(parts) => parts,
            Err(error) => {
                self.submit_split(operations, done);
                return self.lose(set.written.iter().map(|(node, _)| node.number()), &error, done);
            }
        };
        let (created, deleted) = super::submit::sorted(operations);
        let mut with = operations;
        loop {
            let numbers: Vec<u64> = parts.iter().map(|parts| parts.number).collect();
            let mut batch = if with.is_empty() { Batch::new() } else { super::submit::batch_of(&created, &deleted) };
            // Conditions are of the state before: what is created here is not there yet.
            let is_new = |number: &u64| !with.is_empty() && created.binary_search(number).is_ok();
            let asked: Vec<u64> = numbers.iter().filter(|number| !is_new(number)).copied().collect();
            let there = |number: &u64| Condition::Present { space: SPACE, key: object_key(*number) };
            batch.conditions.extend(asked.iter().map(there));
            batch.operations.extend(parts.iter().flat_map(Parts::operations));
            if batch.operations.is_empty() {
                return;
            }
            match self.try_submit(batch, done) {
                None => return,
                Some(error) => match error.refusal() {
                    Some(Refusal::Condition(index)) if let Some(number) = asked.get(index as usize) => {
                        // Somebody removed it past this module.
                        parts.retain(|parts| parts.number != *number);
                        self.lose(std::iter::once(*number), &absent(*number), done);
                    }
                    _ if error.kind() == ErrorKind::Full && !with.is_empty() => {
                        self.submit_split(with, done);
                        with = &[];
                    }
                    _ => {
                        if !with.is_empty() {
                            self.fail(&created, &deleted, error.clone(), done);
                        }
                        return self.lose(numbers.into_iter(), &error, done);
                    }
                },
            }
        }
    }

    /// Writes of these objects did not happen.
    fn lose(&self, numbers: impl Iterator<Item = u64>, error: &Error, done: &mut Submitted) {
        done.refused.extend(numbers);
        done.why.get_or_insert_with(|| error.clone());
        self.lost.lock().get_or_insert_with(|| error.clone());
    }

    /// Forgets what a set holds of writes: they are visible, or lost.
    pub(super) fn land(&self, set: &mut Set) {
        for (node, taken) in set.written.drain(..) {
            node.behind().land(node.epoch());
            if let Some(ranges) = Arc::into_inner(taken.ranges) {
                self.budget.land(ranges);
            }
        }
    }
}

impl Parts {
    fn operations(&self) -> impl Iterator<Item = Operation> {
        self.parts.iter().map(|(offset, data)| Operation::WriteAt {
            at: object_place(self.number),
            offset: *offset,
            data: data.clone(),
        })
    }
}
