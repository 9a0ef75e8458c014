//! What is known of an object that is in use: shared by all its handles.
//!
//! Invariants:
//! - Changes of an object that is in use are submitted (or gathered) under its node's lock, so the last pending change
//!   of a node is the last of them to become visible.
//! - The status that is remembered is let go of before a change is submitted, so nobody gets it who may have seen the change.
//! - What was read while the epoch stayed the same is one state of the object, but for writes that are kept behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::MutexGuard;

use super::pending::Pending;
use super::status_cell::{KnownStatus, StatusCell};
use super::write_behind::WriteBehind;
use super::write_buffer::WriteBuffer;
use crate::batch::{Batch, Durability};
use crate::error::{Error, ErrorKind, Refusal, Result};
use crate::lock::Mutex;

/// What is known of an object that is in use.
pub struct Node {
    number: u64,
    status: StatusCell,
    /// Raised by every change that was submitted, and when writes that were kept have become visible.
    epoch: AtomicU64,
    behind: WriteBehind,
    state: Mutex<NodeState>,
}

/// The part of a node that changes.
#[derive(Default)]
pub struct NodeState {
    /// Whether it is known that the object was created.
    there: bool,
    deleted: bool,
    pending: Option<Arc<Pending>>,
    /// The last set that writes of this object were kept in, while it may not be visible.
    behind: Option<Arc<Pending>>,
}

/// The error of an object that is not there.
pub fn absent(number: u64) -> Error {
    Error::new(ErrorKind::NotFound, format!("object {number} is not there: it was never created, or was deleted"))
}

impl Node {
    /// Of an object that is known to be there, perhaps by what is pending, or of one that is still to be looked for.
    pub fn new(number: u64, there: bool, pending: Option<Arc<Pending>>) -> Arc<Node> {
        let state = NodeState { there, pending, ..NodeState::default() };
        Arc::new(Node {
            number,
            status: StatusCell::new(),
            epoch: AtomicU64::new(0),
            behind: WriteBehind::default(),
            state: Mutex::new(state),
        })
    }

    /// Fails unless the object is there; `look` is asked when that is not known.
    pub fn check_there(&self, look: impl FnOnce() -> Result<bool>) -> Result<()> {
        let mut state = self.lock()?;
        if !state.there {
            state.there = look()?;
        }
        if state.there { Ok(()) } else { Err(absent(self.number)) }
    }

    /// The object was created by this, while somebody looked whether it is there.
    pub fn created(&self, pending: &Arc<Pending>) {
        let mut state = self.state.lock();
        (state.there, state.pending) = (true, Some(Arc::clone(pending)));
    }

    /// The object's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What was written to it and is kept.
    pub fn behind(&self) -> &WriteBehind {
        &self.behind
    }

    /// See the invariants.
    pub fn epoch(&self) -> &AtomicU64 {
        &self.epoch
    }

