//! Which additions of a transaction can take up another one to the same counter.
//!
//! Invariant: between an addition that is noted and the end of the operations nothing else touches its key, so that
//! adding to it there is the same as adding at the end.

use std::collections::{BTreeMap, BTreeSet};

use koine_engine::{Operation, Place};

/// The additions by their key, each with its place among the operations.
#[derive(Default)]
pub(super) struct Counters {
    last: BTreeMap<Place, usize>,
    /// Where additions stand that took up others.
    sums: BTreeSet<usize>,
}

impl Counters {
    /// Notes an operation that follows.
    pub(super) fn note(&mut self, operation: &Operation) {
        if self.last.is_empty() {
            return;
        }
        match operation {
            Operation::Put { at, .. }
            | Operation::WriteAt { at, .. }
            | Operation::Append { at, .. }
            | Operation::Truncate { at, .. }
            | Operation::Delete { at }
            | Operation::AddCounter { at, .. } => drop(self.last.remove(at)),
            Operation::Rename { from, to } | Operation::CloneRange { from, to, .. } => {
                self.last.remove(from);
                self.last.remove(to);
            }
            _ => self.last.clear(),
        }
    }

    /// Whatever is added from now on stands for itself; so many operations stay.
    pub(super) fn forget(&mut self, operations: usize) {
        self.last.clear();
        self.sums.split_off(&operations);
    }

    /// Where an addition to this key stands that can be added to.
    pub(super) fn find(&self, at: &Place) -> Option<usize> {
        self.last.get(at).copied()
    }

    /// An addition was added to.
    pub(super) fn added(&mut self, at: &Place) {
        self.sums.extend(self.last.get(at));
    }

    /// Takes away sums that came to nothing.
    pub(super) fn drop_cancelled(&self, operations: &mut Vec<Operation>) {
        let mut index = 0;
        if !self.sums.is_empty() {
            operations.retain(|operation| {
                index += 1;
                !(matches!(operation, Operation::AddCounter { delta: 0, .. }) && self.sums.contains(&(index - 1)))
            });
        }
    }

    pub(super) fn put(&mut self, at: Place, index: usize) {
        self.last.insert(at, index);
    }
}
