//! Whether a batch's conditions hold against the newest sequenced state.

use crate::batch::{Condition, KeyRange, SpaceId, Version};
use crate::changes::Changes;
use crate::content::{record_range, with_record_key};
use crate::error::Result;
use crate::filter::Filters;
use crate::node_cache::NodeCache;
use crate::state::State;
use crate::tree::NodeSource;
use crate::tree::value::RecordHead;

/// The index of the first condition that does not hold.
pub fn first_broken(
    conditions: &[Condition],
    state: &State,
    nodes: &NodeCache,
    filters: &Filters,
    changes: &Changes,
) -> Result<Option<u32>> {
    for (index, condition) in conditions.iter().enumerate() {
        if !holds(condition, state, nodes, filters, changes)? {
            return Ok(Some(index as u32));
        }
    }
    Ok(None)
}

fn holds(
    condition: &Condition,
    state: &State,
    nodes: &NodeCache,
    filters: &Filters,
    changes: &Changes,
) -> Result<bool> {
    let version =
        |space, key| filters.look(nodes, space, key, state.version, |source| version(state, source, space, key));
    Ok(match condition {
        Condition::Absent { space, key } => version(*space, key)?.is_none(),
        Condition::Present { space, key } => version(*space, key)?.is_some(),
        Condition::VersionIs { space, key, version: wanted } => version(*space, key)? == Some(*wanted),
        Condition::RangeEmpty { space, range } => is_empty(state, nodes, *space, range)?,
        Condition::RangeUnchanged { space, range, since } => changes.unchanged(*space, range, *since),
    })
}

/// The version of a key.
fn version(state: &State, source: &dyn NodeSource, space: SpaceId, key: &[u8]) -> Result<Option<Version>> {
    state.look(source, space, |root| {
        let Some(root) = root else { return Ok(None) };
        with_record_key(key, |key| {
            root.tree.look(source, key, |held| held.map(|held| Ok(RecordHead::of(&held)?.version)).transpose())
        })
    })
}

fn is_empty(state: &State, source: &dyn NodeSource, space: SpaceId, range: &KeyRange) -> Result<bool> {
    let Some(root) = state.space(source, space)? else { return Ok(true) };
    if range.is_empty() {
        return Ok(true);
    }
    Ok(root.tree.cursor(record_range(range)).next(source)?.is_none())
}
