//! Taking away what was found.
//!
//! Invariant: each key goes under the version that it was found with. One that was changed meanwhile stays, and holds up
//! no other.

use bytes::Bytes;
use koine_kv::{Batch, Condition, Durability, ErrorKind as KvErrorKind, Profile, SpaceId, Version};

use crate::error::Result;
use crate::local::Local;

/// The most keys that go in one batch.
const BATCH: usize = 500;

/// Keys of a space that are to go.
pub(super) struct Removal {
    space: SpaceId,
    most: usize,
    keys: Vec<(Bytes, Version)>,
}

impl Removal {
    pub fn new(space: SpaceId, profile: &Profile) -> Self {
        Removal { space, most: BATCH.min(profile.batch_operations_max).max(1), keys: Vec::new() }
    }

    pub fn add(&mut self, key: &[u8], version: Version) {
        self.keys.push((Bytes::copy_from_slice(key), version));
    }

    pub fn is_full(&self) -> bool {
        self.keys.len() >= self.most
    }

    /// Removes them; how many went.
    pub fn carry_out(&mut self, local: &Local) -> Result<u64> {
        let keys = std::mem::take(&mut self.keys);
        if self.remove(local, &keys)? {
            return Ok(keys.len() as u64);
        }
        let mut removed = 0;
        for one in keys.chunks(1) {
            removed += u64::from(self.remove(local, one)?);
        }
        Ok(removed)
    }

    /// Whether these are gone; all of them or none.
    fn remove(&self, local: &Local, keys: &[(Bytes, Version)]) -> Result<bool> {
        if keys.is_empty() {
            return Ok(true);
        }
        let batch = keys.iter().fold(Batch::new(), |batch, (key, version)| {
            let unchanged = Condition::VersionIs { space: self.space, key: key.clone(), version: *version };
            batch.when(unchanged).delete(self.space, key.clone())
        });
        carried_out(local, batch)
    }
}

/// Commits a batch; whether what it was built on was still so.
pub(super) fn carried_out(local: &Local, batch: Batch) -> Result<bool> {
    match local.kv().commit(batch, Durability::Sync) {
        Ok(_) => Ok(true),
        // What was found is gone, or its whole space.
        Err(error) if matches!(error.kind(), KvErrorKind::Refused | KvErrorKind::NotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