    /// Keeps others from changing the object. Fails when it was deleted, or when an earlier change failed.
    pub fn lock(&self) -> Result<MutexGuard<'_, NodeState>> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        // First: a deletion that failed has deleted nothing.
        for pending in [&mut state.pending, &mut state.behind] {
            match pending.as_ref().and_then(|pending| pending.peek_for(self.number)) {
                Some(Err(error)) => return Err(self.explain(error)),
                Some(Ok(())) => *pending = None,
                None => {}
            }
        }
        if guard.deleted { Err(absent(self.number)) } else { Ok(guard) }
    }

    /// Fails when the object was deleted, or when an earlier change failed.
    pub fn check(&self) -> Result<()> {
        self.lock().map(drop)
    }

    /// Waits until every change before, writes that are kept included, is visible. Gives the object's epoch then.
    pub fn settle(&self) -> Result<u64> {
        let (epoch, pending, behind) = {
            let state = self.lock()?;
            (self.epoch.load(Ordering::Acquire), state.pending.clone(), state.behind.clone())
        };
        for pending in pending.into_iter().chain(behind) {
            pending.wait_for(self.number).map_err(|error| self.explain(error))?;
        }
        Ok(epoch)
    }

    /// Waits until every change that was submitted before is visible; writes that are kept may not be. Gives the
    /// object's epoch then.
    pub fn settle_submitted(&self) -> Result<u64> {
        let (epoch, pending) = {
            let state = self.lock()?;
            (self.epoch.load(Ordering::Acquire), state.pending.clone())
        };
        if let Some(pending) = pending {
            pending.wait_for(self.number).map_err(|error| self.explain(error))?;
        }
        Ok(epoch)
    }

    /// The last change, if it may not be visible.
    pub fn pending(&self) -> Option<Arc<Pending>> {
        self.state.lock().pending.clone()
    }

    /// Whether nothing was submitted since this epoch.
    pub fn is_at(&self, epoch: u64) -> bool {
        self.lock().is_ok_and(|_state| self.epoch.load(Ordering::Acquire) == epoch)
    }

    /// Its status, if that was looked at since the last change.
    pub fn known_status(&self) -> Option<KnownStatus> {
        self.status.load()
    }

    /// Remembers a status that was looked at in this epoch.
    pub fn note_status(&self, epoch: u64, status: KnownStatus) {
        if let Ok(state) = self.lock()
            && self.epoch.load(Ordering::Acquire) == epoch
            && state.pending.is_none()
            && state.behind.is_none()
        {
            self.status.store(epoch, status);
        }
    }

    /// The object is about to be changed by who holds its lock.
    pub fn forget_status(&self) {
        self.status.clear();
    }

    /// Submits a change of this object alone, and waits as the durability asks.
    pub fn change(&self, gather: &WriteBuffer, batch: Batch, durability: Durability, delete: bool) -> Result<()> {
        let pending = {
            let mut state = self.lock()?;
            self.forget_status();
            let pending = gather.submit(batch, durability).map_err(|error| self.explain(error))?;
            self.note(&mut state, &pending, delete);
            pending
        };
        if durability > Durability::Memory {
            pending.wait().map_err(|error| self.explain(error))?;
        }
        Ok(())
    }

    /// A change was submitted by who holds the lock.
    pub fn note(&self, state: &mut NodeState, pending: &Arc<Pending>, delete: bool) {
        self.epoch.fetch_add(1, Ordering::Release);
        state.deleted |= delete;
        state.pending = Some(Arc::clone(pending));
    }

    /// Says of which object a batch was refused: conditions of this module only ask whether objects are there.
    pub fn explain(&self, error: Error) -> Error {
        match error.refusal() {
            Some(Refusal::Condition(_)) => absent(self.number),
            _ => error,
        }
    }

    /// Whether the table may let go of it: nothing is under way that only this node knows of. Never waits: who holds
    /// the lock has something under way.
    pub fn is_dispensable(&self) -> bool {
        let Some(state) = self.state.try_lock() else { return false };
        !self.behind.holds()
            && state.pending.as_ref().is_none_or(|pending| pending.is_gathered() || pending.is_settled())
    }
}

impl NodeState {
    /// Writes are kept in this set.
    pub fn keep_behind(&mut self, pending: Arc<Pending>) {
        self.behind = Some(pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Version;

    fn status(of: u64) -> KnownStatus {
        KnownStatus { size: of, allocated: of * 2, version: Version(of * 3) }
    }

    #[test]
    fn a_status_is_of_one_epoch() {
        let node = Node::new(1, true, None);
        assert_eq!(node.known_status(), None);
        node.note_status(0, status(5));
        assert_eq!(node.known_status(), Some(status(5)));
        // An epoch has one status.
        node.note_status(0, status(6));
        assert_eq!(node.known_status(), Some(status(5)));
        {
            let _state = node.lock().unwrap();
            node.forget_status();
            assert_eq!(node.known_status(), None);
            node.epoch.fetch_add(1, Ordering::Relaxed);
        }
        // Looked at before the change.
        node.note_status(0, status(7));
        assert_eq!(node.known_status(), None);
        node.note_status(1, status(8));
        assert_eq!(node.known_status(), Some(status(8)));
    }
}
