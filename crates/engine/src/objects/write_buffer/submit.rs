//! What was gathered becomes commits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};

use super::{Buffered, WriteBuffer};
use crate::batch::{BATCH_OPERATIONS_MAX, Batch, Durability, Operation, Payload, Place};
use crate::error::{Error, ErrorKind};
use crate::objects::layout::{SPACE, Setting};
use crate::objects::node::Node;
use crate::objects::pending::Pending;
use crate::objects::write_behind::Taken;
use crate::ticket::Ticket;

/// How many operations one commit takes at most: with what counts them, no more than a batch may hold.
pub(super) const COMMIT_MAX: usize = 24_576;
const _: () = assert!(COMMIT_MAX < BATCH_OPERATIONS_MAX);
/// How many creations and deletions may come after the first write of a set.
pub(super) const WITH_WRITES_MAX: usize = 64;
/// A commit that finds no room is tried again in parts of so many.
const RETRY: usize = 64;
/// More than one of them takes in the log.
const OPERATION_LEN: usize = 64;
/// A commit needs at most one free block of so many.
const ROOM_SHARE: u64 = 2;

/// What was gathered up to a moment.
pub(super) struct Set {
    /// Creations and deletions, in the order of calls.
    pub operations: Vec<Buffered>,
    /// How many of them came before the first write.
    pub before_writes: usize,
    /// What was written, and to which objects.
    pub written: Vec<(Arc<Node>, Taken)>,
}

impl Set {
    /// The operations that are in one commit with the writes.
    pub fn with_writes(&self) -> &[Buffered] {
        self.operations.get(self.before_writes..).unwrap_or_default()
    }
}

/// What became of what was gathered.
#[derive(Default)]
pub(super) struct Submitted {
    last: Option<Ticket>,
    pub refused: Vec<u64>,
    pub why: Option<Error>,
}

impl WriteBuffer {
    /// Submits a set. Where it has writes this returns once they are visible, or lost.
    pub(super) fn submit_set(&self, set: &mut Set, pending: &Pending) {
        let mut done = Submitted::default();
        if set.written.is_empty() {
            self.submit_split(&set.operations, &mut done);
        } else {
            self.submit_split(set.operations.get(..set.before_writes).unwrap_or_default(), &mut done);
            self.submit_writes(set, &mut done);
        }
        done.refused.sort_unstable();
        pending.submitted(done.last, done.why.map(|why| (done.refused, why)));
        if !set.written.is_empty() {
            // Whoever asks for them is told by what is pending.
            let _ = pending.wait();
            self.land(set);
        }
    }

    /// Submits creations and deletions, in as many commits as it takes.
    pub(super) fn submit_split(&self, operations: &[Buffered], done: &mut Submitted) {
        let mut rest = operations;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(self.commit_len(rest));
            self.submit_part(part, done);
            rest = after;
        }
    }

    /// How many of these one commit takes: as the log allows, and no more creations than there surely is room for, so
    /// that no store grows, and none is refused, for many together.
    fn commit_len(&self, operations: &[Buffered]) -> usize {
        let core = self.engine.shared();
        let most = operations.len().min(COMMIT_MAX).min(core.limits.group_len_max / OPERATION_LEN).max(1);
        let room = usize::try_from(core.allocator.free_blocks() / ROOM_SHARE).unwrap_or(COMMIT_MAX).max(RETRY);
        let mut creations = operations.iter().take(most).enumerate().filter(|(_, gathered)| gathered.creates);
        creations.nth(room).map_or(most, |(at, _)| at)
    }

    fn submit_part(&self, part: &[Buffered], done: &mut Submitted) {
        let (created, deleted) = sorted(part);
        match self.try_both(&created, &deleted, done) {
            Some(error) if error.kind() == ErrorKind::Full && !created.is_empty() => {
                if let Some(error) = self.try_both(&[], &deleted, done) {
                    self.fail(&[], &deleted, error, done);
                }
                let mut full = None;
                for some in created.chunks(RETRY) {
                    full = full.or_else(|| self.try_both(some, &[], done));
                    if let Some(error) = &full {
                        self.fail(some, &[], error.clone(), done);
                    }
                }
                self.full.store(full.is_some(), Ordering::Relaxed);
            }
            Some(error) => self.fail(&created, &deleted, error, done),
            None => {}
        }
    }

    /// Submits one commit; gives what is wrong with it at once.
    fn try_both(&self, created: &[u64], deleted: &[u64], done: &mut Submitted) -> Option<Error> {
        if created.is_empty() && deleted.is_empty() {
            return None;
        }
        self.try_submit(batch_of(created, deleted), done)
    }

    /// As `try_both`, for any batch.
    pub(super) fn try_submit(&self, batch: Batch, done: &mut Submitted) -> Option<Error> {
        let ticket = self.engine.submit(batch, Durability::Memory);
        match ticket.peek() {
            Some(Err(error)) => Some(error),
            _ => {
                // After a failure of the store there is no later success to hide it.
                if !done.last.as_ref().is_some_and(|last| matches!(last.peek(), Some(Err(_)))) {
                    done.last = Some(ticket);
                }
                None
            }
        }
    }

    /// These were not created, and these not deleted. Told by the next call on each of the objects.
    pub(super) fn fail(&self, created: &[u64], deleted: &[u64], error: Error, done: &mut Submitted) {
        self.count.fetch_sub(created.len() as u64, Ordering::SeqCst);
        self.count.fetch_add(deleted.len() as u64, Ordering::SeqCst);
        if !deleted.is_empty() {
            // Nothing keeps a store from deleting but the end of it.
            done.last = Some(Ticket::ready(Err(error.clone())));
        }
        done.refused.extend_from_slice(created);
        done.why.get_or_insert(error);
    }
}

/// The numbers of the objects that operations create, and of those that they delete; sorted.
pub(super) fn sorted(part: &[Buffered]) -> (Vec<u64>, Vec<u64>) {
    let of = |creates| {
        let wanted = part.iter().filter(|gathered| gathered.creates == creates);
        let mut numbers: Vec<u64> = wanted.map(|gathered| gathered.number).collect();
        numbers.sort_unstable();
        numbers
    };
    let (mut created, mut deleted) = (of(true), of(false));
    if !created.is_empty() && !deleted.is_empty() {
        // What is gone already was never there for anybody else.
        let both: Vec<u64> = deleted.iter().filter(|number| created.binary_search(number).is_ok()).copied().collect();
        created.retain(|number| both.binary_search(number).is_err());
        deleted.retain(|number| both.binary_search(number).is_err());
    }
    (created, deleted)
}

/// One commit that creates these objects, without a byte, and deletes those.
pub(super) fn batch_of(created: &[u64], deleted: &[u64]) -> Batch {
    let mut keys = BytesMut::with_capacity((created.len() + deleted.len()) * 8);
    created.iter().chain(deleted).for_each(|number| keys.extend_from_slice(&number.to_be_bytes()));
    let keys = keys.freeze();
    let place = |index: usize| Place { space: SPACE, key: keys.slice(index * 8..(index + 1) * 8) };
    let mut batch = Batch::new();
    batch.operations.reserve_exact(created.len() + deleted.len() + 1);
    let puts = (0..created.len()).map(|index| Operation::Put { at: place(index), value: Payload::Bytes(Bytes::new()) });
    batch.operations.extend(puts);
    let deletes = (created.len()..created.len() + deleted.len()).map(|index| Operation::Delete { at: place(index) });
    batch.operations.extend(deletes);
    let delta = created.len() as i64 - deleted.len() as i64;
    batch.operations.push(Operation::AddCounter { at: Setting::Count.place(), delta });
    batch
}
