//! What can be told of a batch by its form alone: keys that are too long, the room that it takes, its stages, its record.

use std::sync::Arc;

use crate::batch::{KEY_LEN_MAX, Operation, Payload, Place, SpaceId};
use crate::device::BLOCK_LEN;
use crate::error::{Error, Result};
use crate::log::record::{Outcome, Record, Step, inline_len};
use crate::stage::StageToken;
use crate::staged::Staged;

/// Refuses keys that are too long.
pub(super) fn check_keys(operation: &Operation) -> Result<()> {
    let long = |key: &[u8]| key.len() > KEY_LEN_MAX + 1;
    let bad = match operation {
        Operation::Put { at, .. }
        | Operation::WriteAt { at, .. }
        | Operation::Append { at, .. }
        | Operation::Truncate { at, .. }
        | Operation::Delete { at }
        | Operation::AddCounter { at, .. } => at.key.len() > KEY_LEN_MAX,
        Operation::DeleteRange { range, .. } => long(&range.start) || range.end.as_ref().is_some_and(|end| long(end)),
        Operation::Rename { from, to } | Operation::CloneRange { from, to, .. } => {
            from.key.len() > KEY_LEN_MAX || to.key.len() > KEY_LEN_MAX
        }
        Operation::Concatenate { sources, target, .. } => {
            target.key.len() > KEY_LEN_MAX || sources.iter().any(|source| source.key.len() > KEY_LEN_MAX)
        }
        _ => false,
    };
    if bad { Err(Error::invalid(format!("a key has at most {KEY_LEN_MAX} bytes"))) } else { Ok(()) }
}

/// About how many blocks a batch takes until the next checkpoint; 0 when it only takes away. Counters that are
/// changed along with what is deleted, one for each at most, are part of the deleting.
pub(super) fn blocks_needed(steps: &[Step]) -> u64 {
    let is_counter = |step: &&Step| matches!(step, Step::Operation(Operation::AddCounter { .. }));
    let counters = steps.iter().filter(is_counter).count() as u64;
    let deletes = steps.iter().filter(|step| takes_away(step)).count() as u64;
    let free = if counters <= deletes { counters } else { 0 };
    steps.iter().map(blocks_of_step).sum::<u64>() - free
}

fn takes_away(step: &Step) -> bool {
    use Operation::{Delete, DeleteRange, DropSpace};
    match step {
        Step::Operation(Delete { .. } | DeleteRange { .. } | DropSpace { .. }) => true,
        Step::StageDrop { .. } | Step::Reclaim { .. } => true,
        Step::Operation(_) | Step::StageSlab { .. } | Step::Relocate { .. } => false,
    }
}

/// About how many blocks an operation that changes one value takes.
pub(super) fn blocks_of_operation(operation: &Operation) -> u64 {
    match operation {
        Operation::Put { value: payload, .. }
        | Operation::WriteAt { data: payload, .. }
        | Operation::Append { data: payload, .. } => blocks_of_payload(payload),
        Operation::Delete { .. } => 0,
        _ => 1,
    }
}

fn blocks_of_step(step: &Step) -> u64 {
    match step {
        Step::Operation(operation @ (Operation::Put { .. } | Operation::WriteAt { .. } | Operation::Append { .. })) => {
            blocks_of_operation(operation)
        }
        Step::StageSlab { extents, .. } => 1 + extents.len() as u64 / 16,
        step if takes_away(step) => 0,
        _ => 1,
    }
}

/// About how many blocks a change of one value by this payload takes.
fn blocks_of_payload(payload: &Payload) -> u64 {
    match payload {
        Payload::Bytes(bytes) => 1 + bytes.len().div_ceil(BLOCK_LEN) as u64,
        Payload::Stage(_) => 1,
    }
}

/// The stage that a step names, and for which place.
fn stage_of(step: &Step) -> Option<(&Place, &StageToken)> {
    match step {
        Step::Operation(
            Operation::Put { at, value: Payload::Stage(token) }
            | Operation::WriteAt { at, data: Payload::Stage(token), .. }
            | Operation::Append { at, data: Payload::Stage(token) },
        )
        | Step::Relocate { at, data: Payload::Stage(token), .. } => Some((at, token)),
        _ => None,
    }
}

/// The stages that steps name, to be held for a while.
pub(super) fn stages_of(steps: &[Step]) -> Vec<StageToken> {
    steps.iter().filter_map(stage_of).map(|(_, token)| token.clone()).collect()
}

/// The stages among them of which something is not written, and their places.
pub(super) fn unwritten_of(steps: &[Step]) -> Vec<(Place, Arc<Staged>)> {
    let unwritten = |(at, token): (&Place, &StageToken)| {
        let staged = token.content::<Staged>().filter(|staged| staged.is_unwritten())?;
        Some((at.clone(), staged))
    };
    steps.iter().filter_map(stage_of).filter_map(unwritten).collect()
}

/// Whether a step reads the bytes of a place when it is applied, or makes another one have them.
pub(super) fn reads_from(step: &Step, place: &Place) -> bool {
    match step {
        Step::Operation(operation) => match operation {
            // In any space: one that is branched off at the same time has it under the same key.
            Operation::AddCounter { at, .. } => at.key == place.key,
            Operation::Rename { from, .. } | Operation::CloneRange { from, .. } => from == place,
            Operation::RenamePrefix { space, from, .. } => *space == place.space && place.key.starts_with(from),
            Operation::Concatenate { sources, .. } => sources.contains(place),
            _ => branched(step) == Some(place.space),
        },
        _ => false,
    }
}

/// What the stored form of a step takes beside its inline bytes, about.
const STEP_LEN: usize = 64;

/// The stored form of a record.
pub(super) fn encoded(record: &Record) -> Vec<u8> {
    let inline = |step: &Step| match step {
        Step::Operation(operation) => STEP_LEN + inline_len(operation),
        _ => STEP_LEN,
    };
    let length = match &record.outcome {
        Outcome::Applied(steps) => steps.iter().map(inline).sum(),
        Outcome::Refused(_) => 0,
    };
    let mut bytes = Vec::with_capacity(STEP_LEN + length);
    record.encode(&mut bytes);
    bytes
}

/// The space that a step makes a branch of.
pub(super) fn branched(step: &Step) -> Option<SpaceId> {
    match step {
        Step::Operation(Operation::CloneSpace { from, .. } | Operation::SnapshotSpace { from, .. }) => Some(*from),
        _ => None,
    }
}
