//! What goes to the destination, gathered into batches that each tell how far they bring it.
//!
//! Invariants:
//! - A batch keeps to the limits of the destination, and takes with it the state after it.
//! - Nothing is synced but now and then, and at the end: unsynced commits are lost from the end only, so that a state
//!   that is there tells of nothing that is not.

use bytes::Bytes;
use koine_engine::{Batch, Durability, Operation, Payload, Place, SpaceId, StageToken, Version};

use super::state::{CopyPosition, CopyState};
use super::{CopyResult, Told, name};
use crate::seam::Kv;

/// No batch is larger, so that an interruption costs little; a half of what the destination takes is left for the state.
const BATCH_LEN_MAX: usize = 4 << 20;
const BATCH_OPERATIONS_MAX: usize = 4096;
/// Staged bytes of one batch.
const STAGED_LEN_MAX: u64 = 8 << 20;
/// After so many bytes the destination is synced.
const SYNC_EACH: u64 = 1 << 30;

/// Commits what the destination must not lose alone.
pub(super) fn commit(destination: &dyn Kv, batch: Batch) -> CopyResult<()> {
    destination.commit(batch, Durability::Written).destination(|| "writing".into()).map(drop)
}

pub(super) struct Writer<'a> {
    kv: &'a dyn Kv,
    version: Version,
    pub state: CopyState,
    batch: Batch,
    len: usize,
    staged: u64,
    unsynced: u64,
    len_max: usize,
    operations_max: usize,
    /// A value up to this long goes with the batch.
    pub inline_len_max: u64,
    /// How many batches were sent.
    pub sent: u64,
}

impl<'a> Writer<'a> {
    pub fn new(kv: &'a dyn Kv, state: CopyState, version: Version) -> Writer<'a> {
        let profile = kv.profile();
        let len_max = BATCH_LEN_MAX.min(profile.batch_bytes_max / 2);
        Writer {
            kv,
            version,
            state,
            batch: Batch::new(),
            len: 0,
            staged: 0,
            unsynced: 0,
            len_max,
            operations_max: BATCH_OPERATIONS_MAX.min(profile.batch_operations_max / 2).max(1),
            inline_len_max: profile.inline_len_best.min(len_max / 4) as u64,
            sent: 0,
        }
    }

    pub fn kv(&self) -> &'a dyn Kv {
        self.kv
    }

    /// Sets a key.
    pub fn put(&mut self, space: SpaceId, key: Bytes, value: Bytes, before: &CopyPosition) -> CopyResult<()> {
        let bytes = key.len() + value.len();
        self.make_room(bytes, before)?;
        self.len += bytes;
        self.then(Operation::Put { at: Place { space, key }, value: Payload::Bytes(value) });
        Ok(())
    }

    /// Sets a key to a stage.
    pub fn put_stage(
        &mut self,
        space: SpaceId,
        key: Bytes,
        token: StageToken,
        before: &CopyPosition,
    ) -> CopyResult<()> {
        self.make_room(key.len(), before)?;
        self.len += key.len();
        self.staged += token.length();
        self.then(Operation::Put { at: Place { space, key }, value: Payload::Stage(token) });
        Ok(())
    }

    /// Removes a key.
    pub fn delete(&mut self, space: SpaceId, key: Bytes, before: &CopyPosition) -> CopyResult<()> {
        self.make_room(key.len(), before)?;
        self.len += key.len();
        self.then(Operation::Delete { at: Place { space, key } });
        Ok(())
    }

    /// Adds what takes no room to speak of.
    pub fn then(&mut self, operation: Operation) {
        self.batch.operations.push(operation);
    }

    fn is_empty(&self) -> bool {
        self.batch.operations.is_empty()
    }

    /// Sends what was gathered where so much more would be too much; `before` is how far that brings it.
    fn make_room(&mut self, bytes: usize, before: &CopyPosition) -> CopyResult<()> {
        let is_full = self.len + bytes > self.len_max
            || self.batch.operations.len() >= self.operations_max
            || self.staged >= STAGED_LEN_MAX;
        if is_full && !self.is_empty() { self.send(before.clone()) } else { Ok(()) }
    }

    /// Sends what was gathered, if there is anything, before something that takes long.
    pub fn flush(&mut self, reached: &CopyPosition) -> CopyResult<()> {
        if self.is_empty() { Ok(()) } else { self.send(reached.clone()) }
    }

    /// Sends what was gathered; the destination has everything up to a position then.
    pub fn send(&mut self, reached: CopyPosition) -> CopyResult<()> {
        self.state.advance(reached, self.version);
        self.send_state()
    }

    /// Sends what was gathered, with the state as it is.
    pub fn send_state(&mut self) -> CopyResult<()> {
        let first = self.batch.operations.iter().find_map(place);
        let batch = std::mem::take(&mut self.batch).then(self.state.operation());
        let what = || match &first {
            Some(Place { space, key }) => format!("writing a batch from {} on", name(*space, key)),
            None => "writing".to_owned(),
        };
        self.kv.commit(batch, Durability::Written).destination(what)?;
        self.sent += 1;
        self.unsynced += self.staged + self.len as u64;
        (self.len, self.staged) = (0, 0);
        if self.unsynced >= SYNC_EACH {
            self.sync()?;
        }
        Ok(())
    }

    pub fn sync(&mut self) -> CopyResult<()> {
        self.unsynced = 0;
        self.kv.sync().destination(|| "syncing".into())
    }
}

fn place(operation: &Operation) -> Option<Place> {
    match operation {
        Operation::Put { at, .. } | Operation::Delete { at } => Some(at.clone()),
        _ => None,
    }
}
