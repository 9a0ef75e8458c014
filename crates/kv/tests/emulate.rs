//! The conformance suite on what a plain store is made to do by the wrappers: `Spaces` alone, and `Spaces` over `Split`.

use std::sync::Arc;

use koine_kv::conformance::{Opened, Suite};
use koine_kv::emulate::{SOLE, Spaces, Split, SplitOptions};
use koine_kv::{
    Batch, Condition, Durability, Error, ErrorKind, Kv, MemoryKv, MemoryOptions, Operation, Payload, Result, Stage,
    StageHint, Ticket, Wait, pass_on,
};

/// What a store under test does not do.
#[derive(Clone, Copy)]
struct Lacks {
    /// Values longer than this.
    values_over: usize,
    /// Stages.
    stages: bool,
}

/// A store in memory that has one space and refuses what it lacks.
struct Plain {
    memory: MemoryKv,
    lacks: Lacks,
}

fn lacking(what: impl std::fmt::Debug) -> Error {
    Error::new(ErrorKind::Unsupported, format!("a plain store was asked for {what:?}"))
}

impl Plain {
    fn open(lacks: Lacks) -> Arc<dyn Kv> {
        let options = MemoryOptions {
            key_len_max: 2112,
            batch_operations_max: 1 << 20,
            batch_bytes_max: 1 << 30,
            changes_max: 1 << 20,
            ..MemoryOptions::default()
        };
        let memory = MemoryKv::new(options);
        memory
            .commit(Batch::new().then(Operation::CreateSpace { space: SOLE }), Durability::Memory)
            .expect("the space");
        Arc::new(Plain { memory, lacks })
    }

    fn check(&self, batch: &Batch) -> Result<()> {
        let conditions = batch.conditions.iter().map(|condition| match condition {
            Condition::Absent { space, .. }
            | Condition::Present { space, .. }
            | Condition::VersionIs { space, .. }
            | Condition::RangeEmpty { space, .. }
            | Condition::RangeUnchanged { space, .. } => *space,
        });
        if let Some(space) = conditions.into_iter().find(|space| *space != SOLE) {
            return Err(lacking(space));
        }
        batch.operations.iter().try_for_each(|operation| self.check_operation(operation))
    }

    fn check_operation(&self, operation: &Operation) -> Result<()> {
        let spaces = match operation {
            Operation::Put { at, value } => {
                if let Payload::Bytes(bytes) = value
                    && bytes.len() > self.lacks.values_over
                {
                    return Err(lacking(bytes.len()));
                }
                vec![at.space]
            }
            Operation::WriteAt { at, offset, data } => {
                if offset + data.len() > self.lacks.values_over as u64 {
                    return Err(lacking(offset + data.len()));
                }
                vec![at.space]
            }
            Operation::Append { at, .. }
            | Operation::Truncate { at, .. }
            | Operation::Delete { at }
            | Operation::AddCounter { at, .. } => vec![at.space],
            Operation::DeleteRange { space, .. } | Operation::RenamePrefix { space, .. } => vec![*space],
            Operation::Rename { from, to } | Operation::CloneRange { from, to, .. } => vec![from.space, to.space],
            Operation::Concatenate { sources, target, .. } => {
                sources.iter().map(|source| source.space).chain([target.space]).collect()
            }
            Operation::CreateSpace { .. }
            | Operation::CloneSpace { .. }
            | Operation::SnapshotSpace { .. }
            | Operation::DropSpace { .. } => return Err(lacking(operation)),
        };
        if spaces.iter().any(|space| *space != SOLE) {
            return Err(lacking(operation));
        }
        Ok(())
    }
}

impl Kv for Plain {
    fn stage(&self, hint: StageHint) -> Result<Box<dyn Stage>> {
        if self.lacks.stages { Err(lacking(hint)) } else { self.memory.stage(hint) }
    }

    fn submit(&self, batch: Batch, durability: Durability, wait: Wait) -> Ticket {
        match self.check(&batch) {
            Ok(()) => self.memory.submit(batch, durability, wait),
            Err(error) => Ticket::ready(Err(error)),
        }
    }

    pass_on!(Kv, memory: profile, view, lookup, watch, usage, sync, close);
}

const NOTHING: Lacks = Lacks { values_over: usize::MAX, stages: false };
/// Short enough that a long value is many pieces.
const SHORT: usize = 4096;

fn split(below: Arc<dyn Kv>) -> Arc<dyn Kv> {
    let options = SplitOptions { piece_len: SHORT - 1, inline_len: 2000, ..SplitOptions::default() };
    Arc::new(Split::open(below, options).expect("pieces"))
}

fn spaces(below: Arc<dyn Kv>) -> Opened {
    Opened { kv: Arc::new(Spaces::open(below).expect("spaces")), reopen: None }
}

/// Spaces by prefix, over a store of one space that can do all else.
mod spaces_alone {
    use super::*;

    fn open_new() -> Opened {
        spaces(Plain::open(NOTHING))
    }

    koine_kv::conformance_tests!(Suite { open: open_new });
}

/// Long values, over a store that takes short ones and can change them.
mod split_values {
    use super::*;

    fn open_new() -> Opened {
        spaces(split(Plain::open(Lacks { values_over: SHORT, stages: true })))
    }

    koine_kv::conformance_tests!(Suite { open: open_new });
}
