//! The objects that are open, or whose last change is not visible yet.
//!
//! Invariants:
//! - All handles of an object share one node; changes of the object are submitted under the node's lock, so the
//!   last pending change of a node is the last of them to become visible.
//! - A node stays in the table until nobody has it open and its last change is visible (or failed): whoever opens
//!   the object meanwhile finds it here and waits.
//! - A deleted object is found here until its deletion is visible, and refuses to be opened.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::MutexGuard;

use super::gather::Gather;
use super::layout::object_place;
use super::pending::Pending;
use super::status::ObjectStatus;
use crate::batch::{Batch, Durability, Operation};
use crate::error::{Error, ErrorKind, Refusal, Result};
use crate::lock::Mutex;

/// Parts of the table with locks of their own.
const SHARDS: u64 = 16;

/// What is known of an object that is in use.
pub struct Node {
    number: u64,
    state: Mutex<NodeState>,
}

/// The part of a node that changes.
#[derive(Default)]
pub struct NodeState {
    /// Whether it is known that the object was created.
    there: bool,
    deleted: bool,
    /// Raised by every change, before it is submitted.
    epoch: u64,
    pending: Option<Arc<Pending>>,
    /// What its status was at an epoch.
    status: Option<(u64, ObjectStatus)>,
}

/// The error of an object that is not there.
pub fn absent(number: u64) -> Error {
    Error::new(ErrorKind::NotFound, format!("object {number} is not there: it was never created, or was deleted"))
}

impl Node {
    /// Of an object that was just created by `pending`, or of one that is still to be looked for.
    pub fn new(number: u64, pending: Option<Arc<Pending>>) -> Arc<Node> {
        let state = NodeState { there: pending.is_some(), pending, ..NodeState::default() };
        Arc::new(Node { number, state: Mutex::new(state) })
    }

    /// Fails unless the object is there; `look` is asked when that is not known.
    pub fn check_there(&self, look: impl FnOnce() -> Result<bool>) -> Result<()> {
        let mut state = self.lock()?;
        if !state.there {
            state.there = look()?;
        }
        if state.there { Ok(()) } else { Err(absent(self.number)) }
    }

    /// The object's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Keeps others from changing the object. Fails when it was deleted, or when an earlier change failed.
    pub fn lock(&self) -> Result<MutexGuard<'_, NodeState>> {
        let mut state = self.state.lock();
        // First: a deletion that failed has deleted nothing.
        match state.pending.as_ref().and_then(|pending| pending.peek()) {
            Some(Err(error)) => return Err(self.explain(error)),
            Some(Ok(())) => state.pending = None,
            None => {}
        }
        if state.deleted { Err(absent(self.number)) } else { Ok(state) }
    }

    /// Fails when the object was deleted, or when an earlier change failed.
    pub fn check(&self) -> Result<()> {
        self.lock().map(drop)
    }

    /// Waits until every change that was submitted before is visible. Gives the object's epoch then.
    pub fn settle(&self) -> Result<u64> {
        let (epoch, pending) = {
            let state = self.lock()?;
            (state.epoch, state.pending.clone())
        };
        if let Some(pending) = pending {
            pending.wait().map_err(|error| self.explain(error))?;
        }
        Ok(epoch)
    }

    /// Whether nothing was submitted since this epoch.
    pub fn is_at(&self, epoch: u64) -> bool {
        self.lock().is_ok_and(|state| state.epoch == epoch)
    }

    /// Its status, if that was looked at since the last change and nothing is under way.
    pub fn known_status(&self) -> Result<Option<ObjectStatus>> {
        let state = self.lock()?;
        let known = state.status.as_ref().filter(|(epoch, _)| *epoch == state.epoch && state.pending.is_none());
        Ok(known.map(|(_, status)| status.clone()))
    }

    /// Remembers a status that was looked at in this epoch.
    pub fn note_status(&self, epoch: u64, status: &ObjectStatus) {
        self.state.lock().status = Some((epoch, status.clone()));
    }

    /// Submits a change of this object alone, and waits as the durability asks.
    pub fn change(&self, gather: &Gather, batch: Batch, durability: Durability, delete: bool) -> Result<()> {
        let pending = {
            let mut state = self.lock()?;
            let pending = gather.submit(batch, durability).map_err(|error| self.explain(error))?;
            state.note(&pending, delete);
            pending
        };
        if durability > Durability::Memory {
            pending.wait().map_err(|error| self.explain(error))?;
        }
        Ok(())
    }

    /// Gathers the deletion of this object.
    pub fn delete_with(&self, gather: &Arc<Gather>) -> Result<()> {
        let mut state = self.lock()?;
        let pending = gather.add(Operation::Delete { at: object_place(self.number) }, false)?;
        state.note(&pending, true);
        Ok(())
    }

    /// Says of which object a batch was refused: conditions of this module only ask whether objects are there.
    pub fn explain(&self, error: Error) -> Error {
        match error.refusal() {
            Some(Refusal::Condition(_)) => absent(self.number),
            _ => error,
        }
    }

    /// Whether nothing is under way. Never waits: who holds the lock has something under way.
    fn is_settled(&self) -> bool {
        let Some(state) = self.state.try_lock() else { return false };
        state.pending.as_ref().is_none_or(|pending| pending.peek().is_some())
    }
}

