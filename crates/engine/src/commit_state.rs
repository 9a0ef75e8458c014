//! The newest sequenced state, and commits on their way to the log.
//!
//! Invariants:
//! - [`CommitState::state`] is what the next commit builds on; what views see follows it.
//! - Changes of the set of needed blocks are taken by checkpoints in the order of commits.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::address::BlockRange;
use crate::allocator::ReuseQueue;
use crate::apply::Counters;
use crate::batch::{Commit, Durability, Place, Version};
use crate::changes::{ChangeSet, Changes};
use crate::device::AlignedBuffer;
use crate::error::Result;
use crate::log::ring::Position;
use crate::requests::Requests;
use crate::staged::Staged;
use crate::state::State;
use crate::ticket::Completer;
use crate::tree::DirtySize;

/// A change of the set of blocks that the state needs, in the order of commits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delta {
    /// The state names these blocks from now on.
    Use(BlockRange),
    /// The state needs these blocks no more.
    Free(BlockRange),
}

/// A submit on its way to the ring.
pub(crate) struct QueuedCommit {
    /// The record; none where only an outcome waits for what stands before it.
    pub record: Option<Vec<u8>>,
    pub state: State,
    pub durability: Durability,
    pub outcome: Result<Commit>,
    /// None once the outcome was told.
    pub completer: Option<Completer>,
    pub changes: ChangeSet,
}

/// What is left of a commit that was told: nobody reads it, but taking it down takes time.
pub(crate) struct DeferredDrop {
    _record: Option<Vec<u8>>,
    _state: State,
    _changes: ChangeSet,
}

impl DeferredDrop {
    /// A state that nobody sees any more.
    pub fn of(state: State) -> DeferredDrop {
        DeferredDrop { _record: None, _state: state, _changes: ChangeSet::default() }
    }
}

/// A position in the log after a group, and the state there. A checkpoint may end here.
#[derive(Clone)]
pub(crate) struct CheckpointPosition {
    pub state: State,
    pub position: Position,
    pub chain: u64,
    pub counters: Counters,
    /// What of the state that this cut covers has no place yet.
    pub dirty: DirtySize,
}

/// A group of one block to which records may be added: it is written anew, in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenGroup {
    pub position: Position,
    pub first: Version,
    pub records: u32,
    pub payload_len: usize,
    /// The checksum of the group before.
    pub previous: u64,
}

/// The newest sequenced state and what waits to be written.
pub(crate) struct CommitState {
    pub state: State,
    pub counters: Counters,
    pub requests: Requests,
    pub changes: Changes,
    pub queue: VecDeque<QueuedCommit>,
    pub queue_len: usize,
    /// Items queued or in flight whose outcome was not told: what they wait for is not visible yet.
    pub uncompleted: usize,
    /// Somebody writes a group; who wants to write the next waits until it is done.
    pub in_flight: bool,
    /// A place and its new data, where that data is written beside the group whose first record names it. Until it is
    /// written no checkpoint and no other commit may need it.
    pub unwritten: Option<(Place, Arc<Staged>)>,
    /// The last group, while more may be added to it (see `writer`).
    pub open: Option<OpenGroup>,
    /// Memory for groups; the last group's bytes while that is open. Away while a group is written.
    pub group_buffer: Option<AlignedBuffer>,
    /// The writer looks again soon, whether it is woken or not.
    pub writer_armed: bool,
    pub deltas: Vec<(Version, Delta)>,
    /// Changes of commits that are not the newest: blocks that a checkpoint under way has written and that such a commit had
    /// already replaced.
    pub late_deltas: Vec<(Version, Delta)>,
    /// What has to stay in memory until a checkpoint has placed it.
    pub dirty: DirtySize,
    /// A checkpoint begins above this.
    pub dirty_budget: DirtySize,
    /// The cut of the checkpoint under way; zero when there is none.
    pub checkpoint_cut: Version,
    /// Where the log stands after the last group that was built.
    pub sealed: CheckpointPosition,
    /// The ring is needed from here on (by the older superblock).
    pub tail: Position,
    /// The cut of the newest superblock.
    pub cut_at: Position,
    /// The highest log number known durable.
    pub flushed: Version,
    /// Log numbers up to here may be given out.
    pub reserve: Version,
    /// Bytes written since the last sync.
    pub unflushed_len: u64,
    /// Somebody waits for a checkpoint.
    pub checkpoint_wanted: bool,
    /// Checkpoints finished since the store was opened.
    pub checkpoints: u64,
    /// The last checkpoint found no room.
    pub checkpoint_full: bool,
    pub closing: bool,
}

impl CommitState {
    /// Takes the changes up to a commit; they are in order once sorted by it.
    pub fn take_deltas(&mut self, up_to: Version) -> Vec<(Version, Delta)> {
        let rest = self.deltas.split_off(self.deltas.partition_point(|(of, _)| *of <= up_to));
        let mut taken = std::mem::replace(&mut self.deltas, rest);
        taken.extend(self.late_deltas.extract_if(.., |(of, _)| *of <= up_to));
        taken
    }

    /// A node has left the newest state before it was written.
    pub fn forget(&mut self, (dirty_size, born): (DirtySize, Version)) {
        // What a checkpoint under way writes stays until it has ended.
        if born <= self.checkpoint_cut {
            return;
        }
        self.dirty = self.dirty.without(dirty_size);
        if born <= self.sealed.state.version {
            self.sealed.dirty = self.sealed.dirty.without(dirty_size);
        }
    }
}

pub(crate) struct Reuse {
    pub queue: ReuseQueue,
    /// Both superblocks hold the commits up to here.
    pub safe: Version,
    /// Blocks that only views hold back, as of the last look.
    pub held: u64,
}

impl Reuse {
    /// Blocks that checkpoints would make reusable.
    pub fn waits_for_checkpoint(&self) -> u64 {
        self.queue.blocks().saturating_sub(self.held)
    }
}

impl QueuedCommit {
    /// Tells its own outcome, if it was not told yet. What is left of it may be dropped anywhere.
    pub fn told(self) -> DeferredDrop {
        if let Some(completer) = self.completer {
            completer.complete(self.outcome);
        }
        DeferredDrop { _record: self.record, _state: self.state, _changes: self.changes }
    }

    /// Tells an outcome, once.
    pub fn tell(&mut self, outcome: Result<Commit>) {
        if let Some(completer) = self.completer.take() {
            completer.complete(outcome);
        }
    }
}
