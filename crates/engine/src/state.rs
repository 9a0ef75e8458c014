//! The state of a store at one log number: a tree of trees.
//!
//! Invariant: a state never changes; the next one shares all that stays the same.

use bytes::Bytes;

use crate::batch::{SpaceId, Version};
use crate::error::{Error, Result};
use crate::superblock::Features;
use crate::tree::value::{SpaceRoot, Value};
use crate::tree::{Held, NodeSource, Tree};

/// Counts of blocks that more than one piece names: start block (big-endian) to count of blocks and of references.
pub const REFERENCES: SpaceId = SpaceId(1);
/// Outcomes of named requests: log number (big-endian) to request and outcome.
pub const REQUESTS: SpaceId = SpaceId(2);
/// Extents of stages too long for one record: stage and offset (big-endian) to extent.
pub const STAGES: SpaceId = SpaceId(3);
/// Branch points: number (big-endian) to the root of a tree that nobody changes.
pub const POINTS: SpaceId = SpaceId(4);
/// What comes from which branch point: point, kind and id (big-endian) to nothing.
pub const BRANCHES: SpaceId = SpaceId(5);
/// Dead lists: list, birth and a number (big-endian) to blocks.
pub const DEAD: SpaceId = SpaceId(6);
/// Roots that were dropped and are taken down by and by: number (big-endian) to root.
pub const DROPPED: SpaceId = SpaceId(7);

/// Frozen blobs: extents that parts of other spaces' values name together, as the pieces of a blob.
pub const FROZEN: SpaceId = SpaceId(10);

/// One version of everything.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Space id (big-endian) to the root of its tree.
    pub master: Tree,
    /// The last commit it holds.
    pub version: Version,
}

/// The master tree's key of a space.
pub fn space_key(space: SpaceId) -> Bytes {
    Bytes::copy_from_slice(&space.0.to_be_bytes())
}

impl State {
    /// Whether something dropped is still to be taken down.
    pub fn has_dropped(&self, source: &dyn NodeSource) -> Result<bool> {
        Ok(self.space(source, DROPPED)?.is_some_and(|space| !space.tree.is_empty()))
    }

    /// The features of a store with this state, which had these before.
    pub fn features(&self, source: &dyn NodeSource, before: Features) -> Features {
        // An error means that nothing was frozen since: a space that was just made has its leaf in memory.
        let has_frozen = self.look(source, FROZEN, |root| Ok(root.is_some())).unwrap_or(false);
        if has_frozen { before.with_frozen_blobs() } else { before }
    }

    /// A space's root; `None` when the space is absent.
    pub fn space(&self, source: &dyn NodeSource, space: SpaceId) -> Result<Option<SpaceRoot>> {
        self.look(source, space, |root| Ok(root.cloned()))
    }

    /// Shows a space's root; `None` when the space is absent.
    pub fn look<R>(
        &self,
        source: &dyn NodeSource,
        space: SpaceId,
        see: impl FnOnce(Option<&SpaceRoot>) -> Result<R>,
    ) -> Result<R> {
        self.master.look(source, &space.0.to_be_bytes(), |held| match held {
            None => see(None),
            Some(Held::Value(Value::Root(root))) => see(Some(root)),
            Some(held) => match held.to_value()? {
                Value::Root(root) => see(Some(&root)),
                _ => Err(Error::damaged(format!("the master tree holds no root for space {}", space.0))),
            },
        })
    }
}