impl NodeState {
    /// A change was submitted.
    pub fn note(&mut self, pending: &Arc<Pending>, delete: bool) {
        self.epoch += 1;
        self.deleted |= delete;
        self.pending = Some(Arc::clone(pending));
    }
}

struct Entry {
    node: Arc<Node>,
    handles: u64,
}

/// All nodes.
#[derive(Default)]
pub struct Table {
    shards: [Mutex<HashMap<u64, Entry>>; SHARDS as usize],
    /// Objects that nobody has open and whose last change was not visible when they were closed, oldest first.
    lingering: Mutex<VecDeque<u64>>,
}

impl Table {
    fn shard(&self, number: u64) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.shards[(number % SHARDS) as usize].lock()
    }

    /// The node of an object, made when it is not in use; with one handle more.
    pub fn enter(&self, number: u64, make: impl FnOnce() -> Arc<Node>) -> Arc<Node> {
        let mut shard = self.shard(number);
        let entry = shard.entry(number).or_insert_with(|| Entry { node: make(), handles: 0 });
        entry.handles += 1;
        Arc::clone(&entry.node)
    }

    /// One handle less.
    pub fn leave(&self, number: u64) {
        let lingers = {
            let mut shard = self.shard(number);
            let Some(entry) = shard.get_mut(&number) else { return };
            entry.handles -= 1;
            let lingers = entry.handles == 0 && !entry.node.is_settled();
            if entry.handles == 0 && !lingers {
                shard.remove(&number);
            }
            lingers
        };
        let mut lingering = self.lingering.lock();
        if lingers {
            lingering.push_back(number);
        }
        while let Some(number) = lingering.front().copied() {
            let mut shard = self.shard(number);
            match shard.get(&number) {
                Some(entry) if entry.handles == 0 && !entry.node.is_settled() => break,
                Some(entry) if entry.handles == 0 => {
                    shard.remove(&number);
                }
                // Opened again: closing it comes back to it.
                _ => {}
            }
            drop(shard);
            lingering.pop_front();
        }
    }

    /// Waits until every change that was submitted before is visible.
    pub fn settle(&self) -> Result<()> {
        for shard in &self.shards {
            let nodes: Vec<Arc<Node>> = shard.lock().values().map(|entry| Arc::clone(&entry.node)).collect();
            let pending: Vec<_> = nodes.iter().filter_map(|node| node.state.lock().pending.clone()).collect();
            for pending in pending {
                match pending.wait() {
                    // A change that was refused is no matter of who asks for all.
                    Err(error) if error.kind() == ErrorKind::Stopped => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// How many nodes there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}
