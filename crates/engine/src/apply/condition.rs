//! Whether a batch's conditions hold against the newest sequenced state.

use crate::apply::State;
use crate::batch::{Condition, KeyRange, SpaceId};
use crate::changes::Changes;
use crate::content::{find_record, record_range};
use crate::error::Result;
use crate::tree::NodeSource;
use crate::value::Record;

/// The index of the first condition that does not hold.
pub fn first_broken(
    conditions: &[Condition],
    state: &State,
    source: &dyn NodeSource,
    changes: &Changes,
) -> Result<Option<u32>> {
    for (index, condition) in conditions.iter().enumerate() {
        if !holds(condition, state, source, changes)? {
            return Ok(Some(index as u32));
        }
    }
    Ok(None)
}

fn holds(condition: &Condition, state: &State, source: &dyn NodeSource, changes: &Changes) -> Result<bool> {
    Ok(match condition {
        Condition::Absent { space, key } => record(state, source, *space, key)?.is_none(),
        Condition::Present { space, key } => record(state, source, *space, key)?.is_some(),
        Condition::VersionIs { space, key, version } => {
            record(state, source, *space, key)?.is_some_and(|record| record.version == *version)
        }
        Condition::RangeEmpty { space, range } => is_empty(state, source, *space, range)?,
        Condition::RangeUnchanged { space, range, since } => changes.unchanged(*space, range, *since),
    })
}

fn record(state: &State, source: &dyn NodeSource, space: SpaceId, key: &[u8]) -> Result<Option<Record>> {
    match state.space(source, space)? {
        Some(root) => find_record(&root.tree, source, key),
        None => Ok(None),
    }
}

fn is_empty(state: &State, source: &dyn NodeSource, space: SpaceId, range: &KeyRange) -> Result<bool> {
    let Some(root) = state.space(source, space)? else { return Ok(true) };
    if range.is_empty() {
        return Ok(true);
    }
    Ok(root.tree.cursor(record_range(range)).next(source)?.is_none())
}
