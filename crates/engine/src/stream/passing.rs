//! Spaces that exist only while a stream is written or read.
//!
//! Invariants:
//! - Their ids are the highest there are, with the epoch of the store in them: those of a process that ended are told from
//!   those of this one, and dropped when the store is opened.

use std::sync::Arc;

use bytes::Bytes;

use crate::batch::{Batch, Durability, KeyRange, Operation, SpaceId};
use crate::core::Core;
use crate::error::Result;
use crate::state::State;
use crate::state::space_key;
use crate::tree::NodeSource;
use crate::tree::value::{SpaceRoot, Value};

/// The first id of such spaces.
const FIRST: u64 = 0xFFFF << 48;
/// Bits of the id that number them.
const NUMBER_BITS: u32 = 20;

/// Whether a space is one of these.
pub fn is_passing(space: SpaceId) -> bool {
    space.0 >= FIRST
}

impl Core {
    /// An id that no other such space has.
    pub(crate) fn passing_space(&self) -> SpaceId {
        let number = self.next_stage() & ((1 << NUMBER_BITS) - 1);
        SpaceId(FIRST + (self.epoch << NUMBER_BITS) + number)
    }

    /// Drops what streams of a process that ended have left.
    pub(crate) fn drop_passing(self: &Arc<Core>) -> Result<()> {
        let state = self.head.lock().state.clone();
        let mut batch = Batch::new();
        each_space(&state, &self.nodes, SpaceId(FIRST), &mut |space, _| {
            if space.0 < FIRST + (self.epoch << NUMBER_BITS) {
                batch.operations.push(Operation::DropSpace { space });
            }
        })?;
        if !batch.operations.is_empty() {
            self.submit(batch, Durability::Written).wait()?;
        }
        Ok(())
    }
}

/// Visits the spaces of a state from an id on.
pub fn each_space(
    state: &State,
    source: &dyn NodeSource,
    from: SpaceId,
    visit: &mut dyn FnMut(SpaceId, SpaceRoot),
) -> Result<()> {
    each_space_while(state, source, from, &mut |space, root| {
        visit(space, root);
        true
    })
}

/// As `each_space`, until one is visited with `false`.
pub fn each_space_while(
    state: &State,
    source: &dyn NodeSource,
    from: SpaceId,
    visit: &mut dyn FnMut(SpaceId, SpaceRoot) -> bool,
) -> Result<()> {
    let mut cursor = state.master.cursor(KeyRange { start: space_key(from), end: None });
    while let Some((key, value)) = cursor.next(source)? {
        let id: Option<[u8; 8]> = <Bytes as AsRef<[u8]>>::as_ref(&key).try_into().ok();
        if let (Some(id), Value::Root(root)) = (id, value)
            && !visit(SpaceId(u64::from_be_bytes(id)), root)
        {
            break;
        }
    }
    Ok(())
}
